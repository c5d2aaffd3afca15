"""Columns become `Interactions`: unusable rows dropped and counted, ids numbered, repeats merged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from infrec.data import columns as col
from infrec.data.arrow import constant, from_numpy, to_numpy
from infrec.data.interactions import PARTS, Interactions, ReadReport
from infrec.data.parsing import is_text, texts, whole
from infrec.data.read_options import Duplicates, ReadOptions
from infrec.data.row_rules import Rules, at, counts
from infrec.data.sources import Source
from infrec.data.vocabulary import Vocabulary
from infrec.errors import DataError
from infrec.progress import Progress, silent

if TYPE_CHECKING:
    from numpy.typing import NDArray

REPEATED = "repeated (user, item) pair"


def assemble(
    source: Source, options: ReadOptions, items: Source | None = None, progress: Progress = silent
) -> Interactions:
    """Read a source into `Interactions`."""
    rules = Rules(source, options)
    roles, notes = rules.roles, rules.notes
    progress(f"reading {source.name}", 0, 3)
    table, unread = source.load(rules.wanted, plain=rules.plain)
    progress(f"reading {source.name}", 1, 3)
    if table.num_rows == 0 and not unread:
        raise DataError(f"{source.name} has columns but no rows; expected at least one interaction.")
    found = rules.apply(table, unread, from_text=source.from_text)
    rows, weight, time = found.rows, found.weight, found.time
    if not rows.keep.any():
        raise DataError(
            f"none of the {rows.total:,} rows of {source.name} can be used: {counts(rows.dropped)}."
        )
    table = table.select([roles[role] for role in ("title", "genres") if role in roles])  # the rest may go

    progress(f"reading {source.name}", 2, 3)
    kept = found.kept
    users, user_vocabulary = number(at(found.users, kept), found.user_ids)
    columns, item_vocabulary = number(at(found.items, kept), found.item_ids)
    shape = (len(user_vocabulary), len(item_vocabulary))
    info = own_info(table, roles, kept, columns, shape[1])
    if items is not None:
        info = item_info(items, item_vocabulary, options.item, notes)
    order = by_user_and_item(users, columns, shape)
    users, columns = users[order], columns[order]
    weight = None if weight is None else at(weight, kept)[order]
    matrix, first = merge(users, columns, weight, shape, options.duplicates)
    if repeats := len(order) - len(first):
        if options.duplicates == "first":
            rows.dropped[REPEATED] = repeats
        else:
            notes.append(f"{repeats:,} repeated (user, item) pairs were summed")
    refused = {reason: count for reason, count in rows.dropped.items() if reason != rules.unwanted}
    if options.strict and refused:
        raise DataError(
            f"{source.name}: strict reading refuses rows that would be dropped: {counts(refused)}."
        )
    parts = None
    if found.part is not None:
        label = at(found.part, kept)[order]
        parts = {}
        for place, name in enumerate(PARTS):
            inside = np.flatnonzero(label == place)
            own = None if weight is None else weight[inside]
            parts[name] = merge(users[inside], columns[inside], own, shape, options.duplicates)[0]
    notes += normal_form_notes(user_vocabulary, "user") + normal_form_notes(item_vocabulary, "item")
    progress(f"reading {source.name}", 3, 3)
    return Interactions(
        matrix=matrix,
        users=user_vocabulary,
        items=item_vocabulary,
        time=None if time is None else at(time, kept)[order[first]],
        item_info=info,
        parts=parts,
        report=ReadReport(source.name, rows.total, matrix.nnz, rows.dropped, tuple(notes)),
    )


def item_info(
    source: Source, vocabulary: Vocabulary, item: str | int | None = None, notes: list[str] | None = None
) -> pa.Table:
    """Facts from a table of items about each item of a vocabulary; null where there are none."""
    given = item if item in source.columns else None
    key = str(given) if given is not None else col.find("item", source.columns)
    if key is None:
        raise DataError(
            f"{source.name} has no column recognised as the item; it has {col.listed(source.columns)}."
        )
    col.once(source.columns, source.columns, source.name)
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
            readable = name in named or is_text(values.type)
            out[named.get(name) or name] = (texts(values) if readable else values).take(rows)
    if notes is not None:
        if silent_items := int((vocabulary.positions(listed.ids) < 0).sum()) if len(listed) else 0:
            notes.append(f"{silent_items:,} items of {source.name} have no interaction")
        if unknown := int((at < 0).sum()):
            notes.append(f"{unknown:,} items are not in {source.name}")
    return pa.table(out)


def number(codes: NDArray[np.integer], ids: pa.Array) -> tuple[NDArray[np.int32], Vocabulary]:
    """Codes renumbered to the sorted ids that really occur."""
    present = np.zeros(len(ids), bool)
    present[codes] = True
    order = to_numpy(pc.sort_indices(ids)).astype(np.int64)  # UTF-8 sorts by code point
    order = order[present[order]]
    to = np.zeros(len(ids), np.int32)
    to[order] = np.arange(len(order), dtype=np.int32)
    return to[codes], Vocabulary(ids.take(from_numpy(order)))


def by_user_and_item(
    users: NDArray[np.int32], items: NDArray[np.int32], shape: tuple[int, int]
) -> NDArray[np.integer]:
    """Rows by user, then item, then as they came: two stable counting sorts."""
    by_item = counting_order(items, shape[1])
    return by_item[counting_order(users[by_item], shape[0])]


def counting_order(codes: NDArray[np.int32], size: int) -> NDArray[np.integer]:
    """A stable argsort in linear time: transposing a matrix with one entry per row sorts its rows."""
    n = len(codes)
    if n < 2 or (codes[1:] >= codes[:-1]).all():
        return np.arange(n)
    one_per_row = sp.csr_array(
        (np.zeros(n, np.int8), codes, np.arange(n + 1, dtype=np.int32)), shape=(n, size)
    )
    return one_per_row.tocsc().indices


def merge(
    u: NDArray[np.int32],
    i: NDArray[np.int32],
    w: NDArray[np.float32] | None,
    shape: tuple[int, int],
    how: Duplicates,
) -> tuple[sp.csr_array, NDArray[np.intp]]:
    """Sorted pairs as canonical CSR, and where each stored pair occurred first."""
    first = np.flatnonzero(begins_pair(u, i))
    if how == "sum" and len(first) < len(u):
        with np.errstate(over="ignore"):
            data = (
                np.diff(np.append(first, len(u))).astype(np.float32)
                if w is None
                else np.add.reduceat(w, first)
            )
        if not np.isfinite(data).all():
            raise DataError(
                "the weights of a repeated (user, item) pair add up to more than 3.4e38; expected sums that "
                "float32 can hold: scale the weights down, or keep the first of each pair."
            )
    else:
        data = np.ones(len(first), np.float32) if w is None else w[first]
    return sorted_csr(u[first], i[first], data, shape), first


def begins_pair(user: NDArray[Any], item: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a sorted list of pairs comes to another pair."""
    new = np.ones(len(user), bool)
    new[1:] = (user[1:] != user[:-1]) | (item[1:] != item[:-1])
    return new


def sorted_csr(
    user: NDArray[Any], item: NDArray[Any], weight: NDArray[Any], shape: tuple[int, int]
) -> sp.csr_array:
    """Sorted pairs, each once, as canonical CSR."""
    indptr = np.zeros(shape[0] + 1, np.int32 if len(item) < 2**31 else np.int64)
    np.cumsum(np.bincount(user, minlength=shape[0]), out=indptr[1:])
    matrix = sp.csr_array((weight, item.astype(indptr.dtype, copy=False), indptr), shape=shape)
    matrix.has_sorted_indices = matrix.has_canonical_format = True
    return matrix


def own_info(
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
            out[role] = texts(whole(table.column(roles[role])).take(from_numpy(first)))
    return pa.table(out)


def normal_form_notes(vocabulary: Vocabulary, what: str) -> list[str]:
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
