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
from collections.abc import Callable, Mapping
from contextlib import suppress
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
    return _Parser(text, name).whole()


class _Parser:
    """A rule from its tokens, by recursive descent."""

    def __init__(self, text: str, name: str) -> None:
        self._text, self._name, at = text, name, 0
        self._tokens: list[tuple[str, str]] = []  # kind and text; the next one stands last
        while text[at:].strip():
            if (match := _TOKEN.match(text, at)) is None:
                raise self._not_understood()
            at, kind = match.end(), str(match.lastgroup)
            self._tokens.append((kind, match[kind]))
        self._tokens.reverse()

    def whole(self) -> Rule:
        rule = self._joined("or", 0)
        if self._tokens:
            raise self._not_understood()
        return rule

    def _joined(self, word: str, depth: int) -> Rule:
        """Rules with a word between them, as one; `and` binds closer than `or`."""
        rules = [self._joined("and", depth) if word == "or" else self._one(depth)]
        while self._tokens and self._tokens[-1][0] == "word" and self._tokens[-1][1].lower() == word:
            self._tokens.pop()
            rules.append(self._joined("and", depth) if word == "or" else self._one(depth))
        return rules[0] if len(rules) == 1 else Joined(word, tuple(rules))

    def _one(self, depth: int) -> Rule:
        """A rule in parentheses, or a comparison."""
        kind, column = self._next()
        if depth > DEEPEST:
            raise self._not_understood()
        if (kind, column) == ("sign", "("):
            rule = self._joined("or", depth + 1)
            if self._next() != ("sign", ")"):
                raise self._not_understood()
            return rule
        (sign_kind, symbol), (value_kind, value) = self._next(), self._next()
        if kind not in ("word", "quoted") or sign_kind != "sign" or symbol in "()":
            raise self._not_understood()
        if not value_kind.startswith("text"):
            return Comparison(column, symbol, self._value(value_kind, value))
        if symbol not in ("=", "==", "!="):
            raise ConfigError(f"{self._name} is {self._text!r}; a text in quotes is compared with = or !=.")
        return Comparison(column, symbol, value)

    def _next(self) -> tuple[str, str]:
        if not self._tokens:
            raise self._not_understood()
        return self._tokens.pop()

    def _value(self, kind: str, word: str) -> float | datetime:
        """A number, or a day or time; without an offset it is UTC."""
        with suppress(ValueError):
            if kind == "word" and _NUMBER.fullmatch(word):
                return float(word)
            if kind == "word" and _DAY.fullmatch(word):
                time = datetime.fromisoformat(word)
                return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
        raise self._not_understood()

    def _not_understood(self) -> ConfigError:
        return ConfigError(
            f"{self._name} is {self._text!r}; expected comparisons of a column with a number, a date or a "
            'quoted text, joined by `and` and `or`, such as "rating >= 4" or "rating >= 4 and time > '
            '2020-01-01".'
        )
