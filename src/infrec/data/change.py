"""A log that changes: interactions are added, users leave, or lose their ids.

New users come after those known before; new items stand where they would in a log that was read at once, so
that ties between items are broken alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from infrec.data.columns import Duplicates
from infrec.data.interactions import Interactions, canonical
from infrec.data.vocabulary import Vocabulary, from_numpy, nullable, to_numpy
from infrec.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Change:
    """A log before and after.

    Args:
        before, after: Both logs.
        rows: For each user of `after` their row in `before`; −1 for a new user.
        columns: For each item of `before` its column in `after`.
        touched: For each user of `after` whether their interactions are others than before.
    """

    before: Interactions
    after: Interactions
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    touched: NDArray[np.bool_]

    @property
    def has_new_items(self) -> bool:
        """Whether `after` has items that `before` lacks."""
        return self.after.n_items > self.before.n_items

    @property
    def taken_out(self) -> NDArray[np.int64]:
        """Rows of `before` that `after` has no more, or not as they were; ascending."""
        stays = np.zeros(self.before.n_users, bool)
        stays[self.rows[~self.touched]] = True
        return np.flatnonzero(~stays)

    @property
    def changed(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows in `before` and in `after` of users whom both have, with other interactions."""
        after = np.flatnonzero(self.touched & (self.rows >= 0))
        return self.rows[after], after

    @property
    def put_in(self) -> NDArray[np.int64]:
        """Rows of `after` that `before` did not have, or not as they are; ascending."""
        return np.flatnonzero(self.touched)


def append(log: Interactions, more: Interactions, duplicates: Duplicates = "first") -> Change:
    """The log with more interactions: of its users and of others, with its items and others; without times.

    Args:
        log: What is known.
        more: What is added.
        duplicates: A pair of user and item that both have keeps its weight ("first"), or weights are added
            ("sum").
    """
    users, items = _same_kind(log.users, more.users, "user"), _same_kind(log.items, more.items, "item")
    rows = log.users.positions(users.ids)
    rows[rows < 0] = log.n_users + np.arange(np.count_nonzero(rows < 0))
    every_user = _together(log.users, users)
    every_item = _in_order(log.items, _together(log.items, items))
    columns = every_item.positions(log.items.ids)
    shape = (len(every_user), len(every_item))
    known = _placed(log.matrix, np.arange(log.n_users), columns, shape)
    added = _placed(more.matrix, rows, every_item.positions(items.ids), shape)
    fresh = _without(added, known)
    matrix = known + fresh if duplicates == "first" else known + added
    touched = np.zeros(shape[0], bool)
    touched[np.flatnonzero(np.diff((fresh if duplicates == "first" else added).indptr))] = True
    touched[log.n_users :] = True
    after = Interactions(
        canonical(matrix),
        every_user,
        every_item,
        item_info=_item_info(log, more, every_item),
    )
    said = [one.dislikes for one in (log, more) if one.dislikes is not None]
    if said:
        dislikes = sp.csr_array(shape, dtype=np.float32)
        for one in said:
            at = np.arange(log.n_users) if one is log.dislikes else rows, every_item.positions(one.items.ids)
            dislikes = dislikes.maximum(_placed(one.matrix, *at, shape))
        after = replace(after, dislikes=after.with_matrix(canonical(dislikes)).beside(after))
    before = np.full(shape[0], -1)
    before[: log.n_users] = np.arange(log.n_users)
    return Change(log, after, before, columns, touched)


def remove(log: Interactions, users: Iterable[object]) -> Change:
    """The log without these users; every item stays.

    Args:
        log: The log.
        users: Their ids; all of them must be there.
    """
    ids = list(users)
    gone = log.users.positions(ids)
    if (gone < 0).any():
        missing = [str(one) for one, at in zip(ids, gone, strict=True) if at < 0]
        raise DataError(
            f"the model does not know the user {missing[0]!r}; expected somebody to forget among its "
            f"{log.n_users:,} users, such as {log.users[0]!r}."
            if len(missing) == 1
            else f"the model does not know {len(missing)} of the users to forget, such as {missing[0]!r}; "
            f"expected some of its {log.n_users:,} users."
        )
    rows = np.setdiff1d(np.arange(log.n_users), gone)
    after = log.select_users(rows)
    if not after.n_interactions:
        raise DataError("no interactions are left without these users; expected at least one.")
    return Change(log, after, rows, np.arange(log.n_items), np.zeros(len(rows), bool))


def without_user_ids(log: Interactions) -> Interactions:
    """The histories of a log, with names such as `unnamed 17` in place of the users' ids.

    Users stand in the order of their histories: in that of their ids, a list of all ids would tell whose row
    is whose. Histories stay as they are, and somebody who knows a part of one may still recognise it.

    Args:
        log: The log with its ids.
    """
    matrix = log.matrix
    # Big-endian bytes compare as the numbers do; equal sets of items are told apart by their weights.
    items, weights = matrix.indices.astype(">i4"), matrix.data.astype(">f4")
    bounds = zip(matrix.indptr[:-1].tolist(), matrix.indptr[1:].tolist(), strict=True)
    histories = [(items[start:end].tobytes(), weights[start:end].tobytes()) for start, end in bounds]
    order = np.array(sorted(range(len(histories)), key=histories.__getitem__), np.int64)
    width = len(str(log.n_users))
    names = [f"unnamed {number:0{width}}" for number in range(1, log.n_users + 1)]
    other, users = log.select_users(order), Vocabulary.of(names)
    said = other.dislikes and replace(other.dislikes, users=users)
    return replace(other, users=users, dislikes=said)


def _same_kind(known: Vocabulary, new: Vocabulary, what: str) -> Vocabulary:
    """New ids in the type of the known ones; refuses those of another type."""
    if known.ids.type == new.ids.type or not len(new) or not len(known):
        return new
    as_texts = Vocabulary(new.ids.cast(pa.string()))
    if known.ids.type == pa.string() and (known.positions(as_texts.ids) >= 0).any():
        return as_texts  # a few ids, which happen to be whole numbers
    kinds = ["texts" if ids.ids.type == pa.string() else "whole numbers" for ids in (new, known)]
    raise DataError(
        f"the new {what} ids are {kinds[0]}, such as {new[0]!r}, and those of the model {kinds[1]}, such as "
        f"{known[0]!r}; expected one kind: give the new data the ids that the model was fitted with."
    )


def _together(known: Vocabulary, new: Vocabulary) -> Vocabulary:
    """The known ids, then the others."""
    others = np.flatnonzero(known.positions(new.ids) < 0)
    if not len(others):
        return known
    return Vocabulary(pa.concat_arrays([known.ids, new.ids.take(from_numpy(others)).cast(known.ids.type)]))


def _in_order(known: Vocabulary, every: Vocabulary) -> Vocabulary:
    """All ids sorted, where the known ones are; else as they are."""
    if len(every) == len(known) or (np.diff(to_numpy(pc.sort_indices(known.ids)).astype(int)) != 1).any():
        return every
    return Vocabulary(every.ids.take(pc.sort_indices(every.ids)))


def _placed(
    matrix: sp.csr_array, rows: NDArray[np.int64], columns: NDArray[np.int64], shape: tuple[int, int]
) -> sp.csr_array:
    """A matrix's entries with their rows and columns elsewhere, in a matrix of another shape."""
    if (rows == np.arange(len(rows))).all() and (columns == np.arange(len(columns))).all():
        ends = np.pad(matrix.indptr, (0, shape[0] - len(rows)), mode="edge")
        return sp.csr_array((matrix.data, matrix.indices, ends), shape=shape)
    coo = matrix.tocoo()
    placed = sp.csr_array((coo.data, (rows[coo.row], columns[coo.col])), shape=shape)
    placed.sort_indices()
    return placed


def _without(added: sp.csr_array, known: sp.csr_array) -> sp.csr_array:
    """The added entries where nothing is known."""
    some, width = np.flatnonzero(np.diff(added.indptr)), added.shape[1]
    there, coo = known[some].tocoo(), added.tocoo()
    keys = np.append(some[there.row].astype(np.int64) * width + there.col, -1)  # ascending, but for the last
    wanted = coo.row * np.int64(width) + coo.col
    fresh = keys[np.searchsorted(keys[:-1], wanted)] != wanted
    return sp.csr_array((coo.data[fresh], (coo.row[fresh], coo.col[fresh])), shape=added.shape)


def _item_info(log: Interactions, more: Interactions, items: Vocabulary) -> pa.Table | None:
    """Facts about each item: from the log, and of its new items from what is added."""
    sources = [(one.items, one.item_info) for one in (log, more) if one.item_info is not None]
    columns: dict[str, pa.Array] = {}
    for known, info in sources:
        rows = nullable(known.positions(items.ids))
        for name in info.column_names:
            taken = info[name].combine_chunks().take(rows)
            if name in columns:
                taken = pc.coalesce(columns[name], taken.cast(columns[name].type))
            columns[name] = taken
    return pa.table(columns) if sources else None
