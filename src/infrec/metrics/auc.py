"""The chance that a held-out item outranks one the user never had; equal scores count one half.

And negatives: the items that a user never had, drawn at random.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infrec.errors import ConfigError
from infrec.metrics.ranking import flat_positions
from infrec.randomness import generator

if TYPE_CHECKING:
    import scipy.sparse as sp
    from numpy.typing import NDArray

    Scores = NDArray[np.floating[Any]]

BLOCK = 1 << 18  # users per random stream: changing it changes the draws of larger datasets
_BLOCK_ENTRIES = 1 << 19
_CHUNK = 1 << 22


def pooled_auc_by_user(
    positives: Scores,
    positive_user: NDArray[np.integer],
    negatives: Scores,
    negative_user: NDArray[np.integer],
    n_users: int,
) -> tuple[float, NDArray[np.float64]]:
    """The pooled AUC and each user's contribution to it, whose mean over users is exactly the AUC.

    The pooled AUC is the published "AUC": over the pairs of all users, so that scores of different users are
    compared with each other.

    The contributions are pseudo-values, not AUCs of single users:
    A + n·[Σ_{positives of u} (V − A) / M + Σ_{negatives of u} (V − A) / N], for M positives and N negatives,
    where V is the share of the other side that a score is on the right side of (DeLong's placement values),
    summed by user as in Obuchowski's AUC of clustered data (Biometrics 53, 1997). Their standard deviation
    over √n is the standard error of A when users, not pairs, are drawn at random. Without any pair it is 0.5.

    Args:
        positives, negatives: Scores of held-out items, and of items that were not.
        positive_user, negative_user: The user of each score, numbered from 0.
        n_users: How many users there are, also those without a score.
    """
    if not len(positives) or not len(negatives):
        return 0.5, np.full(n_users, 0.5)
    # Σ V and Σ 1 by user, in chunks: nothing but the scores themselves is as long as they are.
    above, count = _placements(positives, positive_user, negatives, n_users)
    auc = float(above.sum() / len(positives))
    gained = (above - auc * count) / len(positives)
    below, count = _placements(negatives, negative_user, positives, n_users)
    gained += ((count - below) - auc * count) / len(negatives)
    return auc, auc + n_users * gained


def _placements(
    scores: Scores, user: NDArray[np.integer], others: Scores, n_users: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """By user: the sum of the shares of the others below the scores asked, and how many were asked."""
    others = np.sort(others)
    total, count = np.zeros(n_users), np.zeros(n_users)
    for start in range(0, len(scores), _CHUNK):
        some, of = scores[start : start + _CHUNK], user[start : start + _CHUNK]
        total += np.bincount(of, _share_below(some, others), minlength=n_users)
        count += np.bincount(of, minlength=n_users)
    return total, count


def user_auc(
    scores: Scores, held_out: sp.csr_array, exclude: sp.csr_array | None = None
) -> NDArray[np.float64]:
    """The AUC of each user by themselves, as the paper's appendix on metrics writes it: no sampling.

    E_{i+ ∈ T} E_{i− ∈ I∖(T ∪ context)} [φ(u, i+) > φ(u, i−)], equal scores one half. A user for whom there is
    no such pair gets the 0.5 of a coin.

    Args:
        scores: The model's own, unmasked, [n, items].
        held_out: The items of T, CSR [n, items].
        exclude: The context, CSR [n, items].
    """
    n, items = scores.shape
    held = np.diff(held_out.indptr)
    out = np.full(n, 0.5)
    step = max(8, _BLOCK_ENTRIES // max(1, items))
    for start in range(0, n, step):
        stop = min(n, start + step)
        work = np.array(scores[start:stop], order="C")
        at = flat_positions(held_out, start, stop, items)
        row, values = at // items, work.ravel()[at]
        work.ravel()[at] = np.inf
        if exclude is not None:
            work.ravel()[flat_positions(exclude, start, stop, items)] = np.inf
        work.sort(axis=1)
        negatives = np.count_nonzero(work < np.inf, axis=1)
        below = _count_below(work, row, values, negatives, strict=True)
        below += _count_below(work, row, values, negatives, strict=False)
        total = np.bincount(row, 0.5 * below, minlength=stop - start)
        pairs = held[start:stop] * negatives
        np.divide(total, pairs, out=out[start:stop], where=pairs > 0)
    return out


def _share_below(scores: Scores, others: Scores) -> NDArray[np.float64]:
    """For each score asked, the share of the others (sorted) below it; equal ones count one half."""
    order = np.argsort(scores)  # searching in ascending order stays in the cache
    in_order = scores[order]
    twice = np.searchsorted(others, in_order, "left") + np.searchsorted(others, in_order, "right")
    out = np.empty(len(scores))
    out[order] = twice / (2.0 * len(others))
    return out


def _count_below(
    ascending: Scores, row: NDArray[np.integer], values: Scores, length: NDArray[np.integer], *, strict: bool
) -> NDArray[np.int64]:
    """How many of the first `length` entries of its row lie below each value (not strict: or equal it)."""
    low, high = np.zeros(len(row), np.int64), length[row].astype(np.int64)
    for _ in range(int(length.max(initial=0)).bit_length()):
        middle = (low + high) // 2
        entries = ascending[row, np.minimum(middle, ascending.shape[1] - 1)]
        right = ((entries < values) if strict else (entries <= values)) & (low < high)
        low, high = np.where(right, middle + 1, low), np.where(right, high, middle)
    return low


class Negatives:
    """For each user n distinct random items that are in neither train nor test; they may be in validation.

    A user with fewer than n such items gets all of them, then −1.

    Args:
        train, test: CSR [users, items].
        n: How many for each user.
        seed: Seed of the draw.
    """

    def __init__(self, train: sp.csr_array, test: sp.csr_array, n: int = 50, *, seed: int = 42) -> None:
        if n < 1:
            raise ConfigError(f"{n} negatives were asked for; expected 1 or more.")
        self.train, self.test, self.n, self.seed = train, test, n, seed
        self._block, self._drawn = -1, np.zeros((0, n), np.int64)  # one is held at a time

    def of(self, start: int, stop: int) -> NDArray[np.int64]:
        """Columns, [stop − start, n].

        Args:
            start, stop: The users start … stop − 1.
        """
        pieces = [np.zeros((0, self.n), np.int64)]
        while start < stop:
            block, at = divmod(start, BLOCK)
            if self._block != block:
                self._block, self._drawn = block, self._draw(block)
            pieces.append(self._drawn[at : at + stop - start])
            start += len(pieces[-1])
        return np.concatenate(pieces)

    def _draw(self, block: int) -> NDArray[np.int64]:
        some = slice(block * BLOCK, (block + 1) * BLOCK)
        taken = self.train[some] + self.test[some]  # weights are positive, so nothing cancels
        taken.sort_indices()
        free = taken.shape[1] - np.diff(taken.indptr).astype(np.int64)
        stream = ("evaluation negatives", *([str(block)] if block else []))
        return _nth_free(taken, _distinct(free, self.n, generator(self.seed, *stream)))


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
    row = np.repeat(np.arange(n_rows), np.diff(taken.indptr))
    free_before = taken.indices - (np.arange(taken.nnz) - taken.indptr[row]) + row * (n_columns + 1)
    keys = rank + np.arange(n_rows)[:, None] * (n_columns + 1)
    passed = np.searchsorted(free_before, keys, "right") - taken.indptr[:-1, None]
    return np.where(rank < 0, -1, rank + passed)
