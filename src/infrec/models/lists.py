"""From histories to lists of recommended items: filters, users nobody knows, empty histories.

`allowed_items`, `score_or_popularity` and `best_items` are the policy, on columns and with numpy alone: the
service answers by them too. `recommend` finds ids by Arrow and makes a table, for many users at a time.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from infrec.data import Vocabulary
from infrec.errors import ConfigError, DataError
from infrec.metrics.ranking import top_k

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from infrec.models.base import Recommender

    Columns = list[int] | NDArray[np.integer]

_BATCH_SCORES = 8 * 2**20  # scores that exist at a time
_MODES = ("popular", "skip", "error")


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
    *,
    exclude_seen: bool,
    allowed: NDArray[np.bool_] | None,
) -> NDArray[np.int64]:
    """Columns of the k best items of each history, best first; −1 where fewer may appear."""
    return top_k(scores, min(k, rows.shape[1]), exclude=rows if exclude_seen else None, only=allowed)


# ---- ids and tables -----------------------------------------------------------------------------
def recommend(
    model: Recommender,
    users: Iterable[object] | None,
    *,
    histories: Iterable[Iterable[object]] | sp.csr_array | None,
    k: int,
    exclude_seen: bool,
    only: Iterable[object] | None,
    exclude: Iterable[object] | None,
    on_unknown: str,
) -> pa.Table:
    """See `Recommender.recommend`."""
    if on_unknown not in _MODES:
        raise ConfigError(f"on_unknown is {on_unknown!r}; expected one of {', '.join(_MODES)}.")
    _check_length(k)
    if users is not None and histories is not None:
        raise ConfigError("both users and histories were given; expected one of them.")
    by_id = histories is None
    if histories is None:
        names, rows = _known_users(model, users, on_unknown)
    else:
        rows = _as_rows(model, histories, on_unknown)
        names = pa.array(np.arange(rows.shape[0], dtype=np.int64))
    if on_unknown == "skip":
        kept = np.flatnonzero(np.diff(rows.indptr))
        rows, names = rows[kept], names.take(pa.array(kept))
    allowed = _allowed(model, only, exclude)
    step = max(1, _BATCH_SCORES // max(1, rows.shape[1]))
    batches = [
        _batch(
            model,
            rows if step >= rows.shape[0] else rows[at : at + step],
            names[at : at + step] if by_id else None,
            at,
            k,
            exclude_seen,
            allowed,
        )
        for at in range(0, rows.shape[0], step)
    ]
    row, item, rank, score, known = (
        np.concatenate([batch[column] for batch in batches]) if batches else np.empty(0, np.int64)
        for column in range(5)
    )
    columns = {
        "user": names.take(pa.array(row)),
        "item": model.log.items.take(item),
        "rank": pa.array(rank, pa.int32()),
        "score": pa.array(score, pa.float32()),
        "source": pa.DictionaryArray.from_arrays(pa.array(1 - known, pa.int8()), ["model", "popular"]).cast(
            pa.string()
        ),
    }
    return _with_titles(model, columns, item)


def similar(model: Recommender, similarity: Callable[[int], NDArray[Any]], item: object, k: int) -> pa.Table:
    """See `Recommender.similar`."""
    _check_length(k)
    (at,) = model.log.items.positions([item])
    if at < 0:
        raise DataError(f"the item {item!r} is not among the {model.log.n_items:,} items of the model.")
    values = np.asarray(similarity(int(at)), dtype=np.float32)[None, :]
    allowed = np.ones(values.shape[1], bool)
    allowed[at] = False
    best = top_k(values, min(k, values.shape[1]), only=allowed)[0]
    best = best[best >= 0]
    columns = {
        "item": model.log.items.take(best),
        "rank": pa.array(np.arange(1, len(best) + 1), pa.int32()),
        "score": pa.array(values[0, best], pa.float32()),
    }
    return _with_titles(model, columns, best)


def _check_length(k: object) -> None:
    if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
        raise ConfigError(f"k is {k!r}; expected a list length of 1 or more.")


def _listed(ids: Any) -> Iterable[object]:
    """Ids as they were given; one alone as a list of it."""
    return [ids] if isinstance(ids, str) or not isinstance(ids, Iterable) else ids


def _batch(
    model: Recommender,
    rows: sp.csr_array,
    users: pa.Array | None,
    first: int,
    k: int,
    exclude_seen: bool,
    allowed: NDArray[np.bool_] | None,
) -> tuple[NDArray[Any], ...]:
    """Row number, item, rank, score and whether the model made it, one entry per recommendation."""

    def score(some: sp.csr_array, places: NDArray[np.intp]) -> NDArray[np.float32]:
        return model.score(some, users=None if users is None else users.take(pa.array(places)))

    scores = score_or_popularity(rows, lambda: model.popularity, score, step=rows.shape[0])
    best = best_items(scores, rows, k, exclude_seen=exclude_seen, allowed=allowed)
    row, place = np.nonzero(best >= 0)
    item = best[row, place]
    known = (np.diff(rows.indptr) > 0).astype(np.int8)
    return row + first, item, place + 1, scores[row, item], known[row]


def _known_users(
    model: Recommender, users: Iterable[object] | None, on_unknown: str
) -> tuple[pa.Array, sp.csr_array]:
    log = model.log
    if users is None:
        return log.users.ids, log.matrix
    asked = Vocabulary.of(_listed(users)).ids
    at = log.users.positions(asked)
    unknown = np.flatnonzero(at < 0)
    if len(unknown):
        names = _some(asked.take(pa.array(unknown)).to_pylist())
        if on_unknown == "error":
            raise DataError(
                f"unknown users: {names}; the model knows {log.n_users:,}. Check the ids' spelling."
            )
        what = "get the popular items" if on_unknown == "popular" else "are skipped"
        warnings.warn(f"unknown users {what}: {names}.", stacklevel=4)
    # A row of zeros past the last one stands for everybody unknown.
    padded = sp.csr_array(
        (log.matrix.data, log.matrix.indices, np.append(log.matrix.indptr, log.matrix.indptr[-1])),
        shape=(log.n_users + 1, log.n_items),
    )
    return asked, padded[np.where(at < 0, log.n_users, at)]


def _as_rows(
    model: Recommender, histories: Iterable[Iterable[object]] | sp.csr_array, on_unknown: str
) -> sp.csr_array:
    if sp.issparse(histories):
        return sp.csr_array(histories, dtype=np.float32)
    lists = list(histories)
    for one in lists:
        if isinstance(one, str) or not isinstance(one, Iterable):
            raise ConfigError(
                f"histories holds {one!r}; expected a list of histories, each a list of item ids."
            )
    rows, unknown = model.log.histories(lists)
    strangers = sorted({str(item) for items in unknown for item in items})
    if strangers:
        if on_unknown == "error":
            raise DataError(
                f"unknown items: {_some(strangers)}; the model knows {model.log.n_items:,}. "
                "Check the ids' spelling."
            )
        warnings.warn(f"unknown items are left out of the histories: {_some(strangers)}.", stacklevel=4)
    return rows


def _allowed(
    model: Recommender, only: Iterable[object] | None, exclude: Iterable[object] | None
) -> NDArray[np.bool_] | None:
    """Which items may appear; None when all may."""
    if only is None and exclude is None:
        return None
    within = [] if only is None else [_columns(model, "only", only)]
    return allowed_items(
        model.log.n_items, within, None if exclude is None else _columns(model, "exclude", exclude)
    )


def _columns(model: Recommender, name: str, ids: Iterable[object]) -> NDArray[np.int64]:
    """Columns of the known ids of a filter; a warning about the others, an error if `only` holds none."""
    asked = list(_listed(ids))
    at = model.log.items.positions(asked)
    strangers = [asked[place] for place in np.flatnonzero(at < 0)]
    if strangers and len(strangers) == len(asked) and name == "only":
        raise DataError(f"none of the items in only= is known to the model: {_some(strangers)}.")
    if strangers:
        warnings.warn(f"unknown items in {name}= are ignored: {_some(strangers)}.", stacklevel=5)
    return at[at >= 0]


def _with_titles(model: Recommender, columns: dict[str, Any], items: NDArray[np.integer]) -> pa.Table:
    titles = model.log.titles
    if titles is not None:
        columns["title"] = titles.take(pa.array(items))
    return pa.table(columns)


def _some(names: list[Any], limit: int = 5) -> str:
    shown = ", ".join(repr(name) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit:,} more"
