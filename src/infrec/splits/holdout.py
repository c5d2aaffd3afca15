"""A log cut into what a model may see, what settings are chosen on, and what is measured; users and items
set aside.

Whether a user is set aside depends on the seed and their id alone: the list need not be written down to be
known again, and adding or removing one user moves no other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.data import Interactions, Vocabulary
from infrec.data.interactions import canonical
from infrec.errors import ConfigError, DataError
from infrec.randomness import generator

if TYPE_CHECKING:
    from infrec.data.interactions import InteractionsLike

_BLOCK = 1 << 23  # interactions shuffled at a time

HELD_OUT = 0.1
INNER_SEED = 42  # of what is held out inside a log to choose settings by
FEWEST = 3  # a user needs one interaction for each part
Parts: TypeAlias = tuple[Interactions, Interactions, Interactions]  # train, validation, test


@dataclass(frozen=True, eq=False)
class Split:
    """Three logs over the same users and items.

    Args:
        train, val, test: The three logs.
        name: How it was made, for records and reports.
    """

    train: Interactions
    val: Interactions
    test: Interactions
    name: str = ""

    def __post_init__(self) -> None:
        for part in (self.val, self.test):
            if part.users != self.train.users or part.items != self.train.items:
                raise DataError("the parts of a split must share their users and items, in the same order.")

    @classmethod
    def of(
        cls, train: InteractionsLike, test: InteractionsLike, *, val: InteractionsLike | None = None
    ) -> Split:
        """A split that was made elsewhere, such as two dataframes; its users and items are those of train.

        Args:
            train, test: What a model sees, and what is measured, as `Interactions.from_data` takes it.
            val: What settings are chosen on; None: nothing.
        """
        log = Interactions.from_data(train)
        nothing = log.with_matrix(sp.csr_array(log.matrix.shape, dtype=np.float32))
        chosen_on = nothing if val is None else Interactions.from_data(val, over=log)
        return cls(log, chosen_on, Interactions.from_data(test, over=log), name="given")

    @property
    def test_context(self) -> sp.csr_array:
        """History of each user at test time: train and validation together, 0/1 where the data is."""
        return self.train.matrix.maximum(self.val.matrix)


def holdout(log: InteractionsLike, *, seed: int = 42) -> Split:
    """The split that the data brings along (`log.parts`), or else the paper's per-user holdout.

    Users with fewer than 3 interactions are dropped; items are not filtered. Of a user's n interactions,
    shuffled, the first int(0.8 n) are train, those up to int(0.9 n) validation, the rest test; then the very
    first is moved to test, so that every user has a test item. Small users have no validation item.

    Args:
        log: The log to split, in any form that `Interactions.from_data` takes.
        seed: Seed of the shuffle; a split that the data brings along needs none.
    """
    log = Interactions.from_data(log)
    if log.parts is not None:
        return own_split(log)
    n = log.user_counts
    enough = np.flatnonzero(n >= FEWEST)
    if not len(enough):
        raise DataError(
            f"none of the {log.n_users} users has {FEWEST} interactions or more, the most is "
            f"{int(n.max(initial=0))}; expected some with {FEWEST}, one for each of train, validation and "
            "test: use more data, or a file with its own column `split`."
        )
    if len(enough) < log.n_users:
        log, n = log.select_users(enough), n[enough]
    place = _shuffled_place(log.matrix, generator(seed, "holdout"))
    test = (place >= np.repeat((0.9 * n).astype(np.int32), n)) | (place == 0)
    train = (place < np.repeat((0.8 * n).astype(np.int32), n)) & ~test
    parts = keep(log, train), keep(log, ~train & ~test), keep(log, test)
    return Split(*with_dislikes(log, parts, seed), name=f"holdout (seed {seed})")


def with_dislikes(log: Interactions, parts: Parts, seed: int) -> Parts:
    """Train, validation and test part with the dislikes of a log: 80, 10 and 10 % of each user's, shuffled,
    whatever becomes of the interactions.

    Args:
        log: The log, over the users and items of the parts.
        parts: The three parts.
        seed: Seed of the shuffle.
    """
    if log.dislikes is None:
        return parts
    dislikes = log.dislikes.with_matrix(log.dislikes.matrix)
    n = dislikes.user_counts
    place = _shuffled_place(dislikes.matrix, generator(seed, "holdout of dislikes"))
    known = place < np.repeat(np.ceil(0.8 * n).astype(np.int32), n)
    test = place >= np.repeat(np.ceil(0.9 * n).astype(np.int32), n)
    train, val, test_part = parts
    return (
        replace(train, dislikes=keep(dislikes, known)),
        replace(val, dislikes=keep(dislikes, ~known & ~test)),
        replace(test_part, dislikes=keep(dislikes, test)),
    )


def hide(log: Interactions, *, share: float = 0.1, seed: int = 42) -> tuple[Interactions, Interactions]:
    """A second holdout inside a log: (what is left, what is hidden), for the same users and items.

    Of a user's n ≥ 2 interactions int(share · n) are hidden, at least one; a user with a single one keeps it.

    Args:
        log: The log to hide interactions of.
        share: How much of each history is hidden, in 0…1.
        seed: Seed of the choice.
    """
    place = _shuffled_place(log.matrix, generator(seed, "hide"))
    n = log.user_counts
    quota = np.where(n >= 2, np.maximum(1, (share * n).astype(np.int64)), 0)
    hidden = place < np.repeat(quota, n)
    return keep(log, ~hidden), keep(log, hidden)


def inner_holdout(log: Interactions) -> tuple[Interactions, Interactions] | None:
    """A fifth of each user's interactions to choose settings by; None when no user has enough.

    Returns what is left and what is held out, over the users with enough interactions.

    Args:
        log: The log that a model is fitted on.
    """
    try:
        # Without the data's own parts: this is a holdout inside what we were given to train on. Without its
        # times, which no model looks at and which are half of a large log's memory.
        split = holdout(replace(log, time=None, parts=None), seed=INNER_SEED)
    except DataError:
        return None
    held_out = split.val.with_matrix(split.val.matrix.maximum(split.test.matrix))
    if split.val.dislikes is not None and split.test.dislikes is not None:
        hidden = split.val.dislikes.matrix.maximum(split.test.dislikes.matrix)
        held_out = replace(held_out, dislikes=split.val.dislikes.with_matrix(hidden))
    if not held_out.n_interactions or not split.train.n_interactions:
        return None
    return split.train, held_out


def own_split(log: Interactions) -> Split:
    """The split in the data's own column `split`, untouched: no user is dropped.

    Args:
        log: A log with `parts`.
    """
    parts = log.parts or {}
    for name in ("train", "test"):
        if name not in parts or not parts[name].nnz:
            raise DataError(
                f"the data's own split has no {name} interactions; expected `train` and `test` in the column "
                "`split`, so complete it or read the data without it."
            )
    nothing = sp.csr_array(log.matrix.shape, dtype=np.float32)
    names = ("train", "val", "test")
    train, val, test = (log.with_matrix(parts.get(name, nothing)) for name in names)
    if log.dislikes is not None:
        said = log.dislikes.parts or {"train": log.dislikes.matrix}
        train, val, test = (
            replace(part, dislikes=log.dislikes.with_matrix(said.get(name, nothing)))
            for name, part in zip(names, (train, val, test), strict=True)
        )
    return Split(train, val, test, name="own")


def keep(log: Interactions, wanted: NDArray[np.bool_]) -> Interactions:
    """A log of all users and items with only the wanted interactions; `wanted` is in CSR order."""
    return log.with_matrix(entries(log.matrix, wanted), time=None if log.time is None else log.time[wanted])


def entries(matrix: sp.csr_array, wanted: NDArray[np.bool_]) -> sp.csr_array:
    """A matrix with only the wanted of its stored entries."""
    upto = np.cumsum(wanted, dtype=matrix.indptr.dtype)
    ends = matrix.indptr.copy()
    inside = ends > 0
    ends[inside] = upto[ends[inside] - 1]
    del upto
    part = sp.csr_array((matrix.data[wanted], matrix.indices[wanted], ends), shape=matrix.shape)
    part.has_sorted_indices = part.has_canonical_format = matrix.has_canonical_format
    return part


def rows_of(matrix: sp.csr_array) -> NDArray[np.int64]:
    """The row of each stored entry."""
    return np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))


def place_in_row(matrix: sp.csr_array, by: NDArray[Any]) -> NDArray[np.int64]:
    """The place of each stored entry among those of its row, 0 …, in ascending order of a number of each."""
    row = rows_of(matrix)
    place = np.empty(matrix.nnz, np.int64)
    place[np.lexsort((by, row))] = np.arange(matrix.nnz) - matrix.indptr[row]
    return place


def _shuffled_place(matrix: sp.csr_array, rng: np.random.Generator) -> NDArray[np.int32]:
    """The place of each stored entry in a random order of its row, 0 …; block by block, in one stream."""
    # The row in the high bits, chance in the rest: one sort shuffles all rows, and each stays where it is.
    chance_bits = 63 - int(matrix.shape[0]).bit_length()
    place = np.empty(matrix.nnz, np.int32)
    ends = np.searchsorted(matrix.indptr, np.arange(_BLOCK, matrix.nnz + _BLOCK, _BLOCK))
    first = 0
    for last in np.unique(np.append(np.minimum(ends, matrix.shape[0]), matrix.shape[0])):
        some = matrix.indptr[first : last + 1]
        row = np.repeat(np.arange(first, last, dtype=np.int64), np.diff(some))
        keys = (row << chance_bits) | rng.integers(0, 1 << chance_bits, size=len(row), dtype=np.int64)
        order = np.argsort(keys, kind="stable")
        place[some[0] + order] = np.arange(len(row)) - (some[row - first] - some[0])
        first = last
    return place


def held_out(log: Interactions, seed: int) -> tuple[Interactions, Interactions]:
    """A tenth of each user's interactions, on average, set aside to choose on; users with one keep it."""
    counts = log.user_counts
    rng = generator(seed, "distillation holdout")
    wanted = np.minimum(np.floor(HELD_OUT * counts + rng.random(log.n_users)), counts - 1)
    place = place_in_row(log.matrix, rng.random(log.n_interactions))
    chosen = place < np.repeat(wanted, counts)
    return keep(log, ~chosen), keep(log, chosen)


def is_set_aside(users: Vocabulary, share: float, seed: int) -> NDArray[np.bool_]:
    """For each user id, whether it is among the share that is set aside.

    Args:
        users: Ids of the users.
        share: Share of the users to set aside, in 0…1.
        seed: Another seed sets others aside.
    """
    if not 0 < share < 1:
        raise ConfigError(f"set_aside is {share}; expected a share above 0 and below 1, for example 0.1.")
    return (hashed(users, seed) >> np.uint64(11)).astype(np.float64) * 2.0**-53 < share


def set_aside(split: Split, share: float, seed: int) -> tuple[Split, Interactions]:
    """The split without the users set aside, and the train part of those users.

    Args:
        split: The split whose users are divided.
        share: Share of the users to set aside, in 0…1.
        seed: Another seed sets others aside.
    """
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


# ---- items held out whole: nobody's interactions with them are known, as of items that are new ------------
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
