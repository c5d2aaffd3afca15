"""Columns become `Interactions`: unusable rows dropped and counted, ids numbered, repeats merged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from infrec.data import columns as col
from infrec.data.arrow import constant, from_numpy, to_numpy
from infrec.data.interactions import PARTS, Duplicates, Interactions, ReadReport
from infrec.data.sources import Source
from infrec.data.values import encode, is_text, numbers, times, whole
from infrec.data.vocabulary import Vocabulary
from infrec.errors import ConfigError, DataError
from infrec.progress import Progress, silent

if TYPE_CHECKING:
    from numpy.typing import NDArray

REPEATED = "repeated (user, item) pair"
_PART_NAMES = {
    "train": 0,
    "training": 0,
    "0": 0,
    "val": 1,
    "valid": 1,
    "validation": 1,
    "dev": 1,
    "1": 1,
    "test": 2,
    "testing": 2,
    "2": 2,
}


@dataclass(frozen=True)
class Options:
    """How a source is to be read; see `infrec.data.read.read`."""

    user: str | int | None = None
    item: str | int | None = None
    rating: str | int | None = None
    time: str | int | None = None
    weight: str | int | None = None
    positive: str | None = None
    duplicates: Duplicates = "first"
    strict: bool = False

    def __post_init__(self) -> None:
        if self.duplicates not in ("first", "sum"):
            raise ConfigError(f"duplicates is {self.duplicates!r}; expected 'first' or 'sum'.")

    @property
    def names(self) -> dict[str, str | int | None]:
        return {role: getattr(self, role) for role in ("user", "item", "rating", "time", "weight")}


class _Rows:
    """Which rows are still in, and why the others are not."""

    def __init__(self, n: int, unread: Mapping[str, int]) -> None:
        self.total = n + sum(unread.values())
        self.dropped = dict(unread)
        self.keep = np.ones(n, bool)

    def drop(self, where: NDArray[np.bool_], reason: str) -> None:
        where = where & self.keep
        if count := int(np.count_nonzero(where)):
            self.dropped[reason] = self.dropped.get(reason, 0) + count
            self.keep[where] = False


def assemble(
    source: Source, options: Options, items: Source | None = None, progress: Progress = silent
) -> Interactions:
    """Read a source into `Interactions`."""
    condition = col.Condition.parse(options.positive) if options.positive is not None else None
    roles = col.roles(source.columns, options.names, source.name)
    if col.normalised(roles.get("title", "")) == "name":  # of a person, more likely
        del roles["title"]
    notes = list(source.notes)
    if col.normalised(roles.get("time", "")) == "timerank":
        notes.append("time is each user's own order (time_rank), not comparable between users")
    tested = _tested(condition, roles, source)
    progress(f"reading {source.name}", 0, 3)
    wanted = dict.fromkeys([*roles.values(), *([tested] if tested else [])])
    table, unread = source.load(list(wanted), plain=[roles["time"]] if "time" in roles else [])
    progress(f"reading {source.name}", 1, 3)
    if table.num_rows == 0 and not unread:
        raise DataError(f"{source.name} has columns but no rows; expected at least one interaction.")

    rows = _Rows(table.num_rows, unread)
    users, user_ids = encode(table.column(roles["user"]), from_text=source.from_text, what="user")
    found, item_ids = encode(table.column(roles["item"]), from_text=source.from_text, what="item")
    rows.drop(users < 0, "no user id")
    rows.drop(found < 0, "no item id")
    if "rating" in roles and _may_be_odd(table.column(roles["rating"])):
        rows.drop(
            ~np.isfinite(numbers(table.column(roles["rating"]), "rating")), "rating is not a finite number"
        )
    weight = _weights(table.column(roles["weight"]), rows) if "weight" in roles else None
    part = _parts(table.column(roles["split"]), rows, notes) if "split" in roles else None
    time = _times(table.column(roles["time"]), rows, notes, options) if "time" in roles else None
    unwanted = f"not {condition}"
    if condition is not None and tested is not None:
        rows.drop(~condition.holds(numbers(table.column(tested), tested)), unwanted)
    if not rows.keep.any():
        raise DataError(
            f"none of the {rows.total:,} rows of {source.name} can be used: {_counts(rows.dropped)}."
        )
    table = table.select([roles[role] for role in ("title", "genres") if role in roles])  # the rest may go

    progress(f"reading {source.name}", 2, 3)
    kept = None if rows.keep.all() else np.flatnonzero(rows.keep)
    users, user_vocabulary = _number(_at(users, kept), user_ids)
    found, item_vocabulary = _number(_at(found, kept), item_ids)
    shape = (len(user_vocabulary), len(item_vocabulary))
    info = _own_info(table, roles, kept, found, shape[1])
    if items is not None:
        info = item_info(items, item_vocabulary, options.item, notes)
    order = _order(users, found, shape)
    users, found = users[order], found[order]
    weight = None if weight is None else _at(weight, kept)[order]
    matrix, first = _merge(users, found, weight, shape, options.duplicates)
    if repeats := len(order) - len(first):
        if options.duplicates == "first":
            rows.dropped[REPEATED] = repeats
        else:
            notes.append(f"{repeats:,} repeated (user, item) pairs were summed")
    refused = {reason: count for reason, count in rows.dropped.items() if reason != unwanted}
    if options.strict and refused:
        raise DataError(
            f"{source.name}: strict reading refuses rows that would be dropped: {_counts(refused)}."
        )
    parts = None
    if part is not None:
        label = _at(part, kept)[order]
        parts = {}
        for number, name in enumerate(PARTS):
            at = np.flatnonzero(label == number)
            own = None if weight is None else weight[at]
            parts[name] = _merge(users[at], found[at], own, shape, options.duplicates)[0]
    notes += _normal_form_notes(user_vocabulary, "user") + _normal_form_notes(item_vocabulary, "item")
    progress(f"reading {source.name}", 3, 3)
    return Interactions(
        matrix=matrix,
        users=user_vocabulary,
        items=item_vocabulary,
        time=None if time is None else _at(time, kept)[order[first]],
        item_info=info,
        parts=parts,
        report=ReadReport(source.name, rows.total, matrix.nnz, rows.dropped, tuple(notes)),
    )


def item_info(
    source: Source, vocabulary: Vocabulary, item: str | int | None = None, notes: list[str] | None = None
) -> pa.Table:
    """What a table of items says about each item of a vocabulary; null where it says nothing."""
    given = item if item in source.columns else None
    key = str(given) if given is not None else col.find("item", source.columns)
    if key is None:
        raise DataError(
            f"{source.name} has no column recognised as the item; it has {col.listed(source.columns)}."
        )
    table, _ = source.load(source.columns, plain=source.columns)
    listed = Vocabulary.of(whole(table.column(key)))
    if len(listed):
        at = listed.positions(vocabulary.ids)
    else:
        at = np.full(len(vocabulary), -1, np.int64)
    known = pc.greater_equal(from_numpy(at), constant(0, pa.int64()))
    rows = pc.if_else(known, from_numpy(at), pa.nulls(1, pa.int64())[0])
    named = {col.find(role, source.columns): role for role in ("title", "genres")}
    out: dict[str, pa.Array] = {}
    for name in source.columns:
        if name != key:
            values = whole(table.column(name))
            values = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
            out[named.get(name) or name] = (
                values.cast(pa.string()) if is_text(values.type) else values
            ).take(rows)
    if notes is not None:
        if silent_items := int((vocabulary.positions(listed.ids) < 0).sum()) if len(listed) else 0:
            notes.append(f"{silent_items:,} items of {source.name} have no interaction")
        if unknown := int((at < 0).sum()):
            notes.append(f"{unknown:,} items are not in {source.name}")
    return pa.table(out)


def _tested(condition: col.Condition | None, roles: Mapping[str, str], source: Source) -> str | None:
    """The column that `positive` compares: a column of the file, or a role."""
    if condition is None:
        return None
    if condition.column not in source.columns and condition.column in roles:
        return roles[condition.column]
    try:
        return col.named(condition.column, "condition", source.columns, source.name)
    except DataError:
        raise DataError(
            f"{source.name} has no column {condition.column!r} for positive={str(condition)!r}; "
            f"it has {col.listed(source.columns)}."
        ) from None


def _may_be_odd(column: pa.ChunkedArray) -> bool:
    """Whether a column can hold anything but finite numbers."""
    return bool(column.null_count) or not pa.types.is_integer(column.type)


def _weights(column: pa.ChunkedArray, rows: _Rows) -> NDArray[np.float32]:
    weight = numbers(column, "weight")
    rows.drop(~(np.isfinite(weight) & (weight >= 0)), "weight is negative or not a finite number")
    rows.drop(weight == 0, "weight is 0")
    return np.where(rows.keep, weight, 0).astype(np.float32)


def _times(
    column: pa.ChunkedArray, rows: _Rows, notes: list[str], options: Options
) -> NDArray[np.int64] | None:
    time, unreadable = times(column)
    if unreadable is None:
        return time
    if unreadable.mean() > 0.5:  # not a column of times, whatever its name
        if options.time is not None:
            raise DataError(
                f"column {options.time!r} holds no times; expected numbers or ISO dates such as 2024-05-17."
            )
        notes.append("the column of times holds none that can be read and was ignored")
        return None
    rows.drop(unreadable, "time cannot be read")
    return time


def _parts(column: pa.ChunkedArray, rows: _Rows, notes: list[str]) -> NDArray[np.int8] | None:
    """0, 1, 2 for train, val, test. None when the column is not about a split."""
    array = whole(column)
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    labels = [str(value).strip().lower() for value in array.dictionary.to_pylist()]
    table = np.array([*(_PART_NAMES.get(label, -1) for label in labels), -1], np.int8)
    if (table < 0).all():
        notes.append("the column 'split' names neither train, val nor test and was ignored")
        return None
    part: NDArray[np.int8] = table[to_numpy(array.indices.cast(pa.int32()), len(labels))]
    rows.drop(part < 0, "split is none of train, val, test")
    return part


def _at(values: NDArray[Any], kept: NDArray[np.intp] | None) -> NDArray[Any]:
    return values if kept is None else values[kept]


def _number(codes: NDArray[np.integer], ids: pa.Array) -> tuple[NDArray[np.int32], Vocabulary]:
    """Codes renumbered to the sorted ids that really occur."""
    present = np.zeros(len(ids), bool)
    present[codes] = True
    order = to_numpy(pc.sort_indices(ids)).astype(np.int64)  # UTF-8 sorts by code point
    order = order[present[order]]
    to = np.zeros(len(ids), np.int32)
    to[order] = np.arange(len(order), dtype=np.int32)
    return to[codes], Vocabulary(ids.take(from_numpy(order)))


def _order(users: NDArray[np.int32], items: NDArray[np.int32], shape: tuple[int, int]) -> NDArray[np.integer]:
    """Rows by user, then item, then as they came: two stable counting sorts."""
    by_item = _counting_order(items, shape[1])
    return by_item[_counting_order(users[by_item], shape[0])]


def _counting_order(codes: NDArray[np.int32], size: int) -> NDArray[np.integer]:
    """A stable argsort in linear time: transposing a matrix with one entry per row sorts its rows."""
    n = len(codes)
    if n < 2 or (codes[1:] >= codes[:-1]).all():
        return np.arange(n)
    one_per_row = sp.csr_array(
        (np.zeros(n, np.int8), codes, np.arange(n + 1, dtype=np.int32)), shape=(n, size)
    )
    return one_per_row.tocsc().indices


def _merge(
    u: NDArray[np.int32],
    i: NDArray[np.int32],
    w: NDArray[np.float32] | None,
    shape: tuple[int, int],
    how: Duplicates,
) -> tuple[sp.csr_array, NDArray[np.intp]]:
    """Sorted pairs as canonical CSR, and where each stored pair occurred first."""
    new = np.ones(len(u), bool)
    new[1:] = (u[1:] != u[:-1]) | (i[1:] != i[:-1])
    first = np.flatnonzero(new)
    if how == "sum" and len(first) < len(u):
        data = (
            np.diff(np.append(first, len(u))).astype(np.float32) if w is None else np.add.reduceat(w, first)
        )
    else:
        data = np.ones(len(first), np.float32) if w is None else w[first]
    indptr = np.zeros(shape[0] + 1, np.int32 if len(first) < 2**31 else np.int64)
    np.cumsum(np.bincount(u[first], minlength=shape[0]), out=indptr[1:])
    matrix = sp.csr_array((data, i[first].astype(indptr.dtype), indptr), shape=shape)
    matrix.has_sorted_indices = matrix.has_canonical_format = True
    return matrix, first


def _own_info(
    table: pa.Table,
    roles: Mapping[str, str],
    kept: NDArray[np.intp] | None,
    items: NDArray[np.int32],
    n_items: int,
) -> pa.Table | None:
    """Titles and genres that stand in the log itself: those of each item's first row."""
    if not table.num_columns:
        return None
    first = np.zeros(n_items, np.int64)
    first[items[::-1]] = np.arange(len(items))[::-1]  # the last write wins: the first row
    first = first if kept is None else kept[first]
    out = {}
    for role in ("title", "genres"):
        if role in roles:
            values = whole(table.column(roles[role])).take(from_numpy(first))
            plain = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
            out[role] = plain.cast(pa.string())
    return pa.table(out)


def _normal_form_notes(vocabulary: Vocabulary, what: str) -> list[str]:
    """Two ids that look the same are two ids; the reader says so."""
    if not is_text(vocabulary.ids.type):
        return []
    unusual = vocabulary.ids.filter(pc.invert(pc.string_is_ascii(vocabulary.ids)))
    if not len(unusual):
        return []
    alike = len(unusual) - len(pc.unique(pc.utf8_normalize(unusual, form="NFC")))
    return (
        [f"{alike:,} {what} ids differ from another only in Unicode normal form; kept apart"] if alike else []
    )


def _counts(dropped: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} × {reason}" for reason, count in dropped.items())
