"""Validation items for a log that comes without any."""

from __future__ import annotations

import numpy as np

from infrec.data import Interactions
from infrec.randomness import generator
from infrec.splits.cut import keep, rows_of

HELD_OUT = 0.1


def held_out(log: Interactions, seed: int) -> tuple[Interactions, Interactions]:
    """A tenth of each user's interactions, on average, set aside to choose on; users with one keep it."""
    counts = log.user_counts
    rng = generator(seed, "distillation holdout")
    wanted = np.minimum(np.floor(HELD_OUT * counts + rng.random(log.n_users)), counts - 1)
    row = rows_of(log.matrix)
    order = np.lexsort((rng.random(log.n_interactions), row))  # rows stay together, shuffled within
    place = np.empty(log.n_interactions, np.int64)
    place[order] = np.arange(log.n_interactions) - np.repeat(log.matrix.indptr[:-1], counts)
    chosen = place < wanted[row]
    return keep(log, ~chosen), keep(log, chosen)
