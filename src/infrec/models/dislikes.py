"""Dislikes: what users said they do not like lowers what resembles it, and is never recommended to them.

Beside the model of a log X stands a second kernel ridge, which foretells the dislikes D from both:

    K = Θ(X − D, X − D)                      rows are signed
    β = (K + λ · m · I)⁻¹ D                  m is the mean diagonal of K
    dislike(x, d) = Θ(x − d, X − D) β
    score(x, d) = score(x) − w · dislike(x, d)

The model of the likes stays as it is, and with w = 0 nothing changes. w is chosen on validation
(`infrec.search.tune`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec import machine
from infrec.data import Interactions
from infrec.data.interactions import canonical
from infrec.kernels import devices, gram, kernel_of, nystrom, ridge
from infrec.kernels.attribution import Contributions, attribute
from infrec.kernels.resident import ResidentMatrix
from infrec.progress import Progress, silent

if TYPE_CHECKING:
    from infrec.contents import Artifact

HELP = "w, the weight of dislikes (`--negative`), chosen on validation where the log has some"
KERNEL = kernel_of(1)
REG = 5.0  # λ, ∞-AE's fallback
EXACT = 8192  # users up to whom all are compared with; else some of them, the centres (Nyström)
CENTRES = 2000
_BATCH = 1024  # histories whose kernel with these users exists at a time
_ALPHA, _USERS = "dislikes.alpha", "dislikes.users"  # names of saved arrays


@dataclass(frozen=True, eq=False)
class Dislikes:
    """A kernel ridge that foretells dislikes.

    Args:
        log: The log with its dislikes.
        users: Rows of the users whom everybody is compared with.
        alpha: β, these users × items.
        shift: λ · m of a solution on all users, whose own figures then need no K; None otherwise.
    """

    log: Interactions
    users: NDArray[np.int64]
    alpha: NDArray[np.float32]
    shift: float | None = None

    @classmethod
    def of(cls, log: Interactions, progress: Progress = silent) -> Dislikes:
        """From a log.

        Args:
            log: The log, with dislikes.
            progress: Called while it works.
        """
        assert log.dislikes is not None
        everybody: NDArray[np.int64] = np.arange(log.n_users)
        d = log.dislikes.matrix
        x = signed(log.matrix, log, everybody)
        progress("dislikes", 0, 1)
        if log.n_users <= EXACT:
            needed = devices.exact_fit(log.n_users, log.n_items)
            machine.require_memory(needed, f"dislikes of {log.n_users:,} users", "leave `negative` out")
            factor = ridge.factorise(gram.kernel_matrix(KERNEL, x), reg=REG, rows=x)
            result = cls(log, everybody, factor.solve(d).astype(np.float32, copy=False), factor.shift)
        else:
            users = nystrom.draw_centres(log.user_counts, CENTRES, seed=0).astype(np.int64)
            devices.require_nystrom(len(users), log.n_items, "float32", rows=log.n_users)
            sums = devices.nystrom_features(x[users], KERNEL, "float32").sums(log.n_items)
            sums.add_all([(x, d)], total=log.n_users, progress=progress)
            result = cls(log, users, sums.solve(REG).astype(np.float32, copy=False))
        progress("dislikes", 1, 1)
        return result

    @cached_property
    def _compared(self) -> gram.Centres:
        return gram.Centres.of(signed(self.log.matrix[self.users], self.log, self.users), np.float32)

    @cached_property
    def _resident(self) -> ResidentMatrix:
        return ResidentMatrix(self.alpha)

    def score(self, histories: sp.csr_array, known: NDArray[np.integer] | None) -> NDArray[np.float32]:
        """How much each item is foretold to be disliked.

        Args:
            histories: CSR rows over the log's items.
            known: The log's row of each user, −1 where there is none; None: nobody is known.
        """
        rows, scores = signed(histories, self.log, known), np.empty(histories.shape, np.float32)
        for start in range(0, rows.shape[0], _BATCH):
            some = slice(start, start + _BATCH)
            scores[some] = self._resident.left_multiply(self._compared.kernel_rows(KERNEL, rows[some]))
        return scores

    def fitted_scores(self, rows: NDArray[np.integer]) -> NDArray[np.float32]:
        """The figures of the log's own users: K β = D − λ m β, without K where that is known.

        Args:
            rows: Their row numbers.
        """
        assert self.log.dislikes is not None
        if self.shift is None:
            return self.score(self.log.matrix[rows], rows)
        own: NDArray[np.float32] = self.log.dislikes.matrix[rows].toarray()
        own -= np.float32(self.shift) * self.alpha[rows]
        return own

    def contributions(
        self, history: sp.csr_array, alpha: NDArray[np.float32], user: int | None
    ) -> Contributions:
        """The figures of one history, taken apart; of what a known user dislikes the baseline is made.

        Args:
            history: One CSR row over the log's items.
            alpha: β of the items that are asked about.
            user: The log's row of the user; None: nobody is known.
        """
        assert self.log.dislikes is not None
        start = None if user is None else -self.log.dislikes.matrix[[user]]
        return attribute(KERNEL, self._compared.rows, alpha, history, start)

    # ---- disk ----------------------------------------------------------------------------------------------
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays to save, by name."""
        some = {} if len(self.users) == self.log.n_users else {_USERS: self.users}
        return {_ALPHA: self.alpha, **some}

    @classmethod
    def read(cls, artifact: Artifact, log: Interactions) -> Dislikes | None:
        """From what `arrays` gave; None where there is nothing of it.

        Args:
            artifact: The saved model.
            log: Its log.
        """
        if _ALPHA not in artifact.arrays:
            return None
        if log.dislikes is None:
            raise artifact.unsound("it foretells dislikes and has no dislikes")
        users = np.arange(log.n_users)
        if _USERS in artifact.arrays:
            users = artifact.positions(_USERS, None, log.n_users).astype(np.int64)
        return cls(log, users, artifact.array(_ALPHA, len(users), log.n_items))


def signed(histories: sp.csr_array, log: Interactions, known: NDArray[np.integer] | None) -> sp.csr_array:
    """Histories less what their users dislike: x − d.

    Args:
        histories: CSR rows over the log's items.
        log: The log with its dislikes.
        known: The log's row of each user, −1 where there is none; None: nobody is known.
    """
    if known is None or log.dislikes is None:
        return histories
    return canonical(histories - of_users(log.dislikes, known))


def of_users(dislikes: Interactions, known: NDArray[np.integer]) -> sp.csr_array:
    """The dislikes of some users; nothing for those who are not known.

    Args:
        dislikes: The dislikes of a log.
        known: The log's row of each user, −1 where there is none.
    """
    rows = dislikes.matrix[np.maximum(known, 0)]
    counts = np.diff(rows.indptr)
    kept = np.repeat(known >= 0, counts)
    ends = np.append(0, np.cumsum(np.where(known < 0, 0, counts)))
    return sp.csr_array((rows.data[kept], rows.indices[kept], ends), shape=rows.shape)
