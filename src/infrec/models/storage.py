"""A fitted model as an artifact: settings and candidates in the manifest, ids and histories as Parquet."""

from __future__ import annotations

import dataclasses
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from infrec import artifacts
from infrec.artifacts import Artifact
from infrec.data import Interactions, Vocabulary
from infrec.errors import ArtifactError, ConfigError, DataError
from infrec.models.selection import Candidate

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
    try:
        items = artifact.tables["items"]
        users = artifact.tables["users"].column("id").combine_chunks()
        pairs = artifact.tables["interactions"]
        shape = (len(users), items.num_rows)
        if "weight" in pairs.column_names:
            weights = pairs.column("weight").to_numpy()
        else:
            weights = np.ones(pairs.num_rows, np.float32)
        row, column = pairs.column("row").to_numpy(), pairs.column("column").to_numpy()
        info = {n.removeprefix("info."): items.column(n) for n in items.column_names if n.startswith("info.")}
        log = Interactions(
            sp.csr_array((weights, (row, column)), shape=shape),
            Vocabulary(users),
            Vocabulary(items.column("id").combine_chunks()),
            item_info=pa.table(info) if info else None,
        )
        candidates = [Candidate(**entry) for entry in manifest["candidates"]]
        settings = dict(manifest["settings"])
    except (KeyError, TypeError, ValueError, DataError, ConfigError) as failure:
        raise ArtifactError(
            f"{artifact.path} is no complete model ({failure}); fit and save it again."
        ) from failure
    return settings, candidates, log
