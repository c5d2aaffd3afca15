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
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from infrec.data.assemble import assemble
from infrec.data.columns import ReadOptions
from infrec.data.interactions import Interactions
from infrec.data.sources import TableSource, grouped
from infrec.data.table_files import write_tables
from infrec.data.vocabulary import from_numpy, strings
from infrec.errors import ConfigError, DataError
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


# ---- the world ---------------------------------------------------------------------------------------------
BLOCK = 2048  # users per random stream: changing it changes every generated log
SLOTS = 16  # a user's urns; an urn that takes more slots is drawn from more often
DENSEST = 0.5  # share of the items that the average user may have

GENRES = (
    *("Drama", "Comedy", "Thriller", "Sci-Fi", "Romance", "Crime"),
    *("Horror", "Adventure", "Animation", "Documentary", "Western", "Musical"),
)
_NOUNS = (
    "Harvest Inheritance Lighthouse Winter Daughter Silence Letter Estuary Threshold Portrait Ferryman",
    "Landlord Wedding Parrot Holiday Accountant Roommate Casserole Cousin Lottery Moustache Babysitter",
    "Cipher Witness Alibi Corridor Informant Deadline Blackout Hostage Decoy Passenger Verdict Countdown",
    "Orbit Colony Android Signal Nebula Airlock Starfall Paradox Engine Horizon Satellite Exile",
    "Kiss Balcony Valentine Summer Serenade Bouquet Promise Postcard Heartbeat Waltz Rendezvous Honeymoon",
    "Heist Syndicate Ledger Safecracker Precinct Getaway Racket Forger Jury Underworld Detective Ransom",
    "Cellar Scarecrow Whisper Hollow Séance Marrow Nightfall Doll Crypt Fog Lullaby Attic",
    "Expedition Compass Jungle Summit Treasure Map Voyage Canyon Temple Rapids Caravan Relic",
    "Hedgehog Dragon Teapot Kite Snowman Robot Fox Turnip Cloud Penguin Acorn Broomstick",
    "Glacier Archive Factory Migration Reef Election Beekeepers Railway Harbour Orchestra Desert Vaccine",
    "Sheriff Saddle Outlaw Prairie Stagecoach Ranch Dust Gunsmith Gulch Mustang Homestead Bounty",
    "Chorus Melody Piano Tap-Dancer Encore Ballroom Overture Nightingale Cabaret Songbird Rhapsody Spotlight",
)
_ADJECTIVES = (
    "Quiet Crimson Last Borrowed Hidden Golden Broken Distant Seventh Paper Midnight Forgotten Electric "
    "Northern Hollow Velvet Restless Silver Stolen Patient Burning Second Glass Lonely Wandering Iron Gentle "
    "Secret Frozen Scarlet Wild Empty Emerald Sleeping Crooked Endless Salted Painted Reluctant Invisible"
)
_PLACES = (
    "Halden, Marrowgate, Port Ellery, Kestrel Bay, Old Tannery Row, Vesper Hill, Saint Orla, Low Meadow, "
    "Carrow Street, Brindle Lake, Asher Point, Winterbourne Lane, Calder Falls, the Ninth Floor, "
    "the Salt Road, Thorn Island"
)
_FORMS = ("The {a} {n}", "{a} {n}", "The {n} of {p}", "{n} at {p}", "A {n} for {b}", "{b} and the {n}")
_NAMES = "Ada Bruno Clémence Dov Esme Farouk Greta Hugo Ines Jonas Kaia Leopold Mira Nils Odette Pavel"


class World:
    """Films in urns. An urn is a distribution over films: one per taste, one per genre, one for the crowd.

    Each urn is an alias table: a film is drawn from it with one random number, in constant time.
    tastes: how many there are, one for 18 films and at most 240 unless told: what there is to learn.
    """

    def __init__(
        self, users: int, items: int, interactions: int, seed: int, *, tastes: int | None = None
    ) -> None:
        if users < 1 or items < 10:
            raise ConfigError(f"users={users}, items={items}; expected at least 1 user and 10 items.")
        if items >= 1 << 24:
            raise ConfigError(f"items={items}; expected fewer than {1 << 24:,}.")
        if not users <= interactions <= DENSEST * users * items:
            raise ConfigError(
                f"interactions={interactions}; expected {users:,} to {int(DENSEST * users * items):,} "
                f"for {users:,} users and {items:,} items."
            )
        self.users, self.items, self.seed = users, items, seed
        self.blocks = -(-users // BLOCK)
        rng = generator(seed, "generate", "items")
        self.tastes = tastes or min(max(items // 18, 2 * len(GENRES)), 240, items)
        self.genres = min(len(GENRES), self.tastes)
        self.taste_genre = np.arange(self.tastes) % self.genres
        self.taste = self._share_out(rng)
        self.second = np.where(rng.random(items) < 0.4, rng.integers(0, self.tastes, items), -1)
        rank = rng.permutation(items)
        self.log_popularity = -1.05 * np.log(rank + 1 + 0.006 * items) + rng.normal(0.0, 0.4, items)
        self.quality = rng.normal(0.0, 0.25, items).astype(np.float32)
        self._fill_urns()
        self.activity = _activity(users, items, interactions, seed)

    def _share_out(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """The main taste of each film: tastes differ in size, and none is empty."""
        share = rng.dirichlet(np.full(self.tastes, 4.0))
        taste = rng.choice(self.tastes, self.items, p=share)
        some = rng.permutation(self.items)[: self.tastes]
        taste[some] = np.arange(len(some))
        return taste

    def _fill_urns(self) -> None:
        """Urns in this order: the tastes, the genres, the crowd."""
        weight = np.exp(self.log_popularity)
        films = np.arange(self.items)
        two = np.flatnonzero(self.second >= 0)
        genre, second_genre = self.taste_genre[self.taste], self.taste_genre[self.second[two]]
        crowd = np.full(self.items, self.tastes + self.genres)
        urn = np.concatenate(
            [self.taste, self.second[two], self.tastes + genre, self.tastes + second_genre, crowd]
        )
        film = np.concatenate([films, two, films, two, films])
        flat = weight**0.85  # inside a taste the tail is heavier
        mass = np.concatenate([flat, 0.5 * flat[two], weight, 0.5 * weight[two], weight])
        order = np.argsort(urn, kind="stable")
        sizes = np.bincount(urn, minlength=self.tastes + self.genres + 1)
        self._size = sizes.astype(np.uint64)
        self._start = (np.cumsum(sizes) - sizes).astype(np.int64)
        self._film = film[order].astype(np.int32)
        self._accept = np.zeros(len(order), np.uint32)
        self._alias = np.zeros(len(order), np.int32)
        for start, size in zip(self._start, sizes, strict=True):
            accept, alias = alias_table(mass[order[start : start + size]])
            self._accept[start : start + size] = np.minimum(accept * 2.0**32, 2.0**32 - 1).astype(np.uint32)
            self._alias[start : start + size] = start + alias
        self._kind = np.repeat([0, 1, 2], [self.tastes, self.genres, 1])
        self._tastes_by_genre = np.argsort(self.taste_genre, kind="stable").astype(np.int16)
        count = np.bincount(self.taste_genre, minlength=self.genres)
        self._genre_start, self._genre_size = np.cumsum(count) - count, count

    def favourites(self, rng: np.random.Generator, n: int) -> NDArray[np.int16]:
        """n people's slots: two favourite genres, three tastes within them and one anywhere, the crowd."""
        share = 1.0 / np.arange(2, self.genres + 2) ** 0.5
        loved = rng.choice(self.genres, (n, 2), p=share / share.sum())
        within = np.stack([loved[:, 0], loved[:, 0], loved[:, 1]], axis=1)
        picked = (rng.random((n, 3)) * self._genre_size[within]).astype(np.int64)
        tastes = self._tastes_by_genre[self._genre_start[within] + picked]
        stray = rng.integers(0, self.tastes, n)
        crowd = np.full(n, self.tastes + self.genres)
        urns = np.column_stack([tastes, stray, self.tastes + loved, crowd])  # 7 urns
        layouts = np.array(
            [
                [0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 4, 4, 5, 6],  # a person of firm tastes
                [0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 4, 4, 4, 5, 6, 6],
                [0, 0, 0, 1, 1, 2, 2, 3, 4, 4, 5, 5, 6, 6, 6, 6],  # one who follows the crowd
            ]
        )
        layout = layouts[rng.choice(len(layouts), n, p=[0.4, 0.35, 0.25])]
        return np.take_along_axis(urns, layout, axis=1).astype(np.int16)

    def draw(
        self, rng: np.random.Generator, urns: NDArray[np.int16], owner: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """One film for each owner, from one of their urns; and the kind of urn (0 taste, 1 genre, 2 all)."""
        bits = rng.integers(0, 1 << 64, len(owner), dtype=np.uint64)
        urn = urns.ravel()[owner * SLOTS + (bits & np.uint64(SLOTS - 1)).astype(np.int64)]
        spot = (((bits >> np.uint64(4)) & np.uint64(0xFFFFFFF)) * self._size[urn]) >> np.uint64(28)
        at = self._start[urn] + spot.astype(np.int64)
        at = np.where((bits >> np.uint64(32)).astype(np.uint32) < self._accept[at], at, self._alias[at])
        return self._film[at].astype(np.int64), self._kind[urn]

    def films(self) -> pa.Table:
        """item (1, 2, …), title, genres."""
        main = self.taste_genre[self.taste]
        other = np.where(self.second >= 0, self.taste_genre[self.second], main)
        genres = [
            GENRES[a] if a == b else f"{GENRES[a]}|{GENRES[b]}" for a, b in zip(main, other, strict=True)
        ]
        columns = [
            from_numpy(np.arange(1, self.items + 1, dtype=np.int32)),
            strings(film_titles(main.tolist(), self.seed)),
            strings(genres),
        ]
        return pa.table(columns, names=["item", "title", "genres"])


def alias_table(weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Walker's alias method: column c is kept with probability accept[c], else it stands for alias[c]."""
    n = len(weights)
    accept = weights * (n / weights.sum())
    alias = np.arange(n)
    small, large = [int(c) for c in np.flatnonzero(accept < 1)], [int(c) for c in np.flatnonzero(accept >= 1)]
    while small and large:
        less, more = small.pop(), large.pop()
        alias[less] = more
        accept[more] -= 1 - accept[less]
        (small if accept[more] < 1 else large).append(more)
    accept[small + large] = 1.0  # rounding
    return accept, alias


def _activity(users: int, items: int, interactions: int, seed: int) -> NDArray[np.int64]:
    """How many items each user has: log-normal, within limits, and adding up exactly."""
    rng = generator(seed, "generate", "activity")
    raw = np.exp(rng.normal(0.0, 1.0, users))
    mean = interactions / users
    least, most = int(max(1, min(5, mean // 2))), int(max(mean + 1, 0.8 * items))
    low, high = 0.0, 4.0 * most / raw.min()
    for _ in range(80):  # the scale at which the clipped counts have the right sum
        middle = (low + high) / 2
        if np.clip(np.floor(raw * middle), least, most).sum() <= interactions:
            low = middle
        else:
            high = middle
    counts = np.clip(np.floor(raw * low), least, most).astype(np.int64)
    room = rng.permutation(np.flatnonzero(counts < most))
    left = interactions - int(counts.sum())
    counts[room[:left]] += 1
    return counts


def film_titles(genres: NDArray[np.integer] | Sequence[int], seed: int) -> list[str]:
    """One distinct title per film, given the number of its main genre; ends with a year."""
    rng = generator(seed, "generate", "titles")
    nouns = [words.split() for words in _NOUNS]
    adjectives, places, names = _ADJECTIVES.split(), _PLACES.split(", "), _NAMES.split()
    draws = rng.integers(0, 2**31, (len(genres), 6)).tolist()
    seen: dict[str, int] = {}
    titles = []
    for genre, (form, a, n, p, b, year) in zip(genres, draws, strict=True):
        words = nouns[int(genre) % len(nouns)]
        title = _FORMS[form % len(_FORMS)].format(
            a=adjectives[a % len(adjectives)],
            n=words[n % len(words)],
            p=places[p % len(places)],
            b=names[b % len(names)],
        )
        if title.startswith("A ") and title[2] in "AEIOU":
            title = "An" + title[1:]
        seen[title] = seen.get(title, 0) + 1
        part = f" {seen[title]}" if seen[title] > 1 else ""
        titles.append(f"{title}{part} ({1950 + int(74 * (year / 2**31) ** 0.6)})")
    return titles
