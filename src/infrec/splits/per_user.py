"""The paper's split: each user's interactions at random, four fifths to learn from, a tenth to test on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from infrec.data import Interactions
from infrec.errors import DataError
from infrec.randomness import generator
from infrec.splits.cut import keep, rows_of, with_enough
from infrec.splits.split import Split

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
    n = np.repeat(log.user_counts, log.user_counts)
    train_end, val_end = (0.8 * n).astype(np.int64), (0.9 * n).astype(np.int64)
    test = (place >= val_end) | (place == 0)
    train = (place < train_end) & ~test
    return Split(keep(log, train), keep(log, ~train & ~test), keep(log, test), name=f"holdout (seed {seed})")


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


def _shuffled_place(matrix: sp.csr_array, rng: np.random.Generator) -> NDArray[np.int64]:
    """The place of each stored entry in a random order of its row, 0 …"""
    row = rows_of(matrix)
    # The row in the high bits, chance in the rest: one sort shuffles all rows, and each stays where it is.
    chance_bits = 63 - int(matrix.shape[0]).bit_length()
    keys = (row << chance_bits) | rng.integers(0, 1 << chance_bits, size=matrix.nnz, dtype=np.int64)
    place = np.empty(matrix.nnz, np.int64)
    place[np.argsort(keys, kind="stable")] = np.arange(matrix.nnz) - matrix.indptr[row]
    return place
