"""From real-valued logits to the summary that the model sees, without random draws.

    soft:      X̂ = min(1, γ · softmax(X/τ))                     every row has mass at most γ
    discrete:  X̂ = 1 for the k_r largest logits of row r, else 0
    weighted:  X̂ = the K largest entries of the soft summary, rounded to 16 levels, else 0

A step function has no slope, so the gradient of `discrete` is that of X − t_r: every logit is pulled as
strongly. The threshold t_r lies between the k_r-th logit and the next one and follows the logits within about
τ of it, so that shifting a row changes nothing. The gradient of `weighted` is that of the whole soft summary:
entries that are not kept are pulled too, and come in when they grow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from infrec.data.summary import LEVELS

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Array, Bool, Float, Int

FEWEST = 5  # a row of `weighted` has at least its mean number of entries over this


def soft(
    logits: Float[Array, "rows items"], tau: Array | float, gamma: Array | float
) -> Float[Array, "rows items"]:
    """min(1, γ · softmax(X/τ))."""
    return jnp.minimum(gamma * jax.nn.softmax(logits / tau, axis=1), 1.0)


def top_mask(logits: Float[Array, "rows items"], sizes: Int[Array, " rows"]) -> Bool[Array, "rows items"]:
    """Exactly the `sizes[r]` largest logits of row r; equal logits in the order of the items.

    A search by quarters, first for the value of the k-th largest logit (as an integer that sorts like the
    float), then for the last item that is taken among those equal to it. Sixteen and log₄(items) passes of
    comparing and counting: on the CPU and on a GPU alike several times faster than a sort, and exact.
    """
    order = _sortable(logits)
    sizes = sizes[:, None]
    lowest = jnp.full(sizes.shape, np.iinfo(np.int32).min, jnp.int32)
    value = _largest(lowest, 32, lambda at: (order >= at).sum(1, keepdims=True) >= sizes)
    above, equal = order > value, order == value
    left = sizes - above.sum(axis=1, keepdims=True)
    item = jnp.arange(logits.shape[1], dtype=jnp.int32)[None, :]
    # How many items to look at: the most that do not hold too many of the equal ones.
    until = _largest(
        jnp.zeros(sizes.shape, jnp.int32),
        int(logits.shape[1]).bit_length(),
        lambda at: (equal & (item < at)).sum(1, keepdims=True) <= left,
    )
    return above | (equal & (item < until))


def _largest(low: Array, width: int, holds: Callable[[Array], Array]) -> Array:
    """The largest integer ≥ `low`, in a range of 2^width, for which `holds`: true up to some integer."""
    passes = -(-width // 2)

    def narrow(i: Array, at: Array) -> Array:
        step = jnp.int32(1) << (2 * (passes - 1 - i)).astype(jnp.int32)  # wraps from the lowest int32 upwards
        flags = [holds(at + quarter * step) for quarter in (1, 2, 3)]
        return at + step * sum(flag.astype(jnp.int32) for flag in flags)

    return jax.lax.fori_loop(0, passes, narrow, low)


def _sortable(x: Float[Array, "..."]) -> Int[Array, "..."]:
    """int32 that sort like the floats; −0 and 0 are equal."""
    b = jax.lax.bitcast_convert_type(jnp.where(x == 0, jnp.zeros_like(x), x), jnp.int32)
    return b ^ ((b >> 31) & np.int32(0x7FFFFFFF))


def threshold(logits: Float[Array, "rows items"], mask: Bool[Array, "rows items"]) -> Float[Array, "rows 1"]:
    """Half-way between the smallest logit taken and the largest one left."""
    smallest = jnp.where(mask, logits, jnp.inf).min(axis=1, keepdims=True)
    largest = jnp.where(mask, -jnp.inf, logits).max(axis=1, keepdims=True)
    # A row that takes every item has none left.
    middle = (smallest + jnp.maximum(largest, smallest - 1e6)) / 2
    return jnp.where(jnp.isfinite(middle), middle, 0.0)


def discrete(
    logits: Float[Array, "rows items"], sizes: Int[Array, " rows"], tau: Array | float
) -> Float[Array, "rows items"]:
    """1 for the `sizes[r]` largest logits of row r, else 0; its gradient is that of `above_threshold`."""
    mask = top_mask(jax.lax.stop_gradient(logits), sizes)
    above = above_threshold(logits, mask, tau)
    return jax.lax.stop_gradient(mask.astype(logits.dtype)) + (above - jax.lax.stop_gradient(above))


def weighted(
    logits: Float[Array, "rows items"], total: Int[Array, ""], tau: Array | float, gamma: Array | float
) -> Float[Array, "rows items"]:
    """The `total` largest entries of the soft summary, in few levels; its gradient is that of all entries."""
    dense = soft(logits, tau, gamma)
    kept = jnp.where(largest(logits, total, tau), levels(jax.lax.stop_gradient(dense)), 0.0)
    return kept + (dense - jax.lax.stop_gradient(dense))


def largest(
    logits: Float[Array, "rows items"], total: Int[Array, ""], tau: Array | float
) -> Bool[Array, "rows items"]:
    """Where softmax(X/τ) is largest, `total` times in all; each row has at least a fifth of the mean."""
    fixed = jax.lax.stop_gradient(logits)
    fewest = jnp.maximum(total // (FEWEST * len(fixed)), 1)
    sure = top_mask(fixed, jnp.broadcast_to(fewest, len(fixed)))
    order = jnp.where(sure, jnp.inf, jax.nn.log_softmax(fixed / tau, axis=1))
    return top_mask(order.reshape(1, -1), total[None]).reshape(fixed.shape)


def levels(weights: Float[Array, "..."]) -> Float[Array, "..."]:
    """The nearest of the 16 powers of √½ from 1 to 0.0055: weights that take half a byte each."""
    steps = jnp.round(-2 * jnp.log2(jnp.maximum(weights, 1e-9)))
    return jnp.exp2(-jnp.clip(steps, 0, LEVELS - 1) / 2)


def above_threshold(
    logits: Float[Array, "rows items"], mask: Bool[Array, "rows items"], tau: Array | float
) -> Float[Array, "rows items"]:
    """X − t, whose threshold t follows the logits within about τ of it: a row's gradient sums to zero."""
    fixed = jax.lax.stop_gradient(logits)
    at = threshold(fixed, mask)
    p = jax.nn.sigmoid((fixed - at) / tau)
    slope = p * (1 - p) + 1e-12
    moved = (slope * (logits - fixed)).sum(axis=1, keepdims=True) / slope.sum(axis=1, keepdims=True)
    return logits - (at + moved)
