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
from infrec.contents import with_info
from infrec.data import assemble
from infrec.data.columns import ReadOptions
from infrec.data.parsing import is_text, whole, whole_numbers
from infrec.data.partitioned import KIND
from infrec.data.row_rules import Rules, first_places
from infrec.data.sources import Source
from infrec.data.vocabulary import Vocabulary, from_numpy, to_numpy
from infrec.errors import ArtifactError, ConfigError
from infrec.progress import Progress, silent

if TYPE_CHECKING:
    from numpy.typing import NDArray

BLOCK = 1 << 22  # rows in memory at a time in the first pass
PARTITION = 1 << 22  # interactions in one file at most, about; a user's are never divided
FILES = 64  # so many where that makes smaller ones, so that processes can divide them evenly
SMALLEST = 1 << 10
THREADS = 2


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
    threads: int = THREADS,
    progress: Progress = silent,
) -> Path:
    """Write the dataset `out` from the rows of a source, and what is known of its items."""
    if (other := artifacts.kind_of(out)) not in (None, KIND):
        raise ArtifactError(f"{out} holds a {other}; expected a new directory, or an older dataset.")
    manifest: dict[str, Any] = {}
    with artifacts.draft(out, kind=KIND, manifest=manifest) as folder:
        manifest |= _Preparation(source, options or ReadOptions(), folder, progress).run(
            items, block, partition, threads
        )
    return Path(out)


def memory_needed(*, text: bool, ids: int = 1_000_000) -> int:
    """Bytes at the worst of the three passes, whatever the number of rows; `ids`: distinct users and items.

    First pass: two blocks as the source has them (more as text) and one as codes, records and masks. Third: a
    partition per thread with its sort. An id costs its text about once for each block in which it occurs.
    """
    return (230 if text else 175) * max(BLOCK, THREADS * PARTITION // 2) + 150 * ids


class _Preparation:
    """The three passes over one source, in the folder that becomes the dataset."""

    def __init__(self, source: Source, options: ReadOptions, folder: Path, progress: Progress) -> None:
        if options.min_user > 1 or options.min_item > 1:
            raise ConfigError(
                f"min_user is {options.min_user} and min_item {options.min_item}, which are for reading a "
                "prepared dataset; prepare it without them."
            )
        if options.negative is not None:
            raise ConfigError(
                f"negative is {options.negative!r}, and a prepared dataset keeps no dislikes; leave it out, "
                "or use the source as it is."
            )
        self.rules, self.options = Rules(source, options), options
        self.folder, self.scratch, self.progress = folder, folder / "scratch", progress
        self.scratch.mkdir()

    def run(self, items: Source | None, block: int, partition: int | None, threads: int) -> dict[str, Any]:
        """Write the files; the manifest."""
        rules, source = self.rules, self.rules.source
        blocks, texts = self._number_rows(block)
        user_numbers, users = _numbered([one.users for one in blocks], texts["user"])
        item_numbers, columns = _numbered([one.items for one in blocks], texts["item"])
        rows = np.zeros(len(users), np.int64)
        for numbers, one in zip(user_numbers, blocks, strict=True):
            rows[numbers] += one.per_user
        if partition is None:
            partition = int(np.clip(rows.sum() // FILES, SMALLEST, PARTITION))
        place = np.unique((np.cumsum(rows) - rows) // partition, return_inverse=True)[1].astype(np.int32)
        self._divide(blocks, user_numbers, item_numbers, place)
        done = self._write_partitions(place, len(columns), threads)
        if items is not None:
            about = assemble.item_info(items, columns, self.options, rules.notes, item=rules.roles["item"])
        else:
            about = _info(blocks, item_numbers, len(columns))
        per_user = np.concatenate([one.per_user for one in done])
        per_item = sum((one.per_item for one in done), np.zeros(len(columns), np.int64))
        known_users = pa.table({"id": users.ids, "interactions": from_numpy(per_user)})
        known_items = pa.table({"id": columns.ids, "interactions": from_numpy(per_item)})
        pq.write_table(known_users, self.folder / "users.parquet")
        pq.write_table(with_info(known_items, about), self.folder / "items.parquet")
        pairs = sum(one.pairs for one in done)
        rules.settle(int(rows.sum()) - pairs, users, columns)
        return {
            "source": source.name,
            "users": len(users),
            "items": len(columns),
            "interactions": pairs,
            "rows": rules.total,
            "dropped": rules.dropped,
            "notes": rules.notes,
            "duplicates": self.options.duplicates,
            "positive": self.options.positive,
            "weighted": any(one.weighted for one in done),
            "times": "time" in rules.roles,
            "split": "split" in rules.roles,
            "partitions": [one.facts for one in done],
        }

    def _number_rows(self, block: int) -> tuple[list[_Block], dict[str, bool]]:
        """First pass: blocks, and whether the ids of a column, dropped ones too, are texts as in `encode`."""
        rules, source = self.rules, self.rules.source
        blocks, texts = list[_Block](), {"user": False, "item": False}
        with (self.scratch / "rows").open("wb") as file:
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
                record = np.empty(len(users), self._record)
                for name, values in {"user": users, "item": items, **rows.others}.items():
                    record[name] = values
                record.tofile(file)
                per_user = np.bincount(users, minlength=len(user_ids))
                info = rows.info(items, len(item_ids))
                blocks.append(_Block(len(record), user_ids.ids, item_ids.ids, per_user, info))
                self.progress(f"reading {source.name}", rules.total, None)
        if not blocks:
            raise rules.unusable()
        return blocks, texts

    def _divide(
        self,
        blocks: list[_Block],
        user_numbers: list[NDArray[np.int32]],
        item_numbers: list[NDArray[np.int32]],
        place: NDArray[np.int32],
    ) -> None:
        """Second pass: every row to the scratch file of its user's range, in the order in which they came."""
        ranges = int(place[-1]) + 1
        with (self.scratch / "rows").open("rb") as file:
            for done, one in enumerate(blocks):
                rows = np.fromfile(file, self._record, one.rows)
                rows["user"] = user_numbers[done][rows["user"]]
                rows["item"] = item_numbers[done][rows["item"]]
                where = place[rows["user"]]
                rows = rows[assemble.counting_order(where, ranges)]
                ends = np.cumsum(np.bincount(where, minlength=ranges))
                for number in np.flatnonzero(np.diff(ends, prepend=0)).tolist():
                    with self._range(number).open("ab") as part:
                        rows[ends[number - 1] if number else 0 : ends[number]].tofile(part)
                self.progress("sorting by user", done + 1, len(blocks))
        (self.scratch / "rows").unlink()

    def _write_partitions(self, place: NDArray[np.int32], n_items: int, threads: int) -> list[Written]:
        """Third pass: each range sorted and merged, as a Parquet file."""
        starts = np.searchsorted(place, np.arange(int(place[-1]) + 2)).tolist()

        def one(number: int) -> Written:
            rows = np.fromfile(self._range(number), self._record)
            self._range(number).unlink()
            low, high = starts[number : number + 2]
            return write(
                self.folder / f"part-{number:05}.parquet", rows, low, high - low, n_items, self.options
            )

        done = []
        with ThreadPoolExecutor(threads) as pool:
            for written in pool.map(one, range(len(starts) - 1)):
                done.append(written)
                self.progress("writing partitions", len(done), len(starts) - 1)
        return done

    @property
    def _record(self) -> np.dtype[Any]:
        """One row in a scratch file, after the first block told which columns there are."""
        kinds = {"user": "i4", "item": "i4", "weight": "f4", "time": "i8", "split": "i1"}
        names = {role: "part" if role == "split" else role for role in kinds if role in self.rules.roles}
        return np.dtype([(name, kinds[role]) for role, name in names.items()])

    def _range(self, number: int) -> Path:
        return self.scratch / f"range-{number}"


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
