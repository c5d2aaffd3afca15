"""How much of what was held out stands in the list, how high, and how rare: HR, NDCG and PSP by protocol.

`paper-code` computes what the authors' public code computes, which is where the published numbers come from;
`textbook` is the paper's appendix on metrics, taken literally. They share names, not values. `graph` is what
graph recommenders report (LightGCN's code and those after it): Recall@20 over |T|, and NDCG@20 whose ideal
list is no longer than 20, over the users with something held out; all else is as in `textbook`.

Everywhere: hit is bool [n, k], whether the item at each rank was held out, from `ranking.hits`; held is int
[n], |T|, how many items were held out for each user. Values are per user, in 0…1; users with nothing held out
are 0, and count in means, except under `graph`, which leaves them out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from infrec.errors import ConfigError
from infrec.metrics.ranking import hits

if TYPE_CHECKING:
    import scipy.sparse as sp
    from numpy.typing import NDArray

Protocol = Literal["paper-code", "textbook", "graph"]
PROTOCOLS: tuple[str, ...] = get_args(Protocol)
HIT_RATE: dict[str, str] = {"paper-code": "HR", "textbook": "HR", "graph": "Recall"}
LENGTHS: dict[str, tuple[int, ...]] = {"paper-code": (10, 100), "textbook": (10, 100), "graph": (20,)}
A, B = 0.55, 1.5  # the paper's constants of the propensity model (Jain et al., 2016)


def check_protocol(protocol: str) -> None:
    """Refuse a protocol that does not exist.

    Args:
        protocol: A name; those of `PROTOCOLS` exist.
    """
    if protocol not in PROTOCOLS:
        raise ConfigError(f"the protocol is {protocol!r}; expected one of {', '.join(PROTOCOLS)}.")


def ranking_metrics(
    top: NDArray[np.integer],
    held_out: sp.csr_array,
    weights: NDArray[np.float64],
    *,
    k: Sequence[int] | None = None,
    protocol: str = "paper-code",
) -> dict[str, NDArray[np.float64]]:
    """HR (Recall under `graph`), NDCG and PSP of each user at each k, in 0…1.

    Args:
        top: Lists from `top_k`, at least max(k) wide.
        held_out: The items of T, CSR [n, items].
        weights: w_i, from `inverse_propensity`.
        k: Lengths of the lists that are judged; those of the protocol (`LENGTHS`) unless given.
        protocol: `paper-code`, `textbook` or `graph`.
    """
    check_protocol(protocol)
    hit_rate, gain, published = _DEFINITIONS[protocol]
    held = np.diff(held_out.indptr)
    hit = hits(top, held_out)
    out: dict[str, NDArray[np.float64]] = {}
    for length in LENGTHS[protocol] if k is None else k:
        if length > top.shape[1]:
            raise ConfigError(f"the lists hold {top.shape[1]} items; expected at least k = {length}.")
        out[f"{HIT_RATE[protocol]}@{length}"] = hit_rate(hit[:, :length], held)
        out[f"NDCG@{length}"] = gain(hit[:, :length], held)
        lists = top[:, :length], hit[:, :length]
        out[f"PSP@{length}"] = propensity_scored_precision(*lists, held_out, weights, published=published)
    return out


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


def inverse_propensity(item_counts: NDArray[np.integer]) -> NDArray[np.float64]:
    """The weight of each item: w_i = 1 + C (n_i + B)^(−A), C = (ln N − 1)(B + 1)^A.

    The paper's appendix writes it as 1/φ(i),
    with frequencies "in the dataset"; its code, and so both protocols here, count train. C is never below 0
    (a log of two interactions would make it so).

    Args:
        item_counts: n_i: in how many train histories each item stands; N = Σ n_i.
    """
    total = max(1.0, float(np.sum(item_counts)))
    c = max(0.0, np.log(total) - 1.0) * (B + 1.0) ** A
    return 1.0 + c * (np.asarray(item_counts, np.float64) + B) ** -A


def propensity_scored_precision(
    top: NDArray[np.integer],
    hit: NDArray[np.bool_],
    held_out: sp.csr_array,
    weights: NDArray[np.float64],
    *,
    published: bool,
) -> NDArray[np.float64]:
    """PSP@k, as published or as the paper's appendix on metrics writes it.

    Published: (Σ_{hits} w_i / m) / (Σ of the m largest w_i over T), m = min(|T|, k). Only the numerator is
    divided by m, so that a perfect list scores 1/m and not 1. Appendix: (Σ_{hits} w_i / k) / (Σ_{i ∈ T} w_i).

    Args:
        top: Lists of item columns from `top_k`, [n, k].
        hit: Whether each recommended item was held out, from `hits`.
        held_out: The items of T, CSR [n, items].
        weights: w_i, from `inverse_propensity`.
        published: Which of the two.
    """
    held, k = np.diff(held_out.indptr), top.shape[1]
    m = np.minimum(held, k)
    best = _sum_of_largest(held_out, weights, m if published else held)
    gain = _gain(top, hit, weights) / (np.maximum(m, 1) if published else k)
    return gain / np.where(held > 0, best, 1.0)


# protocol → hit rate, NDCG, whether PSP is the published one
_DEFINITIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any], bool]] = {
    "paper-code": (truncated_recall, truncated_ndcg, True),
    "textbook": (recall, ndcg, False),
    "graph": (recall, truncated_ndcg, False),
}


def _dcg(hit: NDArray[np.bool_]) -> NDArray[np.float64]:
    return hit @ _discounts(hit.shape[1])


def _ideal(lengths: NDArray[np.integer]) -> NDArray[np.float64]:
    return np.cumsum(_discounts(int(lengths.max(initial=1))))[lengths - 1]


def _discounts(k: int) -> NDArray[np.float64]:
    """1 / log2(r + 1) for the ranks r = 1 … k."""
    return 1.0 / np.log2(np.arange(2.0, k + 2.0))


def _gain(
    top: NDArray[np.integer], hit: NDArray[np.bool_], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    row, rank = np.nonzero(hit)  # few of a list are hits: gathering only those is cheaper than all of `top`
    return np.bincount(row, weights[top[row, rank]], minlength=len(top)).astype(np.float64)


def _sum_of_largest(
    held_out: sp.csr_array, weights: NDArray[np.float64], m: NDArray[np.integer]
) -> NDArray[np.float64]:
    """Per row, the sum of its m largest weights."""
    n = held_out.shape[0]
    row = np.repeat(np.arange(n), np.diff(held_out.indptr))
    w = weights[held_out.indices]
    order = np.lexsort((-w, row))
    # Rows stay where they are; only their insides are sorted.
    place = np.arange(len(row)) - held_out.indptr[row]
    return np.bincount(row, np.where(place < m[row], w[order], 0.0), minlength=n).astype(np.float64)
