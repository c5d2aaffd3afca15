"""Checks before measuring: the items of the model, what it was fitted on, and the memory that is left."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from infrec import machine
from infrec.data import Interactions
from infrec.errors import DataError

if TYPE_CHECKING:
    from infrec.evaluation.tally import Scorer
    from infrec.splits import Split

BATCH_BYTES = 64 << 20  # of float32 scores
USERS_COMPARED = 1 << 16  # at a time


def check_model(model: Scorer, split: Split) -> None:
    """Refuse a model over other items, or fitted on half of what is measured; warn where it knows some of it.

    Another number of items is refused where the scores come.

    Args:
        model: A fitted model.
        split: The split whose test part is measured.
    """
    log, items = getattr(model, "log", None), split.train.items
    if not isinstance(log, Interactions):
        return
    same = log.items == items or len(log.items) != len(items)
    if not same and (log.items.positions(items.ids) != np.arange(len(items))).any():
        raise DataError(
            "the model was fitted over other items than the split's, or over the same in another order; "
            "expected the same: fit it on data over the split's items (align_items() brings them in order)."
        )
    if log.synthetic_users or log.matrix is split.train.matrix:
        return
    known, of = held_out_in(log, split)
    if not known:
        return
    found = (
        f"the model was fitted on {known:,} of {of:,} interactions that are held out for test: its figures "
        "would say what it remembers, not what it foresees"
    )
    if 2 * known >= of:
        raise DataError(f"{found}; fit it on the split's train part (split.train).")
    warnings.warn(f"{found}.", stacklevel=3)


def held_out_in(log: Interactions, split: Split) -> tuple[int, int]:
    """How many interactions of the test part a log holds too, by the same user, and of how many.

    Users whom the log does not know do not count, nor items that they have in train or validation as well.

    Args:
        log: The log that a model was fitted on.
        split: The split whose test part is compared, over the same items.
    """
    if log.n_items != split.train.n_items:
        return 0, 0
    at = log.users.positions(split.train.users.ids)
    rows, known, of = np.flatnonzero(at >= 0), 0, 0
    for start in range(0, len(rows), USERS_COMPARED):
        some = rows[start : start + USERS_COMPARED]
        train, val, test = (part.matrix[some] != 0 for part in (split.train, split.val, split.test))
        new = test > (train + val)
        known += new.multiply(log.matrix[at[some]] != 0).nnz
        of += new.nnz
    return known, of


def check_memory(split: Split, users: int) -> None:
    """Refuse to measure so many users of a split where that would not fit in memory.

    Args:
        split: The split whose test part is measured.
        users: How many of its users.
    """
    machine.require_memory(
        memory_needed(users, split.train.n_items, split.test.n_interactions * users // split.train.n_users),
        f"an evaluation of {users:,} users",
        "measure on a sample of them (sample_users; `--sample-users 100000`)",
    )


def memory_needed(users: int, items: int, held_out: int) -> int:
    """Bytes of an evaluation beside the data and the model.

    Always: 14 numbers for each user and the scores that the pooled AUC compares (50 negatives and the
    held-out items of each user). At the worst, either a batch of scores with its copies while the negatives
    of a block of users are drawn, or at the end the AUC's sorted copy, the scores' users and a chunk's ranks.
    """
    compared = held_out + 50 * users
    negatives = 8 * 50 * min(users, 1 << 18)
    drawing = 3 * max(BATCH_BYTES, 4 * 16 * items) + 4 * negatives
    comparing = negatives + 8 * compared + 36 * min(compared, 1 << 22)
    return 14 * 8 * users + 4 * compared + max(drawing, comparing)
