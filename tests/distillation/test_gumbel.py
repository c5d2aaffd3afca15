"""Multi-step Gumbel sampling: its backward pass, its blocks, its kernel, its memory and its frequencies."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from infrec.distillation import counter_noise, gumbel

pytestmark = pytest.mark.usefixtures("compiled_quickly")

KEY = jnp.asarray([3, 9], jnp.uint32)
RNG = np.random.default_rng(0)
LOGITS = jnp.asarray(RNG.normal(size=(9, 70)), jnp.float32)
UPSTREAM = jnp.asarray(RNG.normal(size=(9, 70)), jnp.float32)


def _plain(logits: jax.Array, tau: float, draws: int) -> jax.Array:
    """The definition, with the same uniform numbers, for autodiff."""
    item = jax.lax.broadcasted_iota(jnp.uint32, logits.shape, 1)
    rows = jnp.arange(len(logits), dtype=jnp.uint32)
    out = jnp.zeros_like(logits)
    for t in range(draws):
        first, second = counter_noise.stream(KEY, rows, jnp.uint32(t))
        u = counter_noise.uniform(counter_noise.bits(item, first[:, None], second[:, None]))
        out = out + jax.nn.softmax((logits - jnp.log(-jnp.log(u))) / tau, axis=1)
    return jnp.minimum(out, 1.0)


@pytest.mark.parametrize(
    ("backend", "tau"),
    [("xla", 0.1), ("xla", 0.3), ("xla", 10.0), ("interpret", 0.3), ("interpret", 10.0)],
)
def test_values_and_gradients_against_autodiff(backend: gumbel.Backend, tau: float) -> None:
    def loss(f):
        return lambda x: (f(x) * UPSTREAM).sum()

    expected, slope = jax.value_and_grad(loss(lambda x: _plain(x, tau, 11)))(LOGITS)
    found, own = jax.value_and_grad(loss(lambda x: gumbel.multi_draw(x, KEY, tau, 11, backend)))(LOGITS)
    assert float(found) == pytest.approx(float(expected), rel=1e-4, abs=1e-4)
    assert float(jnp.linalg.norm(own - slope) / jnp.linalg.norm(slope)) < 1e-4


def test_same_result_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """To rounding: XLA may add up the items of a row in another order where a block has another shape."""
    whole = gumbel.total(LOGITS, KEY, 0.7, 11, "xla")
    for rows in (1, 4, 9):
        monkeypatch.setattr(gumbel, "ROWS", rows)
        np.testing.assert_allclose(gumbel.total(LOGITS, KEY, 0.7, 11, "xla"), whole, rtol=1e-5, atol=1e-6)


def test_rows_sum_to_the_number_of_draws() -> None:
    for backend in ("xla", "interpret"):
        np.testing.assert_allclose(gumbel.total(LOGITS, KEY, 0.5, 13, backend).sum(axis=1), 13, rtol=1e-5)


@pytest.mark.parametrize("backend", ["xla", "interpret"])
def test_draw_frequencies_are_unbiased(backend: gumbel.Backend) -> None:
    """The mean of 20,000 draws, within 5 standard deviations for each item."""
    logits = jnp.asarray([[0.0, 1.0, 2.0, -1.0, 0.5]])
    draws = 20_000
    found = np.asarray(gumbel.total(logits, KEY, 0.3, draws, backend))[0] / draws
    # Not quite one item at τ = 0.3: the mean of a draw is compared with that of numpy's own Gumbel numbers.
    g = np.random.default_rng(5).gumbel(size=(draws, 5))
    p = np.exp((np.asarray(logits) + g - (np.asarray(logits) + g).max(1, keepdims=True)) / 0.3)
    p /= p.sum(axis=1, keepdims=True)
    assert (np.abs(found - p.mean(0)) < 5 * np.sqrt(2 * p.var(0) / draws)).all()


def test_argmax_frequencies() -> None:
    """The largest item of single draws at τ = 0.05 follows softmax(X): 4,000 rows, 5 deviations."""
    one = np.array([0.0, 1.0, 2.0, -1.0], np.float32)
    drawn = gumbel.total(jnp.tile(jnp.asarray(one), (4000, 1)), KEY, 0.05, 1, "xla")
    share = np.bincount(np.asarray(drawn).argmax(axis=1), minlength=4) / 4000
    expected = np.exp(one) / np.exp(one).sum()
    assert (np.abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / 4000)).all()


def test_draws_are_distinct() -> None:
    """The sum of two draws is not twice the first: the published code uses one key for two of its draws."""
    one, two = gumbel.total(LOGITS, KEY, 0.5, 1, "xla"), gumbel.total(LOGITS, KEY, 0.5, 2, "xla")
    assert float(jnp.abs(two - 2 * one).max()) > 0.1


def test_memory_does_not_grow_with_the_draws() -> None:
    """Temporary memory of a compiled gradient for γ = 50, 200, 800, and what a stored draw would add."""

    def temporary(draws: int) -> int:
        def loss(x: jax.Array, key: jax.Array) -> jax.Array:
            return (gumbel.multi_draw(x, key, 10.0, draws, "xla") ** 2).sum()

        shapes = jax.ShapeDtypeStruct((300, 500), jnp.float32), jax.ShapeDtypeStruct((2,), jnp.uint32)
        return jax.jit(jax.grad(loss)).lower(*shapes).compile().memory_analysis().temp_size_in_bytes

    sizes = [temporary(draws) for draws in (50, 200, 800)]
    assert max(sizes) == min(sizes)
    assert max(sizes) < 12 * 300 * 500 * 4  # a dozen matrices, where 50 stored draws would be 50


def test_extreme_logits_stay_finite() -> None:
    logits = jnp.asarray([[1e4, 0.0, -1e4, 3.0], [0.0, 0.0, 0.0, 0.0]])
    for tau in (0.05, 0.3, 10.0):
        value, slope = jax.value_and_grad(lambda x, tau=tau: gumbel.multi_draw(x, KEY, tau, 5, "xla").sum())(
            logits
        )
        assert np.isfinite(float(value))
        assert np.isfinite(np.asarray(slope)).all()
