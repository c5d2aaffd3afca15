"""Which rows of a log count, and what they say: the rules, for a whole table or for block after block.

Where ratings all count, good and bad alike, their distribution is told, with a rule for the good ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from infrec.data import columns as col
from infrec.data import conditions
from infrec.data.columns import ReadOptions
from infrec.data.conditions import Comparison
from infrec.data.parsing import (
    compare_text,
    encode,
    instants,
    is_text,
    numbers,
    texts,
    times,
    whole,
    without_entities,
)
from infrec.data.sources import Source
from infrec.data.vocabulary import Vocabulary, from_numpy, to_numpy
from infrec.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROLES = ("rating", "time", "weight")  # those that rules are about and options name
UNEVEN = 1000  # times the smallest weight, and the largest is worth a word
MOST_RATINGS = 30  # different values on a scale of ratings; with more, it is a measurement or a count
GOOD_RATING = 0.75  # of the highest rating, as 4 of 5 stars are
RATINGS_SHOWN = 12
_PART_NAMES = {
    **dict.fromkeys(("train", "training", "0"), 0),
    **dict.fromkeys(("val", "valid", "validation", "dev", "1"), 1),
    **dict.fromkeys(("test", "testing", "2"), 2),
}


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a table that count: codes into the ids found in all of it, and what else they bring."""

    kept: NDArray[np.intp] | None  # where in the table they are; None: all of it
    users: NDArray[np.integer]
    user_ids: pa.Array
    items: NDArray[np.integer]
    item_ids: pa.Array
    others: Mapping[str, NDArray[Any]]  # weight, part, time and dislike, where the source has them
    about: pa.Table  # titles and genres, of all rows of the table

    def info(self, items: NDArray[np.int32], n_items: int) -> pa.Table | None:
        """Titles and genres of each item, from its first row; None where the log has neither.

        items: the item of each row, 0 … n_items − 1.
        """
        first = first_places(items, n_items)
        rows = from_numpy(first if self.kept is None else self.kept[first])
        names = self.about.column_names
        return (
            pa.table({name: without_entities(texts(whole(self.about[name]).take(rows))) for name in names})
            if names
            else None
        )


class Rules:
    """How the rows of a source are read. What a first block decides (the form of times, whether a column is a
    split) holds for all that follow; `total` and `dropped` count the rows of all of them."""

    def __init__(self, source: Source, options: ReadOptions) -> None:
        self.source, self.options = source, options
        self.condition = None if options.positive is None else conditions.parse(options.positive)
        self.dislike = None if options.negative is None else conditions.parse(options.negative, "negative")
        self.roles = options.roles(source.columns, source.name, header_is_guess=source.header_is_guess)
        if col.normalised(self.roles.get("title", "")) == "name":  # of a person, more likely
            del self.roles["title"]
        self.notes: list[str] = []
        if col.normalised(self.roles.get("time", "")) == "timerank":
            self.notes.append("time is each user's own order (time_rank), not comparable between users")
        self.tested = self._tested()
        if "count" in self.roles:
            self._note_count(self.roles.pop("count"))
        if options.by_row:  # whether a time can be read depends on the form that most times have
            self.roles.pop("time", None)
        col.once(self.wanted, source.columns, source.name)
        self.total = 0
        self.dropped: dict[str, int] = {}
        self.ratings: dict[float, int] = {}  # how often each occurs, where that is to be told
        self.weights = (np.float32(np.inf), np.float32(0))  # the smallest and the largest that count
        self._keep = np.ones(0, bool)
        self._time_form: str | None = None
        self._is_split: bool | None = options.by_row or None

    @property
    def wanted(self) -> list[str]:
        """The columns to read."""
        return list(dict.fromkeys([*self.roles.values(), *self.tested.values()]))

    @property
    def plain(self) -> list[str]:
        """Those of them with many distinct values."""
        return [self.roles["time"]] if "time" in self.roles else []

    def apply(self, table: pa.Table, ragged: int, *, from_text: bool) -> Rows:
        """The rules on a block of rows.

        ragged: how many more rows there were, which could not be read.
        from_text: ids written as whole numbers are numbers.
        """
        roles, self._keep = self.roles, np.ones(table.num_rows, bool)
        self.total += table.num_rows + ragged
        self._count(ragged, "ragged row")
        users, user_ids = encode(table.column(roles["user"]), from_text=from_text, what="user")
        items, item_ids = encode(table.column(roles["item"]), from_text=from_text, what="item")
        self._drop(users < 0, "no user id")
        self._drop(items < 0, "no item id")
        if "rating" in roles:
            rating = table.column(roles["rating"])
            if rating.null_count or not pa.types.is_integer(rating.type):
                self._drop(~np.isfinite(numbers(rating, "rating")), "rating is not a finite number")
        if self._ratings_matter:
            self._count_ratings(table.column(roles["rating"]))
        columns: dict[str, Any] = {
            "weight": self._weights(table),
            "part": self._parts(table),
            "time": self._times(table),
        }
        liked = None if self.condition is None else self.condition.holds(partial(self._test, table))
        if self.dislike is not None:
            columns["dislike"] = self._dislikes(table, liked)
            liked = None if liked is None else liked | columns["dislike"]
        if liked is not None:
            self._drop(~liked, self._unwanted)
        kept = None if self._keep.all() else np.flatnonzero(self._keep)
        some = slice(None) if kept is None else kept
        others = {name: values[some] for name, values in columns.items() if values is not None}
        about = pa.table({role: table.column(roles[role]) for role in ("title", "genres") if role in roles})
        return Rows(kept, users[some], user_ids, items[some], item_ids, others, about)

    def unusable(self) -> DataError:
        """The error for a source of which no row can be used."""
        name = self.source.name
        if not self.total:
            return DataError(f"{name} has columns but no rows; expected at least one interaction.")
        return DataError(f"none of the {self.total:,} rows of {name} can be used: {_counts(self.dropped)}.")

    def settle(self, repeats: int, users: Vocabulary, items: Vocabulary) -> None:
        """Count repeated pairs, note ids that look alike; with `strict`, refuse damaged rows."""
        self.notes[:0] = self.source.notes
        if self.source.encoding is not None:
            self.notes.append(
                f"{self.source.name} is not UTF-8 and was read as {self.source.encoding}; if letters look "
                'wrong, name its encoding, such as `encoding="iso-8859-2"`'
            )
        if sentence := ratings_sentence(self.source.name, self.ratings):
            self.notes.append(sentence)
        least, most = self.weights
        if most >= UNEVEN * least and not self.options.by_row:
            self.notes.append(
                f"weights in {self.source.name} go from {least:g} to {most:,.0f}: as they are, a few large "
                "ones outweigh the rest; their logarithm may count instead"
            )
        if self.options.duplicates == "first":
            self._count(repeats, "repeated (user, item) pair")
        elif repeats:
            self.notes.append(f"{repeats:,} repeated (user, item) pairs were summed")
        refused = {reason: count for reason, count in self.dropped.items() if reason != self._unwanted}
        if self.options.strict and refused:
            raise DataError(
                f"{self.source.name}: strict reading refuses rows that would be dropped: {_counts(refused)}."
            )
        for name, vocabulary in (("user", users), ("item", items)):
            if alike := _alike(vocabulary.ids):
                self.notes.append(
                    f"{alike:,} {name} ids differ from another only in Unicode normal form; kept apart"
                )

    @property
    def _ratings_matter(self) -> bool:
        """Whether ratings decide nothing, though there are some: then their distribution is told."""
        decided = (
            self.condition is not None
            or self.dislike is not None
            or "weight" in self.roles
            or self.source.invented
        )
        return "rating" in self.roles and not decided and not self.options.by_row

    def _note_count(self, column: str) -> None:
        """Say what can be done with a column of counts, where nothing is."""
        if column not in {*self.tested.values(), *self.roles.values()} and "weight" not in self.roles:
            name = column if column.isidentifier() else "count"
            self.notes.append(
                f"{column!r} looks like counts, which are not used: each row is an interaction like any "
                f'other; count only rows from 3 on with `positive="{name} >= 3"`, or take the counts as '
                f'weights with `weight="{column}"`'
            )

    def _count_ratings(self, column: pa.ChunkedArray) -> None:
        """Add a block's ratings to the distribution, as long as it can be that of a scale."""
        if len(self.ratings) > MOST_RATINGS:
            return
        counts = whole(column).value_counts()
        values = numbers(counts.field("values"), "rating")
        for value, count in zip(values.tolist(), counts.field("counts").to_pylist(), strict=True):
            if np.isfinite(value):
                self.ratings[value] = self.ratings.get(value, 0) + count

    @property
    def _unwanted(self) -> str:
        """The reason that is no damage: the row is no interaction."""
        if self.dislike is None:
            return f"not {self.condition}"
        return f"neither {self.condition} nor {self.dislike}"

    def _dislikes(self, table: pa.Table, liked: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
        """Which rows are dislikes; refuses those that are likes as well."""
        assert self.dislike is not None
        disliked = self.dislike.holds(partial(self._test, table))
        if liked is not None and (both := int(np.count_nonzero(liked & disliked))):
            raise DataError(
                f"{both:,} rows of {self.source.name} are likes ({self.condition}) and dislikes "
                f"({self.dislike}) at once; expected rules of which one row meets one: change `positive` or "
                "`negative`."
            )
        return disliked

    def _drop(self, where: NDArray[np.bool_], reason: str) -> None:
        where = where & self._keep
        self._count(int(np.count_nonzero(where)), reason)
        self._keep[where] = False

    def _count(self, rows: int, reason: str) -> None:
        if rows:
            self.dropped[reason] = self.dropped.get(reason, 0) + rows

    def _tested(self) -> dict[str, str]:
        """For each column that a rule names, the column of the source: of that name, or of that role."""
        tested, source = {}, self.source
        rules = [rule for rule in (self.condition, self.dislike) if rule is not None]
        for name, rule in sorted((name, str(one)) for one in rules for name in one.columns):
            if name not in source.columns and name in self.roles:
                tested[name] = self.roles[name]
                continue
            try:
                tested[name] = col.named(name, "condition", source.columns, source.name)
            except DataError:
                advice = f'; say which it is, such as `{name}="{source.columns[-1]}"`' * (name in ROLES)
                raise DataError(
                    f"{source.name} has no column {name!r} for the rule {rule!r}; it has "
                    f"{col.listed(source.columns)}{advice}."
                ) from None
        return tested

    def _test(self, table: pa.Table, comparison: Comparison) -> NDArray[np.bool_]:
        """Where a comparison holds in a block of rows."""
        name = self.tested[comparison.column]
        column = table.column(name)
        match comparison.value:
            case str():
                return compare_text(column, comparison.value, differs=comparison.symbol == "!=")
            case datetime():
                return comparison.compare(instants(column))
        return comparison.compare(numbers(column, name))

    def _weights(self, table: pa.Table) -> NDArray[np.float32] | None:
        if "weight" not in self.roles:
            return None
        column = table.column(self.roles["weight"])
        with np.errstate(over="ignore"):  # as it will be stored: 1e39 is infinite there, 1e-50 is 0
            weight = numbers(column, "weight").astype(np.float32)
        self._drop(~(np.isfinite(weight) & (weight >= 0)), "weight is negative or not a finite number")
        self._drop(weight == 0, "weight is 0")
        if (counted := weight[self._keep]).size:
            self.weights = (min(self.weights[0], counted.min()), max(self.weights[1], counted.max()))
        return weight

    def _times(self, table: pa.Table) -> NDArray[np.int64] | None:
        if "time" not in self.roles:
            return None
        first = self._time_form is None
        time, unreadable, self._time_form = times(table.column(self.roles["time"]), self._time_form)
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
        self._drop(unreadable, "time cannot be read")
        return time

    def _parts(self, table: pa.Table) -> NDArray[np.int8] | None:
        """0, 1, 2 for train, val, test. None when there is no column about a split."""
        if "split" not in self.roles:
            return None
        array = whole(table.column(self.roles["split"]))
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
        self._drop(part < 0, "split is none of train, val, test")
        return part


def first_places(codes: NDArray[np.integer], size: int) -> NDArray[np.int64]:
    """Where each of the codes 0 … size − 1 stands first."""
    first = np.zeros(size, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]  # the last write wins
    return first


def _alike(ids: pa.Array) -> int:
    """How many ids look the same as another one, which they are not."""
    if not is_text(ids.type):
        return 0
    unusual = ids.filter(pc.invert(pc.string_is_ascii(ids)))
    return len(unusual) - len(pc.unique(pc.utf8_normalize(unusual, form="NFC"))) if len(unusual) else 0


def _counts(dropped: Mapping[str, int]) -> str:
    """Reasons and how often, in words."""
    return ", ".join(f"{count:,} × {reason}" for reason, count in dropped.items())


# ---- ratings that all count --------------------------------------------------------------------------------
def suggested_rule(counts: Mapping[float, int]) -> str | None:
    """A rule for the good ones, such as `rating >= 4`; None where all are equal, or there is no scale.

    Args:
        counts: How often each rating occurs.
    """
    values = sorted(counts)
    if not 2 <= len(values) <= MOST_RATINGS or values[-1] <= 0:
        return None
    least = next(value for value in values if value >= GOOD_RATING * values[-1])
    return f"rating >= {least:g}" if least > values[0] else None


def ratings_sentence(source: str, counts: Mapping[float, int]) -> str | None:
    """A sentence about ratings that all count, with the rule for the good ones; None where there is none.

    Args:
        source: Name of the file.
        counts: How often each rating occurs.
    """
    if (rule := suggested_rule(counts)) is None:
        return None
    values, total = sorted(counts), sum(counts.values())
    percent = {value: 100 * counts[value] / total for value in values}
    shown = values if len(values) <= RATINGS_SHOWN else [*values[:3], *values[-3:]]
    parts = [f"{value:g}: {percent[value]:.0f} %" for value in shown]
    if shown is not values:
        parts.insert(3, "…")
    least = float(rule.rpartition(" ")[2])
    good = sum(percent[value] for value in values if value >= least)
    if values[0] == 0 and len(values) > 4 and percent[0] > 100 / len(values):
        parts.append("where 0 may mean that no rating was given")
    return (
        f"every rating in {source} counts as an interaction, the lowest too ({', '.join(parts)}); for the "
        f'good ones alone, {good:.0f} % of the rows, use `positive="{rule}"`'
    )
