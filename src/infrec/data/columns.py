"""How a table of interactions is to be read: which column means what, and which rows count."""

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


def find_title(columns: Sequence[str]) -> str | None:
    """The column of titles in a table about items: by its name, or by how its name ends."""
    endings = (column for end in ("title", "name") for column in columns if normalised(column).endswith(end))
    return find("title", columns) or next(endings, None)


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
