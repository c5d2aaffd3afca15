"""∞-AE: an autoencoder of infinite width, trained to the end, in closed form (the paper, section 3).

The whole model, for a binary (or weighted) matrix X of n users × d items:

    K = Θ(X, X)                          the Neural Tangent Kernel between users       kernels/{ntk,gram}.py
    α = (K + λ · (tr K / n) · I)⁻¹ X     ridge, λ relative to the mean diagonal         kernels/ridge.py
    score(x) = Θ(x, X) α                 any history x, of a user seen or never seen

One consequence makes choosing λ cheap: K α = X − λ (tr K / n) α, so the training users' scores, which
validation ranks, need no second product with K.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.artifacts import Artifact
from infrec.data import Interactions
from infrec.errors import ConfigError, InfrecError, SolveError
from infrec.kernels import accelerated, gram, memory, ntk
from infrec.models.base import AUTO, Recommender
from infrec.models.explanation import Explanation, explain
from infrec.progress import Progress, silent
from infrec.randomness import generator

_BATCH = 1024  # histories whose kernel with all training users exists at a time
_SOLVE_AGAIN = 1000  # up to so many users, α is solved again at loading instead of stored


@dataclass(frozen=True)
class InfiniteAESettings:
    """reg: λ relative to the kernel's mean diagonal, or "auto"; depth: hidden layers; dtype: of the solve."""

    reg: float | Literal["auto"] = AUTO
    depth: int = 1
    dtype: str = "float32"

    def __post_init__(self) -> None:
        if self.reg != AUTO and not (_is_number(self.reg) and 0 <= float(self.reg) < np.inf):
            raise ConfigError(f"reg is {self.reg!r}; expected a number of 0 or more, or 'auto'.")
        if not isinstance(self.depth, int) or isinstance(self.depth, bool) or self.depth < 0:
            raise ConfigError(
                f"depth is {self.depth!r}; expected a whole number of hidden layers, 0 or more."
            )
        if self.dtype not in ("float32", "float64"):
            raise ConfigError(f"dtype is {self.dtype!r}; expected 'float32' or 'float64'.")


class InfiniteAE(Recommender):
    """One hyper-parameter, no training loop: fit is a kernel, a factorisation and a solve."""

    name: ClassVar[str] = "infinite-ae"
    # The paper's grid.
    search_space: ClassVar[Mapping[str, tuple[Any, ...]]] = {"reg": (0, 1, 5, 20, 50, 100)}
    fallback: ClassVar[Mapping[str, Any]] = {"reg": 5}
    settings: InfiniteAESettings

    def __init__(
        self,
        reg: float | Literal["auto"] = AUTO,
        depth: int = 1,
        dtype: Literal["float32", "float64"] = "float32",
    ) -> None:
        super().__init__(InfiniteAESettings(reg, depth, dtype))
        self._alpha: NDArray[np.floating[Any]] | None = None
        self._solved_here = False  # α is the ridge solution on `log`, so that K α needs no K

    def space_for(self, interactions: Interactions) -> dict[str, Sequence[Any]]:
        """On a summary, λ is tried from the grid that was made with it."""
        grid = interactions.reg_grid
        return {"reg": grid} if grid and self.settings.reg == AUTO else {}

    def path(
        self, interactions: Interactions, variants: Sequence[Mapping[str, Any]], progress: Progress = silent
    ) -> Iterator[tuple[dict[str, Any], Self | InfrecError]]:
        """One kernel for all λ, one factorisation for each, in one buffer."""
        self._check_size(interactions)
        solver, kernel_of = None, None
        for changes in variants:
            model = self.with_settings(**changes)
            model._log, model._solved_here = interactions, True
            reg, depth, dtype = model.settings.reg, model.settings.depth, model.settings.dtype
            if kernel_of != (depth, dtype):
                progress("kernel", 0, 1)
                solver = accelerated.solver(interactions.matrix, depth, dtype)
                kernel_of = (depth, dtype)
                progress("kernel", 1, 1)
            assert solver is not None
            try:
                model._alpha = solver(float(reg), solve=reg != 0 or len(variants) == 1)
            except SolveError as failure:
                yield dict(changes), _with_cause(failure, interactions, model.settings)
            else:
                yield dict(changes), model

    def _fit(self, interactions: Interactions, progress: Progress = silent) -> Self:
        for _, fitted in self.path(interactions, [{}], progress):
            if isinstance(fitted, InfrecError):
                raise fitted
            self._alpha, self._solved_here = fitted._alpha, True
        return self

    @property
    def alpha(self) -> NDArray[np.floating[Any]]:
        """The dual solution, users × items. At λ = 0 validation needs none, so it may be solved only here."""
        if self._alpha is None:
            self._fit(self.log)
        assert self._alpha is not None
        return self._alpha

    @cached_property
    def shift(self) -> float:
        """λ · tr K / n: what the ridge adds to the diagonal."""
        diagonal = ntk.diagonal(
            gram.squared_norms(self.log.matrix), d=self.log.n_items, depth=self.settings.depth
        )
        return float(self.settings.reg) * float(np.mean(diagonal, dtype=np.float64))

    def kernel(self, histories: sp.csr_array) -> NDArray[np.floating[Any]]:
        """Θ between histories and the training users."""
        return gram.kernel(histories, self.log.matrix, depth=self.settings.depth, dtype=self.settings.dtype)

    def _score(self, histories: sp.csr_array) -> NDArray[np.float32]:
        out = np.empty(histories.shape, np.float32)
        for start in range(0, histories.shape[0], _BATCH):
            some = slice(start, start + _BATCH)
            out[some] = self.kernel(histories[some]) @ self.alpha
        return out

    def fitted_scores(self, rows: slice | NDArray[np.integer]) -> NDArray[np.float32]:
        """K α = X − λ (tr K / n) α, without K."""
        if not self._solved_here:
            return super().fitted_scores(rows)
        scores = self.log.matrix[rows].toarray()
        if self.settings.reg != 0:
            scores -= self.alpha.dtype.type(self.shift) * self.alpha[rows]
        return scores

    def explain(self, history: Sequence[object], item: object) -> Explanation:
        """How much each item of the history and each training user contributed to the score of `item`."""
        return explain(self, history, item)

    def _similarity(self, item: int) -> NDArray[np.floating[Any]]:
        """What a history of this item alone adds to every score: score({item}) − score({})."""
        one = sp.csr_array(([1.0], ([0], [item])), shape=(2, self.log.n_items), dtype=np.float32)
        with_it, without = self._score(one)
        return with_it - without

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {} if self.log.n_users <= _SOLVE_AGAIN else {"alpha": self.alpha}

    def _restore(self, artifact: Artifact) -> None:
        self._alpha = artifact.arrays.get("alpha")
        if self._alpha is None:
            self._fit(self.log)

    def _check_size(self, interactions: Interactions) -> None:
        n, itemsize = interactions.n_users, np.dtype(self.settings.dtype).itemsize
        room = memory.users_that_fit(interactions.n_items, itemsize=itemsize)
        memory.require(
            memory.exact_fit(n, interactions.n_items, itemsize=itemsize),
            f"an exact fit of {n:,} users",
            f"fit on fewer users ({room:,} would fit): a sample (`infrec sample`) or a summary (`infrec "
            "distill`); or use the model 'ease', whose size depends on the items alone, or a larger machine",
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _with_cause(failure: SolveError, interactions: Interactions, settings: InfiniteAESettings) -> SolveError:
    """Say what is usually behind a singular kernel: users with the same history."""
    matrix = interactions.matrix
    marks = matrix.astype(np.float64) @ generator(0, "marks of rows").standard_normal(matrix.shape[1])
    same = interactions.n_users - len(np.unique(marks))
    at = f"n={interactions.n_users}, reg={settings.reg:g}, {settings.dtype}"
    if same:
        return SolveError(
            f"the kernel solve failed ({at}): {same} users have the history of another one; use a larger reg."
        )
    return SolveError(f"the kernel solve failed ({at}): {failure}")
