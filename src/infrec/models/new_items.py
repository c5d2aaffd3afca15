"""Items without interactions: a place in every list, by what their features have in common with known items.

A kernel between features (genres, years, vectors) goes from 0 to 2 for two items:

    k(a, b) = the mean over columns of k_c(a, b) + their product

k_c is the cosine of two sets of values (`Drama|Crime`), exp(−|a − b| / (length · standard deviation)) of two
numbers, and the cosine of two vectors. Ridge regression between it and the item side of any model, its
scores, gives a new item what known items like it have:

    score(u, new) = Σ_j score(u, j) W_j,new        W = (k(known, known) + μ I)⁻¹ k(known, new)
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec import machine
from infrec.data import Interactions
from infrec.errors import DataError
from infrec.kernels.resident import ResidentMatrix
from infrec.models.reranking import Attribute
from infrec.settings import Settings, setting

if TYPE_CHECKING:
    from infrec.contents import Artifact

YEAR = re.compile(r"\((\d{4})\)\s*$")  # at the end of a title
_COLUMNS, _WEIGHTS = "new_items.columns", "new_items.weights"  # names of saved arrays
_DISTINCT = 0.5  # values for each item from which on a text tells items apart and says nothing of their kind


@dataclass(frozen=True)
class NewItemsSettings(Settings):
    """How far likeness reaches, and how little one item's features are trusted."""

    length: float = setting(1.0, "of numbers, in standard deviations", above=0, search=(0.5, 1.0, 2.0))
    reg: float = setting(10.0, "μ of the ridge between features and scores", above=0, search=(1, 10, 100))


@dataclass(frozen=True, eq=False)
class Column:
    """One feature of items: vectors of length 1 whose products are compared, or numbers.

    Args:
        name: Its name in the items table.
        vectors: Items × values, rows of length 1; or None.
        numbers: A number for each item, of standard deviation 1; or None.
    """

    name: str
    vectors: NDArray[np.float64] | sp.csr_array | None = None
    numbers: NDArray[np.float64] | None = None

    def kernel(self, one: NDArray[np.integer], other: NDArray[np.integer], length: float) -> Any:
        """Likenesses of items to others, in −1…1."""
        if self.numbers is not None:
            return np.exp(-np.abs(self.numbers[one][:, None] - self.numbers[other]) / length)
        products = self.vectors[one] @ self.vectors[other].T  # type: ignore[index]
        return products.toarray() if sp.issparse(products) else products


class Features:
    """The features of all items, known and new, from a table about them.

    Args:
        table: The items table, a row for each item.
        columns: The columns to use; by default all that say what kind of item it is, and of a title that ends
            in a year in parentheses that year.
    """

    def __init__(self, table: pa.Table | None, columns: Sequence[str] | None = None) -> None:
        if table is None or not table.num_columns:
            raise DataError(
                "nothing is known about the items; expected a table of items with features such as genres: "
                "give one (items=; `--items FILE`)."
            )
        _check_present(table)
        if "title" in table.column_names and "year" not in table.column_names:
            table = _with_year(table)
        names = [name for name in table.column_names if name != "title"] if columns is None else columns
        self.n_items = table.num_rows
        self.columns: list[Column] = []
        for name in names:
            if name not in table.column_names:
                there = ", ".join(table.column_names)
                raise DataError(f"the items have no column {name!r} (they have: {there}); name one of these.")
            column = _column(name, table.column(name).combine_chunks(), named=columns is not None)
            self.columns += [] if column is None else [column]
        if not self.columns:
            raise DataError(
                f"no column of the items says what kind of item it is ({', '.join(table.column_names)}); "
                "expected genres, numbers or vectors."
            )

    def kernel(
        self, one: NDArray[np.integer], other: NDArray[np.integer], length: float
    ) -> NDArray[np.float64]:
        """k between items and others, by their row numbers.

        Args:
            one: Rows of the table.
            other: Rows of the table.
            length: Of numbers, in standard deviations.
        """
        mean, product = np.zeros((len(one), len(other))), np.ones((len(one), len(other)))
        for column in self.columns:
            alike = column.kernel(one, other, length)
            mean += alike / len(self.columns)
            product *= np.maximum(alike, 0)
        return mean + product

    def weights(
        self, known: NDArray[np.integer], new: NDArray[np.integer], settings: NewItemsSettings
    ) -> NDArray[np.float32]:
        """W, known × new.

        Args:
            known: Rows of the known items.
            new: Rows of the new ones.
            settings: How far likeness reaches.
        """
        machine.require_memory(
            24 * len(known) * (len(known) + len(new)),
            f"likenesses of {len(known):,} items by their features",
            "keep fewer items (min_item; `--min-item`), or use a machine with more memory",
        )
        gram = self.kernel(known, known, settings.length)
        gram[np.diag_indices_from(gram)] += settings.reg
        right = self.kernel(known, new, settings.length)
        weights = scipy.linalg.solve(gram, right, assume_a="pos", overwrite_a=True, overwrite_b=True)
        return weights.astype(np.float32)


@dataclass(frozen=True, eq=False)
class Placed:
    """Items of a model's log that nobody has yet, with a place in every list.

    Args:
        new: Their columns.
        known: The other columns.
        weights: W, known × new.
        features: Names of the columns that place them.
        settings: How far likeness reaches.
    """

    new: NDArray[np.int64]
    known: NDArray[np.int64]
    weights: NDArray[np.float32]
    features: tuple[str, ...]
    settings: NewItemsSettings

    @classmethod
    def of(
        cls, log: Interactions, columns: Sequence[str] | None = None, settings: NewItemsSettings | None = None
    ) -> Self:
        """The items of a log that nobody has.

        Args:
            log: The log, with a table about its items.
            columns: Columns of that table; by default all that say what kind of item it is.
            settings: How far likeness reaches.
        """
        features, settings = Features(log.item_info, columns), settings or NewItemsSettings()
        counts = log.item_counts
        new, known = np.flatnonzero(counts == 0), np.flatnonzero(counts)
        names = tuple(column.name for column in features.columns)
        return cls(new, known, features.weights(known, new, settings), names, settings)

    def facts(self) -> dict[str, Any]:
        """Their entry in the facts about the model, which is read again with it."""
        return {"items": len(self.new), "columns": list(self.features), **self.settings.to_dict()}

    @cached_property
    def _resident(self) -> ResidentMatrix:
        return ResidentMatrix(self.weights)

    def fill(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """Scores in which those of new items follow from those of known ones.

        Args:
            scores: Scores of all items, a row for each history.
        """
        filled = scores.copy()
        filled[:, self.new] = self._resident.left_multiply(np.ascontiguousarray(scores[:, self.known]))
        return filled

    def columns(
        self, of: Callable[[NDArray[np.integer]], NDArray[Any]], items: NDArray[np.integer]
    ) -> NDArray[Any]:
        """Columns of a matrix that scores are linear in; those of new items follow from those of known ones.

        Args:
            of: From items to their columns.
            items: The items wanted.
        """
        columns, are_new = of(items), np.isin(items, self.new)
        if are_new.any():
            weights = self.weights[:, np.searchsorted(self.new, items[are_new])]
            columns[:, are_new] = of(self.known) @ weights
        return columns

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays to save, by name."""
        return {_COLUMNS: self.new, _WEIGHTS: self.weights}

    @classmethod
    def read(cls, artifact: Artifact, log: Interactions) -> Self | None:
        """From what `arrays` gave; None where there is nothing of it.

        Args:
            artifact: The saved model.
            log: Its log.
        """
        if _WEIGHTS not in artifact.arrays:
            return None
        new = artifact.positions(_COLUMNS, None, log.n_items).astype(np.int64)
        if (np.diff(new) <= 0).any():
            raise artifact.unsound("its new items are not in order")
        known = np.setdiff1d(np.arange(log.n_items), new)
        weights = artifact.array(_WEIGHTS, len(known), len(new))
        facts = artifact.manifest["about"]["new_items"]
        names = tuple(str(name) for name in facts["columns"])
        settings = NewItemsSettings(**{name: facts[name] for name in NewItemsSettings.names()})
        return cls(new, known, weights, names, settings)


def _with_year(table: pa.Table) -> pa.Table:
    """The table with the years that nearly all titles end in, if they do."""
    found = [YEAR.search(title or "") for title in table.column("title").to_pylist()]
    years = [None if match is None else float(match[1]) for match in found]
    if years.count(None) > len(years) // 100:
        return table
    middle = float(np.median([year for year in years if year is not None]))
    return table.append_column("year", pa.array([middle if year is None else year for year in years]))


def _check_present(table: pa.Table) -> None:
    """Refuse a table that says nothing about most items: these would all be alike."""
    known = np.zeros(table.num_rows, bool)
    for column in table.columns:
        known |= column.is_valid().to_numpy()
    if 2 * known.sum() < len(known):
        raise DataError(
            f"{int((~known).sum()):,} of {len(known):,} items are not in the items file; expected most of "
            "them, since new items are placed by what they have in common with known ones."
        )


def _numbers(values: pa.Array) -> pa.Array:
    """A column of texts that are all numbers, as a CSV file has them, as numbers; null for an empty text.

    Whole numbers that tell all items apart are ids and stay texts.
    """
    if not pa.types.is_string(values.type) or values.null_count == len(values):
        return values
    filled = pc.if_else(pc.equal(values, ""), pa.scalar(None, pa.string()), values)
    try:
        numbers = filled.cast(pa.float64())
    except pa.ArrowInvalid:
        return values
    if (
        len(filled.unique().drop_null()) == len(filled) - filled.null_count
        and not pc.any(pc.not_equal(numbers, pc.floor(numbers))).as_py()
    ):
        return values
    return numbers


def _column(name: str, values: pa.Array, *, named: bool) -> Column | None:
    """A column as a feature; None of one that was not asked for and says nothing."""
    problem, column, values = "", None, _numbers(values)
    if values.null_count == len(values) or (values.null_count and not pa.types.is_string(values.type)):
        problem = f"{values.null_count:,} of {len(values):,} items have no value: are they in the items file?"
    elif pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        numbers = values.to_numpy(zero_copy_only=False).astype(np.float64)
        if not np.isfinite(numbers).all():
            raise DataError(
                f"the items' column {name!r} holds NaN or infinite numbers; expected finite ones."
            )
        if (spread := float(numbers.std())) == 0:
            problem = "it has one value for all items"
        else:
            column = Column(name, numbers=numbers / spread)
    elif pa.types.is_list(values.type) and pa.types.is_floating(values.type.value_type):
        column = Column(name, vectors=_unit(name, values.to_pylist()))
    else:
        sets = Attribute.of(pa.table({name: values}), name)
        if sets.values < 2:
            problem = "it has one value for all items"
        elif sets.values > _DISTINCT * len(values):
            problem = f"it has {sets.values:,} values for {len(values):,} items"
        else:
            column = Column(name, vectors=_indicators(sets))
    if column is None and named:
        raise DataError(f"the items' column {name!r} says nothing of their kind: {problem}; leave it out.")
    if column is None and "items file" in problem:
        warnings.warn(f"the items' column {name!r} is left out: {problem}", stacklevel=4)
    return column


def _unit(name: str, rows: list[list[float]]) -> NDArray[np.float64]:
    """Precomputed vectors, of length 1."""
    if len({len(row) for row in rows}) != 1:
        raise DataError(f"the vectors in the items' column {name!r} have several lengths; expected one.")
    vectors = np.array(rows, np.float64)
    if not np.isfinite(vectors).all():
        raise DataError(f"the items' column {name!r} holds NaN or infinite numbers; expected finite ones.")
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-30)


def _indicators(sets: Attribute) -> sp.csr_array:
    """Items × values, rows of length 1; 0 where an item has no value."""
    row, place = np.nonzero(sets.codes < sets.values)
    counts = np.bincount(row, minlength=len(sets.codes))
    entries = (1 / np.sqrt(counts[row]), (row, sets.codes[row, place]))
    return sp.csr_array(entries, shape=(len(sets.codes), sets.values))
