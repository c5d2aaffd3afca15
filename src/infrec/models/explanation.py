"""Why ∞-AE gave an item its score: what each item of the history and each training user contributed.

By users the score is a sum already: score = Σ_u Θ(x, x_u) α_ui, one term per training user.

By items it is not, since Θ is not linear in x. The attribution here is the Aumann–Shapley value (integrated
gradients): grow the history from nothing to x along t·x and give each item what its own coordinate added,

    contribution of j = x_j ∫₀¹ ∂score/∂x_j (t x) dt,        baseline = score of the empty history.

It is the one attribution along that path that adds up to score − baseline, is the same for items that act the
same, and is zero for items that change nothing. The integral is Gauss–Legendre in float64; ∂Θ comes from
the kernel.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.data import Interactions
from infrec.data.rows import Rows
from infrec.errors import DataError
from infrec.kernels import gram
from infrec.models.base import Recommender
from infrec.models.lists import item_column

if TYPE_CHECKING:
    from infrec.models.infinite_ae import InfiniteAE

_NODES = 48


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why `item` has `score`.

    Args:
        item, score: The item that was asked about, and its score.
        baseline: The score with an empty history: what everybody gets.
        items: Rows of item, contribution (and title), which add up to score − baseline.
        users: Rows of user, contribution, kernel (how close that user is to the history); contributions add
            up to the score, for ∞-AE-plus without what its item side makes of the history itself. Both tables
            begin with what raised the score most and end with what lowered it most.
    """

    item: object
    score: float
    baseline: float
    items: Rows
    users: Rows


@dataclass(frozen=True, eq=False)
class Contributions:
    """Contributions to the scores of some items: the numbers of several `Explanation`s, as arrays.

    by_item: items of the history × explained items; by_user: training users × explained items; beside: what
    of each score comes from no user (the item side of ∞-AE-plus).
    """

    by_item: NDArray[np.float64]
    by_user: NDArray[np.float64]
    kernel: NDArray[np.float64]
    baseline: NDArray[np.float64]
    beside: NDArray[np.float64]


class Explainable(Recommender):
    """A model whose scores can be taken apart: they are sums over users, the centres."""

    @property
    @abstractmethod
    def centres(self) -> Interactions:
        """The users that every score is a sum over: all of the log's, or those who stand for them."""

    @abstractmethod
    def contributions(self, history: sp.csr_array, items: NDArray[np.integer]) -> Contributions:
        """Contributions to the scores of several items at once.

        Args:
            history: One CSR row.
            items: Columns of the items.
        """

    def explain(self, history: Sequence[object], item: object) -> Explanation:
        """How much each item of the history and each training user contributed to the score of `item`.

        Args:
            history: Item ids.
            item: Id of the item whose score is taken apart.
        """
        log = self.log
        rows, unknown = log.histories([history])
        if unknown[0]:
            raise DataError(f"the history holds items that the model does not know: {unknown[0][:5]}.")
        column = item_column(log, item)
        parts = self.contributions(rows, np.array([column]))
        by_item, by_user = parts.by_item[:, 0], parts.by_user[:, 0]
        items = {"item": log.items.take(rows.indices), "contribution": by_item}
        if log.titles is not None:
            items["title"] = log.titles.take(pa.array(rows.indices))
        users = {"user": self.centres.users.ids, "contribution": by_user, "kernel": parts.kernel}
        return Explanation(
            item=log.items[column],
            score=float(by_user.sum() + parts.beside[0]),
            baseline=float(parts.baseline[0]),
            items=_ordered(items, by_item),
            users=_ordered(users, by_user),
        )

    def _similarity(self, item: int) -> NDArray[np.floating[Any]]:
        """Everything that a history of this item alone adds to every score: score({item}) − score({})."""
        one = sp.csr_array(([1.0], ([0], [item])), shape=(2, self.log.n_items), dtype=np.float32)
        with_it, without = self._score(one)
        return with_it - without


def contributions(model: InfiniteAE, row: sp.csr_array, columns: NDArray[np.integer]) -> Contributions:
    """For one history (a CSR row) and the columns of some items; the path is walked once for all of them."""
    kernel, d = model.settings.kernel, model.log.n_items
    alpha = model._alpha.columns(columns).astype(np.float64)
    train = sp.csr_array(model.centres.matrix, dtype=np.float64)
    norms = gram.squared_norms(train, np.float64)
    values = row.data.astype(np.float64)
    mine = train[:, row.indices].tocsc()  # users × my items
    xy, xx = np.asarray(mine @ values).ravel(), float((values**2).sum())

    close = kernel.from_gram(xy[None, :], np.array([xx]), norms, d=d)[0]
    baseline = kernel.from_gram(0 * xy[None, :], np.zeros(1), norms, d=d)[0] @ alpha
    by_item = np.zeros((len(values), len(columns)))
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    for t, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        on_product, on_norm = kernel.slopes(t * xy, t * t * xx, norms, d=d)
        slope = mine.T @ (on_product[:, None] * alpha) + 2 * t * values[:, None] * (on_norm @ alpha)
        by_item += weight * values[:, None] * slope
    return Contributions(by_item, close[:, None] * alpha, close, baseline, np.zeros(len(columns)))


def _ordered(columns: dict[str, object], by: NDArray[np.float64]) -> Rows:
    return Rows(pa.table(columns).take(pa.array(np.argsort(-by, kind="stable"))))
