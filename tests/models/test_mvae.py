"""MVAE: its loss where it can be worked out by hand, and its scores in numpy."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from infrec.data import Interactions
from infrec.errors import ConfigError
from infrec.models import MVAE, batches
from infrec.models.batches import Batch, Log, Sizes, Step
from infrec.randomness import generator
from tests.models.contract import RecommenderContract


class TestMVAE(RecommenderContract):
    checkerboard_hits = 20
    small_log_hr10 = (52.0, 62.0)
    scores_are_relative = True

    def make(self) -> MVAE:
        return MVAE(latent=8, hidden=32, epochs=20, rate=0.01)


def loss_of(params: dict, log: Interactions, at: int, beta: float = 1.0) -> float:
    program = MVAE(latent=4, hidden=6).program(log)
    sizes, arrays = batches.on_device(log)
    constants = program.constants(sizes, log)
    return float(compiled(program, sizes, params, arrays, constants, np.int32(at), np.float32(beta)))


@partial(jax.jit, static_argnums=(0, 1))
def compiled(
    program: Any, sizes: Sizes, params: dict, arrays: Log, constants: dict, at: jax.Array, beta: jax.Array
) -> jax.Array:
    users = jnp.arange(sizes.batch)
    batch = Batch(users, (users < arrays.n_users).astype(jnp.float32), at)
    step = Step(batch, jax.random.key(0), arrays, constants, sizes)
    hyper = {"dropout": jnp.float32(0), "l2": jnp.float32(0), "beta": beta}
    return program.loss(params, step, hyper)


def test_the_loss_by_hand(small_log: Interactions) -> None:
    """All weights 0: every item is equally likely, and N(μ, σ²) is what its biases say, for all 4 numbers."""
    program = MVAE(latent=4, hidden=6).program(small_log)
    sizes = batches.on_device(small_log)[0]
    params = {k: np.zeros_like(v) for k, v in program.start(sizes, small_log, generator(0, "x")).items()}
    likelihood = small_log.n_interactions / small_log.n_users * np.log(small_log.n_items)
    assert loss_of(params, small_log, 10**6) == pytest.approx(likelihood, rel=1e-5)
    params["mean.bias"][:4], params["spread.bias"][:4] = 0.5, np.log(2.0)
    divergence = 4 * 0.5 * (2.0 + 0.25 - 1 - np.log(2.0))
    assert loss_of(params, small_log, 10**6) == pytest.approx(likelihood + divergence, rel=1e-5)
    assert loss_of(params, small_log, 500, 0.2) == pytest.approx(likelihood + 0.1 * divergence, rel=1e-5)
    assert loss_of(params, small_log, 0) == pytest.approx(likelihood, rel=1e-5)  # β begins at 0


def test_scores_are_the_network_of_the_mean(small_log: Interactions) -> None:
    model = MVAE(latent=4, hidden=6, layers=2, epochs=1).fit(small_log)
    p, x = model.parameters, small_log.matrix.toarray()
    h = x / np.sqrt(x.sum(1, keepdims=True))
    for name in ("encoder0", "encoder1"):
        h = np.tanh(h @ p[f"{name}.weight"] + p[f"{name}.bias"])
    h = h @ p["mean.weight"] + p["mean.bias"]
    for name in ("decoder0", "decoder1"):
        h = np.tanh(h @ p[f"{name}.weight"] + p[f"{name}.bias"])
    expected = h @ p["out.weight"] + p["out.bias"]
    np.testing.assert_allclose(model.score(small_log.matrix), expected, atol=1e-5)
    assert not model.knows_users


@pytest.mark.parametrize("changes", [{"hidden": 0}, {"layers": 0}, {"kl": -1.0}, {"dropout": -0.1}])
def test_bad_settings(changes: dict) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(changes))} is .*; expected"):
        MVAE(**changes)
