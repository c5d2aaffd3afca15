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
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from infrec.data.assemble import assemble
from infrec.data.columns import ReadOptions
from infrec.data.interactions import Interactions
from infrec.data.sources import TableSource, grouped
from infrec.data.synthetic_world import BLOCK, World
from infrec.data.table_files import write_tables
from infrec.data.vocabulary import from_numpy
from infrec.errors import DataError
from infrec.progress import Progress, silent
from infrec.randomness import generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

DEMO = {"users": 1_000, "items": 500, "interactions": 40_000, "seed": 2022}
ROUNDS = 5  # of drawing again for what was drawn twice, before the rest is drawn exactly
_SEQUENCE_BITS, _KIND_BITS = 22, 2
_LOW_BITS = _SEQUENCE_BITS + _KIND_BITS
SCHEMA = pa.schema({"user": pa.int32(), "item": pa.int32(), "rating": pa.int8(), "timestamp": pa.int64()})
_START, _END = 1_262_304_000, 1_735_689_600  # 2010 … 2025, in seconds


def generate(
    users: int = 1_000, items: int = 500, interactions: int = 40_000, seed: int = 2022
) -> Interactions:
    """A log of exactly so many interactions, with time, titles and genres.

    Items that nobody met are not in it. For a log that does not fit in memory, see `write_log`.
    """
    rows, films = tables(users, items, interactions, seed)
    log, about = TableSource(rows, "the generated log"), TableSource(films, "its items")
    return Interactions.from_fields(assemble(log, ReadOptions(), about))


def tables(users: int, items: int, interactions: int, seed: int) -> tuple[pa.Table, pa.Table]:
    """A generated log as two tables: user, item, rating, timestamp; and item, title, genres."""
    world = World(users, items, interactions, seed)
    return pa.Table.from_batches(
        [_block(world, number) for number in range(world.blocks)], SCHEMA
    ), world.films()


def write_log(
    path: str | os.PathLike[str],
    *,
    users: int,
    items: int,
    interactions: int,
    seed: int = 2022,
    threads: int | None = None,
    rows: int = 1 << 20,
    progress: Progress = silent,
) -> Path:
    """Write a generated log in bounded memory, as the file's ending says, and its films beside it.

    Args:
        path: The file; its films go into one of the name NAME-items.
        users, items, interactions: How many there are.
        seed: Decides everything.
        threads: That make blocks of users; at most four unless given.
        rows: Written at a time.
        progress: Called while it works.
    """
    path = Path(path)
    world = World(users, items, interactions, seed)

    def parts() -> Iterator[pa.Table]:
        done = 0
        for table in grouped(_blocks(world, threads or min(4, os.cpu_count() or 1)), rows):
            yield table
            done += table.num_rows
            progress(f"writing {path.name}", done, interactions)

    try:
        write_tables([world.films()], path.with_name(f"{path.stem}-items{path.suffix}"))
        write_tables(parts(), path)
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
    owner, item, kind = _Draws(world, rng, wanted).distinct()

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


class _Draws:
    """Items drawn for the users of a block: as many distinct ones as wanted, in the order of drawing.

    Each draw takes one of the user's urns and an item from it; an item that the user has is drawn again. A
    draw is packed into one integer (user | sequence | kind of urn | item), so that two sorts do all the work:
    by (user, item) to find repeats, then by (user, order) to keep the first ones.
    """

    def __init__(self, world: World, rng: np.random.Generator, wanted: NDArray[np.int64]) -> None:
        self.world, self.rng, self.wanted = world, rng, wanted
        self.urns = world.favourites(rng, len(wanted))
        self.item_bits = int(world.items).bit_length()
        self.missing = wanted.astype(np.int64)
        self.drawn = np.zeros(len(wanted), np.int64)

    def distinct(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """User, item and kind of urn of each draw that counts, by user."""
        open_, finished = np.zeros(0, np.int64), []
        for turn in range(ROUNDS):
            short = np.flatnonzero(self.missing)
            open_, complete = self._first_of_each(
                np.concatenate([open_, self._drawn_again(short, turn)]), short
            )
            finished.append(complete)
            if not self.missing.any():
                break
        finished.append(self._exactly(open_))
        done = np.sort(np.concatenate(finished))
        user, rest, item = self._unpacked(done)
        return user, item, rest & ((1 << _KIND_BITS) - 1)

    def _packed(self, user: Any, sequence: Any, kind: Any, item: Any) -> NDArray[np.int64]:
        order = (((user << _SEQUENCE_BITS) | sequence) << _KIND_BITS) | kind
        return (order << self.item_bits) | item

    def _unpacked(
        self, draws: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """User, sequence with kind, and item."""
        rest = (draws >> self.item_bits) & ((1 << _LOW_BITS) - 1)
        return draws >> (self.item_bits + _LOW_BITS), rest, draws & ((1 << self.item_bits) - 1)

    def _drawn_again(self, short: NDArray[np.int64], turn: int) -> NDArray[np.int64]:
        """More draws than the users who miss items need."""
        draws = self.missing[short] * (3 + 2 * turn) // 2 + 6
        owner = np.repeat(short, draws)
        sequence = self.drawn[owner] + np.arange(len(owner)) - np.repeat(np.cumsum(draws) - draws, draws)
        self.drawn[short] += draws
        item, kind = self.world.draw(self.rng, self.urns, owner)
        return self._packed(owner, sequence, kind, item)

    def _first_of_each(
        self, draws: NDArray[np.int64], short: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Draws without repeats, as many as wanted: of users who still miss items, and of the others."""
        user, rest, item = self._unpacked(draws)
        by_item = np.sort((((user << self.item_bits) | item) << _LOW_BITS) | rest)
        new = np.ones(len(by_item), bool)
        new[1:] = (by_item[1:] >> _LOW_BITS) != (by_item[:-1] >> _LOW_BITS)
        by_item = by_item[new]
        item = (by_item >> _LOW_BITS) & ((1 << self.item_bits) - 1)
        user, rest = by_item >> (self.item_bits + _LOW_BITS), by_item & ((1 << _LOW_BITS) - 1)
        ordered = np.sort((((user << _LOW_BITS) | rest) << self.item_bits) | item)
        user = self._unpacked(ordered)[0]
        counts = np.bincount(user, minlength=len(self.wanted))
        rank = np.arange(len(ordered)) - np.repeat(np.cumsum(counts) - counts, counts)
        kept = rank < self.wanted[user]
        ordered, user = ordered[kept], user[kept]
        self.missing[short] = np.maximum(self.wanted[short] - counts[short], 0)
        open_ = self.missing[user] > 0
        return ordered[open_], ordered[~open_]

    def _exactly(self, kept: NDArray[np.int64]) -> NDArray[np.int64]:
        """Draws that very active users miss: the largest of log popularity + Gumbel noise; none repeats."""
        short, out = np.flatnonzero(self.missing), [kept]
        owner, _, item = self._unpacked(kept)
        for start in range(0, len(short), 64):
            some = short[start : start + 64]
            keys = self.rng.gumbel(size=(len(some), self.world.items)) + 0.7 * self.world.log_popularity
            mine = np.isin(owner, some)
            keys[np.searchsorted(some, owner[mine]), item[mine]] = -np.inf
            best = np.argsort(-keys, axis=1, kind="stable")
            row, place = np.nonzero(np.arange(self.world.items) < self.missing[some][:, None])
            out.append(self._packed(some[row], self.drawn[some][row] + place, 2, best[row, place]))
        return np.concatenate(out)
