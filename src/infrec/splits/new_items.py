"""Items held out whole: nobody's interactions with them are known, as of items that are new."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.data import Interactions, Vocabulary
from infrec.data.interactions import canonical
from infrec.errors import ConfigError, DataError
from infrec.randomness import generator


@dataclass(frozen=True, eq=False)
class ItemSplit:
    """A log without some of its items, and the interactions with these.

    Args:
        train: The log over the other items, of all its users.
        known: Their columns in the log.
        new: Columns of the items held out.
        held_out: Who has them, users × new items.
    """

    train: Interactions
    known: NDArray[np.int64]
    new: NDArray[np.int64]
    held_out: sp.csr_array


def hold_out_items(log: Interactions, share: float, *, seed: int = 42) -> ItemSplit:
    """Hold out a share of the items, drawn at random, with all of their interactions.

    Args:
        log: The interactions.
        share: The share of the items, above 0 and below 1.
        seed: Seed of the draw.
    """
    if not isinstance(share, int | float) or not 0 < share < 1:
        raise ConfigError(f"the share of cold items is {share!r}; expected a number above 0 and below 1.")
    count = round(share * log.n_items)
    if not 0 < count < log.n_items:
        raise DataError(
            f"a share of {share:g} of {log.n_items:,} items is {count:,} items; expected some to hold out "
            "and some to learn from: give another share, or more data."
        )
    order = generator(seed, "items held out").permutation(log.n_items)
    new, known = np.sort(order[:count]), np.sort(order[count:])
    if not log.matrix[:, known].nnz:
        raise DataError("nobody has an item that is not held out; expected a log with more items.")
    return ItemSplit(with_items(log, known), known, new, canonical(log.matrix[:, new]))


def with_items(log: Interactions, columns: NDArray[np.integer]) -> Interactions:
    """A log with these items alone, of all its users; without times and dislikes.

    Args:
        log: The log.
        columns: Columns of the items that stay.
    """
    return replace(
        log,
        matrix=canonical(log.matrix[:, columns]),
        items=Vocabulary(log.items.take(columns)),
        item_info=None if log.item_info is None else log.item_info.take(columns),
        time=None,
        parts=None,
        report=None,
        dislikes=None,
    )
