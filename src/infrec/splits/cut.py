"""Cutting a log by a mask over its interactions: what every rule of this room ends in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from infrec.data import Interactions
from infrec.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

FEWEST = 3  # a user needs one interaction for each part


def keep(log: Interactions, wanted: NDArray[np.bool_]) -> Interactions:
    """The same users and items with only the wanted interactions; `wanted` is in CSR order."""
    matrix = log.matrix
    upto = np.cumsum(wanted, dtype=matrix.indptr.dtype)
    ends = matrix.indptr.copy()
    inside = ends > 0
    ends[inside] = upto[ends[inside] - 1]
    del upto
    part = sp.csr_array((matrix.data[wanted], matrix.indices[wanted], ends), shape=matrix.shape)
    part.has_sorted_indices = part.has_canonical_format = matrix.has_canonical_format
    return log.with_matrix(part, time=None if log.time is None else log.time[wanted])


def with_enough(log: Interactions) -> Interactions:
    """Without the users who have fewer than 3 interactions; every item stays."""
    counts = log.user_counts
    enough = np.flatnonzero(counts >= FEWEST)
    if not len(enough):
        raise DataError(
            f"none of the {log.n_users} users has {FEWEST} interactions or more, the most is "
            f"{int(counts.max(initial=0))}; expected some with {FEWEST}, one for each of train, validation "
            "and test: use more data, or a file with its own column `split`."
        )
    return log if len(enough) == log.n_users else log.select_users(enough)


def rows_of(matrix: sp.csr_array) -> NDArray[np.int64]:
    """The row of each stored entry."""
    return np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
