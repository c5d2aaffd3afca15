"""Which rows of a log count, and what they say: the rules, for a whole table or for block after block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from infrec.data import columns as col
from infrec.data.arrow import to_numpy
from infrec.data.parsing import encode, numbers, times, whole
from infrec.data.read_options import ReadOptions
from infrec.data.sources import Source
from infrec.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PART_NAMES = {
    **dict.fromkeys(("train", "training", "0"), 0),
    **dict.fromkeys(("val", "valid", "validation", "dev", "1"), 1),
    **dict.fromkeys(("test", "testing", "2"), 2),
}


class Kept:
    """Which rows are still in, and why the others are not."""

    def __init__(self, n: int, unread: Mapping[str, int]) -> None:
        self.total = n + sum(unread.values())
        self.dropped = dict(unread)
        self.keep = np.ones(n, bool)

    def drop(self, where: NDArray[np.bool_], reason: str) -> None:
        where = where & self.keep
        if count := int(np.count_nonzero(where)):
            self.dropped[reason] = self.dropped.get(reason, 0) + count
            self.keep[where] = False


@dataclass(frozen=True, eq=False)
class Usable:
    """A table's rows: codes into the ids found, −1 or dropped where `rows` says so; what else they bring."""

    rows: Kept
    users: NDArray[np.integer]
    user_ids: pa.Array
    items: NDArray[np.integer]
    item_ids: pa.Array
    weight: NDArray[np.float32] | None
    part: NDArray[np.int8] | None
    time: NDArray[np.int64] | None

    @property
    def kept(self) -> NDArray[np.intp] | None:
        """Where the rows that count are; None when all do."""
        return None if self.rows.keep.all() else np.flatnonzero(self.rows.keep)


class Rules:
    """How the rows of a source are read. What a first block decides (the form of times, whether a column is a
    split) holds for all that follow."""

    def __init__(self, source: Source, options: ReadOptions) -> None:
        self.source, self.options = source, options
        self.condition = col.Condition.parse(options.positive) if options.positive is not None else None
        self.roles = col.roles(source.columns, options.columns, source.name)
        if col.normalised(self.roles.get("title", "")) == "name":  # of a person, more likely
            del self.roles["title"]
        self.notes = list(source.notes)
        if col.normalised(self.roles.get("time", "")) == "timerank":
            self.notes.append("time is each user's own order (time_rank), not comparable between users")
        self.tested = self._tested()
        if options.by_row:  # whether a time can be read depends on the form that most times have
            self.roles.pop("time", None)
        col.once(self.wanted, source.columns, source.name)
        self._time_form: str | None = None
        self._is_split: bool | None = options.by_row or None

    @property
    def wanted(self) -> list[str]:
        """The columns to read."""
        return list(dict.fromkeys([*self.roles.values(), *([self.tested] if self.tested else [])]))

    @property
    def plain(self) -> list[str]:
        """Those of them with many distinct values."""
        return [self.roles["time"]] if "time" in self.roles else []

    @property
    def unwanted(self) -> str:
        """The reason that is no damage: the row is no interaction."""
        return f"not {self.condition}"

    def apply(self, table: pa.Table, unread: Mapping[str, int], *, from_text: bool) -> Usable:
        """The rules on a block of rows; from_text: ids written as whole numbers are numbers."""
        rows, roles = Kept(table.num_rows, unread), self.roles
        users, user_ids = encode(table.column(roles["user"]), from_text=from_text, what="user")
        items, item_ids = encode(table.column(roles["item"]), from_text=from_text, what="item")
        rows.drop(users < 0, "no user id")
        rows.drop(items < 0, "no item id")
        if "rating" in roles and _may_be_odd(table.column(roles["rating"])):
            finite = np.isfinite(numbers(table.column(roles["rating"]), "rating"))
            rows.drop(~finite, "rating is not a finite number")
        weight = _weights(table.column(roles["weight"]), rows) if "weight" in roles else None
        part = self._parts(table.column(roles["split"]), rows) if "split" in roles else None
        time = self._times(table.column(roles["time"]), rows) if "time" in roles else None
        if self.condition is not None and self.tested is not None:
            values = numbers(table.column(self.tested), self.tested)
            rows.drop(~self.condition.holds(values), self.unwanted)
        return Usable(rows, users, user_ids, items, item_ids, weight, part, time)

    def _tested(self) -> str | None:
        """The column that `positive` compares: a column of the file, or a role."""
        condition, source = self.condition, self.source
        if condition is None:
            return None
        if condition.column not in source.columns and condition.column in self.roles:
            return self.roles[condition.column]
        try:
            return col.named(condition.column, "condition", source.columns, source.name)
        except DataError:
            raise DataError(
                f"{source.name} has no column {condition.column!r} for positive={str(condition)!r}; "
                f"it has {col.listed(source.columns)}."
            ) from None

    def _times(self, column: pa.ChunkedArray, rows: Kept) -> NDArray[np.int64] | None:
        first = self._time_form is None
        time, unreadable, self._time_form = times(column, self._time_form)
        if unreadable is None:
            return time
        if first and unreadable.mean() > 0.5:  # not a column of times, whatever its name
            if self.options.time is not None:
                raise DataError(
                    f"column {self.options.time!r} holds no times; expected numbers or ISO dates such as "
                    "2024-05-17."
                )
            self.notes.append("the column of times holds none that can be read and was ignored")
            del self.roles["time"]
            return None
        rows.drop(unreadable, "time cannot be read")
        return time

    def _parts(self, column: pa.ChunkedArray, rows: Kept) -> NDArray[np.int8] | None:
        """0, 1, 2 for train, val, test. None when the column is not about a split."""
        array = whole(column)
        if pa.types.is_nested(array.type):
            array = pa.nulls(len(array), pa.string())
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        labels = [str(value).strip().lower() for value in array.dictionary.to_pylist()]
        table = np.array([*(_PART_NAMES.get(label, -1) for label in labels), -1], np.int8)
        if self._is_split is None:
            self._is_split = bool((table >= 0).any())
        if not self._is_split:
            self.notes.append("the column 'split' names neither train, val nor test and was ignored")
            del self.roles["split"]
            return None
        part: NDArray[np.int8] = table[to_numpy(array.indices.cast(pa.int32()), len(labels))]
        rows.drop(part < 0, "split is none of train, val, test")
        return part


def _may_be_odd(column: pa.ChunkedArray) -> bool:
    """Whether a column can hold anything but finite numbers."""
    return bool(column.null_count) or not pa.types.is_integer(column.type)


def _weights(column: pa.ChunkedArray, rows: Kept) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # as it will be stored: 1e39 is infinite there, 1e-50 is 0
        weight = numbers(column, "weight").astype(np.float32)
    rows.drop(~(np.isfinite(weight) & (weight >= 0)), "weight is negative or not a finite number")
    rows.drop(weight == 0, "weight is 0")
    return np.where(rows.keep, weight, np.float32(0))


def at(values: NDArray[Any], kept: NDArray[np.intp] | None) -> NDArray[Any]:
    """The values of the rows that count."""
    return values if kept is None else values[kept]


def counts(dropped: Mapping[str, int]) -> str:
    """Reasons and how often, in words."""
    return ", ".join(f"{count:,} × {reason}" for reason, count in dropped.items())
