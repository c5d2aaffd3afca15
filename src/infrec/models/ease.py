"""EASE: a linear item-to-item model with a zero diagonal, in closed form (Steck, 2019).

    P = (XᵀX + λ I)⁻¹,   B = I − P / diag(P)  with a zero diagonal,   score(x) = x B

With few users (a summary, a sample) the same comes from a system of their size, and nothing is items × items,
nor users × items: P = (I − H) / λ with H = XᵀQX and Q = (XXᵀ + λ I)⁻¹. So off the diagonal
B_ij = H_ij / (1 − H_jj), and score(x) = (xXᵀQX − x diag(H)) / (1 − diag(H)), where X stays sparse.

The paper's EASE, with λ from {1, 10, 100, 1K, 10K}, comes out lower than what λ = 1000 gives here
(docs/deviations.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec import machine
from infrec.contents import Artifact
from infrec.data import Interactions
from infrec.data.change import Change
from infrec.errors import ConfigError, InfrecError, SolveError
from infrec.kernels import devices, gram, ridge
from infrec.kernels.resident import FactoredMatrix
from infrec.models import dislikes
from infrec.models.base import Recommender
from infrec.models.fitted import Fitted, State, stored
from infrec.progress import Progress, silent
from infrec.randomness import generator
from infrec.search.tunable import takes
from infrec.settings import AUTO, Auto, Settings, setting

SMALL_WEIGHTS = (0.01, 0.03, 0.1, 0.3)  # λ to try as well where weights lie below 1: XᵀX is that much smaller
_ENOUGH_ITEMS = 100  # with fewer there is little to recommend
_RATE = 7e10  # multiplications in a second of one core, about
_LONGEST, _ADVISED = 15, 4  # minutes of a search for λ: refused beforehand, and what an advice may take
_HELD_OUT = 0.7  # of an item's users, so many are left in a train part
_BLOCK = 256  # users whose row of QX exists at a time
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
    dislikes: float | Auto = setting(AUTO, dislikes.HELP, least=0, decided_by_data=True)


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
    """Q = (XXᵀ + λ I)⁻¹ of far fewer users than items: H = XᵀQX, and B is H / (1 − diag H) off its diagonal.

    Args:
        inverse: Q, users × users.
        left: 1 − diag(H): the share of each item that the others do not explain.
        x: The log's matrix, X.
    """

    inverse: NDArray[np.float32] = stored("users", "users")
    left: NDArray[np.float32] = stored("items")
    x: sp.csr_array = field(default_factory=lambda: sp.csr_array((0, 0)))

    @classmethod
    def of(cls, factor: ridge.Factor, x: sp.csr_array) -> Factored:
        """From the Cholesky factor of XXᵀ + λ I, which is used up."""
        inverse = factor.inverse().T  # the same symmetric matrix, in C order
        ridge.require_finite(inverse.sum(dtype=np.float64), len(inverse), str(inverse.dtype))
        explained = np.zeros(x.shape[1])
        for start in range(0, len(inverse), _BLOCK):
            own = x[start : start + _BLOCK]
            learnt = gram.times_sparse(inverse[start : start + _BLOCK], x)
            parts = own.data.astype(np.float64) * learnt[gram.rows_of(own), own.indices]
            explained += np.bincount(own.indices, parts, minlength=x.shape[1])
        left = (1 - explained).astype(np.float32)
        least = 4 * np.sqrt(x.shape[0]) * np.finfo(np.float32).eps
        if not (left > least).all():
            raise SolveError(
                f"{int((~(left > least)).sum())} items follow from the others but for rounding errors "
                f"(reg={factor.shift:g}, {x.shape[0]} users); use a larger reg."
            )
        return cls(inverse, left, x)

    @classmethod
    def read(cls, artifact: Artifact, settings: Settings, log: Interactions) -> Self:
        return replace(super().read(artifact, settings, log), x=log.matrix)

    @cached_property
    def _learnt(self) -> FactoredMatrix:
        """QX."""
        return FactoredMatrix(self.inverse, self.x)

    def score(self, rows: sp.csr_array) -> NDArray[np.float32]:
        alike = np.ascontiguousarray((rows @ self.x.T).toarray(), np.float32)
        scores = self._learnt.left_multiply(alike)
        own = gram.scaled(rows, columns=1 - self.left)
        scores[gram.rows_of(own), own.indices] -= own.data
        scores /= self.left
        return scores

    def fitted_scores(self, rows: slice | NDArray[np.integer], reg: float) -> NDArray[np.float32]:
        """Scores of the log's own users, a product less: XXᵀQX = X − λQX leaves X − λQX / (1 − diag H)."""
        scores = self._learnt.rows(rows)
        scores *= np.float32(-reg) / self.left
        own = self.x[rows]
        scores[gram.rows_of(own), own.indices] += own.data
        return scores

    def column(self, item: int) -> NDArray[np.float32]:
        users = self.x[:, [item]].toarray().ravel()
        column = self.x.T @ (self.inverse @ users) / self.left[item]
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
        by_items = devices.item_ridge(x, scale="absolute")
        progress("gram matrix", 1, 1)
        for changes in variants:
            model = self.with_settings(**changes)
            try:
                reg = float(model.settings.reg)
                state: Direct | Factored
                if by_users is None:
                    inverse = by_items.inverse(gram.Linear(), reg)
                    state = Direct.of(np.require(inverse, requirements="W"))
                else:
                    factor = ridge.factorise(by_users, reg=reg, scale="absolute", rows=x)
                    state = Factored.of(factor, x)
            except InfrecError as failure:
                yield dict(changes), failure
            else:
                fitted = Fitted(model.settings, interactions, state)
                yield dict(changes), model.with_fit(fitted)

    def space_for(self, interactions: Interactions) -> dict[str, Sequence[Any]]:
        """On a log whose weights lie below 1, as a summary's do, smaller λ are tried too.

        Args:
            interactions: The log to fit on.
        """
        small = interactions.weighted and interactions.matrix.data.max() <= 1
        grid = (*SMALL_WEIGHTS, *self.search_space.get("reg", ()))
        return {"reg": grid} if small and self.settings.reg == AUTO else {}

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

    def fitted_scores(self, rows: slice | NDArray[np.integer]) -> NDArray[np.float32]:
        if isinstance(self.state, Factored):
            return self.state.fitted_scores(rows, float(self.settings.reg))
        return super().fitted_scores(rows)

    def _similarity(self, item: int) -> NDArray[np.floating[Any]]:
        """The weight of each item in the score of this one: its column of B."""
        return self.state.column(item)

    def _restore(self, artifact: Artifact, log: Interactions) -> Direct | Factored:
        form = Factored if "inverse" in artifact.arrays else Direct
        return form.read(artifact, self.settings, log)

    def check_size(self, interactions: Interactions) -> None:
        n, d = interactions.n_users, interactions.n_items
        free = machine.memory_available()
        machine.require_memory(
            _bytes(n, d),
            f"EASE over {n:,} users and {d:,} items",
            f"{_rarer_items_left_out(interactions, free)}use the model 'infinite-ae', whose size depends on "
            "the users, or a machine with more memory",
            free=free,
        )

    def check_time(self, interactions: Interactions) -> None:
        n, d = interactions.n_users, interactions.n_items
        minutes = _minutes(n, d)
        if self.settings.reg != AUTO or minutes <= _LONGEST or devices.items_compared_there(n, d):
            return
        fits = _rarer_items_left_out(interactions, machine.memory_available())
        raise ConfigError(
            f"choosing λ of EASE over {n:,} users and {d:,} items takes about {minutes:,.0f} minutes on "
            f"{machine.cores()} cores; {fits}give λ, which takes a tenth (`--set reg=300`), or say how long "
            "it may take (`--search 3600`)."
        )


def _bytes(n: int, d: int) -> int:
    """Bytes of a fit, of users × users or of items × items."""
    return devices.exact_fit_in_factors(n, d) if devices.keeps_factors(n, d) else ridge.ItemRidge.needs(d)


def _minutes(n: int, d: int) -> float:
    """Minutes of choosing λ: a factor and an inverse for each that is tried."""
    tried = len(EASE.search_space["reg"])
    return tried * float(n if devices.keeps_factors(n, d) else d) ** 3 / (60 * _RATE * machine.cores())


def _rarer_items_left_out(log: Interactions, free: int) -> str:
    """Advice on the fewest users of an item with which a fit has room and takes few minutes; none where
    hardly an item is left."""
    counts = np.sort(log.item_counts)
    for fewest in range(2, 1 + int(counts[-1]) if len(counts) else 2):
        left = len(counts) - int(np.searchsorted(counts, _HELD_OUT * fewest))
        minutes = _minutes(log.n_users, left)
        if machine.memory_fits(_bytes(log.n_users, left), free) and minutes <= _ADVISED:
            if left < _ENOUGH_ITEMS:
                return ""
            return (
                f"leave out items of few users (`min_item={fewest}`: at most {left:,} stay, "
                f"and choosing λ takes about {max(1, round(minutes))} min), "
            )
    return ""


def _is_inverse(inverse: NDArray[np.float32], x: sp.csr_array, reg: float) -> bool:
    """Whether (XᵀX + λ I) P is I but for rounding, in some columns."""
    at = generator(x.nnz, "checked after an update").choice(len(inverse), min(_CHECKED, len(inverse)), False)
    some = inverse[:, at].astype(np.float64)
    error = x.T @ (x @ some) + reg * some
    error[at, np.arange(len(at))] -= 1
    return bool(np.abs(error).max() <= _ERROR)


def _few_users(log: Interactions) -> bool:
    return devices.keeps_factors(log.n_users, log.n_items)
