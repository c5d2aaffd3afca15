"""The draws of `gumbel` as one kernel for NVIDIA GPUs (Pallas on Triton): noise is made where it is used.

A program owns one row and some of its draws. The row's logits, its noise and its running sum stay in
registers; device memory sees each input once and each output once per group of draws. Logarithms and powers
are the GPU's own instructions. `interpret=True` runs the same kernel body on any machine, for tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from infrec.distillation import counter_noise

if TYPE_CHECKING:
    from jaxtyping import Array

WIDEST = 16384  # items that fit one program's registers
GROUPS = 4  # a row's draws are split over this many programs, to fill a GPU with few hundred rows


def fits(items: int, tau: float) -> bool:
    """Whether the fused kernel handles this many items at this temperature."""
    return items <= WIDEST and tau >= 0.3


def summed(
    z: Array, key: Array, tau: float, draws: int, g: Array | None, *, interpret: bool = False
) -> Array:
    """Σ_t p_t, or with `g` given Σ_t p_t ⟨p_t, g⟩; z: logits in units of log₂ at this temperature."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton as plgpu

    rows, items = z.shape
    width = max(32, pl.next_power_of_2(items))
    each = -(-draws // GROUPS)
    log2, exp2 = (jnp.log2, jnp.exp2) if interpret else (_lg2, _ex2)

    def pad(x: Array, value: float) -> Array:
        return jnp.pad(x, ((0, 0), (0, width - items)), constant_values=value)

    def kernel(key_ref: Any, z_ref: Any, *refs: Any) -> None:
        out_ref = refs[-1]
        row = pl.program_id(0).astype(jnp.uint32)
        base = pl.program_id(1) * each
        own = z_ref[0, :]
        item = jax.lax.broadcasted_iota(jnp.uint32, (width,), 0)
        key0, key1 = key_ref[0], key_ref[1]

        def draw(i: Array, acc: Array) -> Array:
            t = base + i
            first, second = counter_noise.stream_of_words(key0, key1, row, t.astype(jnp.uint32))
            u = counter_noise.uniform(counter_noise.bits(item, first, second))
            v = np.float32(1.0) - u
            # The GPU's log₂ has a small absolute error: near 1 a series keeps −ln u relatively exact.
            series = v * (np.float32(1.0) + v * (np.float32(0.5) + v * np.float32(1 / 3)))
            exponential = jnp.where(v < np.float32(2.0**-7), series, -counter_noise.LN2 * log2(u))
            w = exp2(own - np.float32(1.0 / tau) * log2(exponential))
            share = np.float32(1.0) / jnp.sum(w)
            if g is not None:
                share = share * share * jnp.sum(w * refs[0][0, :])
            return acc + w * jnp.where(t < draws, share, np.float32(0.0))

        out_ref[0, 0, :] = jax.lax.fori_loop(0, each, draw, jnp.zeros((width,), jnp.float32))

    row_spec = pl.BlockSpec((1, width), lambda r, s: (r, 0))
    inputs = [key, pad(z, -1e30)]
    specs = [pl.BlockSpec((2,), lambda r, s: (0,)), row_spec]
    if g is not None:
        inputs.append(pad(g, 0.0))
        specs.append(row_spec)
    call = pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((GROUPS, rows, width), jnp.float32),
        grid=(rows, GROUPS),
        in_specs=specs,
        out_specs=pl.BlockSpec((1, 1, width), lambda r, s: (s, r, 0)),
        interpret=interpret,
        compiler_params=plgpu.CompilerParams(num_warps=_warps(width), num_stages=1),
        name="gumbel_draws",
    )
    return call(*inputs).sum(axis=0)[:, :items]


def _warps(width: int) -> int:
    """16 entries to a thread."""
    return int(np.clip(width // (32 * 16), 1, 32))


def _lg2(x: Array) -> Array:
    return _instruction("lg2.approx.f32 $0, $1;", x)


def _ex2(x: Array) -> Array:
    return _instruction("ex2.approx.ftz.f32 $0, $1;", x)


def _instruction(asm: str, x: Array) -> Array:
    from jax.experimental.pallas import triton as plgpu

    (out,) = plgpu.elementwise_inline_asm(
        asm,
        args=[x],
        constraints="=f,f",
        pack=1,
        result_shape_dtypes=[jax.ShapeDtypeStruct(x.shape, x.dtype)],
    )
    return out
