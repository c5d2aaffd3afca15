"""Rows of a source become the fields of `Interactions`: ids numbered, rows sorted, repeated pairs merged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from infrec.data import columns as col
from infrec.data.columns import DEFAULTS, Duplicates, ReadOptions
from infrec.data.parsing import decoded, is_text, texts, whole, without_entities
from infrec.data.row_rules import Rules
from infrec.data.sources import Source
from infrec.data.vocabulary import Vocabulary, from_numpy, nullable, to_numpy
from infrec.errors import DataError
from infrec.progress import Progress, silent

if TYPE_CHECKING:
    from numpy.typing import NDArray

PARTS = ("train", "val", "test")


@dataclass(frozen=True)
class ReadReport:
    """Report of a reader: `rows` read, `kept` as interactions, and why the others were not.

    Args:
        source: Name of the file or frame.
        rows: How many rows it had.
        kept: How many of them became interactions.
        dropped: How many rows were left out, by reason.
        notes: Sentences about choices that the reader made by itself.
    """

    source: str = ""
    rows: int = 0
    kept: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)  # reason → count
    notes: tuple[str, ...] = ()


class Fields(TypedDict):
    """Arguments of `Interactions`, as a reader gives them."""

    matrix: sp.csr_array
    users: Vocabulary
    items: Vocabulary
    time: NDArray[np.int64] | None
    item_info: pa.Table | None
    parts: Mapping[str, sp.csr_array] | None
    report: ReadReport | None
    dislikes: Fields | None


def assemble(
    source: Source, options: ReadOptions, items: Source | None = None, progress: Progress = silent
) -> Fields:
    """Read a source at once; what is known about `items` beside it is joined.

    Users and items with fewer interactions than the options ask for are left out.
    """
    rules, stage = Rules(source, options), f"reading {source.name}"
    progress(stage, 0, 3)
    table, ragged = next(source.tables(rules.wanted, rules.plain))
    progress(stage, 1, 3)
    if not table.num_rows and not ragged:
        raise rules.unusable()
    rows = rules.apply(table, ragged, from_text=source.from_text)
    disliked = rows.others.get("dislike", np.zeros(len(rows.users), bool))
    if disliked.all():
        raise rules.unusable()
    del table  # but for titles and genres
    progress(stage, 2, 3)
    users, user_ids = number(rows.users, rows.user_ids)
    columns, item_ids = number(rows.items, rows.item_ids)
    if options.new_items:
        columns, item_ids = _among_all(columns, item_ids, items, options, rules)
    shape = (len(user_ids), len(item_ids))
    if items is None:
        info = rows.info(columns, shape[1])
    else:
        info = item_info(items, item_ids, options, rules.notes, item=rules.roles["item"])
    liked = slice(None) if rules.dislike is None else np.flatnonzero(~disliked)
    others = {name: values[liked] for name, values in rows.others.items()}
    matrix, time, parts, repeats = _merged(others, users[liked], columns[liked], shape, options.duplicates)
    rules.settle(repeats, user_ids, item_ids)
    dislikes = None
    if rules.dislike is not None:
        others = {name: values[disliked] for name, values in rows.others.items() if name != "weight"}
        said, when, of, _ = _merged(others, users[disliked], columns[disliked], shape, "first")
        dislikes = Fields(
            matrix=said,
            users=user_ids,
            items=item_ids,
            time=when,
            item_info=None,
            parts=of,
            report=None,
            dislikes=None,
        )
        rules.notes.append(f"{int(disliked.sum()):,} rows are dislikes ({rules.dislike})")
    progress(stage, 3, 3)
    fields: Fields = {
        "matrix": matrix,
        "users": user_ids,
        "items": item_ids,
        "time": time,
        "item_info": info,
        "parts": parts,
        "report": ReadReport(source.name, rules.total, matrix.nnz, rules.dropped, tuple(rules.notes)),
        "dislikes": dislikes,
    }
    return cut_to_core(fields, options)


def _merged(
    others: Mapping[str, NDArray[Any]],
    users: NDArray[np.int32],
    columns: NDArray[np.int32],
    shape: tuple[int, int],
    how: Duplicates,
) -> tuple[sp.csr_array, NDArray[np.int64] | None, dict[str, sp.csr_array] | None, int]:
    """Pairs of user and item as a matrix, their times, their parts, and how many were repeats."""
    order = by_user_and_item(users, columns, shape)
    users, columns = users[order], columns[order]
    weight, part = (others[name][order] if name in others else None for name in ("weight", "part"))
    matrix, first = merge(users, columns, weight, shape, how)
    parts = None
    if part is not None:
        parts = {}
        for place, name in enumerate(PARTS):
            inside = np.flatnonzero(part == place)
            own = None if weight is None else weight[inside]
            parts[name] = merge(users[inside], columns[inside], own, shape, how)[0]
    time = others["time"][order[first]] if "time" in others else None
    return matrix, time, parts, len(order) - len(first)


def _among_all(
    columns: NDArray[np.int32], known: Vocabulary, items: Source | None, options: ReadOptions, rules: Rules
) -> tuple[NDArray[np.int32], Vocabulary]:
    """Columns of rows among all items, those of the table about items too, and these items in order."""
    if items is None:
        raise DataError(
            f"{rules.source.name} has no table about items, so nobody knows of new ones; expected one "
            "(items=; `--items FILE`)."
        )
    key, _ = options.key_and_title(
        items.columns, items.name, rules.roles["item"], has_header=items.has_header
    )
    table, _ = next(items.tables([key], plain=[key]))
    listed = Vocabulary.of(whole(table.column(key)).drop_null().unique())
    unknown = np.flatnonzero(known.positions(listed.ids) < 0)
    try:
        ids = pa.concat_arrays([known.ids, listed.take(unknown).cast(known.ids.type)])
    except pa.ArrowInvalid:
        raise DataError(
            f"the item ids of {rules.source.name} are whole numbers, and not all of those of {items.name} "
            f"(column {key!r}); expected one kind in both."
        ) from None
    every = Vocabulary(ids.take(pc.sort_indices(ids)))
    return every.positions(known.ids).astype(np.int32)[columns], every


def item_info(
    source: Source,
    vocabulary: Vocabulary,
    options: ReadOptions = DEFAULTS,
    notes: list[str] | None = None,
    *,
    item: str | None = None,
) -> pa.Table:
    """Facts from a table of items about each item of a vocabulary; null where there are none.

    item: the log's column of item ids, whose name that of the table may have too.
    """
    key, title = options.key_and_title(source.columns, source.name, item, has_header=source.has_header)
    col.once(source.columns, source.columns, source.name)
    table, ragged = next(source.tables(source.columns, plain=source.columns))
    listed = Vocabulary.of(whole(table.column(key)))
    at = listed.positions(vocabulary.ids) if len(listed) else np.full(len(vocabulary), -1, np.int64)
    rows = nullable(at)
    roles = {title: "title", col.find("genres", source.columns): "genres"}
    out: dict[str, pa.Array] = {}
    for name in source.columns:
        if name != key:
            values = decoded(whole(table.column(name)))
            readable = name in roles or is_text(values.type)
            taken = (texts(values) if readable else values).take(rows)
            out[roles.get(name) or name] = without_entities(taken) if readable else taken
    if notes is not None:
        if source.encoding is not None:
            notes.append(f"{source.name} is not UTF-8 and was read as {source.encoding}")
        if ragged:
            s, were = ("", "was") if ragged == 1 else ("s", "were")
            notes.append(
                f"{ragged:,} row{s} of {source.name} with too many or too few fields {were} left out"
            )
        if silent_items := int((vocabulary.positions(listed.ids) < 0).sum()) if len(listed) else 0:
            s, have = ("", "has") if silent_items == 1 else ("s", "have")
            notes.append(f"{silent_items:,} item{s} of {source.name} {have} no interaction")
        if unknown := int((at < 0).sum()):
            other = next((column for column in source.columns if column != key), None)
            advice = ""
            if unknown == len(at) and other is not None:
                advice = f"; its ids were looked for in {key!r}, look elsewhere with `items_id={other!r}`"
            s, are = ("", "is") if unknown == 1 else ("s", "are")
            notes.append(f"{unknown:,} item{s} {are} not in {source.name}{advice}")
    return pa.table(out)


def number(codes: NDArray[np.integer], ids: pa.Array) -> tuple[NDArray[np.int32], Vocabulary]:
    """Codes renumbered to the sorted ids that really occur; and these."""
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
            counts = np.diff(np.append(first, len(u))).astype(np.float32)
            data = counts if w is None else np.add.reduceat(w, first)
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


# ---- the part in which all have enough interactions ------------------------------------------------------
def k_core(matrix: sp.csr_array, min_user: int, min_item: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which users and items stay when those with too few interactions leave, until nothing changes.

    The result is the largest such part, whatever the order in which they leave.
    """
    users = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    items = matrix.indices
    while True:
        stays = np.bincount(users, minlength=matrix.shape[0]) >= min_user
        in_core = np.bincount(items, minlength=matrix.shape[1]) >= min_item
        kept = stays[users] & in_core[items]
        if kept.all():
            return stays, in_core
        users, items = users[kept], items[kept]


def cut_to_core(fields: Fields, options: ReadOptions) -> Fields:
    """The fields of a log without users and items that have fewer interactions than the options ask for."""
    min_user, min_item = options.min_user, options.min_item
    if min_user == min_item == 1:
        return fields
    matrix, report = fields["matrix"], fields["report"]
    stays, in_core = k_core(matrix, min_user, min_item)
    if options.new_items:  # nobody has them
        in_core |= np.bincount(matrix.indices, minlength=matrix.shape[1]) == 0
    rows, columns = np.flatnonzero(stays), np.flatnonzero(in_core)
    if not len(rows) or not len(columns):
        raise DataError(
            f"no interactions are left when each user has at least {min_user} and each item at least "
            f"{min_item}; give smaller numbers."
        )
    few = [
        f"{what} with fewer than {least}"
        for what, least in (("a user", min_user), ("an item", min_item))
        if least > 1
    ]
    reason = f"of {' or '.join(few)} interactions"
    result = _inside(fields, rows, columns)
    kept = result["matrix"].nnz
    if report is not None and matrix.nnz > kept:
        report = replace(report, kept=kept, dropped={**report.dropped, reason: matrix.nnz - kept})
    return {**result, "report": report}


def _inside(fields: Fields, rows: NDArray[np.integer], columns: NDArray[np.integer]) -> Fields:
    """The fields of a log with these users and items alone, and of its dislikes."""
    matrix = fields["matrix"]
    numbered = sp.csr_array(
        (np.arange(matrix.nnz, dtype=np.int64), matrix.indices, matrix.indptr), shape=matrix.shape
    )
    kept = numbered[rows][:, columns].data
    time, info, parts = fields["time"], fields["item_info"], fields["parts"]
    dislikes = fields["dislikes"]
    return {
        "matrix": matrix[rows][:, columns],
        "users": Vocabulary(fields["users"].take(rows)),
        "items": Vocabulary(fields["items"].take(columns)),
        "time": None if time is None else time[kept],
        "item_info": None if info is None else info.take(from_numpy(columns)),
        "parts": None if parts is None else {name: part[rows][:, columns] for name, part in parts.items()},
        "report": fields["report"],
        "dislikes": None if dislikes is None else _inside(dislikes, rows, columns),
    }
