"""A log on the device, and drawing from it inside compiled code: users, positives, negatives, dense rows.

Everything is exact. A positive is drawn in proportion to its weight, by a binary search in its user's
cumulative weights. A negative is drawn evenly from the items that its user lacks, without any rejection: the
r-th missing item of a sorted row is r plus the number of row entries before it, found by another binary
search. Shapes are padded, so that logs of about the same size share one compiled function.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
import numpy as np

from infrec.data import Interactions

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int

_SMALLEST = 128  # users or items
_FEWEST = 2048  # interactions
_STEPS = 24  # mini-batches of users that a pass over a large log has, about
_BATCHES = (128, 512)  # the fewest and the most users of one
_WIDE = 1 << 16  # items from which a few users are not padded to many: each would cost a row of scores


class Sizes(NamedTuple):
    """The shapes that a compiled function is made for."""

    users: int
    items: int
    batch: int  # users of a mini-batch
    blocks: int  # mini-batches of one pass over the users
    draws: int  # interactions drawn for a mini-batch
    dense: int  # the most interactions that a mini-batch can have
    halvings: int  # of a binary search in the longest row


class PaddedSizes(NamedTuple):
    """The least that shapes are made for, so that logs of different size share a compiled function."""

    users: int = 0
    interactions: int = 0
    batch: int = 0  # the most interactions of a mini-batch
    longest: int = 0  # the most interactions of a user

    @classmethod
    def for_all(cls, logs: Iterable[Interactions]) -> PaddedSizes:
        """Room for each of these logs, in mini-batches of the size that the largest of them gets."""
        counts = [np.sort(log.user_counts)[::-1] for log in logs]
        size = batch_size(padded(max(map(len, counts))))
        needs = [(len(own), own.sum(), own[:size].sum(), own.max(initial=0)) for own in counts]
        return cls(*(int(max(need)) for need in zip(*needs, strict=True)))


class Log(NamedTuple):
    """The interactions as a CSR matrix. Passed to compiled functions as an argument, never captured."""

    start: Int[Array, " users+1"]
    items: Int[Array, " entries"]
    values: Float[Array, " entries"]
    cumulative: Float[Array, " entries"]  # the share of a user's weight up to and with this entry
    weight: Float[Array, " users"]  # of all of a user's interactions
    n_users: Int[Array, ""]
    n_items: Int[Array, ""]
    mean_weight: Float[Array, ""]  # of a mini-batch


class Pairs(NamedTuple):
    """Drawn interactions (row of the mini-batch, positive) with a negative each; weight 0: not there."""

    row: Int[Array, " draws"]
    positive: Int[Array, " draws"]
    negative: Int[Array, " draws"]
    weight: Float[Array, " draws"]


class Batch(NamedTuple):
    """A mini-batch of users: their rows in the log, and 0 for those that only fill it up."""

    users: Int[Array, " batch"]
    present: Float[Array, " batch"]
    step: Int[Array, ""]  # of the whole training, from 0


@dataclass(frozen=True)
class Step:
    """Inputs of a loss: a mini-batch of users, the log, and a random key of its own."""

    batch: Batch
    key: Array
    log: Log
    constants: Any
    sizes: Sizes

    def pairs(self) -> Pairs:
        """Interactions of the batch's users with a negative each."""
        return pairs(self.log, self.sizes, self.batch, jax.random.fold_in(self.key, 0))

    def rows(self) -> Float[Array, "batch items"]:
        """The histories of the batch's users, dense."""
        return rows(self.log, self.sizes, self.batch)

    def stream(self, number: int) -> Array:
        """A key for the model's own use, from 1."""
        return jax.random.fold_in(self.key, number)


def padded(n: int, least: int = _SMALLEST) -> int:
    """A size of which there are few: at most 1/16 larger than `n`."""
    unit = max(least, 1 << max(0, n.bit_length() - 5))
    return max(least, -(-n // unit) * unit)


_ON_DEVICE: WeakKeyDictionary[Interactions, tuple[Sizes, Log]] = WeakKeyDictionary()


def batch_size(users: int) -> int:
    """Users of a mini-batch where so many are padded for."""
    return int(np.clip(padded(-(-users // _STEPS)), *_BATCHES))


def on_device(
    log: Interactions, *, batch: int | None = None, room: PaddedSizes | None = None
) -> tuple[Sizes, Log]:
    """The log's shapes and its arrays on the device, shared by all trainings on it."""
    usual = batch is None and room is None
    if usual and log in _ON_DEVICE:
        return _ON_DEVICE[log]
    room = room or PaddedSizes()
    matrix = log.matrix
    counts = np.diff(matrix.indptr)
    users = padded(max(log.n_users, room.users), _SMALLEST if log.n_items < _WIDE else 8)
    items = padded(log.n_items)
    entries = padded(max(log.n_interactions, room.interactions), _FEWEST)
    size = min(batch or batch_size(users), users)
    blocks = -(-users // size)
    fullest = max(int(np.sort(counts)[-size:].sum()), room.batch)
    longest = max(int(counts.max(initial=0)), room.longest)
    sizes = Sizes(
        users=users,
        items=items,
        batch=size,
        blocks=blocks,
        draws=padded(-(-max(log.n_interactions, room.interactions) // blocks), _FEWEST),
        dense=padded(fullest, _FEWEST),
        halvings=max(8, longest.bit_length()),
    )
    ends = np.concatenate([matrix.indptr, np.full(users - log.n_users, matrix.nnz)])
    running = np.cumsum(matrix.data, dtype=np.float64)
    before = np.append(0.0, running)[matrix.indptr]
    total = np.diff(before)
    own = np.repeat(np.arange(log.n_users), counts)
    share = (running - before[own]) / total[own]

    def fill(array: np.ndarray, length: int, dtype: type) -> Array:
        out: np.ndarray = np.zeros(length, dtype)
        out[: len(array)] = array
        return jnp.asarray(out)

    arrays = Log(
        start=jnp.asarray(ends, jnp.int32),
        items=fill(matrix.indices, entries, np.int32),
        values=fill(matrix.data, entries, np.float32),
        cumulative=fill(share, entries, np.float32),
        weight=fill(total, users, np.float32),
        n_users=jnp.int32(log.n_users),
        n_items=jnp.int32(log.n_items),
        mean_weight=jnp.float32(total.sum() / blocks),
    )
    if usual:
        _ON_DEVICE[log] = sizes, arrays
    return sizes, arrays


# ---- inside compiled functions -----------------------------------------------------------------------------
def order(log: Log, sizes: Sizes, key: Array) -> tuple[Array, Array]:
    """All users in a random order, cut into mini-batches: [blocks, batch] rows and which are really there."""
    shuffled = jax.random.permutation(key, sizes.users).astype(jnp.int32)
    missing = sizes.blocks * sizes.batch - sizes.users
    users = jnp.concatenate([shuffled, jnp.zeros(missing, jnp.int32)])
    present = (jnp.arange(len(users)) < sizes.users) & (users < log.n_users) & (log.weight[users] > 0)
    shape = (sizes.blocks, sizes.batch)
    return users.reshape(shape), present.astype(jnp.float32).reshape(shape)


def pairs(log: Log, sizes: Sizes, batch: Batch, key: Array) -> Pairs:
    """`draws` interactions of the batch's users in proportion to their weights, and a negative for each.

    The draws are spread evenly over the cumulative weights, with one random offset, so that an interaction
    is drawn as often as it should be, give or take one. The weights of the pairs add up to the batch's
    share of all weight: batches with more interactions count more.
    """
    where, what = jax.random.split(key)
    weight = log.weight[batch.users] * batch.present
    ends = jnp.cumsum(weight)
    points = (jnp.arange(sizes.draws) + jax.random.uniform(where)) / sizes.draws * ends[-1]
    row = jnp.minimum(jnp.searchsorted(ends, points, side="right"), sizes.batch - 1).astype(jnp.int32)
    within = (points - (ends[row] - weight[row])) / jnp.maximum(weight[row], 1e-30)
    user = batch.users[row]
    low, high = log.start[user], log.start[user + 1]
    entry = _first(lambda at: log.cumulative[at] > within, low, high, sizes.halvings)
    positive = log.items[jnp.clip(entry, low, jnp.maximum(high - 1, low))]
    negative, exists = missing_items(log, sizes, user, jax.random.uniform(what, (sizes.draws,)))
    sound = exists & (weight[row] > 0)
    share = jnp.where(sound, ends[-1] / (log.mean_weight * sizes.draws), 0.0)
    return Pairs(row, positive, negative, share)


def missing_items(log: Log, sizes: Sizes, user: Array, uniform: Array) -> tuple[Array, Array]:
    """For each user an item it lacks, by a number in [0, 1); and whether there is one."""
    low, high = log.start[user], log.start[user + 1]
    lacking = log.n_items - (high - low)
    wanted = jnp.minimum((uniform * lacking).astype(jnp.int32), lacking - 1)
    # items[at] − (at − low) of the missing items come before entry `at` of the row.
    entry = _first(lambda at: log.items[at] - (at - low) > wanted, low, high, sizes.halvings)
    return jnp.where(lacking > 0, wanted + (entry - low), 0), lacking > 0


def rows(log: Log, sizes: Sizes, batch: Batch) -> Float[Array, "batch items"]:
    """The histories of the batch's users, dense."""
    counts = (log.start[batch.users + 1] - log.start[batch.users]) * batch.present.astype(jnp.int32)
    ends = jnp.cumsum(counts)
    slot = jnp.arange(sizes.dense)
    row = jnp.minimum(jnp.searchsorted(ends, slot, side="right"), sizes.batch - 1)
    entry = log.start[batch.users[row]] + slot - (ends[row] - counts[row])
    inside = slot < ends[-1]
    entry = jnp.where(inside, entry, 0)
    value = jnp.where(inside, log.values[entry], 0.0)
    flat = jnp.zeros(sizes.batch * sizes.items).at[row * sizes.items + log.items[entry]].add(value)
    return flat.reshape(sizes.batch, sizes.items)


def _first(condition, low: Array, high: Array, halvings: int) -> Array:  # type: ignore[no-untyped-def]
    """The first place in [low, high) where a condition that stays true becomes true; `high` where none."""

    def halve(_: int, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bounds
        middle = (low + high) // 2
        holds = condition(middle)
        open_ = low < high
        return jnp.where(open_ & ~holds, middle + 1, low), jnp.where(open_ & holds, middle, high)

    return jax.lax.fori_loop(0, halvings + 1, halve, (low, high))[0]
