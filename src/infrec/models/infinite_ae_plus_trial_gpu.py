"""A trial of ∞-AE-plus's search whose arrays never leave the accelerator.

Histories go there once, as coordinates. Kernels, α, both sides' scores and the ranking stay; what comes back
for a candidate is the rank of each hidden item. No list of the best is needed for that: an item stands behind
those with a higher score and, among equals, behind those before it, which is the order of `ranking.top_k`.

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
from infrec.kernels import devices, kernel_of
from infrec.kernels.device_arrays import compiled, coordinates
from infrec.kernels.gram import Kernel
from infrec.kernels.ridge_gpu import TiledItemRidge, TiledRidge
from infrec.models.infinite_ae_plus_trial import ENOUGH, SAMPLE, Settings, Trial
from infrec.models.two_sides import ItemSide, UserSide
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
        stored = coordinates(self._asked, _power(self._asked.nnz), outside=self._asked.shape[0])
        self._histories, self._seen = self._do.lay_out(*stored, self._asked.shape)
        own = np.pad(self.rows, (0, count - len(self.rows))) if self.context is None else self.rows[:0]
        self._at = jax.device_put(np.concatenate([own, self.sample]).astype(np.int32))
        self._owner = np.repeat(np.arange(len(self.rows)), np.diff(self.held.indptr))
        more = (0, max(_PAIRS, _power(self.held.nnz)) - self.held.nnz)
        pairs = (np.pad(each.astype(np.int32), more) for each in (self._owner, self.held.indices))
        self._pairs = tuple(jax.device_put(each.reshape(-1, _PAIRS)) for each in pairs)
        self._item_ridge: TiledItemRidge | None = None

    @staticmethod
    def fits(n: int, items: int, dtype: str, *, trials: int) -> bool:
        """Whether an accelerator is worth it and has room for so many of them side by side."""
        if not devices.use_accelerator(n, dtype):
            return False
        judges = ENOUGH + _ROUND
        # 3 + 2 + 2 parts, the histories, which are seen, their sum with its mask, and a block of its lines.
        scores = 12 * (judges + SAMPLE) * items
        kernels = _KERNELS * TiledRidge.needs(n, items, stays=True) + 8 * judges * n
        weights = TiledItemRidge.needs(n, items) + 8 * items * items
        return devices.has_room(trials * (kernels + weights + 4 * scores))

    # ---- parts ---------------------------------------------------------------------------------------------
    def _new_user_side(self, depth: int, user_power: float, item_power: float) -> UserSide:
        def solver(x: sp.csr_array, kernel: Kernel, dtype: str) -> TiledRidge:
            return TiledRidge(x, kernel, stays=True)

        return UserSide(self.matrix, self.scales, depth, user_power, item_power, self.dtype, solver)

    def _new_by_users(self, s: Settings) -> _Scores:
        side = self._user_side(s)
        alpha = side.solve(s["reg"], s["target_power"])
        others = None
        if self.context is not None:
            inputs = self.scales.weigh(self._judges, s["user_power"], s["item_power"])
            others = side.solver.predict(inputs, alpha)
        both, spread = self._do.by_users(
            alpha,
            self._at,
            self._histories,
            self._of_rows(s),
            np.float32(-s["reg"] * side.mean_diagonal),
            self.scales.of_items(-s["item_power"]).astype(np.float32),
            others,
        )
        return _Scores(both, float(spread))

    def _new_by_items(self, s: Settings) -> _Scores:
        both, spread = self._do.product(self._histories, self._of_rows(s), self._item_weights(s))
        return _Scores(both, float(spread))

    def _new_completed(self, s: Settings) -> _Scores:
        one = np.ones(self._asked.shape[0], np.float32)
        both, spread = self._do.product(self.by_users(s).both, one, self._item_weights(s))
        return _Scores(both, float(spread))

    def _new_weights(self, depth: int, reg: float) -> Any:
        if self._item_ridge is None:
            self._item_ridge = TiledItemRidge(ItemSide.inputs(self.matrix, self.scales))
        return self._item_ridge.weights(kernel_of(depth), reg)

    def _of_rows(self, s: Settings) -> NDArray[np.float32]:
        return self.scales.of_rows(self._asked, s["target_power"]).astype(np.float32)

    def _kernels_with_room(self) -> int:
        return _KERNELS

    # ---- quality -------------------------------------------------------------------------------------------
    def _judged(
        self, parts: Sequence[tuple[Any, float]], columns: NDArray[np.float32]
    ) -> NDArray[np.float64]:
        factors = np.zeros(2, np.float32)
        factors[: len(parts) - 1] = [factor for _, factor in parts[1:]]
        three = [part.both for part, _ in parts] + [parts[0][0].both] * (3 - len(parts))
        ranks, finite = self._do.rank(*three, factors, columns, self._seen, *self._pairs)
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
    from jax import lax

    def lay_out(rows: Any, columns: Any, values: Any, shape: tuple[int, int]) -> Any:
        """The histories as dense rows, and which items each judge has: stored, whatever the value."""
        histories = jnp.zeros(shape, jnp.float32).at[rows, columns].set(values, mode="drop")
        seen = jnp.zeros((shape[0] - sample, shape[1]), bool).at[rows, columns].set(True, mode="drop")
        return histories, seen

    def by_users(
        alpha: Any, at: Any, histories: Any, rows: Any, shift: Any, columns: Any, others: Any
    ) -> Any:
        """targets − λ m α of training rows, without the items' weights; behind `others`, who are not rows."""
        targets = histories[-len(at) :] * rows[-len(at) :, None]
        out = targets + alpha[at] * (shift * columns)
        if others is not None:
            out = jnp.concatenate([others * columns, out])
        return out, jnp.std(out[-sample:])

    def product(scores: Any, rows: Any, weights: Any) -> Any:
        out = jnp.matmul(scores * rows[:, None], weights, precision=lax.Precision.HIGHEST)
        return out, jnp.std(out[-sample:])

    def rank(
        users: Any, items: Any, completed: Any, factors: Any, columns: Any, seen: Any, owner: Any, hidden: Any
    ) -> Any:
        """The rank of each hidden item, from 0, and whether all scores are finite."""
        some = slice(0, len(seen))
        scores = (users[some] + factors[0] * items[some] + factors[1] * completed[some]) * columns
        finite = jnp.isfinite(scores).all()
        scores = jnp.where(seen, -jnp.inf, scores)
        place = jnp.arange(len(columns))

        def one(row: Any, item: Any) -> Any:
            line, own = scores[row], scores[row, item]
            before = (line > own) | ((line == own) & (place < item))
            return jnp.where(seen[row, item], len(line), jnp.sum(before))

        return lax.map(lambda pairs: jax.vmap(one)(*pairs), (owner, hidden)), finite

    return SimpleNamespace(
        lay_out=jax.jit(lay_out, static_argnums=3),
        by_users=compiled(by_users, tuned=False),
        product=compiled(product, tuned=False),
        rank=compiled(rank, tuned=False),
    )


def _power(count: int) -> int:
    """The next power of two."""
    return 1 << max(0, count - 1).bit_length()
