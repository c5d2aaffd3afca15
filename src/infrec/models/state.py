"""A fitted model as a value: settings, log and state, which no later fit changes; and as an artifact.

    @dataclass(frozen=True, eq=False)
    class EASEState(State):
        weights: NDArray[np.float32] = stored("items", "items")

A state says which of its arrays are saved, and of which shape they are read again. Beside them an artifact
has settings and candidates in its manifest, ids and histories as Parquet.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Self

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec import artifacts
from infrec.contents import Artifact
from infrec.data import Interactions, Vocabulary
from infrec.data.interactions import canonical
from infrec.search.criterion import Candidate
from infrec.settings import Settings


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
        return cls(
            **{
                one.name: artifact.array(one.name, *(lengths[axis] for axis in one.metadata["shape"]))
                for one in dataclasses.fields(cls)
                if one.metadata
            }
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
    """

    settings: Any
    log: Interactions
    state: Any
    about: dict[str, Any] = field(default_factory=dict)
    candidates: Sequence[Candidate] = ()

    def write(
        self,
        path: str | PathLike[str],
        facts: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        tables: Mapping[str, pa.Table],
    ) -> None:
        """Write log and candidates with these facts, arrays and tables; see `infrec.artifacts`."""
        log = self.log
        coo = log.matrix.tocoo(copy=False)
        interactions = {
            "row": pa.array(coo.row.astype(np.int32, copy=False)),
            "column": pa.array(coo.col.astype(np.int32, copy=False)),
        }
        if log.weighted:
            interactions["weight"] = pa.array(coo.data)
        items = pa.table({"id": log.items.ids})
        if log.item_info is not None:
            for name in log.item_info.column_names:
                items = items.append_column(f"info.{name}", log.item_info.column(name))
        artifacts.write(
            path,
            kind="model",
            manifest={
                **facts,
                "about": self.about,
                "candidates": [dataclasses.asdict(candidate) for candidate in self.candidates],
                "users": log.n_users,
                "items": log.n_items,
                "interactions": log.n_interactions,
            },
            arrays=arrays,
            tables={
                "users": pa.table({"id": log.users.ids}),
                "items": items,
                "interactions": pa.table(interactions),
                **tables,
            },
        )

    @classmethod
    def read(
        cls, artifact: Artifact, settings: Settings, restore: Callable[[Artifact, Interactions], Any]
    ) -> Self:
        """The fit that `write` wrote; `restore` reads the state, given the log."""
        users, items = Vocabulary(artifact.ids("users")), Vocabulary(artifact.ids("items"))
        shape = (len(users), len(items))
        row, column = (
            artifact.inside(f"column {name!r}", artifact.column("interactions", name, "i"), below)
            for name, below in zip(("row", "column"), shape, strict=True)
        )
        weights = artifact.weights("interactions", default=True)
        matrix = canonical(sp.csr_array((weights, (row, column)), shape=shape))
        artifact.agree(users=shape[0], items=shape[1], interactions=matrix.nnz)
        if not matrix.nnz:
            raise artifact.unsound("it has no interactions")
        log = Interactions(matrix, users, items, item_info=artifact.about_items())
        candidates = [_candidate(artifact, entry) for entry in artifact.manifest["candidates"]]
        about = dict(artifact.manifest.get("about", {}))
        return cls(settings, log, restore(artifact, log), about, candidates)


def _candidate(artifact: Artifact, entry: Any) -> Candidate:
    """One candidate from the manifest, after checking its numbers and words."""
    candidate = Candidate(**entry)
    numbers = [candidate.seconds, *(score for _, score in candidate.rungs)]
    for number in numbers if candidate.score is None else [*numbers, candidate.score]:
        artifact.checked_number("a candidate's score or time", number, least=-math.inf)
    words = [word for word in (candidate.error, candidate.dropped) if word is not None]
    if not isinstance(candidate.settings, Mapping) or not all(isinstance(word, str) for word in words):
        raise artifact.unsound("a candidate is not told as infrec does")
    return candidate
