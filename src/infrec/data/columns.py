"""How a table of interactions is to be read: which column means what, and which rows count."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from infrec.errors import ConfigError, DataError
from infrec.settings import Settings, setting

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Duplicates = Literal["first", "sum"]

# Normalised names (lower case, without blanks and punctuation) per role, the most telling first.
_NAMES = {
    "user": "user userid uid users username usercode reviewerid reviewer customerid customer visitorid "
    "memberid accountid profileid playerid sessionid session",
    "item": "item itemid iid items movie movieid film filmid asin parentasin product productid book bookid "
    "isbn track trackid song songid artist artistid business businessid game gameid appid article articleid "
    "newsid animeid sku",
    "rating": "rating ratings score stars star starrating overall userrating",
    "time": "timestamp time datetime date ts unixreviewtime reviewtime createdat ratedat eventtime timerank",
    "weight": "weight weights",
    "split": "split",
    "title": "title name movietitle itemtitle itemname productname",
    "genres": "genres genre categories category",
}
ALIASES: Mapping[str, Sequence[str]] = {role: names.split() for role, names in _NAMES.items()}

_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    ">=": operator.ge, "<=": operator.le, "==": operator.eq, "=": operator.eq, "!=": operator.ne,
    ">": operator.gt, "<": operator.lt,
}  # fmt: skip
_CONDITION = re.compile(
    r"\s*(?:`([^`]+)`|([^\s<>=!`]+))\s*(>=|<=|==|!=|=|>|<)\s*([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)\s*"
)


@dataclass(frozen=True)
class ReadOptions(Settings):
    """Columns by name or position where they are not recognised, and which rows count."""

    user: str | int | None = setting(None, "column of user ids")
    item: str | int | None = setting(None, "column of item ids")
    rating: str | int | None = setting(None, "column of ratings")
    time: str | int | None = setting(None, "column of times")
    weight: str | int | None = setting(None, "column of weights")
    positive: str | None = setting(None, 'which rows count as interactions, such as "rating >= 4"')
    duplicates: Duplicates = setting("first", "repeated pairs: keep the first, or sum")
    strict: bool = setting(False, "refuse damaged rows instead of dropping and counting them")
    by_row: bool = setting(False, "judge every row by itself alone, as ε and δ need")

    @property
    def columns(self) -> dict[str, str | int]:
        """The column given for each role that one is given for."""
        given = {role: getattr(self, role) for role in ("user", "item", "rating", "time", "weight")}
        return {role: name for role, name in given.items() if name is not None}

    def roles(self, columns: Sequence[str], source: str) -> dict[str, str]:
        """Role → column, from what is given and what is recognised; user and item must be found."""
        by_role = {role: named(name, role, columns, source) for role, name in self.columns.items()}
        for role in ALIASES:
            free = [column for column in columns if column not in by_role.values()]
            if role not in by_role and (column := find(role, free)) is not None:
                by_role[role] = column
        for role in ("user", "item"):
            if role not in by_role:
                raise DataError(
                    f"{source} has no column that is recognised as the {role}; it has {listed(columns)}: "
                    f"name one of these with {role}=."
                )
        if by_role["user"] == by_role["item"]:
            raise DataError(f"{source}: user and item are both {by_role['user']!r}; expected two columns.")
        return by_role


@dataclass(frozen=True)
class Condition:
    """`column operator number`, such as `rating >= 4`."""

    column: str
    symbol: str
    number: float

    @classmethod
    def parse(cls, text: str) -> Condition:
        match = _CONDITION.fullmatch(text)
        try:
            if match is None:
                raise ValueError
            return cls(match[1] or match[2], match[3], float(match[4]))
        except ValueError:
            raise ConfigError(
                f'positive is {text!r}; expected a column, a comparison and a number, such as "rating >= 4".'
            ) from None

    def holds(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Where the condition is true; never where a value is missing."""
        result: NDArray[np.bool_] = _OPERATORS[self.symbol](values, self.number)
        return result & (values == values)

    def __str__(self) -> str:
        return f"{self.column} {self.symbol} {self.number:g}"


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


def named(given: str | int, role: str, columns: Sequence[str], source: str) -> str:
    """The column that the user named: exactly, in other letters, or by its position (0, 1, …)."""
    if given in columns:
        return str(given)
    if str(given).isdigit() and int(given) < len(columns):
        return columns[int(given)]
    alike = [column for column in columns if normalised(column) == normalised(str(given))]
    if len(alike) == 1:
        return alike[0]
    raise DataError(
        f"{source} has no column {given!r} for the {role}; it has {listed(columns)}: name one with {role}=."
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
