"""Which items have certain words: typed in any order, not to their end, or with one letter wrong."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import reduce

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
