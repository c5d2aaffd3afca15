"""Distillation by noisy gradients: every step sums the users' clipped gradients, adds noise, and is paid for.

All users are in every step (no sampling), so T steps with the noise multiplier σ are one Gaussian mechanism
with σ/√T. Nothing else of the run looks at the data: the logits start as noise, rows have equal sizes, λ and
the number of steps are settings, there is no validation, and the loss is not kept. The noise of a step is a
function of a secret and the step's number, so a step that is repeated after an interruption has the same
noise and tells nothing new.

Which items of a user are hidden in a step follows from the secret and the user's id, never from the row
number: without one user everybody else's items are hidden as before, and the clipped sum changes by that
user's share alone.
"""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from infrec.distillation import clipping, noise, objective
from infrec.distillation import step as steps
from infrec.distillation.blocks import Feed
from infrec.distillation.checkpoint import Interrupted, RunDirectory, asked_to_stop, fingerprint
from infrec.distillation.config import Config
from infrec.distillation.objective import Form, Users
from infrec.distillation.step import Data, State
from infrec.progress import Progress, silent
from infrec.randomness import generator

if TYPE_CHECKING:
    from pathlib import Path

    import scipy.sparse as sp
    from jaxtyping import Array
    from numpy.typing import NDArray

CLIP = 1.0  # Adam does not see the scale of gradients, only what clipping does to their shares
PER_USER = 100.0


@partial(jax.jit, static_argnums=(5, 6, 7))
def noisy_step(
    state: State,
    users: Users,
    data: Data,
    at: Array,
    secret: Array,
    config: Config,
    clip: float,
    multiplier: float,
) -> State:
    """One step: the summary, its α, the users' clipped gradients by both with noise, and Adam."""
    step_key = noise.fold(data.key, at)
    form = Form(
        config.loss, config.hidden, config.hide_one, config.sharpness, config.user_power, config.depth,
        config.precision,
    )  # fmt: skip

    def made(logits: Array) -> tuple[Array, Array]:
        x_hat = steps.relaxed(logits, data, step_key, config)
        return x_hat, objective.fit(x_hat, jnp.exp(state.log_reg), depth=config.depth)

    (x_hat, alpha), pull = jax.vjp(made, state.logits)
    *keys, masks = jax.random.split(jax.random.fold_in(jax.random.wrap_key_data(secret), at), 3)
    sums = clipping.clipped_sum(x_hat, alpha, users, jax.random.key_data(masks), form, clip)
    noisy = tuple(
        one + clip * multiplier * jax.random.normal(key, one.shape)
        for one, key in zip(sums, keys, strict=True)
    )
    (slopes,) = pull(noisy)
    return steps.advance(state, jnp.float32(0), (slopes, jnp.zeros_like(state.log_reg)), config, at)


def run(
    train: sp.csr_array,
    config: Config,
    multiplier: float,
    *,
    names: NDArray[np.uint32] | None = None,
    clip: float = CLIP,
    place: Path | None = None,
    resume: bool = False,
    progress: Progress = silent,
) -> np.ndarray:
    """The summary after `config.steps` noisy steps. multiplier: σ of one step. place: for checkpoints.

    names: a number for each user's id, by which items are hidden. Without them it is the row's, which still
    keeps the promise: the secret makes all users' choices independent and alike, so that two logs may be
    compared with the same choices for the same user.
    """
    assert config.steps is not None
    count, compiled_for = config.steps, config.compiled_for()
    users = everybody(train, names)
    words = generator(config.seed, "noisy steps").integers(0, 2**32, 2, dtype=np.uint32)
    size = round(config.per_user or default_size(train.shape[1]))
    data = Data(jnp.full(config.users, size, jnp.int32), jnp.float32(1), jnp.asarray(words))
    first = generator(config.seed, "noisy start").standard_normal((config.users, train.shape[1]))
    state, done = steps.begin(jnp.asarray(first, jnp.float32), config.reg), 0
    secret = np.array([secrets.randbits(32), secrets.randbits(32)], np.uint32)
    identity = {"data": fingerprint(train), "multiplier": multiplier, "clip": clip, **config.to_dict()}
    directory = None if place is None else RunDirectory(place)
    with ExitStack() as stack:
        stop = None
        if directory is not None:
            stack.enter_context(directory)
            if (found := directory.load(resume=resume, identity=identity)) is not None:
                state, done = _restored(found.arrays), int(found.manifest["step"])
                secret = found.arrays["secret"]
            else:  # the secret first: it must outlive whatever happens to the steps
                directory.save({"identity": identity, "step": 0}, _arrays(state, secret))
            stop = stack.enter_context(asked_to_stop())
        for at in range(done, count):
            state = noisy_step(
                state, users, data, jnp.uint32(at), jnp.asarray(secret), compiled_for, clip, multiplier
            )
            if directory is not None:
                directory.save({"identity": identity, "step": at + 1}, _arrays(state, secret))
            progress("noisy steps", at + 1, count)
            if stop is not None and stop.is_set() and at + 1 < count:
                raise Interrupted(f"stopped at step {at + 1} of {count}; {place} resumes from there.")
    return np.asarray(steps.summary(state.averaged, data, jnp.uint32(count), compiled_for))


def everybody(train: sp.csr_array, names: NDArray[np.uint32] | None = None) -> Users:
    """All users, in blocks, each under its name."""
    users = Feed(train, batch=None, parts=1, seed=0, on_gpu=jax.default_backend() == "gpu").at(0, 0)
    return users if names is None else users._replace(user=jnp.asarray(names)[users.user])


def default_size(n_items: int) -> float:
    """Interactions of a synthetic user: 100, at most a third of the items, or rows would hold them all."""
    return min(PER_USER, max(1.0, float(n_items // 3)))


def _arrays(state: State, secret: np.ndarray) -> dict[str, np.ndarray]:
    adam = state.adam
    return {
        "logits": np.asarray(state.logits), "log_reg": np.asarray(state.log_reg)[None], "secret": secret,
        "averaged": np.asarray(state.averaged), "count": np.asarray(adam.count)[None],
        "mean": np.asarray(adam.mu[0]), "square": np.asarray(adam.nu[0]),
    }  # fmt: skip


def _restored(arrays: Any) -> State:
    a = {name: jnp.asarray(array) for name, array in arrays.items() if name != "secret"}
    nothing = jnp.zeros_like(a["log_reg"][0])
    adam = optax.ScaleByAdamState(a["count"][0], (a["mean"], nothing), (a["square"], nothing))
    return State(a["logits"], a["log_reg"][0], a["averaged"], adam)
