"""The dual solution of ∞-AE: solved for one λ after the other, held as a state, and stored.

On disk α is whole, as the factors that it is the product of, or without columns that stand there twice: items
of the same users have the same α, and in a log with many items of one user each, most columns are another
one's copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from infrec import machine
from infrec.contents import Artifact
from infrec.data import Interactions, Vocabulary
from infrec.kernels import Kernel, devices, gram, nystrom, ridge
from infrec.kernels.resident import FactoredMatrix, ResidentMatrix
from infrec.models.fitted import State
from infrec.progress import Progress
from infrec.settings import Settings

_KEPT_BYTES = 1 << 30  # of what an update starts from, at most
_FEW = 0.8  # of the columns, at most, and copies are left out
_BLOCK = 4096  # columns looked at together


@dataclass(frozen=True, eq=False)
class InfiniteAEState(State):
    """The dual solution, and the users it belongs to.

    Args:
        centres: The users that every score is a sum over: all of the log's, or a few who stand for them.
        alpha: Centres × items, in two factors where items are far more; None at λ = 0, where validation
            needs none, until somebody asks for it.
        shift: λ · tr K / n, which the ridge adds to the diagonal, where α is its solution on the log: K α
            then needs no K. None otherwise.
        popularity: The sum of each item's weights, of a log that the model does not hold.
        kept: What an update starts from, in memory alone: the factor of the exact fit, the sums of the pass.
    """

    centres: Interactions
    alpha: ResidentMatrix | None
    shift: float | None = None
    popularity: NDArray[np.float32] | None = None
    kept: ridge.Factor | nystrom.Sums | None = None

    @cached_property
    def compared(self) -> gram.Centres:
        """The centres, ready to be compared with histories."""
        assert self.alpha is not None
        return gram.Centres.of(self.centres.matrix, self.alpha.dtype)

    @classmethod
    def read(cls, artifact: Artifact, settings: Settings, log: Interactions) -> Self:
        centres, popularity = log, None
        if "centres" in artifact.tables:
            names = Vocabulary(artifact.ids("centres"))
            rows = artifact.csr("centres", "weights", len(names), log.n_items)
            centres = Interactions(rows, names, log.items)
        if "popularity" in artifact.arrays:
            popularity = artifact.array("popularity", log.n_items)
        return cls(centres, _read_alpha(artifact, centres.n_users, log), popularity=popularity)


# ---- from λ to a state -------------------------------------------------------------------------------------
class Solver(Protocol):
    """The work that is done once for all λ."""

    def state(self, reg: float, *, only: bool) -> InfiniteAEState:
        """The state for a λ; `SolveError` where there is none.

        Args:
            reg: λ.
            only: Whether no other λ is to be compared with it.
        """


class ExactSolver:
    """The kernel between all users, factorised for each λ."""

    def __init__(self, log: Interactions, kernel: Kernel, dtype: str, progress: Progress) -> None:
        progress("kernel", 0, 1)
        self._log, self._ridge = log, devices.kernel_ridge(log.matrix, kernel, dtype)
        progress("kernel", 1, 1)
        diagonal = kernel.diagonal(gram.squared_norms(log.matrix), d=log.n_items)
        self._mean_diagonal = float(np.mean(diagonal, dtype=np.float64))

    def state(self, reg: float, *, only: bool) -> InfiniteAEState:
        self._ridge.factorise(reg)
        alpha: ResidentMatrix | None = None
        kept: ridge.Factor | None = None
        if reg != 0 or only:  # at 0, validation needs no α
            if isinstance(self._ridge, ridge.LapackRidge) and devices.keeps_factors(*self._log.matrix.shape):
                alpha = FactoredMatrix(self._ridge.inverse(), self._log.matrix)
            else:
                alpha = ResidentMatrix(self._ridge.solve())
        if only and isinstance(self._ridge, ridge.LapackRidge):
            kept = self._ridge.spent()
            kept = kept if kept is not None and kept.upper.nbytes <= _KEPT_BYTES else None
        return InfiniteAEState(self._log, alpha, reg * self._mean_diagonal, kept=kept)


class NystromSolver:
    """The sums of one pass over all users, who are compared with a few, the centres."""

    def __init__(
        self, log: Interactions, centres: Interactions, kernel: Kernel, dtype: str, progress: Progress
    ) -> None:
        self._centres = centres
        self._sums = devices.nystrom_features(centres.matrix, kernel, dtype).sums(log.n_items)
        self._sums.add_all(nystrom.same(log.matrix), total=log.n_users, progress=progress)

    def state(self, reg: float, *, only: bool) -> InfiniteAEState:
        sums = self._sums
        kept = sums if sums.products.nbytes + sums.targets.nbytes <= _KEPT_BYTES else None
        return InfiniteAEState(self._centres, ResidentMatrix(sums.solve(reg)), kept=kept)


# ---- disk --------------------------------------------------------------------------------------------------
def arrays_of(alpha: ResidentMatrix) -> dict[str, NDArray[Any]]:
    """The arrays to save, by name.

    Args:
        alpha: Users × items.
    """
    if isinstance(alpha, FactoredMatrix):
        return {"inverse": alpha.left.here}
    whole, columns = alpha.here, np.zeros(alpha.shape[1], np.int32)
    known: dict[bytes, int] = {}
    for start in range(0, len(columns), _BLOCK):
        turned = np.ascontiguousarray(whole[:, start : start + _BLOCK].T)
        for at, column in enumerate(turned, start):
            columns[at] = known.setdefault(blake2b(column, digest_size=16).digest(), len(known))
    if len(known) > _FEW * len(columns):
        return {"alpha": whole}
    first = np.unique(columns, return_index=True)[1]
    return {"alpha": whole[:, first], "alpha.columns": columns}


def _read_alpha(artifact: Artifact, users: int, log: Interactions) -> ResidentMatrix:
    """α of so many users over the items of a log, from what `arrays_of` gave."""
    if "inverse" in artifact.arrays:
        return FactoredMatrix(artifact.array("inverse", log.n_users, log.n_users), log.matrix)
    if "alpha.columns" not in artifact.arrays:
        return ResidentMatrix(artifact.array("alpha", users, log.n_items))
    distinct = artifact.array("alpha", users, None)
    columns = artifact.positions("alpha.columns", log.n_items, distinct.shape[1])
    needed = users * log.n_items * distinct.itemsize
    machine.require_memory(needed, f"a model of {log.n_items:,} items", "use a machine with more memory")
    return ResidentMatrix(np.take(distinct, columns, axis=1))
