"""Invented users who agree with noisy sums over real ones: post-processing, which costs no ε, however long.

An invented user has a taste z ~ N(0, I_k) and an activity n, and takes item i with the chance

    p_i = 1 − exp(−n · softmax(b + V z)_i)

b starts as the logarithm of what was released of single items. Then b and V are fitted by least squares, the
likelihood under Gaussian noise: over many draws of z and n the mean of p pᵀ / Σp, times the number of users,
is to be what was released of items that occur together. A few factors cannot follow the noise of all pairs,
which is what makes the result better than the sums it came from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from infrec.progress import Progress, silent
from infrec.randomness import generator, key

if TYPE_CHECKING:
    from jaxtyping import Array
    from numpy.typing import NDArray

    from infrec.distillation.release import Release

FACTORS = 24
STEPS = 300
DRAWS = 768  # invented users of a step
RATE = 0.05
START = 0.1  # deviation of V at first


class Taste(NamedTuple):
    """b [items] and V [items, factors]."""

    bias: Array
    factors: Array


@dataclass(frozen=True, eq=False)
class Population:
    """Fitted tastes over the released items, and how active people are (chances of each doubling bin)."""

    bias: NDArray[np.float32]
    factors: NDArray[np.float32]
    activity: NDArray[np.float64]

    @classmethod
    def fit(cls, release: Release, *, seed: int, progress: Progress = silent) -> Population:
        """Least squares on the released sums, by Adam with fresh draws in each step."""
        import jax
        import jax.numpy as jnp

        rng = generator(seed, "population")
        first = np.log(np.maximum(release.weights, 1e-3 * release.weights.max()))
        taste = Taste(
            jnp.asarray(first - first.max(), jnp.float32),
            jnp.asarray(START * rng.standard_normal((len(first), FACTORS)), jnp.float32),
        )
        adam, step = _stepper(STEPS)
        state = adam.init(taste)
        activity = release.activity / release.users
        data = (
            jnp.asarray(release.together),
            jnp.asarray(activity, jnp.float32),
            jnp.float32(release.users),
        )
        stream = key(seed, "population")
        for at in range(STEPS):
            taste, state = step(taste, state, jax.random.fold_in(stream, at), data)
            if at % 10 == 9:
                jax.block_until_ready(taste)
                progress("population", at + 1, STEPS)
        return cls(np.asarray(taste.bias), np.asarray(taste.factors), activity)

    def draw(self, users: int, *, seed: int) -> sp.csr_array:
        """Invented users over the released items; nobody without any item."""
        rng = generator(seed, "invented users")
        z = rng.standard_normal((users, self.factors.shape[1])).astype(np.float32)
        size = _sizes(rng.choice(len(self.activity), users, p=self.activity), rng.random(users))
        logits = self.bias + z @ self.factors.T
        chance = np.exp(logits - logits.max(axis=1, keepdims=True))
        chance = -np.expm1(-size[:, None] * chance / chance.sum(axis=1, keepdims=True))
        taken = rng.random(chance.shape) < chance
        taken[np.arange(users), chance.argmax(axis=1)] |= ~taken.any(axis=1)
        return sp.csr_array(taken.astype(np.float32))


@cache
def _stepper(steps: int) -> tuple[Any, Callable[..., tuple[Taste, Any]]]:
    """Adam with a cosine rate, and one step of it, compiled once for each shape."""
    import jax
    import optax

    adam = optax.adam(optax.cosine_decay_schedule(RATE, steps))

    @jax.jit
    def step(taste: Taste, state: Any, key: Array, data: tuple[Array, ...]) -> tuple[Taste, Any]:
        updates, state = adam.update(jax.grad(_misfit)(taste, key, data), state)
        return optax.apply_updates(taste, updates), state

    return adam, step


def _misfit(taste: Taste, key: Array, data: tuple[Array, ...]) -> Array:
    import jax
    import jax.numpy as jnp

    together, activity, users = data
    for_z, for_bin, for_size = jax.random.split(key, 3)
    z = jax.random.normal(for_z, (DRAWS, taste.factors.shape[1]))
    bins = jax.random.choice(for_bin, len(activity), (DRAWS,), p=activity)
    size = jnp.exp2(bins + jax.random.uniform(for_size, (DRAWS,)))
    share = jax.nn.softmax(taste.bias + z @ taste.factors.T, axis=1)
    chance = -jnp.expm1(-size[:, None] * share)
    expected = (chance / chance.sum(axis=1, keepdims=True)).T @ chance * (users / DRAWS)
    off_diagonal = 1 - jnp.eye(len(together))
    return ((expected - together) ** 2 * off_diagonal).sum()


def _sizes(bins: NDArray[np.integer], within: NDArray[np.float64]) -> NDArray[np.float64]:
    """Activities in the bins 1, 2–3, 4–7, …, evenly on a logarithmic scale."""
    return np.exp2(bins + within)
