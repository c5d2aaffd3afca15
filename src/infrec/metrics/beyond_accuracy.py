"""What else a list is: how much of the catalogue it shows, how surprising, and how popular its items are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def exposure(top: NDArray[np.integer], n_items: int) -> NDArray[np.int64]:
    """In how many lists each item stands; of batches of users, add them up."""
    return np.bincount(top[top >= 0], minlength=n_items)


def coverage(exposed: NDArray[np.integer]) -> float:
    """The share of all items that stand in anybody's list, in 0…1."""
    return float(np.mean(exposed > 0)) if len(exposed) else 0.0


def gini(exposed: NDArray[np.integer]) -> float:
    """How unequally exposure is spread: 0 when all items are shown equally often, near 1 when few are."""
    ascending = np.sort(exposed).astype(np.float64)
    n, total = len(ascending), float(ascending.sum())
    if not total:
        return 0.0
    return float((2.0 * np.arange(1, n + 1) - n - 1) @ ascending / (n * total))


def novelty(top: NDArray[np.integer], item_counts: NDArray[np.integer], n_users: int) -> NDArray[np.float64]:
    """Mean self-information of each list, in bits: the mean over its items of −log2(n_i / n_users).

    n_i: in how many train histories the item stands; one that stands in none counts as if in one.
    """
    surprise = -np.log2(np.maximum(item_counts, 1) / max(1, n_users))
    return _mean_over_list(top, surprise)


def popularity(top: NDArray[np.integer], item_counts: NDArray[np.integer]) -> NDArray[np.float64]:
    """Mean number of train histories in which the items of each list stand."""
    return _mean_over_list(top, item_counts.astype(np.float64))


def _mean_over_list(top: NDArray[np.integer], of_item: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of a property of items over each list; an empty list has 0."""
    padded = np.append(of_item, 0.0)  # −1 points at the last one
    return padded[top].sum(axis=1) / np.maximum(np.count_nonzero(top >= 0, axis=1), 1)
