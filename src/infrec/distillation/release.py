"""What is taken from real users under (ε, δ): three noisy sums over users, once. The rest only looks at them.

Each user adds a vector of norm 1 at most, and Gaussian noise of deviation σ_i is added to every entry of
the sum:

    activity   a 1 in the bin of their number of items                          bins of doubling width, fixed
    items      x / |x|                                                          how popular items are
    together   y yᵀ off the diagonal, y = the chosen items of x over |x|        which items occur together

|x| is the Euclidean norm, so |x / |x|| = 1 and the Frobenius norm of y yᵀ is 1. y yᵀ is symmetric: its
upper half, weighted by √2, has the same norm, and the noise of an entry is σ/√2. One noise multiplier σ is
shared out: 1/σ² = Σ 1/σ_i², so the three together are one Gaussian mechanism with σ.

Why this and not noisy gradients: a gradient step has to be paid for each time, in as many dimensions as the
summary has entries; these sums are the only thing about the data that a linear model's gradient holds, are
paid for once, and any number of steps, choices of λ and early stops after them is free (docs/privacy.md has
the comparison).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtri

from infrec.errors import DataError
from infrec.randomness import generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

SHARES = {"activity": 0.02, "items": 0.08, "together": 0.9}  # of 1/σ²
MOST_ITEMS = 2000  # of one user; of those who have more, as many at random
BINS = 16  # of activity: 1, 2–3, 4–7, …
ROWS_AT_ONCE = 8192
# Items whose co-occurrence is asked for, the most popular first: 1.8 (users / σ)^0.7, found on ML-1M at
# ε = 1, 3, 8 (300, 600, 1,000 items). More would only bring in pairs that drown in the noise.
ITEMS_FACTOR, ITEMS_POWER, ITEMS_RANGE = 1.8, 0.7, (50, 4000)


@dataclass(frozen=True, eq=False)
class Release:
    """Noisy sums. items: the positions of those chosen; weights, together: of these, in this order."""

    activity: NDArray[np.float64]
    items: NDArray[np.int64]
    weights: NDArray[np.float64]
    together: NDArray[np.float32]
    deviation: float  # of the noise in `together`

    @property
    def users(self) -> float:
        """How many users there are, as far as may be known."""
        return max(float(self.activity.sum()), 1.0)


def release(
    train: sp.csr_array,
    multiplier: float,
    *,
    secret: int,
    threshold_delta: float | None,
) -> Release:
    """The three sums with noise. multiplier: σ. secret: the seed of the noise, which nobody may ever know.

    threshold_delta: None where the list of items is public. Otherwise that an item exists is itself told
    only with a chance of at most this δ for items that a single user has.
    """
    rng = generator(secret, "release")
    x = shortened(train, rng)
    deviation = {name: multiplier / np.sqrt(share) for name, share in SHARES.items()}
    counts = np.diff(x.indptr)
    bins = np.minimum(np.log2(np.maximum(counts[counts > 0], 1)).astype(np.int64), BINS - 1)
    activity = np.bincount(bins, minlength=BINS) + deviation["activity"] * rng.standard_normal(BINS)
    popular = np.asarray(unit(x).sum(axis=0)).ravel()
    popular = popular + deviation["items"] * rng.standard_normal(len(popular))
    order = np.argsort(-popular, kind="stable")[
        : how_many(float(np.maximum(activity, 0.0).sum()), multiplier)
    ]
    if threshold_delta is not None:
        order = order[popular[order] > existence_threshold(deviation["items"], threshold_delta)]
    if len(order) < 2:
        raise DataError(
            f"with this noise {len(order)} items stand out from a log of {train.shape[0]:,} users; "
            "expected at least 2: use a larger ε, a larger log, or give the public list of items "
            "(--catalogue)."
        )
    y = unit(sp.csr_array(x[:, order]))
    gram = (y.T @ y).toarray() if y.nnz < 0.05 * y.shape[0] * y.shape[1] else _dense_gram(y)
    noise = np.triu(rng.standard_normal(gram.shape), 1) * deviation["together"] / np.sqrt(2)
    together = np.asarray(gram + noise + noise.T, np.float32)
    np.fill_diagonal(together, 0.0)
    return Release(
        np.maximum(activity, 0.0), order, popular[order], together, float(deviation["together"] / np.sqrt(2))
    )


def how_many(users: float, multiplier: float) -> int:
    """How many items to ask for, from what is known of the number of users and the noise."""
    wanted = ITEMS_FACTOR * (users / multiplier) ** ITEMS_POWER
    return int(np.clip(50 * round(wanted / 50), *ITEMS_RANGE))  # round figures: fewer shapes to compile


def unit(x: sp.csr_array) -> sp.csr_array:
    """0/1 rows over their norm: each then has norm 1, or 0 without any item."""
    counts = np.diff(x.indptr)
    data = np.repeat(1 / np.sqrt(np.maximum(counts, 1)), counts)
    return sp.csr_array((data, x.indices, x.indptr), shape=x.shape)


def shortened(train: sp.csr_array, rng: np.random.Generator) -> sp.csr_array:
    """No user with more than MOST_ITEMS: the threshold for unknown items needs a bound."""
    counts = np.diff(train.indptr)
    if counts.max(initial=0) <= MOST_ITEMS:
        return train
    row = np.repeat(np.arange(train.shape[0]), counts)
    order = np.lexsort((rng.random(train.nnz), row))
    place = np.empty(train.nnz, np.int64)
    place[order] = np.arange(train.nnz) - np.repeat(train.indptr[:-1], counts)
    kept = place < MOST_ITEMS
    return sp.csr_array((train.data[kept], (row[kept], train.indices[kept])), shape=train.shape)


def existence_threshold(deviation: float, delta: float) -> float:
    """Above it no item that only one user has is seen, but with a chance of δ.

    With k such items each adds 1/√k at most; the largest of k normal deviates is below Φ⁻¹((1 − δ)^(1/k))
    with chance 1 − δ. From "Differentially private set union" (Gopi and others, ICML 2020), whose weights
    these are: private with the ε of the sum and this δ added.
    """
    k = np.arange(1, MOST_ITEMS + 1)
    # (1 − δ)^(1/k) = 1 − tail; the tail is far below what 1 − x can hold.
    tail = -np.expm1(np.log1p(-delta) / k)
    return float((1 / np.sqrt(k) + deviation * -ndtri(tail)).max())


def _dense_gram(y: sp.csr_array) -> NDArray[np.float64]:
    """yᵀ y, of some users at a time: all of them dense would be many times the log."""
    out = np.zeros((y.shape[1], y.shape[1]))
    for start in range(0, y.shape[0], ROWS_AT_ONCE):
        dense = y[start : start + ROWS_AT_ONCE].toarray()
        out += dense.T @ dense
    return out
