"""A model as it is served: what it answers with, what is said about it, and its items, found by the text of
their id, searched by title, and each written as JSON once."""

from __future__ import annotations

import json
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.data import Interactions, Vocabulary
from infrec.models.base import WITHOUT_IDS, Recommender
from infrec.models.dislikes import of_users
from infrec.serve.schemas import Problem

Id = int | str
LIKES = 5  # titles that say what a user likes
MOST_USERS, MOST_INTERACTIONS = 2_000, 200_000  # of a summary that is sent to be drawn
_ARTICLE_LAST = re.compile(r"^(.+), (The|A|An)(\s*\(\d{4}\))?$")
_MOST_MATCHES = 2_000  # of a search; beyond that a longer text is needed anyway


@dataclass(eq=False)
class Served:
    """A model under the name it answers to, with its items prepared for answers.

    hash: of everything in its directory. kind: what it was fitted on: "log", "summary" or "sample".

    The users of a summary are made up and may be shown; of real ones only sums are.
    """

    name: str
    hash: str
    model: Recommender
    kind: str
    catalogue: Catalogue = field(init=False)
    users: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.catalogue = Catalogue(self.log)
        self.users = index_of(self.log.users)
        self.label = {"name": self.name, "hash": self.hash}
        self.label_json = compact(self.label)

    @property
    def synthetic(self) -> bool:
        return self.kind == "summary"

    @property
    def log(self) -> Interactions:
        return self.model.log

    @cached_property
    def popularity(self) -> NDArray[np.float32]:
        return self.model.popularity

    @property
    def explains(self) -> bool:
        return hasattr(self.model, "contributions")

    @property
    def explorable(self) -> bool:
        small = self.log.n_users <= MOST_USERS and self.log.n_interactions <= MOST_INTERACTIONS
        return self.synthetic and small

    @property
    def named(self) -> bool:
        """Whether real users can be asked for by their ids."""
        return self.kind == "log" and self.model.about.get("users") != WITHOUT_IDS

    def disliked(self, users: Sequence[Id | None]) -> sp.csr_array | None:
        """Dislikes of each of these users; None where the model knows of none.

        Args:
            users: Ids of the users, None for somebody who is not known.
        """
        if self.log.dislikes is None:
            return None
        rows = np.array([-1 if user is None else self.users[str(user)] for user in users])
        return of_users(self.log.dislikes, rows)

    def facts(self) -> dict[str, Any]:
        """The model's entry in the list of models."""
        return {
            **self.label,
            "type": self.model.name,
            "settings": self.model.selected,
            "users": self.log.n_users,
            "items": self.log.n_items,
            "interactions": self.log.n_interactions,
            "kind": self.kind,
            "summary": self.synthetic,
            "discrete": not self.log.weighted,
            "genres": self.catalogue.genre_names,
            "titles": self.catalogue.has_titles,
            "explains": self.explains,
            "explorable": self.explorable,
            "named": self.named,
        }

    @property
    def people(self) -> Interactions:
        """The users that an explanation is a sum over: the model's centres."""
        return getattr(self.model, "centres", self.log)

    def likes(self, user: int) -> list[str]:
        """Titles that describe a synthetic user best; none for a real user."""
        if not self.synthetic:
            return []
        best = characteristic(self.people, user, self.catalogue.counts)[:LIKES]
        return [self.catalogue.titles[at] for at in best]

    def user_name(self, user: int) -> Id | None:
        return portable(self.people.users.ids[user].as_py()) if self.synthetic else None

    def explore(self, original: Served | None) -> dict[str, Any]:
        """The synthetic users, what each has, and how popular items are with them and in the original."""
        if not self.explorable:
            raise Problem(
                404,
                "not_a_summary",
                f"the model {self.name!r} was not served from a summary, or one too large to be drawn; "
                "serve a directory that `infrec distill` wrote.",
            )
        log, catalogue = self.log, self.catalogue
        original_counts = np.zeros(log.n_items, np.int64) if original is None else original.catalogue.counts
        # What no synthetic user has, but real ones did, is worth seeing too.
        shown = np.flatnonzero((catalogue.counts > 0) | (original_counts > 0))
        users = []
        for row, user in enumerate(log.users.ids.to_pylist()):
            order = characteristic(log, row, catalogue.counts)
            entry: dict[str, Any] = {
                "user": portable(user),
                "size": len(order),
                "items": np.searchsorted(shown, order).tolist(),
                "likes": [catalogue.titles[at] for at in order[:LIKES]],
            }
            if log.weighted:
                dense = log.matrix[[row]].toarray().ravel()
                entry["weights"] = [round(float(weight), 4) for weight in dense[order]]
            users.append(entry)
        items = [
            {
                **catalogue.facts(at),
                "popularity": int(catalogue.counts[at]),
                "original": None if original is None else int(original_counts[at]),
            }
            for at in shown.tolist()
        ]
        return {
            "model": self.label,
            "summary_users": log.n_users,
            "original_users": None if original is None else original.log.n_users,
            "users": users,
            "items": items,
        }


class Catalogue:
    """Ids, titles, genres and popularity of a model's items."""

    def __init__(self, log: Interactions) -> None:
        self.ids = [portable(one) for one in log.items.ids.to_pylist()]
        self.position = index_of(log.items)
        self.counts = log.item_counts
        self.has_titles = log.titles is not None
        titles = log.titles.to_pylist() if log.titles is not None else [None] * len(self.ids)
        self.titles = [
            title if (title or "").strip() else str(item)
            for item, title in zip(self.ids, titles, strict=True)
        ]
        often = Counter(map(str.casefold, self.titles))
        self.ambiguous = [often[title.casefold()] > 1 for title in self.titles]
        self.genres = _genres(log)
        self.genre_names = sorted({name for names in self.genres for name in names})
        self._members: dict[str, list[int]] = {}
        for at, names in enumerate(self.genres):
            for name in names:
                self._members.setdefault(name.casefold(), []).append(at)
        # An answer holds these pieces as they are: most of its JSON is written before the first request.
        self.json = [compact(self.facts(at))[:-1] for at in range(len(self.ids))]
        folded = [
            "\n".join(map(fold, _spellings(title))) + f"\t{fold(str(item))}"
            for item, title in zip(self.ids, self.titles, strict=True)
        ]
        self._text = "\n" + "\n".join(folded)
        self._words = Words([fold(text) for text in _texts(log, self.titles)])
        self._starts = np.cumsum([0] + [len(one) + 1 for one in folded[:-1]]).tolist() if folded else []

    def __len__(self) -> int:
        return len(self.ids)

    def facts(self, at: int) -> dict[str, Any]:
        """Id, title and genres of an item, and whether another one has its title."""
        return {
            "item": self.ids[at],
            "title": self.titles[at],
            "ambiguous": self.ambiguous[at],
            "genres": self.genres[at],
        }

    def positions(self, ids: Sequence[Id]) -> tuple[list[int], list[Id]]:
        """The columns of the known ids, sorted, each once; and the unknown ids."""
        columns = list(map(self.position.get, map(str, ids)))
        unknown = [one for one, at in zip(ids, columns, strict=True) if at is None]
        return sorted({at for at in columns if at is not None}), unknown

    def of_genres(self, names: Sequence[str]) -> tuple[list[int], list[str]]:
        """The columns that have any of these genres, and the names that no item has."""
        unknown = [name for name in names if name.casefold() not in self._members]
        return sorted({at for name in names for at in self._members.get(name.casefold(), ())}), unknown

    def search(self, text: str, limit: int) -> list[int]:
        """Items that a text may mean: whose id it is, whose title or a word of it begins with it, whose id or
        a word holds it, and last those that have its words in any order, in title, authors or genres.

        Within each of these, the most popular first; without a text, the most popular of all.
        """
        wanted = " ".join(fold(text).split())
        if not wanted:
            return np.argsort(-self.counts, kind="stable")[:limit].tolist()
        ranks: dict[int, int] = {}
        at = self._text.find(wanted)
        while at >= 0 and len(ranks) < _MOST_MATCHES:
            item = bisect_right(self._starts, at - 1) - 1
            before = self._text[at - 1]
            rank = {"\n": 1, "\t": 3, " ": 2}.get(before, 4 if before.isalnum() else 2)
            ranks[item] = min(ranks.get(item, rank), rank)
            at = self._text.find(wanted, at + 1)
        if len(ranks) < limit:
            items, exact = self._words.find(wanted)
            for item in items:
                ranks.setdefault(item, 5 if exact else 6)
        if (own := self.position.get(text.strip())) is not None:
            ranks[own] = 0
        return sorted(ranks, key=lambda item: (ranks[item], -self.counts[item], item))[:limit]


def _texts(log: Interactions, titles: Sequence[str]) -> list[str]:
    """All that is said of each item in words: its title, authors, genres."""
    info = log.item_info
    columns = [] if info is None else [column for column in info.columns if pa.types.is_string(column.type)]
    return [
        " ".join(text for text in texts if text and "://" not in text)
        for texts in zip(titles, *(column.to_pylist() for column in columns), strict=True)
    ]


def index_of(vocabulary: Vocabulary) -> dict[str, int]:
    """The position of each id by its text."""
    return {str(one): at for at, one in enumerate(vocabulary.ids.to_pylist())}


def portable(one: Id) -> Id:
    """An id as JSON can carry it: beyond 2⁵³ browsers round whole numbers, so that these become text."""
    return one if isinstance(one, str) or abs(one) < 2**53 else str(one)


def _spellings(title: str) -> list[str]:
    """A title as it is written and, for "Matrix, The (1999)", as people say it and the page shows it."""
    moved = _ARTICLE_LAST.sub(r"\2 \1\3", title)
    return [title] if moved == title else [title, moved]


def fold(text: str) -> str:
    """A text without case, accents and line breaks, for comparing."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    kept = "".join(letter for letter in plain if not unicodedata.combining(letter))
    return kept.replace("\n", " ").replace("\t", " ")


def compact(value: Any) -> bytes:
    """JSON without spaces; a number that is not finite is an error here, never an answer."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(
        "utf-8", "replace"
    )


def characteristic(log: Interactions, row: int, counts: NDArray[np.int64]) -> NDArray[np.intp]:
    """Items that a user likes, most telling first: those that are known but not everybody's.

    √c · log(n / c) is highest for items that about an eighth of the users have.
    """
    start, stop = log.matrix.indptr[row], log.matrix.indptr[row + 1]
    items = log.matrix.indices[start:stop]
    share = np.maximum(counts[items], 1).astype(np.float64)
    telling = np.sqrt(share) * np.log((log.n_users + 1) / share) * log.matrix.data[start:stop]
    return items[np.argsort(-telling, kind="stable")]


def _genres(log: Interactions) -> list[list[str]]:
    info = log.item_info
    if info is None or "genres" not in info.column_names:
        return [[] for _ in range(log.n_items)]
    return [
        [name.strip() for name in (text or "").split("|") if name.strip()]
        for text in info.column("genres").to_pylist()
    ]


# ---- which items have certain words: in any order, not to their end, or with one letter wrong -------------
_WORD = re.compile(r"\w+")
_FORGIVEN = 4  # letters from which one may be wrong


class Words:
    """An index of texts, by word. Texts and queries are folded: without case and accents."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._items: dict[str, list[int]] = {}
        for at, text in enumerate(texts):
            for word in set(_WORD.findall(text)):
                self._items.setdefault(word, []).append(at)
        self._sorted = sorted(self._items)
        self._turned = sorted(word[::-1] for word in self._items)

    def find(self, text: str) -> tuple[set[int], bool]:
        """The items that have every word of the text, and whether all are spelt as they are there."""
        words = _WORD.findall(text)
        found = [self._matching(word) for word in words]
        exact = all(found)
        if not exact:
            found = [items or self._near(word) for items, word in zip(found, words, strict=True)]
        return (reduce(set.intersection, found) if found else set()), exact

    def _matching(self, word: str) -> set[int]:
        """Items with a word that begins so; a single letter is a word of its own."""
        words = [word] if len(word) == 1 else _beginning(self._sorted, word)
        return {item for each in words for item in self._items.get(each, ())}

    def _near(self, word: str) -> set[int]:
        """Items with a word that one letter more, less, another, or two exchanged make the same.

        Such a word has the same first half, or the same second half.
        """
        if len(word) < _FORGIVEN:
            return set()
        half = len(word) // 2
        words = {*_beginning(self._sorted, word[: half - 1])}
        words |= {turned[::-1] for turned in _beginning(self._turned, word[half + 1 :][::-1])}
        return {item for each in words if one_slip(word, each) for item in self._items[each]}


def _beginning(words: list[str], start: str) -> Iterator[str]:
    """Those of the sorted words that begin so."""
    for at in range(bisect_left(words, start), len(words)):
        if not words[at].startswith(start):
            return
        yield words[at]


def one_slip(a: str, b: str) -> bool:
    """Whether one letter more, less or another, or two neighbours exchanged, make one word of the other."""
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    a, b = a[start:], b[start:]
    while a and b and a[-1] == b[-1]:
        a, b = a[:-1], b[:-1]
    return max(len(a), len(b)) <= 1 or (len(a) == len(b) == 2 and a == b[::-1])
