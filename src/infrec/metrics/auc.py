"""The chance that a held-out item outranks one the user never had; equal scores count one half."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infrec.metrics.ranking import flat_positions

if TYPE_CHECKING:
    import scipy.sparse as sp
    from numpy.typing import NDArray

    Scores = NDArray[np.floating[Any]]

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
    asked: Scores, user: NDArray[np.integer], others: Scores, n_users: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """By user: the sum of the shares of the others below the scores asked, and how many were asked."""
    others = np.sort(others)
    total, count = np.zeros(n_users), np.zeros(n_users)
    for start in range(0, len(asked), _CHUNK):
        some, of = asked[start : start + _CHUNK], user[start : start + _CHUNK]
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


def _share_below(asked: Scores, others: Scores) -> NDArray[np.float64]:
    """For each score asked, the share of the others (sorted) below it; equal ones count one half."""
    order = np.argsort(asked)  # searching in ascending order stays in the cache
    in_order = asked[order]
    twice = np.searchsorted(others, in_order, "left") + np.searchsorted(others, in_order, "right")
    out = np.empty(len(asked))
    out[order] = twice / (2.0 * len(others))
    return out


def _count_below(
    ascending: Scores, row: NDArray[np.integer], values: Scores, length: NDArray[np.integer], *, strict: bool
) -> NDArray[np.int64]:
    """How many of the first `length` entries of its row lie below each value (not strict: or equal it)."""
    low, high = np.zeros(len(row), np.int64), length[row].astype(np.int64)
    for _ in range(int(length.max(initial=0)).bit_length()):
        middle = (low + high) // 2
        found = ascending[row, np.minimum(middle, ascending.shape[1] - 1)]
        right = ((found < values) if strict else (found <= values)) & (low < high)
        low, high = np.where(right, middle + 1, low), np.where(right, high, middle)
    return low
