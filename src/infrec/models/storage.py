"""A fitted model as an artifact: settings and candidates in the manifest, ids and histories as Parquet."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from infrec import artifacts
from infrec.contents import Artifact
from infrec.data import Interactions, Vocabulary
from infrec.data.interactions import canonical
from infrec.errors import ArtifactError
from infrec.search.criterion import Candidate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from infrec.models.base import Recommender


def save(
    model: Recommender,
    path: str | PathLike[str],
    arrays: dict[str, NDArray[Any]],
    tables: dict[str, pa.Table] | None = None,
) -> None:
    """Write a fitted model; see `infrec.artifacts` for what is promised."""
    log = model.log
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
            "model": model.name,
            "settings": model.selected,
            "about": model.about,
            "candidates": [dataclasses.asdict(candidate) for candidate in model.candidates],
            "users": log.n_users,
            "items": log.n_items,
            "interactions": log.n_interactions,
        },
        arrays=arrays,
        tables={
            "users": pa.table({"id": log.users.ids}),
            "items": items,
            "interactions": pa.table(interactions),
            **(tables or {}),
        },
    )


def contents(name: str, artifact: Artifact) -> tuple[dict[str, Any], list[Candidate], Interactions]:
    """Settings, candidates and training log of a stored model."""
    manifest = artifact.manifest
    if manifest.get("model") != name:
        raise ArtifactError(
            f"{artifact.path} holds a model named {manifest.get('model')!r}; expected {name!r}."
        )
    with artifact.understood():
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
        candidates = [_candidate(artifact, entry) for entry in manifest["candidates"]]
        return dict(manifest["settings"]), candidates, log


def _candidate(artifact: Artifact, entry: Any) -> Candidate:
    """One candidate from the manifest, after checking its numbers and words."""
    found = Candidate(**entry)
    numbers = [
        found.seconds,
        *(score for _, score in found.rungs),
        *(() if found.score is None else (found.score,)),
    ]
    for number in numbers:
        artifact.checked_number("a candidate's score or time", number, least=-math.inf)
    if not isinstance(found.settings, Mapping) or not all(
        word is None or isinstance(word, str) for word in (found.error, found.dropped)
    ):
        raise artifact.unsound("a candidate is not told as infrec does")
    return found
