"""The names of a text's columns: whether its first line has them, and what they are where it has not."""

from __future__ import annotations

import re
from collections.abc import Sequence

from infrec.data.columns import ReadOptions, find, recognised

USUAL = {"user": "user", "item": "item", "rating": "rating", "time": "timestamp"}  # by role, in their order
EPOCH = 100_000_000  # seconds: 1973; smaller numbers are no times
HIGHEST_RATING = 100  # larger whole numbers count something


def has_header(rows: Sequence[Sequence[str]], wanted: Sequence[str]) -> bool:
    """Whether the first row names the columns, as its names, its values and those further down tell.

    wanted: names or numbers of columns that the user gave.
    """
    first = rows[0]
    if any(recognised(field) for field in first):
        return True
    if any(len(row) > at and row[at] == name for row in rows[1:] for at, name in enumerate(first) if name):
        return False  # a value that comes again is no name
    if any(field in wanted and not field.isdigit() for field in first):
        return True
    by_number = any(column.isdigit() for column in wanted)
    if by_number and not (rows[1:] and all(looks_like_data(row) for row in rows[1:])):
        return False
    return not looks_like_data(first)


def looks_like_data(fields: Sequence[str]) -> bool:
    """Whether a first line without known names is a row: a field of several is a number."""
    return len(fields) > 1 and any(map(_is_number, fields))


def _is_number(field: str) -> bool:
    return re.fullmatch(r"\s*-?[0-9]+([.][0-9]+)?\s*", field) is not None


def is_surely_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first line names a user and an item, holds no number, and no name is a value further
    down."""
    first, columns = rows[0], [find(role, rows[0]) for role in ("user", "item")]
    if None in columns or any(re.fullmatch(r"\s*-?[0-9.]+\s*", field) for field in first):
        return False
    places = [first.index(column) for column in columns if column is not None]
    return not any(len(row) > at and row[at] == first[at] for row in rows[1:] for at in places)


def positional(rows: Sequence[Sequence[str]], options: ReadOptions) -> list[str]:
    """Names of columns that have none: user, item and what the values look like, unless numbers are given."""
    width = len(rows[0])
    full = [row for row in rows if len(row) == width]
    names = [*_usual(full, width), *(f"column{n}" for n in range(len(USUAL) + 1, width + 1))]
    numbers = {role: int(column) for role, column in options.columns.items() if str(column).isdigit()}
    places = {role: names.index(name) + 1 for role, name in USUAL.items() if name in names}
    if any(places.get(role) != number for role, number in numbers.items()):
        return [f"column{n}" for n in range(1, width + 1)]
    # Amazon's 2018 ratings put the item first. An ASIN has 10 characters; a reviewer's id starts with A.
    asin, reviewer = re.compile(r"[0-9B][0-9A-Z]{9}"), re.compile(r"A[0-9A-Z]{9,20}")
    if (
        not numbers
        and width == 4
        and all(asin.fullmatch(row[0]) and reviewer.fullmatch(row[1]) for row in full)
    ):
        names[:2] = ["item", "user"]
    return names


def _usual(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Names of the first four columns: after user and item, what the next two look like."""
    names = [*USUAL.values()][:width]
    if width < 3:
        return names
    third = [row[2] for row in rows]
    if not any(map(_is_number, third)):  # texts: of a name of the item, what follows is its count
        names[2:] = ["title", _measured([row[3] for row in rows])] if width > 3 else ["title"]
    elif width == 3:
        names[2] = _measured(third)
    elif _measured(third) == "count":
        names[2] = "count"
    return names


def _measured(values: Sequence[str]) -> str:
    """Name of a column by what its numbers can be: a time, a count, or a rating."""
    if not all(map(_is_number, values)):
        return USUAL["rating"]
    numbers = [float(value.strip()) for value in values]  # `float` leaves control characters on
    if min(numbers) >= EPOCH:
        return USUAL["time"]
    whole = all(number >= 0 and number.is_integer() for number in numbers)
    return "count" if whole and max(numbers) > HIGHEST_RATING else USUAL["rating"]


def distinct(names: Sequence[str]) -> list[str]:
    """Header names as written; a repeated or empty one gets its position."""
    out: list[str] = []
    for position, name in enumerate(names):
        name = name.strip()
        out.append(name if name and name not in out else f"{name or 'column'}{position + 1}")
    return out
