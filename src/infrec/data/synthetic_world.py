"""The world that generated logs come from: films, tastes, genres, and how active each person is.

Invented films: titles that sound like their genre. None is meant to be a film that exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from infrec.data.vocabulary import from_numpy, strings
from infrec.errors import ConfigError
from infrec.randomness import generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
