"""Items that a user never had, drawn at random, to compare the held-out ones with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from infrec.errors import ConfigError
from infrec.randomness import generator
from infrec.splits.holdout import Split, rows_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


BLOCK = 1 << 18  # users per random stream: changing it changes the draws of larger datasets


def evaluation_negatives(split: Split, n: int = 50, *, seed: int = 42) -> NDArray[np.int64]:
    """For each user n distinct random items that are in neither train nor test; they may be in validation.

    Returns [users, n] columns. A user with fewer than n such items gets all of them, then −1.

    Args:
        split: The split whose users get negatives.
        n: How many for each user.
        seed: Seed of the draw.
    """
    train, test = split.train.matrix, split.test.matrix
    blocks = range(-(-train.shape[0] // BLOCK) or 1)
    return np.concatenate([block_negatives(train, test, block, n, seed=seed) for block in blocks])


def block_negatives(
    train: sp.csr_array, test: sp.csr_array, block: int, n: int = 50, *, seed: int = 42
) -> NDArray[np.int64]:
    """Negatives of the users of one block (block · BLOCK and the next ones); see `evaluation_negatives`."""
    if n < 1:
        raise ConfigError(f"{n} negatives were asked for; expected 1 or more.")
    some = slice(block * BLOCK, (block + 1) * BLOCK)
    taken = train[some] + test[some]  # weights are positive, so nothing cancels
    taken.sort_indices()
    free = taken.shape[1] - np.diff(taken.indptr).astype(np.int64)
    stream = ("evaluation negatives", *([str(block)] if block else []))
    return _nth_free(taken, _distinct(free, n, generator(seed, *stream)))


def _distinct(below: NDArray[np.int64], n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Per row, n distinct numbers of 0 … below−1, every set equally likely; all of them, then −1, if too few.

    Floyd's method, all rows at once: for last = below−n … below−1, draw from 0 … last, and take `last` itself
    when the drawn one is already there.
    """
    out = np.empty((len(below), n), np.int64)
    for step in range(n):
        last = np.maximum(below - n + step, 0)
        drawn = rng.integers(0, last, endpoint=True)
        again = (out[:, :step] == drawn[:, None]).any(axis=1)
        out[:, step] = np.where(again, last, drawn)
    few = np.flatnonzero(below < n)
    everything = np.arange(n)
    out[few] = np.where(everything < below[few, None], everything, -1)
    return out


def _nth_free(taken: sp.csr_array, rank: NDArray[np.int64]) -> NDArray[np.int64]:
    """The column that is the rank-th (from 0) of those not stored in its row; −1 stays −1."""
    n_rows, n_columns = taken.shape
    # Before the j-th stored column c_j there are c_j − j free ones, so as many stored columns precede the
    # free one of rank r as have c_j − j ≤ r. Offsetting by the row makes that one search for all rows.
    row = rows_of(taken)
    free_before = taken.indices - (np.arange(taken.nnz) - taken.indptr[row]) + row * (n_columns + 1)
    asked = rank + np.arange(n_rows)[:, None] * (n_columns + 1)
    passed = np.searchsorted(free_before, asked, "right") - taken.indptr[:-1, None]
    return np.where(rank < 0, -1, rank + passed)
