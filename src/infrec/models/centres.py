"""Which users stand for all of them: the centres of a Nyström fit.

`random` takes users at random. `activity` prefers those with long histories: the chance is in proportion to
the number of interactions. `leverage` prefers users whom few others resemble: the chance is in proportion to
the ridge leverage score K_u (K + λ m I)⁻¹, estimated through a small random set of pilots,

    ℓ_u ≈ (Θ(x_u, x_u) − |z_u|²) / (λ m) + z_uᵀ (ZᵀZ + λ m I)⁻¹ z_u,

with z the features over the pilots: what the pilots miss of a user, and what is rare in what they see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from infrec.data import Interactions, Vocabulary
from infrec.errors import SolveError
from infrec.kernels import gram, ntk, nystrom
from infrec.randomness import generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHOICES = ("random", "activity", "leverage")
_PILOTS = 500
_SAMPLE = 20_000  # users from whom the pilots' ZᵀZ is estimated
_REG = 5.0  # the λ of the leverage scores: ∞-AE's usual one


def choose(
    interactions: Interactions, count: int, how: str, *, seed: int, depth: int = 1, dtype: str = "float32"
) -> Interactions:
    """`count` users as centres, or all where there are no more; those without a history only then."""
    if count >= interactions.n_users:
        return interactions
    if how != "leverage":
        rows = by_counts(interactions.user_counts, count, how, seed=seed)
    else:
        known, rng = np.flatnonzero(interactions.user_counts), generator(seed, "centres", how)
        rows = known
        if len(known) > count:
            weights = _leverage(interactions.matrix, known, rng, depth, dtype)
            rows = np.sort(_drawn(known, weights, count, rng))
    return Interactions(
        interactions.matrix[rows], Vocabulary(interactions.users.take(rows)), interactions.items
    )


def by_counts(counts: NDArray[np.integer], count: int, how: str, *, seed: int) -> NDArray[np.integer]:
    """The rows of `count` centres where only the users' numbers of interactions need be known."""
    if count >= len(counts):
        return np.arange(len(counts))
    known = np.flatnonzero(counts)
    if len(known) <= count:
        return known
    weights = counts[known].astype(np.float64) if how == "activity" else None
    return np.sort(_drawn(known, weights, count, generator(seed, "centres", how)))


def _drawn(
    rows: NDArray[np.integer],
    weights: NDArray[np.float64] | None,
    count: int,
    rng: np.random.Generator,
) -> NDArray[np.integer]:
    """Without replacement, in proportion to the weights: the largest of log weight + Gumbel noise."""
    if weights is None:
        return rng.choice(rows, count, replace=False)
    keys = np.log(weights) + rng.gumbel(size=len(rows))
    return rows[np.argpartition(-keys, count - 1)[:count]]


def _leverage(
    x: sp.csr_array, rows: NDArray[np.integer], rng: np.random.Generator, depth: int, dtype: str
) -> NDArray[np.float64]:
    pilots = np.sort(rng.choice(rows, min(_PILOTS, len(rows)), replace=False))
    some = np.sort(rng.choice(rows, min(_SAMPLE, len(rows)), replace=False))
    features = nystrom.Features.of(x[pilots], depth=depth, dtype=dtype)
    own = ntk.diagonal(gram.squared_norms(x, np.float64)[rows], d=x.shape[1], depth=depth)
    added = _REG * float(own.mean())
    system = added * np.eye(len(features))
    for start in range(0, len(some), features.block):
        z = features.of_rows(x[some[start : start + features.block]])
        system += (len(rows) / len(some)) * (z @ z.T)
    if not np.isfinite(system).all():
        raise SolveError(
            f"the leverage scores overflow in {dtype}: the largest weight is {x.data.max():g}; use smaller "
            "weights, dtype float64 or another centre_choice."
        )
    factor = scipy.linalg.cholesky(system, lower=True)
    score = np.empty(len(rows))
    for start in range(0, len(rows), features.block):
        at = slice(start, start + features.block)
        z = features.of_rows(x[rows[at]]).astype(np.float64)
        seen = scipy.linalg.solve_triangular(factor, z, lower=True)
        score[at] = np.maximum(own[at] - (z**2).sum(axis=0), 0) / added + (seen**2).sum(axis=0)
    return np.maximum(score, 1e-12)
