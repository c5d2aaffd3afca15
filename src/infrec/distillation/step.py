"""One step of distillation as compiled functions: logits → summary → loss → gradient → Adam."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from infrec.distillation import devices, gumbel, noise, objective, relaxations
from infrec.distillation.config import Config
from infrec.distillation.objective import Form, Users

if TYPE_CHECKING:
    from jaxtyping import Array, Float, UInt32

# Gradients of a mean over users are tiny; the usual 1e-8 would slow them.
_ADAM = optax.scale_by_adam(eps=1e-12)


class State(NamedTuple):
    """All that changes from step to step; a checkpoint is this and the best summary so far."""

    logits: Array  # [users, items]
    log_reg: Array  # ln λ
    averaged: Array  # [users, items]: a running mean of the logits
    adam: optax.ScaleByAdamState


class Data(NamedTuple):
    """What stays. Passed as an argument: a constant in a compiled function would be folded for minutes."""

    sizes: Array  # [users]: interactions of each synthetic user (discrete)
    mean_interactions: Array
    key: UInt32[Array, " 2"]


def begin(logits: Array, reg: float) -> State:
    params = (jnp.array(logits), jnp.log(jnp.float32(max(reg, 1e-12))))
    return State(*params, jnp.array(logits), _ADAM.init(params))


@partial(jax.jit, static_argnums=(3,))
def summary(logits: Array, data: Data, at: Array, config: Config) -> Float[Array, "users items"]:
    """X̂ as it would be released at step `at`."""
    if config.mode == "published":
        return gumbel.multi_draw(logits, noise.fold(data.key, at, 3), config.tau, config.draws or 1)
    if config.mode == "soft":
        return relaxations.soft(logits, config.tau, config.mass or 1.0)
    return relaxations.top_mask(logits, data.sizes).astype(jnp.float32)


def relaxed(logits: Array, data: Data, key: Array, config: Config) -> Array:
    """X̂ as the gradient sees it."""
    if config.mode == "published":
        return gumbel.multi_draw(logits, noise.fold(key, 1), config.tau, config.draws or 1)
    if config.mode == "soft":
        return relaxations.soft(logits, config.tau, config.mass or 1.0)
    mask = relaxations.top_mask(jax.lax.stop_gradient(logits), data.sizes)
    if config.surrogate == "softmax":
        surrogate = relaxations.soft(logits, config.tau, config.mass or 1.0)
    elif config.surrogate == "sigmoid":
        surrogate = relaxations.sigmoid_surrogate(logits, mask, config.tau)
    else:
        surrogate = relaxations.identity_surrogate(logits, mask, config.tau)
    return relaxations.straight_through(mask.astype(logits.dtype), surrogate)


@partial(jax.jit, static_argnums=(4,))
def gradient(
    state: State, users: Users, data: Data, at: tuple[Array, Array], config: Config
) -> tuple[Array, tuple[Array, Array]]:
    """Loss and gradients of part `at[1]` of step `at[0]`."""
    step_key = noise.fold(data.key, at[0])
    form = Form(
        config.loss, config.hidden, config.hide_one, config.sharpness, config.user_power, config.depth,
        "BF16_BF16_F32" if config.precision == "bfloat16" else config.precision,
    )  # fmt: skip

    def loss(params: tuple[Array, Array]) -> Array:
        logits, log_reg = params
        if not config.reg_rate:
            log_reg = jax.lax.stop_gradient(log_reg)
        return objective.total(
            relaxed(logits, data, step_key, config),
            jnp.exp(log_reg),
            users,
            noise.fold(step_key, 2, at[1]),
            form,
            l1=config.l1,
            mean_interactions=data.mean_interactions,
        )

    return devices.added_up(jax.value_and_grad(loss)((state.logits, state.log_reg)))


@partial(jax.jit, static_argnums=(3,), donate_argnums=(0,))
def advance(state: State, loss: Array, grads: tuple[Array, Array], config: Config, at: Array) -> State:
    """Adam with a cosine rate. A step whose loss or gradient is not finite changes nothing."""
    updates, adam = _ADAM.update(grads, state.adam)
    fraction = jnp.clip(at / (config.steps or 1), 0.0, 1.0)
    cosine = config.rate_end + (1 - config.rate_end) * 0.5 * (1 + jnp.cos(jnp.pi * fraction))
    rate = jnp.float32(config.rate) * cosine
    logits = state.logits - rate * updates[0]
    averaged = config.average * state.averaged + (1 - config.average) * logits if config.average else logits
    moved = State(logits, state.log_reg - config.reg_rate * cosine * updates[1], averaged, adam)
    sound = jnp.isfinite(loss) & jnp.isfinite(grads[0]).all()
    return jax.tree.map(lambda new, old: jnp.where(sound, new, old), moved, state)


@partial(jax.jit, static_argnums=(4,), donate_argnums=(0,))
def step(state: State, users: Users, data: Data, at: Array, config: Config) -> tuple[State, Array]:
    """A whole step on one part: one compiled function."""
    loss, grads = gradient(state, users, data, (at, jnp.uint32(0)), config)
    return advance(state, loss, grads, config, at), loss


def accumulated(
    state: State, parts: list[Users], data: Data, at: Array, config: Config
) -> tuple[State, Array]:
    """A step whose gradient is the mean over several mini-batches."""
    first: Any = np.uint32(0)
    loss, grads = gradient(state, parts[0], data, (at, first), config)
    for number, users in enumerate(parts[1:], start=1):
        part: Any = np.uint32(number)
        more = gradient(state, users, data, (at, part), config)
        loss, grads = jax.tree.map(jnp.add, (loss, grads), more)
    loss, grads = jax.tree.map(lambda a: a / len(parts), (loss, grads))
    return advance(state, loss, grads, config, at), loss
