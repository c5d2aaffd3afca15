"""The items that `--history` names: ids, several with commas between them, or titles by their text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from infrec.data.vocabulary import to_numpy
from infrec.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from infrec.data import Interactions

_YEAR = re.compile(r"\s*\(\d{4}\)\s*$")
_NAMED = 8  # items that an error names


@dataclass
class Meant:
    """The columns of the items that were found, and the words that stand for none."""

    columns: list[int] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def names(self, log: Interactions) -> list[str]:
        """Each item's id, with its title where it has one."""
        return [_name(log, column) for column in self.columns]


def meant(log: Interactions, words: Sequence[str]) -> Meant:
    """The items of a history as it was typed.

    A text is an id, else a whole title, else several with commas between them, else a part of a title.
    """
    found = Meant()
    for text in words:
        parts = [part.strip() for part in text.split(",")]
        column = _by_id(log, text)
        if column is None and (len(parts) == 1 or not all(_by_id(log, part) is not None for part in parts)):
            column = _by_title(log, text)
        if column is not None:
            found.columns.append(column)
            continue
        for part in parts if len(parts) > 1 else ():
            one = _by_id(log, part)
            one = _by_title(log, part) if one is None else one
            found.columns += [] if one is None else [one]
            found.unknown += [part] if one is None else []
        found.unknown += [text] if len(parts) == 1 else []
    return found


def _by_id(log: Interactions, text: str) -> int | None:
    (at,) = log.items.positions([text])
    return int(at) if at >= 0 else None


def _by_title(log: Interactions, text: str) -> int | None:
    """The item whose title a text is, by its words in any order, or is a part of; several are refused.

    A number alone is no part of a title: it is an id that was mistyped.
    """
    titles = log.titles
    if titles is None or not (wanted := _words(text)):
        return None
    lower = pc.utf8_lower(titles.combine_chunks())
    holds = np.ones(len(titles), bool)
    for word in wanted:
        holds &= _flags(pc.match_substring(lower, word))
    some = np.flatnonzero(holds)
    candidates = {int(at): lower[int(at)].as_py() for at in some}
    kinds = [
        [at for at, title in candidates.items() if title == text.lower().strip()],
        [at for at, title in candidates.items() if sorted(_words(title)) == sorted(wanted)],
    ]
    if not text.strip().isdigit():
        words = {at: set(re.findall(r"\w+", title)) for at, title in candidates.items()}
        kinds += [
            [at for at, have in words.items() if have.issuperset(wanted)],
            [at for at, have in words.items() if all(_begins(word, have) for word in wanted)],
        ]
    best = next((kind for kind in kinds if kind), [])
    if len(best) > 1:
        named = ", ".join(_name(log, at) for at in best[:_NAMED])
        more = f" and {len(best) - _NAMED:,} more" if len(best) > _NAMED else ""
        raise DataError(f"{text!r} may be {len(best):,} items: {named}{more}; give the id of one of them.")
    return best[0] if best else None


def _words(text: str) -> list[str]:
    """The words of a title in small letters, without the year behind it."""
    return re.findall(r"\w+", _YEAR.sub("", text.lower()))


def _begins(start: str, words: Iterable[str]) -> bool:
    """Whether some word begins so."""
    return any(word.startswith(start) for word in words)


def _flags(found: pa.Array) -> NDArray[np.bool_]:
    return to_numpy(pc.fill_null(found, False)).astype(bool)


def _name(log: Interactions, column: int) -> str:
    """An item's id, and its title where it has one."""
    title = None if log.titles is None else log.titles[column].as_py()
    return f"{log.items.ids[column]}" + (f" {title}" if title else "")
