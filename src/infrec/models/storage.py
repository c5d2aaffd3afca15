"""The log of a saved model as tables, and read again: ids, interactions, dislikes; and its candidates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.contents import Artifact, with_info
from infrec.data import Interactions, Vocabulary
from infrec.data.interactions import canonical
from infrec.search.criterion import Candidate


def tables_of(log: Interactions) -> dict[str, pa.Table]:
    """The tables of a model's log.

    Args:
        log: The log.
    """
    pairs = _pair_columns(log.matrix)
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


def _pair_columns(matrix: sp.csr_array) -> dict[str, pa.Array]:
    pairs = matrix.tocoo(copy=False)
    return {name: pa.array(at.astype(np.int32)) for name, at in (("row", pairs.row), ("column", pairs.col))}


def read_log(artifact: Artifact) -> Interactions:
    """The log of a saved model, after checking it.

    Args:
        artifact: The model's directory, as it was read.
    """
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


def read_candidates(artifact: Artifact) -> list[Candidate]:
    """The candidates of a saved model, after checking their numbers and words.

    Args:
        artifact: The model's directory, as it was read.
    """
    return [_candidate(artifact, entry) for entry in artifact.manifest["candidates"]]


def _candidate(artifact: Artifact, entry: Any) -> Candidate:
    candidate = Candidate(**entry)
    numbers = [candidate.seconds, *(score for _, score in candidate.rungs)]
    for number in numbers if candidate.score is None else [*numbers, candidate.score]:
        artifact.checked_number("a candidate's score or time", number, least=-math.inf)
    words = [word for word in (candidate.error, candidate.dropped) if word is not None]
    if not isinstance(candidate.settings, Mapping) or not all(isinstance(word, str) for word in words):
        raise artifact.unsound("a candidate is not told as infrec does")
    return candidate
