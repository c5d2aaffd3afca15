"""Rules for which rows count: comparisons of columns, joined by `and` and `or`.

    rule      = all ("or" all)*
    all       = one ("and" one)*
    one       = "(" rule ")" | column operator value
    operator  = ">=" | "<=" | "==" | "=" | "!=" | ">" | "<"
    value     = a number | a day or a time, such as 2020-01-31 or 2020-01-31T12:30 | a text in quotes

A column with blanks in its name stands between backticks. Nothing else is understood; nothing is executed.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from infrec.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray

DEEPEST = 20  # parentheses in one another
Value = float | str | datetime

_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    ">=": operator.ge, "<=": operator.le, "==": operator.eq, "=": operator.eq, "!=": operator.ne,
    ">": operator.gt, "<": operator.lt,
}  # fmt: skip
_TOKEN = re.compile(
    r"\s*(?:(?P<sign>>=|<=|==|!=|=|>|<|\(|\))"
    r"|`(?P<quoted>[^`]+)`|'(?P<text1>[^']*)'|\"(?P<text2>[^\"]*)\""
    r"|(?P<word>[^\s<>=!`()'\"]+))"
)
_NUMBER = re.compile(r"[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]+)?")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9:.]+(Z|[-+][0-9]{2}:?[0-9]{2})?)?")


@dataclass(frozen=True)
class Comparison:
    """`column operator value`, such as `rating >= 4`."""

    column: str
    symbol: str
    value: Value

    def holds(self, test: Callable[[Comparison], NDArray[np.bool_]]) -> NDArray[np.bool_]:
        """Where it is true, as `test` has it."""
        return test(self)

    def compare(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Which numbers it holds for (microseconds since 1970, where its value is a time); never for NaN."""
        limit = self.value.timestamp() * 1e6 if isinstance(self.value, datetime) else self.value
        result: NDArray[np.bool_] = _OPERATORS[self.symbol](values, limit)
        return result & (values == values)

    @property
    def columns(self) -> set[str]:
        return {self.column}

    def __str__(self) -> str:
        match self.value:
            case str():
                value = repr(self.value)
            case datetime():
                value = self.value.isoformat().removesuffix("+00:00").removesuffix("T00:00:00")
            case _:
                value = f"{self.value:g}"
        column = self.column if re.fullmatch(r"[^\s<>=!`()'\"]+", self.column) else f"`{self.column}`"
        return f"{column} {self.symbol} {value}"


@dataclass(frozen=True)
class Joined:
    """Rules of which all (`and`) or one (`or`) must hold."""

    word: str
    rules: tuple[Rule, ...]

    def holds(self, test: Callable[[Comparison], NDArray[np.bool_]]) -> NDArray[np.bool_]:
        """Where it is true, when `test` says where each comparison is."""
        combine = np.logical_and if self.word == "and" else np.logical_or
        return combine.reduce([rule.holds(test) for rule in self.rules])

    @property
    def columns(self) -> set[str]:
        return {column for rule in self.rules for column in rule.columns}

    def __str__(self) -> str:
        parts = [f"({rule})" if isinstance(rule, Joined) else str(rule) for rule in self.rules]
        return f" {self.word} ".join(parts)


Rule = Comparison | Joined


def parse(text: str, name: str = "positive") -> Rule:
    """A rule from its text.

    Args:
        text: The rule, such as `rating >= 4 and time > 2020-01-01`.
        name: The option that it was given in.
    """
    try:
        rule, rest = _any(list(_tokens(text)), text, 0)
        if rest:
            raise _not_understood(text)
    except ConfigError as error:
        raise ConfigError(str(error).replace("positive", name, 1)) from None
    return rule


# ---- from text to a rule -----------------------------------------------------------------------------------
_Token = tuple[str, str]  # kind and text
_Parsed = tuple[Rule, Sequence[_Token]]  # a rule and the tokens after it


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while text[at:].strip():
        if (match := _TOKEN.match(text, at)) is None:
            raise _not_understood(text)
        at, kind = match.end(), str(match.lastgroup)
        yield kind, match[kind]


def _any(tokens: Sequence[_Token], text: str, depth: int) -> _Parsed:
    return _several("or", _all, tokens, text, depth)


def _all(tokens: Sequence[_Token], text: str, depth: int) -> _Parsed:
    return _several("and", _one, tokens, text, depth)


def _several(
    word: str,
    part: Callable[[Sequence[_Token], str, int], _Parsed],
    tokens: Sequence[_Token],
    text: str,
    depth: int,
) -> _Parsed:
    """Rules with a word between them, as one."""
    rule, rest = part(tokens, text, depth)
    rules = [rule]
    while rest and rest[0][0] == "word" and rest[0][1].lower() == word:
        rule, rest = part(rest[1:], text, depth)
        rules.append(rule)
    return (rules[0] if len(rules) == 1 else Joined(word, tuple(rules))), rest


def _one(tokens: Sequence[_Token], text: str, depth: int) -> _Parsed:
    """A rule in parentheses, or a comparison."""
    if depth > DEEPEST or not tokens:
        raise _not_understood(text)
    if tokens[0] == ("sign", "("):
        rule, rest = _any(tokens[1:], text, depth + 1)
        if not rest or rest[0] != ("sign", ")"):
            raise _not_understood(text)
        return rule, rest[1:]
    if len(tokens) < 3:
        raise _not_understood(text)
    (kind, column), (sign_kind, symbol), (value_kind, value) = tokens[:3]
    if kind not in ("word", "quoted") or sign_kind != "sign" or symbol in "()":
        raise _not_understood(text)
    if value_kind.startswith("text"):
        if symbol not in ("=", "==", "!="):
            raise ConfigError(f"positive is {text!r}; a text in quotes is compared with = or !=.")
        return Comparison(column, symbol, value), tokens[3:]
    if value_kind != "word":
        raise _not_understood(text)
    return Comparison(column, symbol, _value(value, text)), tokens[3:]


def _value(word: str, text: str) -> float | datetime:
    """A number, or a day or time; without an offset it is UTC."""
    if _NUMBER.fullmatch(word):
        return float(word)
    try:
        if _DAY.fullmatch(word):
            time = datetime.fromisoformat(word)
            return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    except ValueError:
        pass
    raise _not_understood(text)


def _not_understood(text: str) -> ConfigError:
    return ConfigError(
        f"positive is {text!r}; expected comparisons of a column with a number, a date or a quoted text, "
        'joined by `and` and `or`, such as "rating >= 4" or "rating >= 4 and time > 2020-01-01".'
    )
