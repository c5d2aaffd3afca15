"""A log of any size → a dataset that is partitioned by user, in bounded memory.

Three passes, of which only the first reads the source:

1. Blocks of rows, each with numbers for the ids that occur in it, go to a scratch file; the ids of each block
   are kept. Afterwards all ids are sorted (numbers by value, texts by code point), which gives every user a
   row and every item a column, whatever the order or the blocks in which the rows came.
2. Users are cut into ranges of about equally many rows. The scratch file is read again and each row goes to
   the scratch file of its range.
3. Each range is sorted by user and item, repeated pairs are merged, and it is written as one Parquet file.

All of it happens in a hidden folder beside the target, which takes the target's place at the end: a process
that is killed, or a disk that is full, leaves the old dataset and nothing else to be seen.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from infrec import artifacts
from infrec.data import assemble
from infrec.data.arrow import from_numpy, to_numpy
from infrec.data.parsing import is_text, whole, whole_numbers
from infrec.data.read_options import ReadOptions
from infrec.data.row_rules import Rules, at, counts
from infrec.data.sources import BLOCK, Source
from infrec.data.vocabulary import Vocabulary
from infrec.errors import ArtifactError, DataError
from infrec.progress import Progress, silent

if TYPE_CHECKING:
    from numpy.typing import NDArray

KIND = "dataset"
PARTITION = 1 << 22  # interactions in one file at most, about; a user's are never divided
FILES = 64  # so many where that makes smaller ones, so that processes can divide them evenly
SMALLEST = 1 << 10


@dataclass
class _Found:
    """Results of the first pass; one entry per block in each list."""

    sizes: list[int] = field(default_factory=list)
    users: list[pa.Array] = field(default_factory=list)
    items: list[pa.Array] = field(default_factory=list)
    per_user: list[NDArray[np.int64]] = field(default_factory=list)
    info: list[pa.Table] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=dict)
    rows: int = 0
    user_texts: bool = False  # whether the column of ids holds anything but whole numbers, in any row
    item_texts: bool = False


def prepare(
    source: Source,
    out: str | os.PathLike[str],
    options: ReadOptions | None = None,
    items: Source | None = None,
    *,
    partition: int | None = None,
    block: int = BLOCK,
    threads: int = 2,
    progress: Progress = silent,
) -> Path:
    """Write the dataset `out` from the rows of a source, and what is known of its items."""
    options = options or ReadOptions()
    if (other := artifacts.kind_of(out)) not in (None, KIND):
        raise ArtifactError(f"{out} holds a {other}; expected a new directory, or an older dataset.")
    manifest: dict[str, Any] = {}
    with artifacts.draft(out, kind=KIND, manifest=manifest) as folder:
        scratch = folder / "scratch"
        scratch.mkdir()
        rules = Rules(source, options)
        found = _first_pass(rules, scratch / "rows", block, progress)
        user_number, users = _numbered(found.users, found.user_texts)
        item_number, columns = _numbered(found.items, found.item_texts)
        total = np.zeros(len(users), np.int64)
        for number, own in zip(user_number, found.per_user, strict=True):
            total[number] += own
        if partition is None:
            partition = int(np.clip(total.sum() // FILES, SMALLEST, PARTITION))
        before = np.cumsum(total) - total
        place = np.unique(before // partition, return_inverse=True)[1].astype(np.int32)
        names = [scratch / f"range-{number}" for number in range(int(place[-1]) + 1)]
        kind = _record(rules)
        _second_pass(scratch / "rows", kind, found.sizes, user_number, item_number, place, names, progress)
        (scratch / "rows").unlink()
        shape = (len(users), len(columns))
        done = _third_pass(folder, names, kind, place, shape, options, threads, progress)
        repeats = sum(found.sizes) - sum(one.pairs for one in done)
        notes = rules.notes
        if repeats and options.duplicates == "first":
            found.dropped[assemble.REPEATED] = repeats
        elif repeats:
            notes.append(f"{repeats:,} repeated (user, item) pairs were summed")
        refused = {reason: n for reason, n in found.dropped.items() if reason != rules.unwanted}
        if options.strict and refused:
            raise DataError(
                f"{source.name}: strict reading refuses rows that would be dropped: {counts(refused)}."
            )
        per_user = np.concatenate([one.per_user for one in done])
        per_item = sum((one.per_item for one in done), np.zeros(shape[1], np.int64))
        pq.write_table(
            pa.table({"id": users.ids, "interactions": from_numpy(per_user)}), folder / "users.parquet"
        )
        about = (
            assemble.item_info(items, columns, options.item, notes)
            if items is not None
            else _info(found.info, item_number, shape[1])
        )
        table = pa.table({"id": columns.ids, "interactions": from_numpy(per_item)})
        for name in about.column_names if about is not None else ():
            table = table.append_column(f"info.{name}", about.column(name))  # type: ignore[union-attr]
        pq.write_table(table, folder / "items.parquet")
        notes += assemble.normal_form_notes(users, "user") + assemble.normal_form_notes(columns, "item")
        manifest |= {
            "source": source.name,
            "users": shape[0],
            "items": shape[1],
            "interactions": sum(one.pairs for one in done),
            "rows": found.rows,
            "dropped": found.dropped,
            "notes": notes,
            "duplicates": options.duplicates,
            "positive": options.positive,
            "weighted": any(one.weighted for one in done),
            "times": "time" in (kind.names or ()),
            "split": "part" in (kind.names or ()),
            "partitions": [one.facts for one in done],
        }
    return Path(out)


def memory_needed(
    *, text: bool, ids: int = 1_000_000, block: int = BLOCK, partition: int = PARTITION, threads: int = 2
) -> int:
    """Bytes at the worst of the three passes, whatever the number of rows; `ids`: distinct users and items.

    First pass: two blocks as the source has them (more as text) and one as codes, records and masks. Third: a
    partition per thread with its sort. An id costs its text about once for each block in which it occurs.
    """
    return (230 if text else 175) * max(block, threads * partition // 2) + 150 * ids


def _record(rules: Rules) -> np.dtype[Any]:
    """One row in a scratch file."""
    fields: list[tuple[str, Any]] = [("user", np.int32), ("item", np.int32)]
    fields += [("weight", np.float32)] if "weight" in rules.roles else []
    fields += [("time", np.int64)] if "time" in rules.roles else []
    fields += [("part", np.int8)] if "split" in rules.roles else []
    return np.dtype(fields)


def _first_pass(rules: Rules, scratch: Path, block: int, progress: Progress) -> _Found:
    found, source = _Found(), rules.source
    stage = f"reading {source.name}"
    with scratch.open("wb") as file:
        for table, unread in _ahead(source.blocks(rules.wanted, rules.plain, block)):
            # Ids stay text for now: whether all of them are numbers is known at the end.
            rows = rules.apply(table, unread, from_text=False)
            found.rows += rows.rows.total
            found.user_texts |= _texts(rows.user_ids, source.from_text)
            found.item_texts |= _texts(rows.item_ids, source.from_text)
            for reason, count in rows.rows.dropped.items():
                found.dropped[reason] = found.dropped.get(reason, 0) + count
            kept = rows.kept
            if not rows.rows.keep.any():
                continue
            users, user_ids = assemble.number(at(rows.users, kept), rows.user_ids)
            items, item_ids = assemble.number(at(rows.items, kept), rows.item_ids)
            record = np.empty(len(users), _record(rules))
            record["user"], record["item"] = users, items
            for name, values in (("weight", rows.weight), ("time", rows.time), ("part", rows.part)):
                if values is not None:
                    record[name] = at(values, kept)
            record.tofile(file)
            found.sizes.append(len(record))
            found.users.append(user_ids.ids)
            found.items.append(item_ids.ids)
            found.per_user.append(np.bincount(users, minlength=len(user_ids)))
            own = table.select([rules.roles[r] for r in ("title", "genres") if r in rules.roles])
            info = assemble.own_info(own, rules.roles, kept, items, len(item_ids))
            if info is not None:
                found.info.append(info)
            progress(stage, found.rows, None)
    if not found.rows:
        raise DataError(f"{source.name} has columns but no rows; expected at least one interaction.")
    if not found.sizes:
        raise DataError(
            f"none of the {found.rows:,} rows of {source.name} can be used: {counts(found.dropped)}."
        )
    return found


def _ahead(blocks: Iterator[Any]) -> Iterator[Any]:
    """The next block is read while this one is worked on."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, blocks, None)
        while (block := coming.result()) is not None:
            coming = pool.submit(next, blocks, None)
            yield block


def _texts(ids: pa.Array, from_text: bool) -> bool:
    """Whether a block's ids, those of dropped rows too, make the column one of texts, as in `encode`."""
    return bool(len(ids)) and is_text(ids.type) and not (from_text and whole_numbers(ids))


def _numbered(pieces: list[pa.Array], texts: bool) -> tuple[list[NDArray[np.int32]], Vocabulary]:
    """The number of each block's ids among all ids, sorted; and these."""
    kind = pa.string() if texts else pa.int64()
    every = whole(pa.chunked_array([piece.cast(kind) for piece in pieces]).dictionary_encode())
    ids = every.dictionary
    order = to_numpy(pc.sort_indices(ids)).astype(np.int64)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    number = rank[to_numpy(every.indices)]
    ends = np.cumsum([len(piece) for piece in pieces])
    return np.split(number, ends[:-1]), Vocabulary(ids.take(from_numpy(order)))


def _second_pass(
    scratch: Path,
    kind: np.dtype[Any],
    sizes: list[int],
    user_number: list[NDArray[np.int32]],
    item_number: list[NDArray[np.int32]],
    place: NDArray[np.int32],
    names: list[Path],
    progress: Progress,
) -> None:
    """Every row to the scratch file of its range, in the order in which they came."""
    with scratch.open("rb") as file:
        for done, (size, users, items) in enumerate(zip(sizes, user_number, item_number, strict=True)):
            rows = np.fromfile(file, kind, size)
            rows["user"], rows["item"] = users[rows["user"]], items[rows["item"]]
            where = place[rows["user"]]
            order = assemble.counting_order(where, len(names))
            rows = rows[order]
            ends = np.cumsum(np.bincount(where, minlength=len(names)))
            for number in np.flatnonzero(np.diff(ends, prepend=0)):
                with names[number].open("ab") as part:
                    rows[ends[number - 1] if number else 0 : ends[number]].tofile(part)
            progress("sorting by user", done + 1, len(sizes))


def _third_pass(
    folder: Path,
    names: list[Path],
    kind: np.dtype[Any],
    place: NDArray[np.int32],
    shape: tuple[int, int],
    options: ReadOptions,
    threads: int,
    progress: Progress,
) -> list[Written]:
    starts = np.searchsorted(place, np.arange(len(names) + 1))

    def one(number: int) -> Written:
        rows = np.fromfile(names[number], kind)
        names[number].unlink()
        low, high = int(starts[number]), int(starts[number + 1])
        return write(folder / f"part-{number:05}.parquet", rows, low, high - low, shape[1], options)

    done = []
    with ThreadPoolExecutor(threads) as pool:
        for written in pool.map(one, range(len(names))):
            done.append(written)
            progress("writing partitions", len(done), len(names))
    return done


def _info(tables: list[pa.Table], numbers: list[NDArray[np.int32]], n_items: int) -> pa.Table | None:
    """Titles and genres from the log itself: those of each item's first row."""
    if not tables:
        return None
    every = np.concatenate(numbers)
    first = np.zeros(n_items, np.int64)
    first[every[::-1]] = np.arange(len(every))[::-1]  # the last write wins: the first block
    return pa.concat_tables(tables).take(from_numpy(first))


@dataclass(frozen=True, eq=False)
class Written:
    """One written partition: distinct pairs, and interactions by user and by item."""

    facts: dict[str, Any]  # file, first user, users and rows: its entry in the manifest
    pairs: int
    weighted: bool
    per_user: NDArray[np.int64]
    per_item: NDArray[np.int64]


def write(
    path: Path, rows: NDArray[Any], first: int, users: int, items: int, options: ReadOptions
) -> Written:
    """Sort, merge and write the rows of users first … first + users − 1."""
    shape = (users, items)
    user, item = rows["user"] - np.int32(first), np.ascontiguousarray(rows["item"])
    order = assemble.by_user_and_item(user, item, shape)
    user, item = user[order], item[order]
    columns = {name: rows[name][order] for name in rows.dtype.names or () if name not in ("user", "item")}
    weight = columns.pop("weight", None)
    matrix, at_first = assemble.merge(user, item, weight, shape, options.duplicates)
    if "part" in columns:
        # A pair may stand in several parts, once in each; the first one tells its time.
        part = columns["part"]
        key = np.flatnonzero(assemble.begins_pair(user, item))
        order = np.lexsort((np.arange(len(part)), part, np.repeat(key, np.diff(np.append(key, len(part))))))
        new = np.ones(len(order), bool)
        new[1:] = assemble.begins_pair(user[order], item[order])[1:] | (part[order][1:] != part[order][:-1])
        values = np.ones(len(order), np.float32) if weight is None else weight[order]
        starts = np.flatnonzero(new)
        kept = order[starts]
        summed = np.add.reduceat(values, starts) if options.duplicates == "sum" else values[starts]
        again = np.argsort(kept, kind="stable")  # within a pair, as they came
        kept, weight = kept[again], summed[again]
        user, item = user[kept], item[kept]
        columns = {name: values[kept] for name, values in columns.items()}
    else:
        user, item, weight = user[at_first], item[at_first], matrix.data
        columns = {name: values[at_first] for name, values in columns.items()}
    weighted = bool((weight != 1).any())
    table = {"user": from_numpy(user + np.int32(first)), "item": from_numpy(item)}
    table |= {"weight": from_numpy(weight)} if weighted else {}
    table |= {name: from_numpy(values) for name, values in columns.items()}
    plain = [name for name in table if name not in ("user", "item", "time")]
    encodings = {name: "DELTA_BINARY_PACKED" for name in ("user", "item", "time") if name in table}
    pq.write_table(
        pa.table(table), path, compression="zstd", use_dictionary=plain or False, column_encoding=encodings
    )
    return Written(
        {"file": path.name, "first_user": first, "users": users, "rows": len(user)},
        int(matrix.nnz),
        weighted,
        np.diff(matrix.indptr).astype(np.int64),
        np.bincount(matrix.indices, minlength=items),
    )
