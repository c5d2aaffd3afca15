"""How much of what was held out stands in the list, and how high: from the hits of `ranking.hits`.

Everywhere: hit is bool [n, k], whether the item at each rank was held out; held is int [n], |T|, how many
items were held out for each user. Values are per user, in 0…1; users with nothing held out are 0, and count
in means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def truncated_recall(hit: NDArray[np.bool_], held: NDArray[np.integer]) -> NDArray[np.float64]:
    """The published "HR@k": |top-k ∩ T| / min(|T|, k).

    Args:
        hit: Whether each recommended item was held out, [n, k], from `hits`.
        held: How many items were held out for each user, [n].
    """
    return hit.sum(axis=1) / np.clip(held, 1, hit.shape[1])


def recall(hit: NDArray[np.bool_], held: NDArray[np.integer]) -> NDArray[np.float64]:
    """HR@k as the paper's appendix on metrics writes it: |top-k ∩ T| / |T|.

    Args:
        hit: Whether each recommended item was held out, [n, k], from `hits`.
        held: How many items were held out for each user, [n].
    """
    return hit.sum(axis=1) / np.maximum(held, 1)


def truncated_ndcg(hit: NDArray[np.bool_], held: NDArray[np.integer]) -> NDArray[np.float64]:
    """NDCG@k of the published numbers (and of trec_eval): the ideal list is no longer than k.

    Σ_{hits at rank r} 1/log2(r+1)  /  Σ_{r=1…min(|T|,k)} 1/log2(r+1)

    Args:
        hit: Whether each recommended item was held out, [n, k], from `hits`.
        held: How many items were held out for each user, [n].
    """
    return _dcg(hit) / _ideal(np.clip(held, 1, hit.shape[1]))


def ndcg(hit: NDArray[np.bool_], held: NDArray[np.integer]) -> NDArray[np.float64]:
    """NDCG@k as the paper's appendix on metrics writes it: the ideal list holds all of T, however long.

    Σ_{hits at rank r} 1/log2(r+1)  /  Σ_{r=1…|T|} 1/log2(r+1)

    Args:
        hit: Whether each recommended item was held out, [n, k], from `hits`.
        held: How many items were held out for each user, [n].
    """
    return _dcg(hit) / _ideal(np.maximum(held, 1))


def _dcg(hit: NDArray[np.bool_]) -> NDArray[np.float64]:
    return hit @ _discounts(hit.shape[1])


def _ideal(lengths: NDArray[np.integer]) -> NDArray[np.float64]:
    return np.cumsum(_discounts(int(lengths.max(initial=1))))[lengths - 1]


def _discounts(k: int) -> NDArray[np.float64]:
    """1 / log2(r + 1) for the ranks r = 1 … k."""
    return 1.0 / np.log2(np.arange(2.0, k + 2.0))
