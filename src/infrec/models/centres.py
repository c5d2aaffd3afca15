"""Which users stand for all of them, the centres of a Nyström fit: users with a history, drawn at random.

In proportion to their interactions, or those whom few others resemble, they were no better
(benchmarks/results/scale-2026-11-16.md).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from infrec.data import Interactions, Vocabulary
from infrec.randomness import generator


def choose(interactions: Interactions, count: int, *, seed: int) -> Interactions:
    """`count` users as centres, or all where there are no more; those without a history only then."""
    if count >= interactions.n_users:
        return interactions
    rows = choose_rows(interactions.user_counts, count, seed=seed)
    return Interactions(
        interactions.matrix[rows], Vocabulary(interactions.users.take(rows)), interactions.items
    )


def choose_rows(counts: NDArray[np.integer], count: int, *, seed: int) -> NDArray[np.integer]:
    """The rows of `count` centres among users with so many interactions each, in ascending order."""
    if count >= len(counts):
        return np.arange(len(counts))
    known = np.flatnonzero(counts)
    if len(known) <= count:
        return known
    return np.sort(generator(seed, "centres", "random").choice(known, count, replace=False))
