"""From histories to lists of recommended items: filters, users nobody knows, empty histories.

`allowed_items`, `score_or_popularity` and `best_items` are the policy, on columns and with numpy alone: the
service answers by them too. `Lists` finds ids by Arrow and makes tables, for many users at a time.
"""

from __future__ import annotations

import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.data import Interactions, Vocabulary
from infrec.data.rows import Rows
from infrec.errors import ConfigError, DataError
from infrec.metrics.ranking import top_k
from infrec.models import dislikes
from infrec.models.balance import Balance
from infrec.models.reranking import Reranker, Traits
from infrec.search.criterion import Scorer

if TYPE_CHECKING:
    Columns = list[int] | NDArray[np.integer]

OnUnknown = Literal["popular", "skip", "error"]
_BATCH_SCORES = 8 * 2**20  # scores that exist at a time


# ---- the policy, on columns ---------------------------------------------------------------------
def allowed_items(
    n_items: int, within: Iterable[Columns], exclude: Columns | None = None
) -> NDArray[np.bool_]:
    """Which items may appear: those in every set of `within`, but none of `exclude`."""
    allowed = np.ones(n_items, bool)
    for columns in within:
        members = np.zeros(n_items, bool)
        members[columns] = True
        allowed &= members
    if exclude is not None:
        allowed[exclude] = False
    return allowed


def score_or_popularity(
    rows: sp.csr_array,
    popularity: Callable[[], NDArray[np.float32]],
    score: Callable[[sp.csr_array, NDArray[np.intp]], NDArray[np.float32]],
    *,
    step: int,
) -> NDArray[np.float32]:
    """Scores [n, items] of every item for each history; the items' popularity where a history is empty.

    popularity: called only when a history is empty, for it costs a pass over a model's log.
    score: gets at most `step` histories that are not empty, and their places among `rows`.
    """
    n = rows.shape[0]
    known = np.flatnonzero(np.diff(rows.indptr))
    if len(known) == n <= step:
        return score(rows, known)
    scores = np.empty(rows.shape, np.float32)
    if len(known) < n:
        scores[:] = popularity()
    if 0 < len(known) < n:
        rows = rows[known]
    for start in range(0, len(known), step):
        part = slice(start, start + step)
        scores[known[part]] = score(rows[part], known[part])
    return scores


def best_items(
    scores: NDArray[np.float32],
    rows: sp.csr_array,
    k: int,
    unwanted: sp.csr_array | None,
    allowed: NDArray[np.bool_] | None,
    reranker: Reranker | None = None,
) -> NDArray[np.int64]:
    """Columns of the k best items of each history, best first; −1 where fewer may appear.

    unwanted: `unlisted`. reranker: what else counts beside the scores.
    """
    k = min(k, rows.shape[1])
    if reranker is not None:
        return reranker.best(scores, rows, k, exclude=unwanted, allowed=allowed)
    return top_k(scores, k, exclude=unwanted, only=allowed)


def unlisted(
    rows: sp.csr_array, exclude_seen: bool, disliked: sp.csr_array | None = None
) -> sp.csr_array | None:
    """The items that are in no list of a history, as stored entries; None: there are none."""
    if disliked is None or not disliked.nnz:
        return rows if exclude_seen else None
    return sp.csr_array(rows + disliked) if exclude_seen else disliked


# ---- ids and tables -----------------------------------------------------------------------------
OFFERED = {
    *("__init__", "__repr__", "name", "settings", "selected", "about", "candidates", "log", "get_params"),
    *("set_params", "fit", "fit_prepared", "update", "forget", "score", "recommend", "rank", "similar"),
    *("explain", "with_new_items", "with_only_centres", "without_users", "save", "load"),
}


class Shown(ABCMeta):
    """Names of a model that `help` and completion show: `OFFERED`, not those that other rooms call."""

    def __dir__(cls) -> list[str]:
        ours = (vars(one) for one in cls.__mro__ if one.__module__.startswith("infrec."))
        hidden = {name for names in ours for name in names} - OFFERED
        return sorted({*super().__dir__()} - hidden)


class Lists(Scorer, metaclass=Shown):
    """The lists of a model that gives scores, as tables."""

    def __dir__(self) -> list[str]:
        return sorted({*dir(type(self)), *vars(self)})

    @property
    @abstractmethod
    def popularity(self) -> NDArray[np.float32]:
        """The sum of each item's weights: what is recommended when nothing is known of a user."""

    @property
    @abstractmethod
    def traits(self) -> Traits:
        """Traits of the items beside scores: which are alike, how popular each is, of which genre."""

    @abstractmethod
    def _similarity(self, item: int) -> NDArray[np.floating[Any]]:
        """How alike every item is to this one."""

    def recommend(
        self,
        users: Iterable[object] | None = None,
        *,
        histories: Iterable[Iterable[object]] | sp.csr_array | None = None,
        k: int = 10,
        exclude_seen: bool = True,
        only: Iterable[object] | None = None,
        exclude: Iterable[object] | None = None,
        on_unknown: OnUnknown = "popular",
        diversity: float = 0.0,
        popularity: float = 0.0,
        max_per: Mapping[str, int] | None = None,
    ) -> Rows:
        """The k best items of known users (by id), of histories (lists of item ids), or of everybody.

        Columns: user (the id, or the number of the history), item, rank from 1, score, source ("model", or
        "popular" where nothing is known of the user), and title when known.

        Args:
            users: Ids of known users.
            histories: Lists of item ids, or CSR rows, of anybody; neither users nor histories: everybody in
                the log.
            k: Length of each list.
            exclude_seen: Whether items of the history stay out; what known users dislike always does.
            only: Item ids; nothing else is recommended.
            exclude: Item ids that stay out.
            on_unknown: For a user or a history of which nothing is known: popular items, no list, or an
                error.
            diversity: How much lists avoid items that are alike, from 0 (not at all) to 1;
                `infrec.models.reranking` has the formula.
            popularity: From −1 to 1: below 0, items better known than those of the history stand lower; above
                0, less known ones do.
            max_per: Column of the items table → how many items of a list may have the same value of it, as
                in {"genre": 3}.
        """
        if on_unknown not in get_args(OnUnknown):
            raise ConfigError(
                f"on_unknown is {on_unknown!r}; expected one of {', '.join(get_args(OnUnknown))}."
            )
        _check_length(k)
        if users is not None and histories is not None:
            raise ConfigError("both users and histories were given; expected one of them.")
        by_id, known = histories is None, None
        if histories is None:
            names, rows = _known_users(self.log, users, on_unknown)
            known = None if self.log.dislikes is None else self.log.users.positions(names)
        else:
            rows = _as_rows(self.log, histories, on_unknown)
            names = pa.array(np.arange(rows.shape[0], dtype=np.int64))
        if on_unknown == "skip":
            kept = np.flatnonzero(np.diff(rows.indptr))
            rows, names = rows[kept], names.take(pa.array(kept))
            known = None if known is None else known[kept]
        allowed = _allowed(self.log, only, exclude)
        reranker = Reranker.of(self.traits, Balance(diversity, popularity), max_per)
        step = max(1, _BATCH_SCORES // max(1, rows.shape[1]))
        plain = reranker is None and allowed is None and rows.shape[0] > step  # as an accelerator does it
        best = np.empty((rows.shape[0], min(k, rows.shape[1])), np.int64)
        values = np.empty(best.shape, np.float32)
        for start in range(0, rows.shape[0], step):
            some = slice(start, start + step)
            asked = rows if rows.shape[0] <= step else rows[some]
            unwanted = unlisted(asked, exclude_seen, self._disliked(None if known is None else known[some]))
            if plain and self._listed_there(asked, unwanted, step, best[some], values[some]):
                continue
            scores = self._scores(asked, names[some] if by_id else None)
            best[some] = best_items(scores, asked, k, unwanted, allowed, reranker)
            values[some] = np.take_along_axis(scores, best[some], axis=1)
        row, place = np.nonzero(best >= 0)
        items = best[row, place]
        table = {
            "user": names.take(pa.array(row)),
            "item": self.log.items.take(items),
            "rank": pa.array(place + 1, pa.int32()),
            "score": pa.array(values[row, place], pa.float32()),
            "source": pc.if_else(pa.array(np.diff(rows.indptr)[row] > 0), "model", "popular"),
        }
        return _with_titles(self.log, table, items)

    def _listed_there(
        self,
        rows: sp.csr_array,
        unwanted: sp.csr_array | None,
        size: int,
        best: NDArray[np.int64],
        values: NDArray[np.float32],
    ) -> bool:
        """Write the lists of a block, whose scores stay on an accelerator; False where that cannot be."""
        there = self.score_there(rows, size) if np.diff(rows.indptr).all() else None
        if there is None:
            return False
        best[:] = there.top_k(best.shape[1], unwanted)
        at = np.nonzero(best >= 0)
        values[at] = there.at(at[0], best[at])
        return True

    def _disliked(self, known: NDArray[np.integer] | None) -> sp.csr_array | None:
        """The dislikes of users by their rows in the log, −1 for one whom it does not know."""
        if known is None or self.log.dislikes is None:
            return None
        return dislikes.of_users(self.log.dislikes, known)

    def rank(
        self,
        history: Iterable[object],
        items: Iterable[object],
        *,
        diversity: float = 0.0,
        popularity: float = 0.0,
        max_per: Mapping[str, int] | None = None,
    ) -> Rows:
        """Given items in the order in which somebody should see them: item, rank, score, source, title.

        Items that the model does not know are left out, with a warning; those of the history stay.

        Args:
            history: Item ids of somebody, known or not.
            items: Ids of the items, as an earlier step of a pipeline found them.
            diversity, popularity, max_per: See `recommend`; what `max_per` forbids is left out.
        """
        wanted = list(_listed(items))
        ranked = self.recommend(
            histories=[history],
            k=max(1, len(wanted)),
            exclude_seen=False,
            only=wanted,
            diversity=diversity,
            popularity=popularity,
            max_per=max_per,
        )
        return Rows(ranked.table.drop_columns("user"))

    def _scores(self, rows: sp.csr_array, users: pa.Array | None) -> NDArray[np.float32]:
        def score(some: sp.csr_array, places: NDArray[np.intp]) -> NDArray[np.float32]:
            return self.score(some, users=None if users is None else users.take(pa.array(places)))

        return score_or_popularity(rows, lambda: self.popularity, score, step=rows.shape[0])

    def similar(self, item: object, k: int = 10) -> Rows:
        """The k items most like this one: item, rank, score, and title when known.

        Args:
            item: Its id.
            k: Length of the list.
        """
        _check_length(k)
        at = item_column(self.log, item)
        values = np.asarray(self._similarity(at), dtype=np.float32)[None, :]
        allowed = np.ones(values.shape[1], bool)
        allowed[at] = False
        best = top_k(values, min(k, values.shape[1]), only=allowed)[0]
        best = best[best >= 0]
        table = {
            "item": self.log.items.take(best),
            "rank": pa.array(np.arange(1, len(best) + 1), pa.int32()),
            "score": pa.array(values[0, best], pa.float32()),
        }
        return _with_titles(self.log, table, best)


def item_column(log: Interactions, item: object) -> int:
    """The column of an item, by its id."""
    (at,) = log.items.positions([item])
    if at < 0:
        raise DataError(f"the item {item!r} is not among the {log.n_items:,} items of the model.")
    return int(at)


def _check_length(k: object) -> None:
    if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
        raise ConfigError(f"k is {k!r}; expected a list length of 1 or more.")


def _listed(ids: Any) -> Iterable[object]:
    """Ids as they were given; one alone as a list of it."""
    return [ids] if isinstance(ids, str) or not isinstance(ids, Iterable) else ids


def _known_users(
    log: Interactions, users: Iterable[object] | None, on_unknown: str
) -> tuple[pa.Array, sp.csr_array]:
    if users is None:
        return log.users.ids, log.matrix
    ids = Vocabulary.of(_listed(users)).ids
    at = log.users.positions(ids)
    unknown = np.flatnonzero(at < 0)
    if len(unknown):
        names = _some(ids.take(pa.array(unknown)).to_pylist())
        if on_unknown == "error":
            raise DataError(
                f"unknown users: {names}; the model knows {log.n_users:,}. Check the ids' spelling."
            )
        what = "get the popular items" if on_unknown == "popular" else "are skipped"
        warnings.warn(f"unknown users {what}: {names}.", stacklevel=3)
    # A row of zeros past the last one stands for everybody unknown.
    padded = sp.csr_array(
        (log.matrix.data, log.matrix.indices, np.append(log.matrix.indptr, log.matrix.indptr[-1])),
        shape=(log.n_users + 1, log.n_items),
    )
    return ids, padded[np.where(at < 0, log.n_users, at)]


def _as_rows(
    log: Interactions, histories: Iterable[Iterable[object]] | sp.csr_array, on_unknown: str
) -> sp.csr_array:
    if sp.issparse(histories):
        return sp.csr_array(histories, dtype=np.float32)
    lists = list(histories)
    for one in lists:
        if isinstance(one, str) or not isinstance(one, Iterable):
            raise ConfigError(
                f"histories holds {one!r}; expected a list of histories, each a list of item ids."
            )
    rows, unknown = log.histories(lists)
    strangers = sorted({str(item) for items in unknown for item in items})
    if strangers:
        if on_unknown == "error":
            raise DataError(
                f"unknown items: {_some(strangers)}; the model knows {log.n_items:,}. "
                "Check the ids' spelling."
            )
        warnings.warn(f"unknown items are left out of the histories: {_some(strangers)}.", stacklevel=3)
    return rows


def _allowed(
    log: Interactions, only: Iterable[object] | None, exclude: Iterable[object] | None
) -> NDArray[np.bool_] | None:
    """Which items may appear; None when all may."""
    if only is None and exclude is None:
        return None
    within = [] if only is None else [_columns(log, "only", only)]
    return allowed_items(log.n_items, within, None if exclude is None else _columns(log, "exclude", exclude))


def _columns(log: Interactions, name: str, ids: Iterable[object]) -> NDArray[np.int64]:
    """Columns of the known ids of a filter; a warning about the others, an error if `only` holds none."""
    wanted = list(_listed(ids))
    at = log.items.positions(wanted)
    strangers = [wanted[place] for place in np.flatnonzero(at < 0)]
    if strangers and len(strangers) == len(wanted) and name == "only":
        raise DataError(f"none of the items in only= is known to the model: {_some(strangers)}.")
    if strangers:
        warnings.warn(f"unknown items in {name}= are ignored: {_some(strangers)}.", stacklevel=4)
    return at[at >= 0]


def _with_titles(log: Interactions, columns: dict[str, Any], items: NDArray[np.integer]) -> Rows:
    titles = log.titles
    if titles is not None:
        columns["title"] = titles.take(pa.array(items))
    return Rows(pa.table(columns))


def _some(names: list[Any]) -> str:
    shown = ", ".join(repr(name) for name in names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5:,} more"
