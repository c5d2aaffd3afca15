"""Multi-step Gumbel sampling: γ draws of softmax((X + g)/τ) per row, summed and clipped at 1 (paper, §4).

    p_t = softmax((X + g_t)/τ)        total = Σ_t p_t        X̂ = min(1, total)
    ∂L/∂X = (total ⊙ G − Σ_t p_t ⟨p_t, G⟩) / τ,    G = ∂L/∂X̂ where total < 1, else 0

The backward pass recomputes each draw from its counter (`noise`), so memory is O(rows × items) whatever γ is.
On the CPU (and wherever else XLA runs) rows are taken in blocks that stay in the cache; on a GPU one fused
kernel makes the noise in registers (`gumbel_gpu`). Both see the same noise.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Literal

import jax
import jax.numpy as jnp
import numpy as np

from infrec.distillation import counter_noise, gumbel_gpu
from infrec.kernels import device_arrays

if TYPE_CHECKING:
    from jaxtyping import Array, Float, UInt32

Backend = Literal["auto", "xla", "fused", "interpret"]
ROWS = 128  # rows of a block: with a few thousand items, its arrays stay in a core's share of the cache
SAFE_TAU = 0.3  # from here on no weight over- or underflows without subtracting each draw's own maximum


@partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4))
def multi_draw(
    logits: Float[Array, "rows items"],
    key: UInt32[Array, " 2"],
    tau: float,
    draws: int,
    backend: Backend = "auto",
) -> Float[Array, "rows items"]:
    """X̂ = min(1, Σ of `draws` Gumbel-softmax draws at temperature `tau`)."""
    return jnp.minimum(total(logits, key, tau, draws, backend), 1.0)


def _forward(
    logits: Array, key: Array, tau: float, draws: int, backend: Backend
) -> tuple[Array, tuple[Array, Array, Array]]:
    summed = total(logits, key, tau, draws, backend)
    return jnp.minimum(summed, 1.0), (logits, key, summed)


def _backward(
    tau: float, draws: int, backend: Backend, saved: tuple[Array, Array, Array], cotangent: Array
) -> tuple[Array, np.ndarray]:
    logits, key, summed = saved
    g = jnp.where(summed < 1.0, cotangent, 0.0)
    pulled = _dispatch(logits, key, tau, draws, backend, g)
    return (summed * g - pulled) / tau, np.zeros(key.shape, jax.dtypes.float0)


multi_draw.defvjp(_forward, _backward)


def total(logits: Array, key: Array, tau: float, draws: int, backend: Backend = "auto") -> Array:
    """Σ_t p_t, before clipping; every row sums to the number of draws."""
    return _dispatch(logits, key, tau, draws, backend, None)


def _dispatch(logits: Array, key: Array, tau: float, draws: int, backend: Backend, g: Array | None) -> Array:
    """Σ_t p_t, or with `g` given Σ_t p_t ⟨p_t, g⟩."""
    if backend == "auto":
        backend = "fused" if device_arrays.on_gpu() and gumbel_gpu.fits(logits.shape[1], tau) else "xla"
    # Logits in units of log₂ at this temperature, at most 0 in each row.
    z = (logits - logits.max(axis=1, keepdims=True)) * np.float32(1.0 / (tau * math.log(2.0)))
    if backend == "xla":
        return _in_blocks(z, key, tau, draws, g)
    return gumbel_gpu.summed(z, key, tau, draws, g, interpret=backend == "interpret")


def _in_blocks(z: Array, key: Array, tau: float, draws: int, g: Array | None) -> Array:
    rows, items = z.shape
    size = min(ROWS, rows)
    item = jax.lax.broadcasted_iota(jnp.uint32, (size, items), 1)

    def weights(block: Array, row: Array, t: Array) -> Array:
        first, second = counter_noise.stream(key, row, t.astype(jnp.uint32))
        args = (block, first[:, None], second[:, None], item, 1.0 / tau)
        if tau >= SAFE_TAU:
            return counter_noise.gumbel_weights(*args, log2=counter_noise.log2, exp2=counter_noise.exp2)
        power = counter_noise.gumbel_weights(*args, log2=counter_noise.log2, exp2=lambda y: y)
        return counter_noise.exp2(power - power.max(axis=1, keepdims=True))

    def block_of(start: Array) -> Array:
        # The last block is moved back to end at the last row; a row computed twice has the same value twice.
        part = jax.lax.dynamic_slice_in_dim(z, start, size)
        upstream = None if g is None else jax.lax.dynamic_slice_in_dim(g, start, size)
        row = (start + jnp.arange(size)).astype(jnp.uint32)

        def draw(t: Array, acc: Array) -> Array:
            w = weights(part, row, t)
            share = 1.0 / w.sum(axis=1)
            if upstream is not None:
                share = share * share * (w * upstream).sum(axis=1)
            return acc + w * share[:, None]

        return jax.lax.fori_loop(0, draws, draw, jnp.zeros_like(part))

    starts = np.minimum(np.arange(0, rows, size), rows - size)

    def fill(i: Array, out: Array) -> Array:
        start = jnp.asarray(starts)[i]
        return jax.lax.dynamic_update_slice_in_dim(out, block_of(start), start, axis=0)

    return jax.lax.fori_loop(0, len(starts), fill, jnp.zeros_like(z))
