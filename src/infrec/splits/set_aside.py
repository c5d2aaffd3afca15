"""Users who are kept out of a distillation so that an audit has somebody to compare with.

Whether a user is set aside depends on the seed and their id alone: the list need not be written down to be
known again, and adding or removing one user moves no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from infrec.data import Interactions, Vocabulary
from infrec.errors import ConfigError, DataError
from infrec.splits.split import Split

if TYPE_CHECKING:
    from numpy.typing import NDArray


def is_set_aside(users: Vocabulary, share: float, seed: int) -> NDArray[np.bool_]:
    """For each user id, whether it is among the share that is set aside."""
    if not 0 < share < 1:
        raise ConfigError(f"set_aside is {share}; expected a share above 0 and below 1, for example 0.1.")
    return (hashed(users, seed) >> np.uint64(11)).astype(np.float64) * 2.0**-53 < share


def set_aside(split: Split, share: float, seed: int) -> tuple[Split, Interactions]:
    """The split without the users set aside, and the train part of those users."""
    out = is_set_aside(split.train.users, share, seed)
    if not out.any() or out.all():
        raise DataError(
            f"setting aside {share:g} of {len(out):,} users leaves {int((~out).sum()):,}; expected some on "
            "either side: use another share, or a larger log."
        )
    kept, aside = np.flatnonzero(~out), np.flatnonzero(out)
    train, val, test = (part.select_users(kept) for part in (split.train, split.val, split.test))
    return Split(train, val, test, split.name), split.train.select_users(aside)


def hashed(ids: Vocabulary, seed: int) -> NDArray[np.uint64]:
    """A number for each id from its text and the seed alone: its bytes, folded one column at a time."""
    text = ids.ids.cast(pa.string()).to_numpy(zero_copy_only=False)
    raw = np.char.encode(text.astype(str), "utf-8")
    width = max(1, raw.dtype.itemsize)
    columns = np.frombuffer(raw.tobytes(), np.uint8).reshape(len(raw), width).astype(np.uint64)
    folded = mixed(np.full(len(raw), np.uint64(seed % 2**64)))
    for column in columns.T:
        # Zero bytes only fill up shorter ids: they must not count, or the longest id would decide for all.
        folded = np.where(column > 0, mixed(folded ^ column), folded)
    return mixed(folded)


def mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's finaliser after one step of its counter."""
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))
