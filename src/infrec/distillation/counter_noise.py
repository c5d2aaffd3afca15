"""Random numbers that are a function of where they are used: (key, row, draw, item) → noise.

Nothing is stored and nothing is drawn in an order: any block of rows, on any device, computes the same noise
for the same place, and the backward pass recomputes it. A stream is named by 64 bits, mixed from the key, the
row and the draw; the bits of an item are two rounds of a 32-bit avalanche mix of its number and these two
words.

The Gumbel noise is used as g = −ln E with E = −ln u exponential, because exp((x + g)/τ) = exp(x/τ) ·
E^(−1/τ). `log2` and `exp2` are short polynomials (errors near 1e-6 and 1e-7) for numbers that are known to be
ordinary: on the CPU they are three times as fast as the general ones, which have infinities and subnormals to
care for.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Array, Float, UInt32

U = np.uint32
LN2 = np.float32(math.log(2.0))
LARGEST = 16.7  # no Gumbel number here exceeds it: −ln(−ln(1 − 2⁻²⁴)) = 16.64
SMALLEST = -2.9  # −ln(−ln(2⁻²⁴)) = −2.81


def fold(key: UInt32[Array, " 2"], *words: Any) -> UInt32[Array, " 2"]:
    """Another key for each sequence of whole numbers."""
    a, b = key[0], key[1]
    for word in words:
        w = jnp.asarray(word).astype(jnp.uint32)
        a = _mix(a ^ (w * U(0x9E3779B1) + U(0x7F4A7C15)))
        b = _mix(b + a * U(0x85EBCA6B))
    return jnp.stack([a, b])


def stream(
    key: UInt32[Array, " 2"], row: UInt32[Array, "*s"], draw: UInt32[Array, ""]
) -> tuple[UInt32[Array, "*s"], UInt32[Array, "*s"]]:
    """The two words that name the stream of a row and a draw."""
    return stream_of_words(key[0], key[1], row, draw)


def stream_of_words(a: Any, b: Any, row: Any, draw: Any) -> tuple[Any, Any]:
    """`stream` for a key given as two scalars (a kernel reads them one by one)."""
    first = _mix(row * U(0x9E3779B1) + a)
    first = _mix(first + draw * U(0xC2B2AE3D) + b)
    return first, _mix(first ^ _mix(draw * U(0x27D4EB2F) + (row ^ b)))


def bits(item: UInt32[Array, "..."], first: Any, second: Any) -> UInt32[Array, "..."]:
    """32 random bits for an item in a stream."""
    h = _mix(item * U(0x9E3779B1) + first) + second
    h = (h ^ (h >> U(16))) * U(0x7FEB352D)
    h = (h ^ (h >> U(15))) * U(0x846CA68B)
    return h ^ (h >> U(16))


def uniform(h: UInt32[Array, "..."]) -> Float[Array, "..."]:
    """Bits → a float32 strictly between 0 and 1, one of 2²³ equally likely ones, symmetric about ½."""
    return ((h >> U(9)).astype(jnp.int32).astype(jnp.float32) + np.float32(0.5)) * np.float32(2.0**-23)


def gumbel_weights(
    z: Float[Array, "rows items"],
    first: Any,
    second: Any,
    item: UInt32[Array, "rows items"],
    inverse_tau: float,
    *,
    log2: Callable[[Any], Any],
    exp2: Callable[[Any], Any],
) -> Float[Array, "rows items"]:
    """2^(z + g/(τ ln 2)): the unnormalised weights of one draw, for z in units of log₂."""
    exponential = -LN2 * log2(uniform(bits(item, first, second)))
    return exp2(z - np.float32(inverse_tau) * log2(exponential))


def log2(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """log₂ of normal positive numbers; relatively exact near 1."""
    b = jax.lax.bitcast_convert_type(x, jnp.int32)
    exponent = (b - np.int32(0x3F3504F3)) >> 23  # 0x3F3504F3 is √½: mantissas run from √½ to √2
    m = jax.lax.bitcast_convert_type(b - (exponent << 23), jnp.float32) - np.float32(1.0)
    return exponent.astype(jnp.float32) + m * _polynomial(_log_coefficients(), m)


def exp2(y: Float[Array, "..."]) -> Float[Array, "..."]:
    """2^y for y below 127; anything below −126 becomes 2⁻¹²⁶."""
    y = jnp.maximum(y, np.float32(-126.0))
    whole = jnp.floor(y + np.float32(0.5))
    scale = jax.lax.bitcast_convert_type((whole.astype(jnp.int32) + np.int32(127)) << 23, jnp.float32)
    return scale * _polynomial(_exp_coefficients(), y - whole)


def _mix(h: Any) -> Any:
    """One avalanche round: every input bit flips each output bit about half of the time."""
    h = (h ^ (h >> U(16))) * U(0x85EBCA6B)
    h = (h ^ (h >> U(13))) * U(0xC2B2AE35)
    return h ^ (h >> U(16))


def _polynomial(coefficients: tuple[float, ...], x: Any) -> Any:
    y = jnp.full_like(x, np.float32(coefficients[-1]))
    for c in coefficients[-2::-1]:
        y = y * x + np.float32(c)
    return y


@cache
def _log_coefficients() -> tuple[float, ...]:
    return _fitted(lambda m: np.log2(1 + m) / m, math.sqrt(0.5) - 1, math.sqrt(2.0) - 1, 8)


@cache
def _exp_coefficients() -> tuple[float, ...]:
    return _fitted(lambda x: 2.0**x, -0.5, 0.5, 6)


def _fitted(f: Callable[[Any], Any], low: float, high: float, degree: int) -> tuple[float, ...]:
    """Chebyshev nodes make the least-squares polynomial nearly the best one."""
    x = np.cos(np.pi * (np.arange(200) + 0.5) / 200) * (high - low) / 2 + (high + low) / 2
    fit = np.polynomial.Polynomial.fit(x, f(x), degree, domain=[low, high], window=[low, high])
    return tuple(float(c) for c in fit.coef)
