"""Noise as the paper adds it: a share of all items is flipped for every user (section 5).

What was an interaction is none any more, what was none becomes one. A user with few interactions is thus hit
hardest: with 5 % of 3,706 items, 185 entries of every row change, whether it held 20 or 2,000.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from infrec.data import Interactions
from infrec.errors import ConfigError
from infrec.randomness import generator

_BLOCK_ENTRIES = 1 << 23


def flips(n_items: int, percent: float) -> int:
    """How many items are flipped for each user."""
    if not 0 <= percent <= 100:
        raise ConfigError(f"noise is {percent:g} %; expected a share of the items from 0 to 100.")
    return round(percent / 100 * n_items)


def flip(log: Interactions, percent: float, *, seed: int = 42) -> Interactions:
    """For each user exactly round(percent % of the items) distinct items, all equally likely, are flipped.

    An interaction that appears has the weight 1; those that stay keep theirs. Every user and item stays, even
    one that is left with nothing. Flipping twice with the same seed gives an unweighted log back.
    """
    count = flips(log.n_items, percent)
    if not count:
        return log.with_matrix(log.matrix)
    rng = generator(seed, "noise")
    step = max(1, _BLOCK_ENTRIES // log.n_items)
    blocks = []
    for start in range(0, log.n_users, step):
        rows = log.matrix[start : start + step]
        # The smallest `count` of as many random numbers as there are items: distinct, and each set as likely.
        chance = rng.random((rows.shape[0], log.n_items), dtype=np.float32)
        drawn = np.argpartition(chance, count - 1, axis=1)[:, :count]
        dense = rows.toarray()
        hit = np.take_along_axis(dense, drawn, axis=1)
        np.put_along_axis(dense, drawn, (hit == 0).astype(np.float32), axis=1)
        blocks.append(sp.csr_array(dense))
    return log.with_matrix(sp.csr_array(sp.vstack(blocks)))
