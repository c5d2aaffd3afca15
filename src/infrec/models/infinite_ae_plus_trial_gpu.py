"""A trial of ∞-AE-plus's search whose arrays never leave the accelerator.

Histories go there once, as coordinates. Kernels, α, both sides' scores and the ranking stay; what comes back
for a candidate is the place of each hidden item in its list.

Settings are arguments of the compiled functions, and the numbers of judges, entries and hidden items are
rounded up, so that all candidates of all trials share few compilations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from infrec.errors import SolveError
from infrec.kernels import devices
from infrec.kernels.device_arrays import compiled, coordinates, matmul, power_of_two
from infrec.kernels.gram import Kernel, rows_of
from infrec.kernels.ridge_gpu import TiledItemRidge, TiledRidge
from infrec.kernels.scores_gpu import places
from infrec.models.infinite_ae_plus_trial import ENOUGH, SAMPLE, Settings, Trial
from infrec.models.two_sides import UserSide, compared, count_compared
from infrec.search import criterion

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ROUND = 512  # judges are rounded up to a multiple
_PAIRS = 4096  # hidden items that are ranked at a time
_KERNELS = 2  # that are kept


@dataclass(frozen=True, eq=False)
class _Scores:
    """One part of the scores there: of judges and, last, of the sample, whose spread is its scale."""

    both: Any
    spread: float


class DeviceTrial(Trial):
    """`Trial` on an accelerator: equal qualities up to the rounding of float32."""

    def __post_init__(self) -> None:
        import jax

        super().__post_init__()
        count = -(-len(self.rows) // _ROUND) * _ROUND
        ends = np.pad(self.seen.indptr, (0, count - len(self.rows)), mode="edge")
        self._judges = sp.csr_array(
            (self.seen.data, self.seen.indices, ends), shape=(count, self.seen.shape[1])
        )
        self._asked = sp.csr_array(sp.vstack([self._judges, self.matrix[self.sample]], format="csr"))
        self._do = _functions(len(self.sample))
        stored = coordinates(self._asked, power_of_two(self._asked.nnz), outside=self._asked.shape[0])
        self._histories, self._seen = self._do.lay_out(*stored, self._asked.shape)
        own = np.pad(self.rows, (0, count - len(self.rows))) if self.context is None else self.rows[:0]
        self._at = np.concatenate([own, self.sample])
        self._owner = rows_of(self.held)
        more = (0, max(_PAIRS, power_of_two(self.held.nnz)) - self.held.nnz)
        pairs = (np.pad(each.astype(np.int32), more) for each in (self._owner, self.held.indices))
        self._pairs = tuple(jax.device_put(each.reshape(-1, _PAIRS)) for each in pairs)
        self._compared = compared(self.matrix)

    @staticmethod
    def fits(n: int, items: int, dtype: str, *, trials: int) -> bool:
        """Whether an accelerator is worth it and has room for so many of them side by side."""
        on_item_side = count_compared(n, items)
        if not devices.use_accelerator(max(n, on_item_side), dtype):
            return False
        rows = ENOUGH + _ROUND + SAMPLE
        # 8 parts, the histories, which are seen, their sum with its mask, and a block of its lines.
        scores = 13 * rows * items
        kernels = _KERNELS * TiledRidge.needs_to_search(n, items, rows)
        weights = TiledItemRidge.needs(n, on_item_side) + 12 * on_item_side**2
        return devices.has_room(trials * (kernels + weights + 4 * scores))

    # ---- parts ---------------------------------------------------------------------------------------------
    def _kernel(self, s: Settings) -> UserSide:
        def solver(x: sp.csr_array, kernel: Kernel, dtype: str) -> TiledRidge:
            return TiledRidge(x, kernel)

        return UserSide(self.matrix, self.scales, s["user_power"], s["item_power"], self.dtype, solver)

    def _smoother(self, s: Settings) -> Any:
        others = None if self.context is None else self._judges
        return self.part("kernel", s).smoother(s["reg"], self._at, others)

    def _by_users(self, s: Settings) -> _Scores:
        return self._scores(self.part("kernel", s).expected(self.part("smoother", s), s["target_power"]))

    def _low_pass(self, s: Settings) -> _Scores:
        into, back = self.filter.into, self.filter.back
        return self._scores(self._do.through(self._histories, into, back, self._divisor(s)))

    def _by_items(self, s: Settings) -> _Scores:
        return self._scores(
            self._do.between(
                self._histories, self._compared, self.part("weights", s).matrix.there, self._divisor(s)
            )
        )

    def _completed(self, s: Settings) -> _Scores:
        given, weights = self.part("by_users", s).both, self.part("weights", s).matrix.there
        return self._scores(self._do.between(given, self._compared, weights))

    def _divisor(self, s: Settings) -> NDArray[np.float32]:
        """1 over the target power of the norm of each history, which is multiplied by it."""
        return self.scales.of_rows(self._asked, s["target_power"]).astype(np.float32)

    def _scores(self, both: Any) -> _Scores:
        return _Scores(both, float(both[-len(self.sample) :].std()))

    def _kernels_with_room(self) -> int:
        return _KERNELS

    # ---- quality -------------------------------------------------------------------------------------------
    def _judged(
        self, parts: Sequence[tuple[Any, float]], columns: NDArray[np.float32]
    ) -> NDArray[np.float64]:
        total = self._do.mix(
            [part.both for part, _ in parts], np.array([factor for _, factor in parts], np.float32)
        )
        ranks, finite = self._do.rank(total, columns, self._seen, *self._pairs)
        if not finite:
            raise SolveError(
                "the scores of some users are NaN or infinite; expected finite numbers: the fit has failed, "
                "so use a larger reg or dtype float64."
            )
        rank = np.asarray(ranks).ravel()[: len(self._owner)]
        k = criterion.cutoff(self.matrix.shape[1])
        listed = rank < k
        hits = np.zeros((len(self.rows), k), bool)
        hits[self._owner[listed], rank[listed]] = True
        return criterion.ndcg_and_hit_rate(hits, np.diff(self.held.indptr))


@cache
def _functions(sample: int) -> SimpleNamespace:
    """The compiled functions, once for a shape; the last `sample` rows of all scores are the sample's."""
    import jax
    import jax.numpy as jnp

    def lay_out(rows: Any, columns: Any, values: Any, shape: tuple[int, int]) -> Any:
        """The histories as dense rows, and which items each judge has: stored, whatever the value."""
        histories = jnp.zeros(shape, jnp.float32).at[rows, columns].set(values, mode="drop")
        seen = jnp.zeros((shape[0] - sample, shape[1]), bool).at[rows, columns].set(True, mode="drop")
        return histories, seen

    def through(rows: Any, into: Any, back: Any, scale: Any) -> Any:
        """A product with both factors of the low-pass."""
        return matmul(matmul(rows, into) * scale[:, None], back)

    def between(rows: Any, columns: Any, weights: Any, scale: Any = None) -> Any:
        """A product with weights that are 0 but between some columns."""
        of_columns = matmul(rows[:, columns], weights)
        of_columns = of_columns if scale is None else of_columns * scale[:, None]
        return jnp.zeros_like(rows).at[:, columns].set(of_columns)

    def mix(parts: list[Any], factors: Any) -> Any:
        """The judges' weighted sum."""
        return sum(factors[i] * part[:-sample] for i, part in enumerate(parts))

    def rank(scores: Any, columns: Any, seen: Any, owner: Any, hidden: Any) -> Any:
        """The place of each hidden item, from 0, and whether all scores are finite."""
        scores = scores * columns
        finite = jnp.isfinite(scores).all()
        return places(jnp.where(seen, -jnp.inf, scores), owner, hidden), finite

    return SimpleNamespace(
        lay_out=jax.jit(lay_out, static_argnums=3),
        mix=compiled(mix),
        through=compiled(through),
        between=compiled(between),
        rank=compiled(rank),
    )
