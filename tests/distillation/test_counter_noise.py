"""The counter-based noise: ordinary statistics, and no dependence on where a block begins."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from infrec.distillation import counter_noise

KEY = jnp.asarray([11, 13], jnp.uint32)


def _uniforms(rows: int, items: int, draw: int = 0, key=KEY) -> np.ndarray:
    first, second = counter_noise.stream(key, jnp.arange(rows, dtype=jnp.uint32), jnp.uint32(draw))
    item = jax.lax.broadcasted_iota(jnp.uint32, (rows, items), 1)
    return np.asarray(
        counter_noise.uniform(counter_noise.bits(item, first[:, None], second[:, None])), np.float64
    )


def test_uniform() -> None:
    """200,000 numbers: Kolmogorov-Smirnov distance below the 0.1 % bound, 1.95/√n."""
    u = _uniforms(200, 1000)
    assert 0 < u.min() < u.max() < 1
    assert stats.kstest(u.ravel(), "uniform").statistic < 1.95 / np.sqrt(u.size)


@pytest.mark.parametrize("other", ["row", "item", "draw", "key"])
def test_neighbours_are_independent(other: str) -> None:
    """The correlation of 199,000 pairs of neighbours is below 5 standard deviations, 5/√n."""
    u = _uniforms(200, 1000)
    pairs = {
        "row": (u[1:], u[:-1]),
        "item": (u[:, 1:], u[:, :-1]),
        "draw": (u, _uniforms(200, 1000, draw=1)),
        "key": (u, _uniforms(200, 1000, key=counter_noise.fold(KEY, 1))),
    }
    a, b = pairs[other]
    assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 5 / np.sqrt(a.size)


def test_rows_of_bits_differ() -> None:
    """No two of 20,000 streams share their 64 bits."""
    streams = [
        np.stack(
            [
                np.asarray(w, np.uint64)
                for w in counter_noise.stream(KEY, jnp.arange(500, dtype=jnp.uint32), jnp.uint32(t))
            ]
        )
        for t in range(40)
    ]
    words = np.concatenate([(s[0] << np.uint64(32)) | s[1] for s in streams])
    assert len(np.unique(words)) == len(words)


def test_folded_keys_differ() -> None:
    keys = {
        tuple(np.asarray(counter_noise.fold(KEY, step, part)).tolist())
        for step in range(50)
        for part in range(4)
    }
    assert len(keys) == 200


def test_log2_and_exp2() -> None:
    x = np.exp(np.random.default_rng(0).uniform(-80, 80, 20_000)).astype(np.float32)
    np.testing.assert_allclose(
        counter_noise.log2(jnp.asarray(x)), np.log2(x.astype(np.float64)), rtol=2e-7, atol=2e-7
    )
    near_one = (1 - np.exp(np.random.default_rng(1).uniform(-16, -1, 20_000))).astype(np.float32)
    np.testing.assert_allclose(
        counter_noise.log2(jnp.asarray(near_one)), np.log2(near_one.astype(np.float64)), rtol=1e-6
    )
    y = np.random.default_rng(2).uniform(-120, 120, 20_000).astype(np.float32)
    np.testing.assert_allclose(counter_noise.exp2(jnp.asarray(y)), np.exp2(y.astype(np.float64)), rtol=1e-6)
    assert float(counter_noise.exp2(jnp.float32(-1e30))) == 2.0**-126


def test_gumbel_moments() -> None:
    """−ln E is Gumbel: mean 0.5772, variance π²/6; 400,000 numbers, 5 standard errors."""
    first, second = counter_noise.stream(KEY, jnp.arange(400, dtype=jnp.uint32), jnp.uint32(0))
    item = jax.lax.broadcasted_iota(jnp.uint32, (400, 1000), 1)
    power = counter_noise.gumbel_weights(
        jnp.zeros((400, 1000)),
        first[:, None],
        second[:, None],
        item,
        1.0,
        log2=counter_noise.log2,
        exp2=lambda y: y,
    )
    g = np.asarray(power, np.float64) * np.log(2)
    assert g.mean() == pytest.approx(0.57722, abs=5 * np.pi / np.sqrt(6 * g.size))
    assert g.var() == pytest.approx(np.pi**2 / 6, rel=5 * np.sqrt(4.4 / g.size))
    assert counter_noise.SMALLEST < g.min() < g.max() < counter_noise.LARGEST
