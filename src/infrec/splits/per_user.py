"""The paper's split: each user's interactions at random, four fifths to learn from, a tenth to test on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from infrec.data import Interactions
from infrec.errors import DataError
from infrec.randomness import generator
from infrec.splits.cut import keep, with_enough
from infrec.splits.split import Split

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BLOCK = 1 << 23  # interactions shuffled at a time


def holdout(log: Interactions, *, seed: int = 42) -> Split:
    """The split that the data brings along (`log.parts`), or else the paper's per-user holdout.

    Users with fewer than 3 interactions are dropped; items are not filtered. Of a user's n interactions,
    shuffled, the first int(0.8 n) are train, those up to int(0.9 n) validation, the rest test; then the very
    first is moved to test, so that every user has a test item. Small users have no validation item.
    """
    if log.parts is not None:
        return own_split(log)
    log = with_enough(log)
    place = _shuffled_place(log.matrix, generator(seed, "holdout"))
    n = log.user_counts
    test = (place >= np.repeat((0.9 * n).astype(np.int32), n)) | (place == 0)
    train = (place < np.repeat((0.8 * n).astype(np.int32), n)) & ~test
    return Split(keep(log, train), keep(log, ~train & ~test), keep(log, test), name=f"holdout (seed {seed})")


def hide(log: Interactions, *, share: float = 0.1, seed: int = 42) -> tuple[Interactions, Interactions]:
    """A second holdout inside a log: (what is left, what is hidden), for the same users and items.

    Of a user's n ≥ 2 interactions int(share · n) are hidden, at least one; a user with a single one keeps it.
    """
    place = _shuffled_place(log.matrix, generator(seed, "hide"))
    n = log.user_counts
    quota = np.where(n >= 2, np.maximum(1, (share * n).astype(np.int64)), 0)
    hidden = place < np.repeat(quota, n)
    return keep(log, ~hidden), keep(log, hidden)


def own_split(log: Interactions) -> Split:
    """The split in the data's own column `split`, untouched: no user is dropped."""
    parts = log.parts or {}
    for name in ("train", "test"):
        if name not in parts or not parts[name].nnz:
            raise DataError(
                f"the data's own split has no {name} interactions; expected `train` and `test` in the column "
                "`split`, so complete it or read the data without it."
            )
    nothing = sp.csr_array(log.matrix.shape, dtype=np.float32)
    train, val, test = (log.with_matrix(parts.get(name, nothing)) for name in ("train", "val", "test"))
    return Split(train, val, test, name="own")


def _shuffled_place(matrix: sp.csr_array, rng: np.random.Generator) -> NDArray[np.int32]:
    """The place of each stored entry in a random order of its row, 0 …; block by block, in one stream."""
    # The row in the high bits, chance in the rest: one sort shuffles all rows, and each stays where it is.
    chance_bits = 63 - int(matrix.shape[0]).bit_length()
    place = np.empty(matrix.nnz, np.int32)
    ends = np.searchsorted(matrix.indptr, np.arange(_BLOCK, matrix.nnz + _BLOCK, _BLOCK))
    first = 0
    for last in np.unique(np.append(np.minimum(ends, matrix.shape[0]), matrix.shape[0])):
        some = matrix.indptr[first : last + 1]
        row = np.repeat(np.arange(first, last, dtype=np.int64), np.diff(some))
        keys = (row << chance_bits) | rng.integers(0, 1 << chance_bits, size=len(row), dtype=np.int64)
        order = np.argsort(keys, kind="stable")
        place[some[0] + order] = np.arange(len(row)) - (some[row - first] - some[0])
        first = last
    return place
