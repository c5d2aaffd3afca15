"""A setting is declared once, with its type, range, values to search and meaning; the rest follows from that.

    @dataclass(frozen=True)
    class EASESettings(Settings):
        reg: float | Auto = setting(AUTO, "λ, added to the diagonal of XᵀX", least=0, search=(1, 10, 100))

From the declaration come the check when an object is made, Python's numbers for numpy's, the parsing of
`--set key=value`, what a manifest holds, options of the command line, and the tables in the documentation.
"""

from __future__ import annotations

import dataclasses
import difflib
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, Self, get_args, get_origin, get_type_hints

from infrec.errors import ConfigError

AUTO: Final = "auto"
Auto = Literal["auto"]  # chosen on validation data, or decided from the data


def setting(
    default: Any,
    help: str,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    search: Sequence[Any] = (),
    fallback: Any = None,
    decided_by_data: bool = False,
) -> Any:
    """Declare a field of a `Settings` class. Its annotation says the type, and with `Literal` the choices.

    Args:
        default: The value when none is given.
        help: What it means, in one line.
        least: The smallest allowed number.
        above: Every allowed number is greater than this.
        most: The largest allowed number.
        below: Every allowed number is smaller than this.
        search: The values that are tried where the setting is "auto" or searched.
        fallback: The value of "auto" where there is nothing to choose by.
        decided_by_data: "auto" is decided by the model from the data, and not searched.
    """
    metadata = {
        "help": help,
        "least": least,
        "above": above,
        "most": most,
        "below": below,
        "search": tuple(search),
        "fallback": fallback,
        "decided_by_data": decided_by_data,
    }
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Kind:
    """The values that an annotation allows: numbers, words, None, sequences of numbers."""

    number: type[int] | type[float] | None = None
    flag: bool = False
    text: bool = False
    words: tuple[str, ...] = ()
    none: bool = False
    sequence: bool = False

    @classmethod
    def of(cls, hint: Any) -> Kind:
        """The kind of a type hint such as `float | Literal["auto"]`, `int | None` or `tuple[float, ...]`."""
        members = get_args(hint) if get_origin(hint) not in (None, Literal, tuple) else (hint,)
        literals = [member for member in members if get_origin(member) is Literal]
        words = tuple(word for literal in literals for word in get_args(literal))
        sequences = [member for member in members if get_origin(member) is tuple]
        plain = {*members, *(get_args(member)[0] for member in sequences)}
        number = float if float in plain else int if int in plain else None
        return cls(number, bool in plain, str in plain, words, type(None) in members, bool(sequences))


@dataclass(frozen=True)
class Settings:
    """Base of all settings: immutable, checked when made; variants with `dataclasses.replace`."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = _python_value(getattr(self, field.name))
            object.__setattr__(self, field.name, _checked(field, self.kinds()[field.name], value))

    @classmethod
    @cache
    def kinds(cls) -> dict[str, Kind]:
        """The kind of each setting, by name."""
        return {name: Kind.of(hint) for name, hint in get_type_hints(cls).items()}

    @classmethod
    def names(cls) -> list[str]:
        """The names of all settings, in order."""
        return [field.name for field in dataclasses.fields(cls)]

    @classmethod
    def check_names(cls, names: Iterable[str], owner: str) -> None:
        """Refuse a name that is no setting of `owner`, with the nearest one that is."""
        known = cls.names()
        for name in names:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f" Did you mean {near[0]}?" if near else ""
                raise ConfigError(
                    f"{owner} has no setting {name!r}.{hint} Its settings: {', '.join(known) or 'none'}."
                )

    @classmethod
    def parse(cls, pairs: Iterable[str], owner: str) -> dict[str, Any]:
        """Values of `key=value` texts, each of the type that its setting has."""
        parsed: dict[str, Any] = {}
        for pair in pairs:
            key, equals, text = pair.partition("=")
            key = key.strip()
            if not equals:
                raise ConfigError(f"{pair!r} is not of the form key=value.")
            cls.check_names([key], owner)
            parsed[key] = _parsed(cls.__dataclass_fields__[key], cls.kinds()[key], text.strip())
        return parsed

    @classmethod
    def search_space(cls) -> dict[str, tuple[Any, ...]]:
        """The values to try of each setting that can be searched."""
        return {name: values for name, values in _metadata(cls, "search").items() if values}

    @classmethod
    def fallbacks(cls) -> dict[str, Any]:
        """The value of each "auto" where there is nothing to choose by."""
        return {name: value for name, value in _metadata(cls, "fallback").items() if value is not None}

    @classmethod
    def decided_by_data(cls) -> frozenset[str]:
        """The settings whose "auto" is decided from the data and not searched."""
        return frozenset(name for name, value in _metadata(cls, "decided_by_data").items() if value)

    def to_dict(self) -> dict[str, Any]:
        """All values by name, as JSON can hold them."""
        values = dataclasses.asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Settings from what `to_dict` gave; names that this version no longer has are passed over."""
        return cls(**{name: value for name, value in values.items() if name in cls.names()})

    @classmethod
    def described(cls) -> str:
        """The settings as the "Args:" part of a docstring."""
        lines = [
            f"    {name}: {meaning}; {allowed} (default: {default})."
            for name, allowed, default, meaning in cls.documentation()
        ]
        return "\n".join(["Args:", *lines]) if lines else ""

    @classmethod
    def documentation(cls) -> list[tuple[str, str, str, str]]:
        """Name, allowed values, default and meaning of each setting: the rows of a table."""
        rows = []
        for field in dataclasses.fields(cls):
            searched = field.metadata.get("search", ())
            meaning = str(field.metadata.get("help", ""))
            if searched:
                meaning += f" (searched: {', '.join(f'{value:g}' for value in searched)})"
            allowed = _expected(field, cls.kinds()[field.name])
            default = "none" if field.default is None else str(field.default)
            rows.append((field.name, allowed, default, meaning))
        return rows


def _metadata(cls: type[Settings], key: str) -> dict[str, Any]:
    return {field.name: field.metadata.get(key) for field in dataclasses.fields(cls)}


def _python_value(value: Any) -> Any:
    """Python's own numbers for numpy's, which a sweep over an array brings and no manifest holds."""
    value = value.tolist() if hasattr(value, "tolist") else value
    return tuple(_python_value(each) for each in value) if isinstance(value, list | tuple) else value


def _checked(field: dataclasses.Field[Any], kind: Kind, value: Any) -> Any:
    """The value, after checking that the setting allows it."""
    limits = field.metadata
    if kind.sequence and isinstance(value, tuple):
        sound = all(
            isinstance(each, str) if kind.text else _is_number_within(each, kind, limits) for each in value
        ) and bool(value or kind.text)
    else:
        sound = (
            (isinstance(value, str) and (value in kind.words or (kind.text and not kind.sequence)))
            or (value is None and kind.none)
            or (isinstance(value, bool) and kind.flag)
            or (not kind.sequence and _is_number_within(value, kind, limits))
        )
    if not sound:
        raise ConfigError(f"{field.name} is {value!r}; expected {_expected(field, kind)}.")
    return value


def _is_number_within(value: Any, kind: Kind, limits: Mapping[str, Any]) -> bool:
    if kind.number is None or isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if kind.number is int and isinstance(value, float):
        return False
    if kind.number is float and not abs(value) <= sys.float_info.max:  # nor NaN
        return False
    least, above, most, below = (limits.get(name) for name in ("least", "above", "most", "below"))
    return not (
        (least is not None and value < least)
        or (above is not None and value <= above)
        or (most is not None and value > most)
        or (below is not None and value >= below)
    )


_RANGES = (("least", "of at least"), ("above", "above"), ("most", "at most"), ("below", "below"))


def _expected(field: dataclasses.Field[Any], kind: Kind) -> str:
    """The allowed values in words: "a whole number of at least 1 or 'auto'"."""
    parts = []
    if kind.number is not None:
        limits = [(phrase, field.metadata.get(name)) for name, phrase in _RANGES]
        ranges = " and ".join(f"{phrase} {limit:g}" for phrase, limit in limits if limit is not None)
        word = f"{'a whole number' if kind.number is int else 'a number'} {ranges}".strip()
        parts.append(f"one or more of: {word}" if kind.sequence else word)
    parts += ["true", "false"] if kind.flag else []
    parts += [repr(word) for word in kind.words]
    parts += ["texts" if kind.sequence else "a text"] if kind.text else []
    parts += ["none"] if kind.none else []
    return f"{', '.join(parts[:-1])} or {parts[-1]}" if len(parts) > 1 else parts[0]


def _parsed(field: dataclasses.Field[Any], kind: Kind, text: str) -> Any:
    """One text of the command line as a value of its setting's kind."""
    if text in kind.words:
        return text
    if kind.none and text.lower() == "none":
        return None
    if kind.flag and text.lower() in ("true", "false"):
        return text.lower() == "true"
    for number in (int, float) if kind.number is float else (int,) if kind.number is int else ():
        try:
            return tuple(map(number, text.split(","))) if kind.sequence else number(text)
        except ValueError:
            continue
    if kind.text:
        return text
    raise ConfigError(f"{field.name} is {text!r}; expected {_expected(field, kind)}.")
