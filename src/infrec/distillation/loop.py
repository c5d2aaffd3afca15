"""Distill-CF (the paper's Algorithm 3): one step as compiled functions, then the loop of steps.

    logits → summary X̂ → loss of ∞-AE fitted on X̂ and asked about real users → gradient → Adam

Every so many steps the summary is judged on held-out items, which also chooses λ; the best one is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from infrec.distillation import batches, counter_noise, gumbel, objective, relaxations
from infrec.distillation.batches import UserBatches, Users
from infrec.distillation.objective import Form
from infrec.distillation.settings import DistillSettings
from infrec.distillation.validation import Verdict
from infrec.errors import ConfigError, SolveError
from infrec.kernels import device_arrays

if TYPE_CHECKING:
    from jaxtyping import Array, Float, UInt32

# Gradients of a mean over users are tiny; the usual 1e-8 would slow them.
_ADAM = optax.scale_by_adam(eps=1e-12)
STEPS_AT_ONCE = 25  # on a GPU, before anybody looks at the losses; on a CPU it is one


# ---- the step ----------------------------------------------------------------------------------------------
class State(NamedTuple):
    """All that changes from step to step; a checkpoint is this and the best summary so far."""

    logits: Array  # [users, items]
    log_reg: Array  # ln λ
    averaged: Array  # [users, items]: a running mean of the logits
    adam: optax.ScaleByAdamState


class Data(NamedTuple):
    """Arrays that stay through the run.

    Passed as an argument: a constant in a compiled function would be folded for minutes.
    """

    sizes: Array  # [users]: interactions of each synthetic user (discrete)
    mean_interactions: Array
    key: UInt32[Array, " 2"]


def begin(logits: Array, reg: float) -> State:
    params = (jnp.array(logits), jnp.log(jnp.float32(max(reg, 1e-12))))
    return State(*params, jnp.array(logits), _ADAM.init(params))


def relaxed(logits: Array, data: Data, key: Array, settings: DistillSettings) -> Array:
    """X̂ from the logits, with a gradient in every mode; `key` draws the Gumbel noise of `published`."""
    if settings.mode == "published":
        return gumbel.multi_draw(logits, key, settings.tau, settings.draws or 1)
    if settings.mode == "soft":
        return relaxations.soft(logits, settings.tau, settings.mass or 1.0)
    if settings.mode == "weighted":
        return relaxations.weighted(logits, data.sizes.sum(), settings.tau, settings.mass or 1.0)
    return relaxations.discrete(logits, data.sizes, settings.tau)


@partial(jax.jit, static_argnums=(3,))
def summary(logits: Array, data: Data, at: Array, settings: DistillSettings) -> Float[Array, "users items"]:
    """X̂ as it would be released at step `at`."""
    return relaxed(logits, data, counter_noise.fold(data.key, at, 3), settings)


def gradient(
    state: State, users: Users, data: Data, at: Array, settings: DistillSettings
) -> tuple[Array, tuple[Array, Array]]:
    """Loss and gradients of step `at`. λ is chosen on validation, so ln λ has a gradient of 0."""
    step_key = counter_noise.fold(data.key, at)
    form = Form(
        settings.loss or "standardised", settings.hidden or 0.0, settings.sharpness or 1.0,
        settings.user_power, settings.kernel,
        "BF16_BF16_F32" if settings.precision == "bfloat16" else settings.precision, settings.own_share,
    )  # fmt: skip

    def loss(params: tuple[Array, Array]) -> Array:
        logits, log_reg = params
        return objective.total(
            relaxed(logits, data, counter_noise.fold(step_key, 1), settings),
            jnp.exp(jax.lax.stop_gradient(log_reg)),
            users,
            counter_noise.fold(step_key, 2, 0),
            form,
            l1=settings.l1,
            mean_interactions=data.mean_interactions,
        )

    return batches.added_up(jax.value_and_grad(loss)((state.logits, state.log_reg)))


def advance(
    state: State, loss: Array, grads: tuple[Array, Array], settings: DistillSettings, at: Array
) -> State:
    """Adam with a cosine rate. A step whose loss or gradient is not finite changes nothing."""
    updates, adam = _ADAM.update(grads, state.adam)
    fraction = jnp.clip(at / (settings.steps or 1), 0.0, 1.0)
    cosine = settings.rate_end + (1 - settings.rate_end) * 0.5 * (1 + jnp.cos(jnp.pi * fraction))
    rate = jnp.float32(settings.rate or 0.0) * cosine
    logits = state.logits - rate * updates[0]
    averaged = (
        settings.average * state.averaged + (1 - settings.average) * logits if settings.average else logits
    )
    moved = State(logits, state.log_reg, averaged, adam)
    sound = jnp.isfinite(loss) & jnp.isfinite(grads[0]).all()
    return jax.tree.map(lambda new, old: jnp.where(sound, new, old), moved, state)


@partial(jax.jit, static_argnums=(4,), donate_argnums=(0,))
def step(state: State, users: Users, data: Data, at: Array, settings: DistillSettings) -> tuple[State, Array]:
    """A whole step: one compiled function."""
    loss, grads = gradient(state, users, data, at, settings)
    return advance(state, loss, grads, settings, at), loss


# ---- the loop ----------------------------------------------------------------------------------------------
OnValidate = Callable[[Any, Sequence[float]], Verdict]


@dataclass
class Track:
    """Progress of the loop beside its arrays."""

    step: int = 0
    validated: int = -1  # the last step that was validated
    best: float = -1.0
    best_step: int = 0
    best_reg: float = 0.0
    best_metrics: dict[str, float] = field(default_factory=dict)
    history: list[dict[str, float]] = field(default_factory=list)
    finished: bool = False


class Distillation:
    """The loop of steps and validations. `best` is the summary that was best on validation so far.

    Args:
        logits: Where the logits begin.
        data: What stays through the run.
        users: The real users of each step.
        settings: Settings that are `DistillSettings.resolved`.
        on_validate: Called with X̂ and the λ grid; says how good X̂ is and which λ is best.
    """

    def __init__(
        self,
        logits: np.ndarray,
        data: Data,
        users: UserBatches,
        settings: DistillSettings,
        on_validate: OnValidate,
    ) -> None:
        assert settings.validate_every and settings.steps and settings.rate, "settings must be resolved"
        self.every, self.steps = settings.validate_every, settings.steps
        self.settings, self.compiled_for = settings, settings.compiled_for()
        self.users, self.data, self.on_validate = users, data, on_validate
        self.state: State = batches.everywhere(begin(jnp.asarray(logits), settings.reg))
        self.track, self.best = Track(), np.zeros((0, 0), np.float32)
        self.loss = float("nan")

    def parts(self) -> Iterator[int]:
        """Go on to the end. Yields after each validation (0) and after steps (how many they were)."""
        track = self.track
        at_once = STEPS_AT_ONCE if device_arrays.on_gpu() else 1
        while not track.finished:
            due = track.step % self.every == 0 or track.step >= self.steps
            if due and track.validated != track.step:
                self.validate()
                track.finished = self.is_exhausted()
                yield 0
            else:
                until = min(self.every - track.step % self.every, self.steps - track.step)
                count = min(until, at_once)
                self.advance(count)
                yield count

    def advance(self, count: int) -> None:
        """`count` steps; their losses are looked at once they are all under way."""
        losses = []
        for _ in range(count):
            at: Any = np.uint32(self.track.step)  # an array would belong to one device
            users = self.users.at(self.track.step)
            self.state, loss = step(self.state, users, self.data, at, self.compiled_for)
            losses.append(loss)
            self.track.step += 1
        last = float(np.asarray(jnp.stack(losses))[-1])
        if math.isfinite(last):
            self.loss = last
        else:
            self.raise_reg()

    def raise_reg(self) -> None:
        """λ was too small for float32, the loss is NaN and the step did nothing: go on with a larger one."""
        now = math.exp(float(self.state.log_reg))
        larger = [reg for reg in sorted(self.settings.reg_grid) if reg > now * 1.01]
        if not larger:
            raise SolveError(
                f"the loss is not finite at step {self.track.step} (λ={now:g}, {self.settings.users} "
                "synthetic users); use a larger λ in reg_grid, a smaller rate, or precision='highest'."
            )
        self.state = self.state._replace(log_reg=_log(larger[0]))

    def validate(self) -> None:
        """Judge the summary as it is, choose λ again, keep the best."""
        track, at = self.track, self.track.step
        number: Any = np.uint32(at)
        x_hat: Any = summary(self.state.averaged, self.data, number, self.compiled_for)
        if batches.count() > 1:
            x_hat = np.asarray(x_hat)  # each process judges it on its own device
        verdict = self.on_validate(x_hat, self.settings.reg_grid)
        if not math.isfinite(verdict.value):
            raise ConfigError(f"on_validate says {verdict.value} at step {at}; expected a finite number.")
        # Before the first step the summary is noise, and the best λ for noise is a large one, on which
        # nothing is learnt.
        if at and self.settings.rechoose:
            self.state = self.state._replace(log_reg=_log(verdict.reg))
        track.validated = at
        track.history.append({"step": at, "loss": self.loss, "reg": verdict.reg, **verdict.metrics})
        if not self.best.size or verdict.value > track.best:  # a judge's numbers may be negative
            self.best = np.asarray(x_hat)
            track.best, track.best_step, track.best_reg = verdict.value, at, verdict.reg
            track.best_metrics = dict(verdict.metrics)

    def is_exhausted(self) -> bool:
        """Whether all steps were made, or too many without improvement."""
        patience = self.settings.patience
        waited = self.track.step - self.track.best_step
        return self.track.step >= self.steps or (patience is not None and waited >= patience)


def _log(reg: float) -> jax.Array:
    return batches.everywhere(jnp.log(jnp.float32(max(reg, 1e-12))))
