"""Soft and discrete summaries of logits."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infrec.distillation import relaxations

pytestmark = pytest.mark.usefixtures("compiled_quickly")

_mask = jax.jit(relaxations.top_mask)


def _by_sorting(logits: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    rank = np.argsort(np.argsort(-logits, axis=1, kind="stable"), axis=1, kind="stable")
    return rank < sizes[:, None]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0, 1, 3]))
def test_top_mask_is_the_stable_sort(seed: int, digits: int) -> None:
    """Also with ties (rounded logits), −0 beside 0, huge and tiny values, nothing and everything taken."""
    rng = np.random.default_rng(seed)
    logits = np.round(rng.normal(size=(12, 37)) * 10.0 ** rng.integers(-3, 4), digits).astype(np.float32)
    logits[0], logits[1, ::2], logits[2] = 0.0, -0.0, rng.choice([1e30, -1e30, 1e-30], 37)
    sizes = rng.integers(0, 38, 12).astype(np.int32)
    sizes[:2] = 37, 0
    found = np.asarray(_mask(jnp.asarray(logits), jnp.asarray(sizes)))
    np.testing.assert_array_equal(found, _by_sorting(logits, sizes))
    np.testing.assert_array_equal(found.sum(axis=1), sizes)


def test_soft_at_low_temperature_tends_to_discrete() -> None:
    """With mass k and rows of k equal, clearly larger logits, τ → 0 leads to the k-hot row."""
    logits = jnp.asarray(
        np.random.default_rng(0).permuted(np.repeat([[2.0] * 5 + [0.0] * 15], 8, axis=0), axis=1)
    )
    hard = _mask(logits, jnp.full(8, 5, jnp.int32)).astype(jnp.float32)
    gaps = [float(jnp.abs(relaxations.soft(logits, tau, 5.0) - hard).max()) for tau in (3.0, 1.0, 0.3, 0.1)]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[0] > 0.3
    assert gaps[-1] < 1e-6


def test_soft_has_the_mass() -> None:
    logits = jnp.asarray(np.random.default_rng(0).normal(size=(4, 50)), jnp.float32)
    soft = relaxations.soft(logits, 10.0, 7.0)
    assert float(soft.max()) <= 1
    np.testing.assert_allclose(soft.sum(axis=1), 7, rtol=1e-5)  # nothing is clipped at a high temperature
    assert (relaxations.soft(logits, 0.2, 20.0).sum(axis=1) < 20).all()  # clipped


def test_the_surrogate_keeps_the_row_sum() -> None:
    """Adding a constant to a row's logits changes nothing, so the gradient of the row's own sum is zero."""
    logits = jnp.asarray(np.random.default_rng(1).normal(size=(5, 40)), jnp.float32)
    mask = _mask(logits, jnp.full(5, 9, jnp.int32))
    upstream = jnp.asarray(np.random.default_rng(2).normal(size=(5, 40)), jnp.float32)
    slope = jax.grad(lambda x: (relaxations.above_threshold(x, mask, 1.0) * upstream).sum())(logits)
    np.testing.assert_allclose(slope.sum(axis=1), 0, atol=1e-4)
    assert float(jnp.abs(slope).max()) > 0.1


def test_discrete_is_the_mask_forwards_and_the_surrogate_backwards() -> None:
    logits = jnp.asarray(np.random.default_rng(4).normal(size=(5, 40)), jnp.float32)
    upstream = jnp.asarray(np.random.default_rng(5).normal(size=(5, 40)), jnp.float32)
    sizes = jnp.asarray([0, 1, 9, 39, 40], jnp.int32)
    mask = _mask(logits, sizes)
    value, back = jax.vjp(lambda x: relaxations.discrete(x, sizes, 1.0), logits)
    np.testing.assert_array_equal(value, mask)
    _, expected = jax.vjp(lambda x: relaxations.above_threshold(x, mask, 1.0), logits)
    np.testing.assert_allclose(back(upstream)[0], expected(upstream)[0], rtol=1e-5, atol=1e-6)


def test_rows_that_take_everything_or_nothing_are_finite() -> None:
    logits = jnp.asarray(np.random.default_rng(3).normal(size=(2, 6)), jnp.float32)
    mask = _mask(logits, jnp.asarray([0, 6], jnp.int32))
    slope = jax.grad(lambda x: (relaxations.above_threshold(x, mask, 1.0) ** 2).sum())(logits)
    assert np.isfinite(np.asarray(slope)).all()


def test_weighted_is_the_largest_entries_forwards_and_all_of_soft_backwards() -> None:
    logits = jnp.asarray(4 * np.random.default_rng(6).normal(size=(5, 40)), jnp.float32)
    upstream = jnp.asarray(np.random.default_rng(7).normal(size=(5, 40)), jnp.float32)
    dense = np.asarray(relaxations.soft(logits, 3.0, 4.0))
    value, back = jax.vjp(lambda x: relaxations.weighted(x, jnp.int32(60), 3.0, 4.0), logits)
    value = np.asarray(value)
    kept = value > 0
    assert kept.sum() == 60 and kept.sum(axis=1).min() >= 60 // (5 * 5)
    # By hand: beside the two surest of each row, the largest entries of all rows.
    order = np.argsort(-np.asarray(jax.nn.log_softmax(logits / 3.0, axis=1)), axis=None, kind="stable")
    sure = np.asarray(_mask(logits, jnp.full(5, 2, jnp.int32)))
    rest = [at for at in order if not sure.flat[at]][: 60 - 10]
    np.testing.assert_array_equal(np.flatnonzero(kept & ~sure), np.sort(rest))
    np.testing.assert_allclose(value[kept], dense[kept], rtol=2**0.25 - 1 + 1e-4)  # half a level off at most
    _, expected = jax.vjp(lambda x: relaxations.soft(x, 3.0, 4.0), logits)
    np.testing.assert_allclose(back(upstream)[0], expected(upstream)[0], rtol=1e-5, atol=1e-6)


def test_levels_by_hand() -> None:
    """The 16 powers of √½: 1, 0.707, 0.5, … 0.0055; the nearest by ratio, and never 0."""
    found = relaxations.levels(jnp.asarray([1.0, 0.9, 0.8, 0.5, 0.26, 0.0055, 1e-4, 0.0]))
    halvings = np.array([0, 0, 1, 2, 4, 15, 15, 15])
    np.testing.assert_allclose(found, 2.0 ** (-halvings / 2), rtol=1e-6)
