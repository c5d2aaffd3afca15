"""A score of a kernel model taken apart: what each item of the history and each training user contributed.

By users the score is a sum already: score = Σ_u Θ(x, x_u) α_ui, one term per training user.

By items it is not, since Θ is not linear in x. The attribution here is the Aumann–Shapley value (integrated
gradients): grow the history from nothing to x along t·x and give each item what its own coordinate added,

    contribution of j = x_j ∫₀¹ ∂score/∂x_j (t x) dt,        baseline = score of the empty history.

It is the one attribution along that path that adds up to score − baseline, is the same for items that act the
same, and is zero for items that change nothing. The integral is Gauss–Legendre in float64; ∂Θ comes from
the kernel. Where dislikes count (models/dislikes.py), the path of their part goes from −d to x − d: what a
user dislikes belongs to the baseline, and items of the history still add up to score − baseline.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.kernels import gram

_NODES = 48  # of the quadrature


@dataclass(frozen=True, eq=False)
class Contributions:
    """Contributions to the scores of some items: the numbers of several `Explanation`s, as arrays.

    by_item: items of the history × explained items; by_user: training users × explained items; beside: what
    of each score comes from no user (the item side of ∞-AE-plus, dislikes that others foretell).
    """

    by_item: NDArray[np.float64]
    by_user: NDArray[np.float64]
    kernel: NDArray[np.float64]
    baseline: NDArray[np.float64]
    beside: NDArray[np.float64]

    def less(self, other: Contributions, weight: float, *, same_users: bool) -> Contributions:
        """Contributions to these scores less a multiple of others.

        Args:
            other: Contributions of the same items to the other scores.
            weight: What these are multiplied by.
            same_users: Whether both are sums over the same users; else those of the other come from no user.
        """
        by_user, beside = self.by_user, self.beside - weight * other.beside
        if same_users:
            by_user = by_user - weight * other.by_user
        else:
            beside = beside - weight * other.by_user.sum(axis=0)
        by_item, baseline = self.by_item - weight * other.by_item, self.baseline - weight * other.baseline
        return Contributions(by_item, by_user, self.kernel, baseline, beside)


def attribute(
    kernel: gram.Kernel,
    train: sp.csr_array,
    alpha: NDArray[np.floating[Any]],
    row: sp.csr_array,
    start: sp.csr_array | None = None,
) -> Contributions:
    """Contributions to K(row, train) α, for several items at once: the path is walked once for all of them.

    Args:
        kernel: The kernel.
        train: The users that the scores are sums over.
        alpha: These users × the explained items.
        row: The history, one row.
        start: Where the path begins; it ends at `start` + `row`. By default at nothing.
    """
    d, alpha, train = row.shape[1], alpha.astype(np.float64), sp.csr_array(train, dtype=np.float64)
    norms = gram.squared_norms(train, np.float64)
    values = row.data.astype(np.float64)
    first = np.zeros(d) if start is None else start.toarray().astype(np.float64).ravel()
    own = first[row.indices]
    mine = train[:, row.indices].tocsc()  # users × my items
    xy, xx = np.asarray(mine @ values).ravel(), float((values**2).sum())
    first_xy, first_xx, between = train @ first, float(first @ first), float(own @ values)

    def along(t: float) -> tuple[NDArray[np.float64], float]:
        """Inner products with the users, and the squared norm, on the way from the start to the end."""
        return first_xy + t * xy, first_xx + 2 * t * between + t * t * xx

    at_start, close = (
        kernel.from_gram(product[None, :], np.array([norm]), norms, d=d)[0]
        for product, norm in (along(0), along(1))
    )
    by_item = np.zeros((len(values), alpha.shape[1]))
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    for t, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        on_product, on_norm = kernel.slopes(*along(t), norms, d=d)
        slope = mine.T @ (on_product[:, None] * alpha)
        slope += 2 * (own + t * values)[:, None] * (on_norm @ alpha)
        by_item += weight * values[:, None] * slope
    return Contributions(by_item, close[:, None] * alpha, close, at_start @ alpha, np.zeros(alpha.shape[1]))
