"""EASE: a linear item-to-item model with a zero diagonal, in closed form (Steck, 2019).

    P = (XᵀX + λ I)⁻¹,   B = I − P / diag(P)  with a zero diagonal,   score(x) = x B

With few users (a summary, a sample) the same comes from a system of their size, and nothing is items × items:
P = (I − H) / λ with H = Xᵀ (XXᵀ + λ I)⁻¹ X = VᵀV, where V = U⁻ᵀX and UᵀU = XXᵀ + λ I. So off the diagonal
B_ij = H_ij / (1 − H_jj), and score(x) = (xVᵀV − x diag(H)) / (1 − diag(H)).

The paper's EASE, with λ from {1, 10, 100, 1K, 10K}, comes out lower than what λ = 1000 gives here
(docs/deviations.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg.lapack as lapack
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec import machine
from infrec.contents import Artifact
from infrec.data import Interactions
from infrec.data.change import Change
from infrec.errors import InfrecError, SolveError
from infrec.kernels import devices, gram, ridge
from infrec.models.base import Fitted, Recommender, State, stored
from infrec.progress import Progress, silent
from infrec.randomness import generator
from infrec.search.tunable import takes
from infrec.settings import AUTO, Auto, Settings, setting

_FEW = 3  # times as many items as users, and the users' system is cheaper
_SHARE = 4  # items for each row that may come or go
_CHECKED = 8  # items whose equations are looked at after an update
_ERROR = 1e-3  # of them, at most


@dataclass(frozen=True)
class EASESettings(Settings):
    """EASE has one hyper-parameter."""

    reg: float | Auto = setting(
        AUTO,
        "λ, added to the diagonal of XᵀX as it is",
        least=0,
        search=(1, 10, 50, 100, 200, 500, 1000, 2000, 5000, 10000),
        fallback=100,
    )


@dataclass(frozen=True, eq=False)
class Direct(State):
    """B, items × items: column i holds what each item of a history adds to the score of item i.

    Args:
        weights: B.
        diagonal: That of P, with which B says what P is, so that rows can be added to XᵀX.
    """

    weights: NDArray[np.float32] = stored("items", "items")
    diagonal: NDArray[np.float32] | None = None

    @classmethod
    def of(cls, inverse: NDArray[np.float32]) -> Direct:
        """From P, in its place."""
        diagonal = np.diagonal(inverse).copy()
        inverse /= -diagonal[None, :]
        np.fill_diagonal(inverse, 0.0)
        return cls(inverse, diagonal)

    @classmethod
    def read(cls, artifact: Artifact, settings: Settings, log: Interactions) -> Self:
        state = super().read(artifact, settings, log)
        known = "diagonal" in artifact.arrays  # of models saved before there were updates it is not
        return replace(state, diagonal=artifact.array("diagonal", log.n_items)) if known else state

    def arrays(self) -> dict[str, NDArray[Any]]:
        known = {} if self.diagonal is None else {"diagonal": self.diagonal}
        return super().arrays() | known

    def inverse(self, items: int, columns: NDArray[np.integer], reg: float) -> NDArray[np.float32]:
        """P over these items and new ones, which nobody has: P_ij = −B_ij P_jj, and 1 / λ for a new one.

        Args:
            items: How many there are in all.
            columns: Where those of before stand.
            reg: λ.
        """
        assert self.diagonal is not None
        known = self.weights * -self.diagonal[None, :]
        np.fill_diagonal(known, self.diagonal)
        if len(columns) == items:
            return known
        inverse = np.zeros((items, items), np.float32)
        np.fill_diagonal(inverse, 1 / reg)
        inverse[np.ix_(columns, columns)] = known
        return inverse

    def score(self, rows: sp.csr_array) -> NDArray[np.float32]:
        return gram.sparse_times(rows, self.weights)

    def column(self, item: int) -> NDArray[np.float32]:
        return self.weights[:, item]


@dataclass(frozen=True, eq=False)
class Factored(State):
    """V of far fewer users than items: B is VᵀV without its diagonal, each column divided by 1 less it."""

    half: NDArray[np.float32] = stored("users", "items")

    @classmethod
    def of(cls, factor: ridge.Factor, x: sp.csr_array) -> Factored:
        """From the Cholesky factor of XXᵀ + λ I."""
        (trtrs,) = lapack.get_lapack_funcs(("trtrs",), (factor.upper,))
        right = np.asfortranarray(x.toarray(), np.float32)
        half, _ = trtrs(factor.upper, right, lower=False, trans=1, overwrite_b=True)
        state = cls(np.ascontiguousarray(half))
        least = 4 * np.sqrt(len(half)) * np.finfo(np.float32).eps
        if not (state.left > least).all():
            raise SolveError(
                f"{int((~(state.left > least)).sum())} items follow from the others but for rounding errors "
                f"(reg={factor.shift:g}, {len(half)} users); use a larger reg."
            )
        return state

    @cached_property
    def left(self) -> NDArray[np.float32]:
        """1 − diag(H): the share of each item that the others do not explain."""
        explained = np.einsum("ui,ui->i", self.half, self.half, dtype=np.float64)
        return (1 - explained).astype(np.float32)

    @cached_property
    def _resident(self) -> devices.ResidentMatrix:
        return devices.ResidentMatrix(self.half)

    def score(self, rows: sp.csr_array) -> NDArray[np.float32]:
        scores = self._resident.left_multiply(gram.sparse_times(rows, self.half.T))
        own = gram.scaled(rows, columns=1 - self.left)
        scores[np.repeat(np.arange(len(scores)), np.diff(own.indptr)), own.indices] -= own.data
        scores /= self.left
        return scores

    def column(self, item: int) -> NDArray[np.float32]:
        column = self.half.T @ self.half[:, item] / self.left[item]
        column[item] = 0
        return column


class EASE(Recommender):
    """One hyper-parameter; the fit depends on the number of items, or of users where they are few."""

    name: ClassVar[str] = "ease"
    settings_type: ClassVar = EASESettings
    settings: EASESettings
    state: Direct | Factored

    @takes(EASESettings)
    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)

    def path(
        self, interactions: Interactions, variants: Sequence[Mapping[str, Any]], progress: Progress = silent
    ) -> Iterator[tuple[dict[str, Any], Self | InfrecError]]:
        """One gram matrix for all λ: of the items, or of the users where that is much smaller."""
        self.check_size(interactions)
        x = interactions.matrix
        progress("gram matrix", 0, 1)
        by_users = gram.kernel_matrix(gram.Linear(), x) if _few_users(interactions) else None
        by_items = ridge.ItemRidge(x, scale="absolute")
        progress("gram matrix", 1, 1)
        for changes in variants:
            model = self.with_settings(**changes)
            try:
                reg = float(model.settings.reg)
                state: Direct | Factored
                if by_users is None:
                    state = Direct.of(by_items.inverse(gram.Linear(), reg))
                else:
                    factor = ridge.factorise(by_users, reg=reg, scale="absolute", rows=x)
                    state = Factored.of(factor, x)
            except InfrecError as failure:
                yield dict(changes), failure
            else:
                fitted = Fitted(model.settings, interactions, state)
                yield dict(changes), model.with_fit(fitted)

    def _follow(self, change: Change, progress: Progress) -> Fitted:
        """P after rows of X went and came (Woodbury). Where they are too many, where only few users are
        known, or where rounding tells, the model is fitted again."""
        state, reg = self.state, float(self.settings.reg)
        leave, come = change.taken_out, change.put_in
        if (
            not isinstance(state, Direct)
            or state.diagonal is None
            or _few_users(change.after)
            or _SHARE * (len(leave) + len(come)) > change.after.n_items
            or (reg == 0 and change.has_new_items)
        ):
            return super()._follow(change, progress)
        self.check_size(change.after)
        old = sp.csr_array(change.before.matrix[leave]).tocoo()
        shape = (len(leave), change.after.n_items)
        gone = sp.csr_array((old.data, (old.row, change.columns[old.col])), shape=shape)
        inverse = state.inverse(change.after.n_items, change.columns, reg)
        try:
            for rows, sign in ((gone, -1), (sp.csr_array(change.after.matrix[come]), 1)):
                inverse = ridge.with_rows(inverse, rows, sign)
        except np.linalg.LinAlgError:  # rounding has the last word
            return super()._follow(change, progress)
        if not _is_inverse(inverse, change.after.matrix, reg):
            return super()._follow(change, progress)
        return replace(self.fitted, log=change.after, state=Direct.of(inverse))

    def _score(self, histories: sp.csr_array) -> NDArray[np.float32]:
        return self.state.score(histories)

    def _similarity(self, item: int) -> NDArray[np.floating[Any]]:
        """The weight of each item in the score of this one: its column of B."""
        return self.state.column(item)

    def _restore(self, artifact: Artifact, log: Interactions) -> Direct | Factored:
        form = Factored if "half" in artifact.arrays else Direct
        return form.read(artifact, self.settings, log)

    def check_size(self, interactions: Interactions) -> None:
        n, d = interactions.n_users, interactions.n_items
        # The gram matrix and its factor; the best, the current and the next V, or the best and the current B.
        needed = 4 * (2 * n * n + 3 * n * d) if _few_users(interactions) else 4 * 4 * d * d
        machine.require_memory(
            needed,
            f"EASE over {n:,} users and {d:,} items",
            "keep fewer items, use the model 'infinite-ae', whose size depends on the users, "
            "or a machine with more memory",
        )


def _is_inverse(inverse: NDArray[np.float32], x: sp.csr_array, reg: float) -> bool:
    """Whether (XᵀX + λ I) P is I but for rounding, in some columns."""
    at = generator(x.nnz, "checked after an update").choice(len(inverse), min(_CHECKED, len(inverse)), False)
    some = inverse[:, at].astype(np.float64)
    error = x.T @ (x @ some) + reg * some
    error[at, np.arange(len(at))] -= 1
    return bool(np.abs(error).max() <= _ERROR)


def _few_users(log: Interactions) -> bool:
    return _FEW * log.n_users <= log.n_items
