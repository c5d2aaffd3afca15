"""A fitted model is a value: settings, log and state, which no later fit changes; and how a log is saved.

    @dataclass(frozen=True, eq=False)
    class EASEState(State):
        weights: NDArray[np.float32] = stored("items", "items")

A state says which of its arrays are saved, and of which shape they are read again. Ids, interactions and
dislikes of the log are tables.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.contents import Artifact, with_info
from infrec.data import Interactions, Vocabulary
from infrec.data.interactions import canonical
from infrec.models.dislikes import Dislikes
from infrec.models.new_items import Placed
from infrec.search.criterion import Candidate
from infrec.settings import AUTO, Settings


def stored(*shape: str) -> Any:
    """Declare a field of a state that is saved as an array of its name.

    Args:
        shape: The length of each axis: "users", "items" or the name of a setting.
    """
    return field(metadata={"shape": shape})


@dataclass(frozen=True, eq=False)
class State:
    """The numbers that a model learnt from a log; some need nothing beside the log itself."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays to save, by name."""
        return {one.name: getattr(self, one.name) for one in dataclasses.fields(self) if one.metadata}

    @classmethod
    def read(cls, artifact: Artifact, settings: Settings, log: Interactions) -> Self:
        """The state from what `arrays` gave, after checking that it fits the settings and the log."""
        lengths = {"users": log.n_users, "items": log.n_items, **settings.to_dict()}
        shapes = {one.name: one.metadata["shape"] for one in dataclasses.fields(cls) if one.metadata}
        return cls(
            **{name: artifact.array(name, *(lengths[axis] for axis in axes)) for name, axes in shapes.items()}
        )


@dataclass(frozen=True, eq=False)
class Fitted:
    """Result of a fit.

    Args:
        settings: The settings in use; none of them is "auto".
        log: The log that the model knows: its vocabularies and histories.
        state: What was learnt.
        about: What the model decided by itself, and why.
        candidates: The settings that were tried.
        dislikes: A ridge that foretells dislikes; None where they count for nothing.
        new_items: Items that nobody has yet and that have a place all the same; None: they have the score 0.
    """

    settings: Any
    log: Interactions
    state: Any
    about: dict[str, Any] = field(default_factory=dict)
    candidates: Sequence[Candidate] = ()
    dislikes: Dislikes | None = None
    new_items: Placed | None = None

    @property
    def adjusts_scores(self) -> bool:
        """Whether dislikes or new items change scores after the model has given them."""
        return self.dislikes is not None or self.new_items is not None

    def columns(
        self, of: Callable[[NDArray[np.integer]], NDArray[Any]], items: NDArray[np.integer]
    ) -> NDArray[Any]:
        """Columns of a matrix that scores are linear in, of known items and of new ones.

        Args:
            of: From items to their columns.
            items: The items wanted.
        """
        return of(items) if self.new_items is None else self.new_items.columns(of, items)

    # ---- disk ----------------------------------------------------------------------------------------------
    def facts(self) -> dict[str, Any]:
        """Entries of the manifest beside the model's name and settings."""
        return {
            "about": self.about,
            "candidates": [dataclasses.asdict(candidate) for candidate in self.candidates],
            "users": self.log.n_users,
            "items": self.log.n_items,
            "interactions": self.log.n_interactions,
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays to save beside those of the state, by name."""
        parts = [part.arrays() for part in (self.dislikes, self.new_items) if part is not None]
        return {name: array for part in parts for name, array in part.items()}

    def tables(self) -> dict[str, pa.Table]:
        """The log as tables, by name."""
        log, pairs = self.log, _pair_columns(self.log.matrix)
        if log.weighted:
            pairs["weight"] = pa.array(log.matrix.data)
        tables = {
            "users": pa.table({"id": log.users.ids}),
            "items": with_info(pa.table({"id": log.items.ids}), log.item_info),
            "interactions": pa.table(pairs),
        }
        if log.dislikes is not None:
            tables["dislikes"] = pa.table(_pair_columns(log.dislikes.matrix))
        return tables

    @classmethod
    def read(
        cls, artifact: Artifact, settings: Any, restore: Callable[[Artifact, Interactions], Any]
    ) -> Self:
        """A fit from what `facts`, `arrays` and `tables` gave, after checking it.

        Args:
            artifact: The model's directory, as it was read.
            settings: The settings in use.
            restore: The state, from the directory and the log.
        """
        log, candidates = _read_log(artifact), artifact.manifest["candidates"]
        state = restore(artifact, log)
        said, placed = Dislikes.read(artifact, log), Placed.read(artifact, log)
        if said is not None and getattr(settings, "dislikes", AUTO) == AUTO:
            raise artifact.unsound("it foretells dislikes and has no weight of them")
        tried = [_candidate(artifact, entry) for entry in candidates]
        return cls(settings, log, state, dict(artifact.manifest.get("about", {})), tried, said, placed)


def _pair_columns(matrix: sp.csr_array) -> dict[str, pa.Array]:
    pairs = matrix.tocoo(copy=False)
    return {name: pa.array(at.astype(np.int32)) for name, at in (("row", pairs.row), ("column", pairs.col))}


def _read_log(artifact: Artifact) -> Interactions:
    users, items = Vocabulary(artifact.ids("users")), Vocabulary(artifact.ids("items"))
    shape = (len(users), len(items))
    row, column = _pairs(artifact, "interactions", shape)
    weights = artifact.weights("interactions", default=True)
    matrix = canonical(sp.csr_array((weights, (row, column)), shape=shape))
    artifact.agree(users=shape[0], items=shape[1], interactions=matrix.nnz)
    if not matrix.nnz:
        raise artifact.unsound("it has no interactions")
    log = Interactions(matrix, users, items, item_info=artifact.about_items())
    if "dislikes" not in artifact.tables:
        return log
    row, column = _pairs(artifact, "dislikes", shape)
    said = canonical(sp.csr_array((np.ones(len(row), np.float32), (row, column)), shape=shape))
    if said.nnz < len(row) or said.multiply(matrix).nnz:
        raise artifact.unsound("it has a dislike twice, or one that is an interaction too")
    return replace(log, dislikes=Interactions(said, users, items))


def _pairs(artifact: Artifact, table: str, shape: tuple[int, int]) -> Iterator[NDArray[Any]]:
    """The rows and the columns of a table of pairs, after checking them."""
    for name, below in zip(("row", "column"), shape, strict=True):
        yield artifact.inside(f"column {name!r}", artifact.column(table, name, "i"), below)


def _candidate(artifact: Artifact, entry: Any) -> Candidate:
    candidate = Candidate(**entry)
    numbers = [candidate.seconds, *(score for _, score in candidate.rungs)]
    for number in numbers if candidate.score is None else [*numbers, candidate.score]:
        artifact.checked_number("a candidate's score or time", number, least=-math.inf)
    words = [word for word in (candidate.error, candidate.dropped) if word is not None]
    if not isinstance(candidate.settings, Mapping) or not all(isinstance(word, str) for word in words):
        raise artifact.unsound("a candidate is not told as infrec does")
    return candidate
