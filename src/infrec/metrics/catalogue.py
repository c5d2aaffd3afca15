"""Coverage, novelty and popularity of lists: how much of the catalogue they show, and how well known it is.

Likeness of synthetic or sampled users to a log's: which items are popular, and which occur together.

Rows are users, values weights: a fractional entry counts as that part of an item.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LISTS = 256  # whose sums of columns exist at a time
ITEMS = 200  # the most popular ones, whose pairs are looked at


def exposure(top: NDArray[np.integer], n_items: int) -> NDArray[np.int64]:
    """In how many lists each item stands; of batches of users, add them up.

    Args:
        top: Lists of item columns from `top_k`, [n, k].
        n_items: How many items there are.
    """
    return np.bincount(top[top >= 0], minlength=n_items)


def coverage(exposed: NDArray[np.integer]) -> float:
    """The share of all items that stand in anybody's list, in 0…1.

    Args:
        exposed: From `exposure`.
    """
    return float(np.mean(exposed > 0)) if len(exposed) else 0.0


def gini(exposed: NDArray[np.integer]) -> float:
    """How unequally exposure is spread: 0 when all items are shown equally often, near 1 when few are.

    Args:
        exposed: From `exposure`.
    """
    ascending = np.sort(exposed).astype(np.float64)
    n, total = len(ascending), float(ascending.sum())
    if not total:
        return 0.0
    return float((2.0 * np.arange(1, n + 1) - n - 1) @ ascending / (n * total))


def novelty(top: NDArray[np.integer], item_counts: NDArray[np.integer], n_users: int) -> NDArray[np.float64]:
    """Mean self-information of each list, in bits: the mean over its items of −log2(n_i / n_users).

    Args:
        top: Lists of item columns from `top_k`, [n, k].
        item_counts: n_i: in how many train histories each item stands; one that stands in none counts as if
            in one.
        n_users: How many train histories there are.
    """
    surprise = -np.log2(np.maximum(item_counts, 1) / max(1, n_users))
    return _mean_over_list(top, surprise)


def unit_columns(matrix: sp.csr_array) -> sp.csr_array:
    """Items × users: each item's column of a log, of length 1; 0 for an item that nobody has.

    Args:
        matrix: Interactions, users × items.
    """
    columns = sp.csr_array(matrix.T.tocsr(), dtype=np.float64)
    lengths = np.sqrt(np.asarray(columns.multiply(columns).sum(axis=1)).ravel())
    columns.data /= np.repeat(lengths, np.diff(columns.indptr))
    return columns


def intra_list_distance(top: NDArray[np.integer], columns: sp.csr_array) -> NDArray[np.float64]:
    """Mean of 1 − cosine over the pairs of each list, in 0…1: 0 when the same people have all its items.

    Σ over pairs ⟨a, b⟩ follows from ‖Σ a‖² and Σ ‖a‖², so no pair is looked at. A list of one item has 0.

    Args:
        top: Lists of item columns from `top_k`, [n, k].
        columns: From `unit_columns`.
    """
    out = np.zeros(len(top))
    own = np.asarray(columns.multiply(columns).sum(axis=1)).ravel()
    for start in range(0, len(top), _LISTS):
        some = top[start : start + _LISTS]
        row, place = np.nonzero(some >= 0)
        pairs = (np.ones(len(row)), (row, some[row, place]))
        lists = sp.csr_array(pairs, shape=(len(some), columns.shape[0]))
        sums, length = lists @ columns, np.count_nonzero(some >= 0, axis=1)
        products = np.asarray(sums.multiply(sums).sum(axis=1)).ravel() - lists @ own
        several = length > 1
        out[start : start + _LISTS] = several - products / np.where(several, length * (length - 1), np.inf)
    return out


def popularity(top: NDArray[np.integer], item_counts: NDArray[np.integer]) -> NDArray[np.float64]:
    """Mean number of train histories in which the items of each list stand.

    Args:
        top: Lists of item columns from `top_k`, [n, k].
        item_counts: In how many train histories each item stands.
    """
    return _mean_over_list(top, item_counts.astype(np.float64))


def _mean_over_list(top: NDArray[np.integer], of_item: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of a property of items over each list; an empty list has 0."""
    padded = np.append(of_item, 0.0)  # −1 points at the last one
    return padded[top].sum(axis=1) / np.maximum(np.count_nonzero(top >= 0, axis=1), 1)


def popularity_distance(made: sp.csr_array, log: sp.csr_array) -> float:
    """Total variation between the items' shares of all interactions: 0 the same, 1 nothing in common.

    Args:
        made: Interactions of synthetic or sampled users, CSR.
        log: Interactions of the log, CSR with equal columns.
    """
    one, other = (_shares(rows) for rows in (made, log))
    return float(0.5 * np.abs(one - other).sum())


def co_occurrence_agreement(made: sp.csr_array, log: sp.csr_array, *, items: int = ITEMS) -> float:
    """Do the same items go together? 1: just as in the log; 0: as unrelated as independent draws.

    For each pair of the log's most popular items, the correlation over users of having one and the other;
    then the correlation of these numbers between both sides. 0 where a side has no variation at all.

    Args:
        made: Interactions of synthetic or sampled users, CSR.
        log: Interactions of the log, CSR with equal columns.
        items: How many of the log's most popular items are paired.
    """
    popular = np.argsort(-np.bincount(log.indices, minlength=log.shape[1]), kind="stable")[:items]
    one, other = (_pair_correlations(rows, popular) for rows in (made, log))
    one, other = one - one.mean(), other - other.mean()
    norms = np.sqrt((one**2).sum() * (other**2).sum())
    return float((one * other).sum() / norms) if norms > 0 else 0.0


def _shares(rows: sp.csr_array) -> NDArray[np.float64]:
    sums = np.bincount(rows.indices, weights=rows.data, minlength=rows.shape[1])
    return sums / max(sums.sum(), np.finfo(float).tiny)


def _pair_correlations(rows: sp.csr_array, items: NDArray[np.integer]) -> NDArray[np.float64]:
    """Of each pair of these items once; an item that everybody or nobody has goes with none."""
    x = rows[:, items].toarray().astype(np.float64)
    x -= x.mean(axis=0)
    spread = np.sqrt((x**2).mean(axis=0))
    x = np.divide(x, spread, out=np.zeros_like(x), where=spread > 0)
    return (x.T @ x / max(1, len(x)))[np.triu_indices(len(items), 1)]
