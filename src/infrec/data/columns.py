"""How a table of interactions is to be read: which column means what, and which rows count.

A text may name its columns in its first line or not; then they are told by their values.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from infrec.errors import ConfigError, DataError
from infrec.settings import Settings, setting

Duplicates = Literal["first", "sum"]

# Normalised names (lower case, without blanks and punctuation) per role, the most telling first.
_NAMES = {
    "user": "user userid uid users username usercode reviewerid reviewer customerid customer visitorid "
    "memberid accountid profileid playerid sessionid session",
    "item": "item itemid iid items movie movieid film filmid asin parentasin product productid book bookid "
    "isbn track trackid song songid artist artistid business businessid game gameid appid article articleid "
    "newsid animeid sku",
    "rating": "rating ratings score stars star starrating overall userrating bookrating movierating "
    "filmrating",
    "time": "timestamp time datetime date ts unixreviewtime reviewtime createdat ratedat eventtime timerank",
    "weight": "weight weights",
    "count": "plays playcount playscount count counts listens listencount clicks views viewcount purchases "
    "quantity hours hoursplayed minutes",
    "split": "split",
    "title": "title name movietitle booktitle songtitle tracktitle gametitle itemtitle producttitle itemname "
    "moviename bookname songname trackname artistname gamename productname headline",
    "genres": "genres genre categories category",
}
ALIASES: Mapping[str, Sequence[str]] = {role: names.split() for role, names in _NAMES.items()}
USUAL = {"user": "user", "item": "item", "rating": "rating", "time": "timestamp"}  # by role, in their order
EPOCH = 100_000_000  # seconds: 1973; smaller numbers are no times
HIGHEST_RATING = 100  # larger whole numbers count something


@dataclass(frozen=True)
class ReadOptions(Settings):
    """Columns by name or position where they are not recognised, and which rows count."""

    user: str | int | None = setting(None, "column of user ids, by name or by number from 1", least=1)
    item: str | int | None = setting(None, "column of item ids", least=1)
    rating: str | int | None = setting(None, "column of ratings", least=1)
    time: str | int | None = setting(None, "column of times", least=1)
    weight: str | int | None = setting(None, "column of weights, such as play counts", least=1)
    positive: str | None = setting(
        None, 'which rows count as interactions, such as "rating >= 4 and time > 2020-01-31"'
    )
    negative: str | None = setting(
        None, 'which rows are dislikes, such as "rating <= 2"; they stand beside the interactions'
    )
    min_user: int = setting(1, "leave out users with fewer interactions, repeatedly (k-core)", least=1)
    min_item: int = setting(1, "leave out items with fewer interactions, repeatedly (k-core)", least=1)
    duplicates: Duplicates = setting("first", "repeated pairs: keep the first, or sum")
    encoding: str | None = setting(None, "encoding of a text file, such as latin-1; detected unless given")
    delimiter: str | None = setting(
        None, "separator of the fields of a text file, such as ; or tab; detected unless given"
    )
    no_header: bool = setting(False, "the first line is a row, not the names of the columns")
    items_id: str | int | None = setting(None, "column of item ids in the table about items", least=1)
    items_title: str | int | None = setting(None, "column of titles in the table about items", least=1)
    new_items: bool = setting(False, "items of the table about items that nobody has yet are there, too")
    strict: bool = setting(False, "refuse damaged rows instead of dropping and counting them")
    by_row: bool = setting(False, "judge every row by itself alone, as ε and δ need")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.by_row and self.negative is not None:
            raise ConfigError(
                f"negative is {self.negative!r}; expected none with ε and δ, which know no dislikes: leave "
                "it out."
            )
        if self.by_row and (self.min_user > 1 or self.min_item > 1):
            raise ConfigError(
                f"min_user is {self.min_user} and min_item {self.min_item}; expected 1 and 1 with ε and δ, "
                "where whether a row counts depends on that row alone: leave them out."
            )

    @property
    def columns(self) -> dict[str, str | int]:
        """The column given for each role that one is given for."""
        given = {role: getattr(self, role) for role in ("user", "item", "rating", "time", "weight")}
        return {role: name for role, name in given.items() if name is not None}

    def roles(self, columns: Sequence[str], source: str, *, header_is_guess: bool = False) -> dict[str, str]:
        """Role → column, from what is given and what is recognised; user and item must be found."""
        by_role: dict[str, str] = {}
        for role, name in self.columns.items():
            others = {find(other, columns) for other in ("user", "item") if other != role}
            free = [column for column in columns if column not in {*by_role.values(), *others}]
            by_role[role] = named(name, role, columns, source, free)
        for role in ALIASES:
            free = [column for column in columns if column not in by_role.values()]
            if role not in by_role and (column := find(role, free)) is not None:
                by_role[role] = column
        for role in ("user", "item"):
            taken = {name: other for other, name in by_role.items() if other != role}
            if role not in by_role and (column := find(role, columns)) in taken:
                raise DataError(
                    f"{source}: {column!r} is given for the {taken[column]}, and no other column is "
                    f"recognised as the {role}; expected two columns."
                )
        if missing := [role for role in ("user", "item") if role not in by_role]:
            free = [column for column in columns if column not in by_role.values()]
            example = ", ".join(f'{role}="{name}"' for role, name in zip(missing, free, strict=False))
            advice = f"name one, such as `{example}`"
            if header_is_guess and not self.columns:
                advice = f"if its first line is a row, use `no_header=True`, else {advice}"
            raise DataError(
                f"{source} has no column that is recognised as the {' or the '.join(missing)}; it has "
                f"{listed(columns)}: {advice}."
            )
        for role, other in (("user", "item"), ("user", "weight"), ("item", "weight")):
            if by_role[role] == by_role.get(other):
                raise DataError(
                    f"{source}: {role} and {other} are both {by_role[role]!r}; expected two columns."
                )
        return by_role

    def key_and_title(
        self, columns: Sequence[str], source: str, item: str | None, *, has_header: bool
    ) -> tuple[str, str | None]:
        """The columns of a table about items that have the ids and the titles, given or recognised.

        Args:
            columns: Its columns.
            source: Its name.
            item: The log's column of item ids, whose name that of the table may have too.
            has_header: Whether the columns have names; else ids come first, then titles.
        """
        key: str | None = columns[0]
        title: str | None = columns[1] if len(columns) > 1 else None
        if has_header:
            plain_id = next((column for column in columns if normalised(column) == "id"), None)
            key = item if item is not None and item in columns else find("item", columns) or plain_id
            others = [column for column in columns if column != key]
            like_titles = (
                one for end in ("title", "name") for one in others if normalised(one).endswith(end)
            )
            title = find("title", others) or next(like_titles, None)
        if self.items_id is not None:
            key = named(self.items_id, "items_id", columns, source)
        if self.items_title is not None:
            title = named(self.items_title, "items_title", columns, source)
        if key is None:
            raise DataError(
                f"{source} has no column recognised as the item; it has {listed(columns)}: name one, such as "
                f'`items_id="{columns[0]}"`.'
            )
        return key, title


DEFAULTS = ReadOptions()


def normalised(name: str) -> str:
    """`User_ID`, `userId` and RecBole's `user_id:token` are the same name."""
    return re.sub(r"[\s_\-.]", "", name.strip().lstrip("\ufeff").split(":")[0].lower())


def recognised(name: str) -> bool:
    """Whether a name stands for any role: the sign of a header."""
    return any(normalised(name) in names for names in ALIASES.values())


def find(role: str, columns: Sequence[str]) -> str | None:
    """The column that plays a role, by its name."""
    by_name: dict[str, str] = {}
    for column in columns:
        by_name.setdefault(normalised(column), column)
    return next((by_name[alias] for alias in ALIASES[role] if alias in by_name), None)


def named(
    given: str | int, role: str, columns: Sequence[str], source: str, free: Sequence[str] | None = None
) -> str:
    """The column that the user named: exactly, in other letters, or by its number (1, 2, …).

    free: The columns of which one may be meant where there is none of that name; all unless given.
    """
    if given in columns:
        return str(given)
    if str(given).isdigit():
        if 1 <= int(given) <= len(columns):
            return columns[int(given) - 1]
        raise DataError(
            f"{source} has no column {given} for the {role}; its columns are {listed(columns)}: name one, or "
            f"give a number from 1 to {len(columns)}."
        )
    alike = [column for column in columns if normalised(column) == normalised(str(given))]
    if len(alike) == 1:
        return alike[0]
    free = free or columns
    usual = find(role, free) if role in ALIASES else None
    near = difflib.get_close_matches(str(given), free, n=1) or ([] if usual is None else [usual])
    near = near or difflib.get_close_matches(str(given), free, n=1, cutoff=0) or list(free)
    raise DataError(
        f"{source} has no column {given!r} for the {role}; it has {listed(columns)}: name one, such as "
        f'`{role}="{near[0]}"`.'
    )


def once(wanted: Sequence[str], columns: Sequence[str], source: str) -> None:
    """Refuses a wanted column of which there are several."""
    for name in wanted:
        if (count := columns.count(name)) > 1:
            raise DataError(f"{source} has {count} columns called {name!r}; expected one: rename the others.")


def listed(names: Sequence[str], most: int = 8) -> str:
    """`a, b, c, … (12 in all)`."""
    shown = ", ".join(repr(str(name)[:40]) for name in names[:most])
    return (f"{shown}, … ({len(names)} in all)" if len(names) > most else shown) or "no columns"


# ---- the columns of a text ---------------------------------------------------------------------------------
@dataclass(frozen=True)
class Header:
    """The names of a text's columns: from its first line, or from what its values look like.

    Args:
        columns: The names.
        is_there: Whether the first line has them.
        is_guess: Whether the first line may be a row all the same, unless its names are known.
        note: A sentence about what was taken for granted; None where nothing was.
    """

    columns: list[str]
    is_there: bool = False
    is_guess: bool = False
    note: str | None = None

    @classmethod
    def of(cls, rows: Sequence[Sequence[str]], options: ReadOptions, source: str) -> Header:
        """From the fields of the first lines.

        Args:
            rows: The fields of each line.
            options: Columns that the user gave.
            source: Name of the file.
        """
        wanted = [str(column) for column in options.columns.values()]
        if options.no_header or not _has_header(rows, wanted):
            columns = _positional(rows, options)
            note = f"{source} has no header; its columns were taken as {', '.join(columns)}"
            return cls(columns, note=None if options.no_header else note)
        note = (
            f"the first line of {source} ({listed(rows[0], 4)}) was taken as its header, not as a row; "
            "if it is a row, use `no_header=True`"
        )
        is_guess = not (rows[1:] and all(_looks_like_data(row) for row in rows[1:]))
        is_sure = any(field in wanted for field in rows[0]) or _is_surely_header(rows)
        return cls(_distinct(rows[0]), True, is_guess, None if is_sure else note)


def _has_header(rows: Sequence[Sequence[str]], wanted: Sequence[str]) -> bool:
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
    if by_number and not (rows[1:] and all(_looks_like_data(row) for row in rows[1:])):
        return False
    return not _looks_like_data(first)


def _looks_like_data(fields: Sequence[str]) -> bool:
    """Whether a first line without known names is a row: a field of several is a number."""
    return len(fields) > 1 and any(map(_is_number, fields))


def _is_number(field: str) -> bool:
    return re.fullmatch(r"\s*-?[0-9]+([.][0-9]+)?\s*", field) is not None


def _is_surely_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first line names a user and an item, holds no number, and no name is a value further
    down."""
    first, columns = rows[0], [find(role, rows[0]) for role in ("user", "item")]
    if None in columns or any(re.fullmatch(r"\s*-?[0-9.]+\s*", field) for field in first):
        return False
    places = [first.index(column) for column in columns if column is not None]
    return not any(len(row) > at and row[at] == first[at] for row in rows[1:] for at in places)


def _positional(rows: Sequence[Sequence[str]], options: ReadOptions) -> list[str]:
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


def _distinct(names: Sequence[str]) -> list[str]:
    """Header names as written; a repeated or empty one gets its position."""
    out: list[str] = []
    for position, name in enumerate(names):
        name = name.strip()
        out.append(name if name and name not in out else f"{name or 'column'}{position + 1}")
    return out
