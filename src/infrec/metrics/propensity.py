"""Precision that counts a rare item for more, because a popular one was likelier to be seen at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import scipy.sparse as sp
    from numpy.typing import NDArray

A, B = 0.55, 1.5  # the paper's constants


def inverse_propensity(
    item_counts: NDArray[np.integer], *, a: float = A, b: float = B
) -> NDArray[np.float64]:
    """The weight of each item: w_i = 1 + C (n_i + b)^(−a), C = (ln N − 1)(b + 1)^a.

    The paper's appendix writes it as 1/φ(i),
    with frequencies "in the dataset"; its code, and so both protocols here, count train. C is never below 0
    (a log of two interactions would make it so).

    Args:
        item_counts: n_i: in how many train histories each item stands; N = Σ n_i.
        a, b: The two constants of the propensity model (Jain et al., 2016).
    """
    total = max(1.0, float(np.sum(item_counts)))
    c = max(0.0, np.log(total) - 1.0) * (b + 1.0) ** a
    return 1.0 + c * (np.asarray(item_counts, np.float64) + b) ** -a


def propensity_scored_precision_as_published(
    top: NDArray[np.integer], hit: NDArray[np.bool_], held_out: sp.csr_array, weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The published "PSP@k": (Σ_{hits} w_i / m) / (Σ of the m largest w_i over T), m = min(|T|, k).

    Only the numerator is divided by m, so that a perfect list scores 1/m and not 1.

    Args:
        top: Lists of item columns from `top_k`, [n, k].
        hit: Whether each recommended item was held out, from `hits`.
        held_out: The items of T, CSR [n, items].
        weights: w_i, from `inverse_propensity`.
    """
    m = np.minimum(np.diff(held_out.indptr), top.shape[1])
    best = _sum_of_largest(held_out, weights, m)
    return _gain(top, hit, weights) / np.maximum(m, 1) / np.where(m > 0, best, 1.0)


def propensity_scored_precision(
    top: NDArray[np.integer], hit: NDArray[np.bool_], held_out: sp.csr_array, weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """PSP@k as the paper's appendix on metrics writes it: (Σ_{hits} w_i / k) / (Σ_{i ∈ T} w_i).

    Args:
        top: Lists of item columns from `top_k`, [n, k].
        hit: Whether each recommended item was held out, from `hits`.
        held_out: The items of T, CSR [n, items].
        weights: w_i, from `inverse_propensity`.
    """
    held = np.diff(held_out.indptr)
    best = _sum_of_largest(held_out, weights, held)
    return _gain(top, hit, weights) / top.shape[1] / np.where(held > 0, best, 1.0)


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
