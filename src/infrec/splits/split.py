"""A log cut into what a model may see, what settings are chosen on, and what is measured.

Cutting a log by a mask over its interactions: what every rule of this room ends in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from infrec.data import Interactions
from infrec.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

FEWEST = 3  # a user needs one interaction for each part


@dataclass(frozen=True, eq=False)
class Split:
    """Three logs over the same users and items.

    Args:
        train, val, test: The three logs.
        name: How it was made, for records and reports.
    """

    train: Interactions
    val: Interactions
    test: Interactions
    name: str = ""

    def __post_init__(self) -> None:
        for part in (self.val, self.test):
            if part.users != self.train.users or part.items != self.train.items:
                raise DataError("the parts of a split must share their users and items, in the same order.")

    @property
    def test_context(self) -> sp.csr_array:
        """History of each user at test time: train and validation together, 0/1 where the data is."""
        return self.train.matrix.maximum(self.val.matrix)


def keep(log: Interactions, wanted: NDArray[np.bool_]) -> Interactions:
    """A log of all users and items with only the wanted interactions; `wanted` is in CSR order."""
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
