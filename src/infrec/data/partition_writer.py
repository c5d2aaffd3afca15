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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from infrec import artifacts
from infrec.data import assemble
from infrec.data.columns import ReadOptions
from infrec.data.parsing import is_text, whole, whole_numbers
from infrec.data.partitioned import KIND
from infrec.data.row_rules import Rules, first_places
from infrec.data.sources import Source
from infrec.data.vocabulary import Vocabulary, from_numpy, to_numpy
from infrec.errors import ArtifactError
from infrec.progress import Progress, silent

if TYPE_CHECKING:
    from numpy.typing import NDArray

BLOCK = 1 << 22  # rows in memory at a time in the first pass
PARTITION = 1 << 22  # interactions in one file at most, about; a user's are never divided
FILES = 64  # so many where that makes smaller ones, so that processes can divide them evenly
SMALLEST = 1 << 10


@dataclass(frozen=True, eq=False)
class _Block:
    """Rows of the scratch file of the first pass, whose numbers stand for these ids."""

    rows: int
    users: pa.Array
    items: pa.Array
    per_user: NDArray[np.int64]
    info: pa.Table | None


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
        blocks, texts = _first_pass(rules, scratch / "rows", block, progress)
        user_numbers, users = _numbered([one.users for one in blocks], texts["user"])
        item_numbers, columns = _numbered([one.items for one in blocks], texts["item"])
        shape = (len(users), len(columns))
        total = np.zeros(shape[0], np.int64)
        for numbers, one in zip(user_numbers, blocks, strict=True):
            total[numbers] += one.per_user
        if partition is None:
            partition = int(np.clip(total.sum() // FILES, SMALLEST, PARTITION))
        # The range of each user; ranges without users have no number.
        place = np.unique((np.cumsum(total) - total) // partition, return_inverse=True)[1].astype(np.int32)
        names = [scratch / f"range-{number}" for number in range(int(place[-1]) + 1)]
        kind = _record(rules)
        sizes = [one.rows for one in blocks]
        _second_pass(scratch / "rows", kind, sizes, user_numbers, item_numbers, place, names, progress)
        (scratch / "rows").unlink()
        done = _third_pass(folder, names, kind, place, shape, options, threads, progress)
        per_user = np.concatenate([one.per_user for one in done])
        per_item = sum((one.per_item for one in done), np.zeros(shape[1], np.int64))
        pq.write_table(
            pa.table({"id": users.ids, "interactions": from_numpy(per_user)}), folder / "users.parquet"
        )
        if items is not None:
            about = assemble.item_info(items, columns, options.item, rules.notes)
        else:
            about = _info(blocks, item_numbers, shape[1])
        table = pa.table({"id": columns.ids, "interactions": from_numpy(per_item)})
        for name in about.column_names if about is not None else ():
            table = table.append_column(f"info.{name}", about.column(name))
        pq.write_table(table, folder / "items.parquet")
        pairs = sum(one.pairs for one in done)
        rules.settle(sum(sizes) - pairs, users, columns)
        manifest |= {
            "source": source.name,
            "users": shape[0],
            "items": shape[1],
            "interactions": pairs,
            "rows": rules.total,
            "dropped": rules.dropped,
            "notes": rules.notes,
            "duplicates": options.duplicates,
            "positive": options.positive,
            "weighted": any(one.weighted for one in done),
            "times": "time" in rules.roles,
            "split": "split" in rules.roles,
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


def _first_pass(
    rules: Rules, scratch: Path, block: int, progress: Progress
) -> tuple[list[_Block], dict[str, bool]]:
    """The blocks, and whether the ids of a column, those of dropped rows too, are texts, as in `encode`."""
    source, blocks, texts = rules.source, list[_Block](), {"user": False, "item": False}
    with scratch.open("wb") as file:
        for table, ragged in _ahead(source.tables(rules.wanted, rules.plain, block)):
            # Ids stay text for now: whether all of them are numbers is known at the end.
            rows = rules.apply(table, ragged, from_text=False)
            for name, ids in (("user", rows.user_ids), ("item", rows.item_ids)):
                numbers = not is_text(ids.type) or (source.from_text and whole_numbers(ids))
                texts[name] |= bool(len(ids)) and not numbers
            if not len(rows.users):
                continue
            users, user_ids = assemble.number(rows.users, rows.user_ids)
            items, item_ids = assemble.number(rows.items, rows.item_ids)
            record = np.empty(len(users), _record(rules))
            for name, values in {"user": users, "item": items, **rows.others}.items():
                record[name] = values
            record.tofile(file)
            per_user = np.bincount(users, minlength=len(user_ids))
            info = rows.info(items, len(item_ids))
            blocks.append(_Block(len(record), user_ids.ids, item_ids.ids, per_user, info))
            progress(f"reading {source.name}", rules.total, None)
    if not blocks:
        raise rules.unusable()
    return blocks, texts


def _ahead(blocks: Iterator[Any]) -> Iterator[Any]:
    """The next block is read while this one is worked on."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, blocks, None)
        while (block := coming.result()) is not None:
            coming = pool.submit(next, blocks, None)
            yield block


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


def _info(blocks: list[_Block], numbers: list[NDArray[np.int32]], n_items: int) -> pa.Table | None:
    """Titles and genres from the log itself: those of each item's first row."""
    tables = [one.info for one in blocks if one.info is not None]
    first = from_numpy(first_places(np.concatenate(numbers), n_items))
    return pa.concat_tables(tables).take(first) if tables else None


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
        # A pair may stand in several parts, once in each; within a pair, parts stand as they came.
        label = np.cumsum(assemble.begins_pair(user, item)) * len(assemble.PARTS) + columns["part"]
        by_label = np.argsort(label, kind="stable")
        values = np.ones(len(label), np.float32) if weight is None else weight[by_label]
        starts = np.flatnonzero(np.diff(label[by_label], prepend=-1))
        values = np.add.reduceat(values, starts) if options.duplicates == "sum" else values[starts]
        as_they_came = np.argsort(by_label[starts])
        kept, weight = by_label[starts][as_they_came], values[as_they_came]
    else:
        kept, weight = at_first, matrix.data
    user, item = user[kept], item[kept]
    columns = {name: values[kept] for name, values in columns.items()}
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
