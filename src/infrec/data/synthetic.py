"""Logs that behave like real ones, of any size: for demos, tests, and shapes that no public dataset has.

The world: films belong to tastes, tastes to genres; popularity is long-tailed. A person has a few favourite
tastes, a genre or two, and follows the crowd in the rest; activity is long-tailed too. Who likes what is
therefore not what is popular, and a model that sees which films go together finds it.

Users are made in blocks of a fixed size, each with a random stream of its own, so that the log depends on the
seed and on nothing else: not on threads, row groups or what is kept in memory.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from infrec import drafts
from infrec.data.assemble import assemble
from infrec.data.columns import ReadOptions
from infrec.data.interactions import Interactions
from infrec.data.sources import TableSource, grouped
from infrec.data.synthetic_world import BLOCK, World
from infrec.data.vocabulary import from_numpy
from infrec.errors import DataError
from infrec.progress import Progress, silent
from infrec.randomness import generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

DEMO = {"users": 1_000, "items": 500, "interactions": 40_000, "seed": 2022}
ROUNDS = 5  # of drawing again for what was drawn twice, before the rest is drawn exactly
_SEQUENCE_BITS, _KIND_BITS = 22, 2
SCHEMA = pa.schema({"user": pa.int32(), "item": pa.int32(), "rating": pa.int8(), "timestamp": pa.int64()})
_START, _END = 1_262_304_000, 1_735_689_600  # 2010 … 2025, in seconds


def generate(
    users: int = 1_000, items: int = 500, interactions: int = 40_000, seed: int = 2022
) -> Interactions:
    """A log of exactly so many interactions, with time, titles and genres.

    Items that nobody met are not in it. For a log that does not fit in memory, see `write_parquet`.
    """
    rows, films = tables(users, items, interactions, seed)
    log, about = TableSource(rows, "the generated log"), TableSource(films, "its items")
    return Interactions(**assemble(log, ReadOptions(), about))


def tables(users: int, items: int, interactions: int, seed: int) -> tuple[pa.Table, pa.Table]:
    """A generated log as two tables: user, item, rating, timestamp; and item, title, genres."""
    world = World(users, items, interactions, seed)
    return pa.Table.from_batches(
        [_block(world, number) for number in range(world.blocks)], SCHEMA
    ), world.films()


@lru_cache(maxsize=1)
def demo_tables() -> tuple[pa.Table, pa.Table]:
    """The embedded dataset `demo`."""
    return tables(**DEMO)


def write_parquet(
    path: str | os.PathLike[str],
    *,
    users: int,
    items: int,
    interactions: int,
    seed: int = 2022,
    threads: int | None = None,
    row_group: int = 1 << 20,
    progress: Progress = silent,
) -> Path:
    """Write a generated log to Parquet in bounded memory, and its films beside it as NAME-items.parquet."""
    import pyarrow.parquet as pq

    path = Path(path)
    world = World(users, items, interactions, seed)
    try:
        with drafts.writing(path.with_name(f"{path.stem}-items.parquet")) as file:
            pq.write_table(world.films(), file)
        with (
            drafts.writing(path) as file,
            pq.ParquetWriter(file, SCHEMA, use_dictionary=["user", "rating"]) as writer,
        ):
            done = 0
            for table in grouped(_blocks(world, threads or min(4, os.cpu_count() or 1)), row_group):
                writer.write_table(table, row_group_size=row_group)
                done += table.num_rows
                progress(f"writing {path.name}", done, interactions)
    except OSError as error:
        raise DataError(
            f"{path} cannot be written ({error.strerror or error}); choose another place."
        ) from None
    return path


def _blocks(world: World, threads: int) -> Iterator[pa.RecordBatch]:
    """Every block in order, a few of them ahead."""
    with ThreadPoolExecutor(threads) as pool:
        ahead: deque[Any] = deque()
        for number in range(world.blocks):
            ahead.append(pool.submit(_block, world, number))
            if len(ahead) > threads:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def _block(world: World, number: int) -> pa.RecordBatch:
    """The interactions of one block of users, by user and then in the order in which they happened."""
    rng = generator(world.seed, "generate", "users", str(number))
    first = number * BLOCK
    wanted = world.activity[first : first + BLOCK]
    urns = world.favourites(rng, len(wanted))
    owner, item, kind = _distinct_draws(world, rng, wanted, urns)

    starts = np.cumsum(wanted) - wanted
    rank = np.arange(len(owner)) - np.repeat(starts, wanted)
    bias = rng.normal(0.0, 0.35, len(wanted)).astype(np.float32)
    liking = np.array([3.95, 3.6, 3.15, 3.15], np.float32)[kind] + bias[owner] + world.quality[item]
    liking += rng.standard_normal(len(owner), dtype=np.float32) * np.float32(0.75)
    rating = np.clip(np.rint(liking), 1, 5).astype(np.int8)

    # Mostly months to years.
    life = np.minimum(np.exp(rng.normal(16.2, 1.3, len(wanted))), 0.9 * (_END - _START))
    joined = _START + rng.random(len(wanted)) * (_END - _START - life)
    pace = life / wanted
    when = joined[owner] + (rank + rng.random(len(owner), dtype=np.float32)) * pace[owner]
    columns = [
        (owner + first + 1).astype(np.int32),
        (item + 1).astype(np.int32),
        rating,
        when.astype(np.int64),
    ]
    return pa.RecordBatch.from_arrays([from_numpy(column) for column in columns], schema=SCHEMA)


def _distinct_draws(
    world: World, rng: np.random.Generator, wanted: NDArray[np.int64], urns: NDArray[np.int16]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """For each user as many distinct items as wanted, in the order of drawing: user, item, kind of urn.

    Each draw takes one of the user's urns and an item from it; an item that the user has is drawn again. A
    draw is packed into one integer, so that two sorts do all the work: by (user, item) to find repeats, then
    by (user, order) to keep the first ones.
    """
    item_bits = int(world.items).bit_length()
    low = _SEQUENCE_BITS + _KIND_BITS
    kept = np.zeros(0, np.int64)  # user | sequence | kind | item
    short = np.arange(len(wanted))
    missing = wanted.astype(np.int64)
    drawn = np.zeros(len(wanted), np.int64)
    finished: list[NDArray[np.int64]] = []
    for turn in range(ROUNDS):
        draws = missing[short] * (3 + 2 * turn) // 2 + 6
        owner = np.repeat(short, draws)
        sequence = drawn[owner] + np.arange(len(owner)) - np.repeat(np.cumsum(draws) - draws, draws)
        drawn[short] += draws
        item, kind = world.draw(rng, urns, owner)
        fresh = (((((owner << _SEQUENCE_BITS) | sequence) << _KIND_BITS) | kind) << item_bits) | item
        kept, complete, missing = _first_of_each(
            np.concatenate([kept, fresh]), wanted, item_bits, low, short, missing
        )
        finished.append(complete)
        short = np.flatnonzero(missing)
        if not len(short):
            break
    if len(short):
        finished.append(_exactly(world, rng, kept, short, missing, drawn, item_bits))
    done = np.sort(np.concatenate(finished))
    item = done & ((1 << item_bits) - 1)
    return done >> (item_bits + low), item, (done >> item_bits) & ((1 << _KIND_BITS) - 1)


def _first_of_each(
    draws: NDArray[np.int64],
    wanted: NDArray[np.int64],
    item_bits: int,
    low: int,
    short: NDArray[np.int64],
    missing: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Without repeats: the draws of users who still miss items, those of the others, what is missing."""
    item_mask, low_mask = (1 << item_bits) - 1, (1 << low) - 1
    user, rest, item = draws >> (low + item_bits), (draws >> item_bits) & low_mask, draws & item_mask
    by_item = np.sort((((user << item_bits) | item) << low) | rest)
    new = np.ones(len(by_item), bool)
    new[1:] = (by_item[1:] >> low) != (by_item[:-1] >> low)
    by_item = by_item[new]
    user, item, rest = by_item >> (item_bits + low), (by_item >> low) & item_mask, by_item & low_mask
    ordered = np.sort((((user << low) | rest) << item_bits) | item)
    user = ordered >> (low + item_bits)
    counts = np.bincount(user, minlength=len(wanted))
    rank = np.arange(len(ordered)) - np.repeat(np.cumsum(counts) - counts, counts)
    ordered = ordered[rank < wanted[user]]
    user = ordered >> (low + item_bits)
    missing = missing.copy()
    missing[short] = np.maximum(wanted[short] - counts[short], 0)
    open_ = missing[user] > 0
    return ordered[open_], ordered[~open_], missing


def _exactly(
    world: World,
    rng: np.random.Generator,
    kept: NDArray[np.int64],
    short: NDArray[np.int64],
    missing: NDArray[np.int64],
    drawn: NDArray[np.int64],
    item_bits: int,
) -> NDArray[np.int64]:
    """Items that very active users still miss: the largest of log popularity + Gumbel noise; none repeats."""
    low = _SEQUENCE_BITS + _KIND_BITS
    out = [kept]
    owner, item = kept >> (low + item_bits), kept & ((1 << item_bits) - 1)
    for start in range(0, len(short), 64):
        some = short[start : start + 64]
        keys = rng.gumbel(size=(len(some), world.items)) + 0.7 * world.log_popularity
        mine = np.isin(owner, some)
        keys[np.searchsorted(some, owner[mine]), item[mine]] = -np.inf
        best = np.argsort(-keys, axis=1, kind="stable")
        row, sequence = np.nonzero(np.arange(world.items) < missing[some][:, None])
        packed = (some[row] << _SEQUENCE_BITS) | (drawn[some][row] + sequence)
        out.append((((packed << _KIND_BITS) | 2) << item_bits) | best[row, sequence])
    return np.concatenate(out)
