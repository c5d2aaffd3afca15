"""Why a model gave an item its score: what each item of the history and each training user contributed.

kernels/attribution.py says how a score is taken apart.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.data import Interactions
from infrec.data.rows import Rows
from infrec.errors import DataError
from infrec.kernels.attribution import Contributions
from infrec.models.base import Recommender
from infrec.models.lists import item_column


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why `item` has `score`.

    Args:
        item, score: The item that was asked about, and its score.
        baseline: The score with an empty history: what everybody gets, less what follows from the user's
            dislikes.
        items: Rows of item, contribution (and title), which add up to score − baseline.
        users: Rows of user, contribution, kernel (how close that user is to the history); contributions add
            up to the score, but for what comes from no user: of ∞-AE-plus what its item side makes of the
            history itself, of a Nyström fit what dislikes take away. Both tables begin with what raised the
            score most and end with what lowered it most.
    """

    item: object
    score: float
    baseline: float
    items: Rows
    users: Rows


class Explainable(Recommender):
    """A model whose scores can be taken apart: they are sums over users, the centres."""

    @property
    @abstractmethod
    def centres(self) -> Interactions:
        """The users that every score is a sum over: all of the log's, or those who stand for them."""

    @abstractmethod
    def contributions(
        self, history: sp.csr_array, items: NDArray[np.integer], user: int | None = None
    ) -> Contributions:
        """Contributions to the scores of several items at once.

        Args:
            history: One CSR row.
            items: Columns of the items.
            user: The log's row of the user whose history it is, where their dislikes are to count.
        """

    def explain(self, history: Sequence[object], item: object, *, user: object = None) -> Explanation:
        """How much each item of the history and each training user contributed to the score of `item`.

        Args:
            history: Item ids.
            item: Id of the item whose score is taken apart.
            user: Id of the known user whose history it is, where their dislikes are to count.
        """
        log = self.log
        rows, unknown = log.histories([history])
        if unknown[0]:
            raise DataError(f"the history holds items that the model does not know: {unknown[0][:5]}.")
        column = item_column(log, item)
        who = None if user is None else int(log.users.positions([user])[0])
        if who == -1:
            raise DataError(f"the model does not know the user {user!r}; expected one of its users, or none.")
        parts = self.contributions(rows, np.array([column]), who)
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


def _ordered(columns: dict[str, object], by: NDArray[np.float64]) -> Rows:
    return Rows(pa.table(columns).take(pa.array(np.argsort(-by, kind="stable"))))
