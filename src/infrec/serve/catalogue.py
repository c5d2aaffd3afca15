"""Items of a model, prepared for the service: found by the text of their id, searched by title, and each
written as JSON once."""

from __future__ import annotations

import json
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infrec.data import Interactions, Vocabulary

Id = int | str
_ARTICLE_LAST = re.compile(r"^(.+), (The|A|An)(\s*\(\d{4}\))?$")
_MOST_MATCHES = 2_000  # of a search; beyond that a longer text is needed anyway


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
        self.genres = _genres(log)
        self.genre_names = sorted({name for names in self.genres for name in names})
        self._members: dict[str, list[int]] = {}
        for at, names in enumerate(self.genres):
            for name in names:
                self._members.setdefault(name.casefold(), []).append(at)
        facts = zip(self.ids, self.titles, self.genres, strict=True)
        # An answer holds these pieces as they are: most of its JSON is written before the first request.
        self.json = [
            compact({"item": item, "title": title, "genres": genres})[:-1] for item, title, genres in facts
        ]
        folded = [
            "\n".join(map(fold, _spellings(title))) + f"\t{fold(str(item))}"
            for item, title in zip(self.ids, self.titles, strict=True)
        ]
        self._text = "\n" + "\n".join(folded)
        self._starts = np.cumsum([0] + [len(one) + 1 for one in folded[:-1]]).tolist() if folded else []

    def __len__(self) -> int:
        return len(self.ids)

    def positions(self, ids: Iterable[Id]) -> tuple[list[int], list[Id]]:
        """The columns of the known ids, sorted, each once; and the unknown ids."""
        position = self.position
        columns, unknown = set(), []
        for one in ids:
            at = position.get(one if type(one) is str else str(one))
            if at is None:
                unknown.append(one)
            else:
                columns.add(at)
        return sorted(columns), unknown

    def of_genres(self, names: Sequence[str]) -> tuple[list[int], list[str]]:
        """The columns that have any of these genres, and the names that no item has."""
        unknown = [name for name in names if name.casefold() not in self._members]
        return sorted({at for name in names for at in self._members.get(name.casefold(), ())}), unknown

    def search(self, text: str, limit: int) -> list[int]:
        """Items whose title or id holds the text: the id itself, then beginnings of titles, then of words.

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
        exact = self.position.get(text.strip())
        if exact is not None:
            ranks[exact] = 0
        return sorted(ranks, key=lambda item: (ranks[item], -self.counts[item], item))[:limit]


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
