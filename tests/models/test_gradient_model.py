"""What is trained: losses by hand, gradients by finite differences, padding that stays 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from infrec.data import Interactions
from infrec.models import MF, MVAE, BiasOnly, LightGCN, NeuMF, batches
from infrec.models.batches import Batch, Pairs, Step
from infrec.models.gradient_model import GradientModel
from infrec.models.trainer import bpr, penalty
from infrec.randomness import generator

pytestmark = pytest.mark.usefixtures("compiled_quickly")


def test_bpr_and_penalty_by_hand() -> None:
    """Two users, three items, two pairs of weight ½: −½ Σ log σ(difference), ½ · ½ Σ of three squares."""
    scores = jnp.array([[1.0, 0.0, 2.0], [0.5, 0.5, -1.0]])
    pairs = Pairs(jnp.array([0, 1]), jnp.array([2, 0]), jnp.array([1, 2]), jnp.array([0.5, 0.5]))
    expected = 0.5 * (np.log1p(np.exp(-2.0)) + np.log1p(np.exp(-1.5)))
    assert float(bpr(scores, pairs)) == pytest.approx(expected, rel=1e-6)
    users, items = jnp.array([[1.0, 2.0], [3.0, 0.0]]), jnp.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    assert float(penalty(users, items, pairs)) == pytest.approx(0.25 * ((5 + 2 + 4) + (9 + 1 + 2)))


MODELS: list[Callable[[], GradientModel]] = [
    lambda: BiasOnly(solver="epochs"),
    lambda: MF(latent=3, l2=0.1),
    lambda: NeuMF(latent=4, layers=2, l2=0.1),
    lambda: LightGCN(latent=3, l2=0.1),
    lambda: MVAE(latent=3, hidden=6, dropout=0.3, l2=0.01),
]


@pytest.mark.parametrize("make", MODELS, ids=["bias-only", "mf", "neumf", "lightgcn", "mvae"])
def test_gradients_against_finite_differences(
    make: Callable[[], GradientModel], small_log: Interactions
) -> None:
    """The slope along a random direction of each parameter, in float64."""
    with jax.enable_x64(True):
        _check_gradient(make(), small_log)


def _check_gradient(model: GradientModel, small_log: Interactions) -> None:
    program = model.program(small_log)
    sizes, arrays = batches.on_device(small_log)
    users = jnp.arange(sizes.batch)
    batch = Batch(users, (users < small_log.n_users).astype(jnp.float32), jnp.int32(5000))
    constants = program.constants(sizes, small_log)
    hyper = {name: jnp.float64(value) for name, value in model.hyper(small_log).items()}
    start = program.start(sizes, small_log, generator(1, "test"))
    rng = np.random.default_rng(0)
    params = {
        name: jnp.asarray(array + 0.1 * rng.standard_normal(array.shape)) for name, array in start.items()
    }

    @jax.jit
    @jax.value_and_grad
    def loss(params: dict[str, Any]) -> Any:
        return program.loss(params, Step(batch, jax.random.key(0), arrays, constants, sizes), hyper)

    _, gradient = loss(params)
    for name in params:
        direction = rng.standard_normal(params[name].shape)
        direction /= np.linalg.norm(direction)
        slope, h = float((gradient[name] * direction).sum()), 1e-6
        ahead, behind = (loss({**params, name: params[name] + s * h * direction})[0] for s in (1, -1))
        assert float(ahead - behind) / (2 * h) == pytest.approx(slope, rel=1e-3, abs=1e-7), name


@pytest.mark.parametrize("make", MODELS[1:], ids=["mf", "neumf", "lightgcn", "mvae"])
def test_padding_stays_out(make: Callable[[], GradientModel], small_log: Interactions) -> None:
    """Columns beyond the latent size are 0 after training as before it."""
    training = make().training(small_log).run(3)
    params = training._state.params
    latent = training._model.settings.latent
    for name in ("users", "items", "users_mlp", "items_mlp"):
        if name in params:
            assert float(jnp.abs(params[name][:, latent:]).max()) == 0
    if "decoder0.weight" in params:
        assert float(jnp.abs(params["mean.weight"][:, latent:]).max()) == 0
        assert float(jnp.abs(params["decoder0.weight"][latent:]).max()) == 0
