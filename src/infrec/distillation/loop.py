"""One step of distillation as compiled functions (logits → summary → loss → gradient → Adam), and the loop of
steps: validation, the best summary so far, early stopping, checkpoints.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import scipy.sparse as sp

from infrec import machine
from infrec.checkpoints import Interrupted, asked_to_stop, fingerprint
from infrec.distillation import batches, counter_noise, gumbel, objective, relaxations, start
from infrec.distillation.batches import UserBatches, Users
from infrec.distillation.checkpoint import RunDirectory
from infrec.distillation.leave_one_out import MOST_ITEMS, LeaveOneOutTargets
from infrec.distillation.objective import Form
from infrec.distillation.settings import Config
from infrec.distillation.validation import Verdict
from infrec.errors import ConfigError, SolveError
from infrec.kernels import device_arrays, devices
from infrec.progress import Progress, silent
from infrec.randomness import generator

if TYPE_CHECKING:
    from jaxtyping import Array, Float, UInt32

    from infrec.contents import Artifact
    from infrec.distillation.update import Past

# Gradients of a mean over users are tiny; the usual 1e-8 would slow them.
_ADAM = optax.scale_by_adam(eps=1e-12)

SECONDS_BETWEEN_CHECKPOINTS = 30.0


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


@partial(jax.jit, static_argnums=(3,))
def summary(logits: Array, data: Data, at: Array, config: Config) -> Float[Array, "users items"]:
    """X̂ as it would be released at step `at`."""
    if config.mode == "published":
        return gumbel.multi_draw(logits, counter_noise.fold(data.key, at, 3), config.tau, config.draws or 1)
    if config.mode == "soft":
        return relaxations.soft(logits, config.tau, config.mass or 1.0)
    return relaxations.top_mask(logits, data.sizes).astype(jnp.float32)


def relaxed(logits: Array, data: Data, key: Array, config: Config) -> Array:
    """X̂ as the gradient sees it."""
    if config.mode == "published":
        return gumbel.multi_draw(logits, counter_noise.fold(key, 1), config.tau, config.draws or 1)
    if config.mode == "soft":
        return relaxations.soft(logits, config.tau, config.mass or 1.0)
    mask = relaxations.top_mask(jax.lax.stop_gradient(logits), data.sizes)
    above = relaxations.above_threshold(logits, mask, config.tau)
    return relaxations.straight_through(mask.astype(logits.dtype), above)


def gradient(
    state: State, users: Users, data: Data, at: Array, config: Config
) -> tuple[Array, tuple[Array, Array]]:
    """Loss and gradients of step `at`. λ is chosen on validation, so ln λ has a gradient of 0."""
    step_key = counter_noise.fold(data.key, at)
    form = Form(
        config.loss, config.hidden, config.sharpness, config.user_power, config.kernel,
        "BF16_BF16_F32" if config.precision == "bfloat16" else config.precision,
    )  # fmt: skip

    def loss(params: tuple[Array, Array]) -> Array:
        logits, log_reg = params
        return objective.total(
            relaxed(logits, data, step_key, config),
            jnp.exp(jax.lax.stop_gradient(log_reg)),
            users,
            counter_noise.fold(step_key, 2, 0),
            form,
            l1=config.l1,
            mean_interactions=data.mean_interactions,
        )

    return batches.added_up(jax.value_and_grad(loss)((state.logits, state.log_reg)))


def advance(state: State, loss: Array, grads: tuple[Array, Array], config: Config, at: Array) -> State:
    """Adam with a cosine rate. A step whose loss or gradient is not finite changes nothing."""
    updates, adam = _ADAM.update(grads, state.adam)
    fraction = jnp.clip(at / (config.steps or 1), 0.0, 1.0)
    cosine = config.rate_end + (1 - config.rate_end) * 0.5 * (1 + jnp.cos(jnp.pi * fraction))
    rate = jnp.float32(config.rate) * cosine
    logits = state.logits - rate * updates[0]
    averaged = config.average * state.averaged + (1 - config.average) * logits if config.average else logits
    moved = State(logits, state.log_reg, averaged, adam)
    sound = jnp.isfinite(loss) & jnp.isfinite(grads[0]).all()
    return jax.tree.map(lambda new, old: jnp.where(sound, new, old), moved, state)


@partial(jax.jit, static_argnums=(4,), donate_argnums=(0,))
def step(state: State, users: Users, data: Data, at: Array, config: Config) -> tuple[State, Array]:
    """A whole step: one compiled function."""
    loss, grads = gradient(state, users, data, at, config)
    return advance(state, loss, grads, config, at), loss


OnValidate = Callable[[Any, Sequence[float]], Verdict]


@dataclass
class Track:
    """Progress of the loop beside its state: all of it goes into a checkpoint's manifest."""

    step: int = 0
    validated: int = -1  # the last step that was validated
    best: float = -1.0
    best_step: int = 0
    best_reg: float = 0.0
    best_metrics: dict[str, float] = field(default_factory=dict)
    history: list[dict[str, float]] = field(default_factory=list)
    seconds: float = 0.0
    finished: bool = False


@dataclass(frozen=True, eq=False)
class Result:
    """The best summary of a run and how it came about."""

    x_hat: np.ndarray
    track: Track
    ms_per_step: float | None  # median, without compilation; None when no step was timed


class _Run:
    def __init__(
        self,
        train: sp.csr_array,
        config: Config,
        on_validate: OnValidate,
        progress: Progress,
        seed: int,
        past: Past | None = None,
    ) -> None:
        assert config.validate_every is not None and config.steps is not None, "settings must be resolved"
        self.every, self.steps = config.validate_every, config.steps
        self.config, self.on_validate, self.progress = config, on_validate, progress
        self.compiled_for = config.compiled_for()
        self.on_gpu = device_arrays.on_gpu()
        if not self.on_gpu:
            needed = devices.distillation(
                config.users,
                train.shape[1],
                batch=min(config.batch or train.shape[0], train.shape[0]),
                judges=train.shape[0],
                regs=len(config.reg_grid),
                modelled=min(train.shape[1], MOST_ITEMS) if config.targets == "others" else 0,
            )
            what = f"distilling {config.users:,} users × {train.shape[1]:,} items"
            machine.require_memory(needed, what, "use fewer synthetic users, or a smaller batch")
        first, weights = start.logits(train, config, past), None
        if past is not None:
            weights = np.ones(past.matrix.shape[0] + train.shape[0], np.float32)
            weights[: past.matrix.shape[0]] = past.weight
            train = sp.csr_array(sp.vstack([past.matrix, train]))
        self.feed = UserBatches(
            train,
            batch=config.batch,
            seed=seed,
            on_gpu=self.on_gpu,
            weights=weights,
            others=partial(
                LeaveOneOutTargets.fit,
                train,
                sharpness=config.sharpness,
                weights=weights,
                seed=seed,
                progress=progress,
            )
            if config.targets == "others"
            else None,
        )
        words = generator(seed, "distillation").integers(0, 2**32, 2, dtype=np.uint32)
        known: Any = (start.row_sizes(train, config), np.float32(train.nnz / train.shape[0]), words)
        self.data = Data(*batches.everywhere(known))
        self.track, self.best = Track(), np.zeros((0, 0), np.float32)
        self.state: State = batches.everywhere(begin(jnp.asarray(first), config.reg))
        self.times: list[float] = []
        self.loss = float("nan")

    # ---- validation ------------------------------------------------------------------------------------
    def validate(self) -> None:
        """Score the summary as it is, re-choose λ, keep the best."""
        at = self.track.step
        number: Any = np.uint32(at)
        x_hat: Any = summary(self.state.averaged, self.data, number, self.compiled_for)
        if batches.count() > 1:
            x_hat = np.asarray(x_hat)  # each process judges it on its own device
        verdict = self.on_validate(x_hat, self.config.reg_grid)
        if not math.isfinite(verdict.value):
            raise ConfigError(f"on_validate says {verdict.value} at step {at}; expected a finite number.")
        # Before the first step the summary is noise, and the best λ for noise is a large one, on which
        # nothing is learnt.
        if at and self.config.rechoose:
            self.state = self.state._replace(log_reg=_log(verdict.reg))
        self.track.validated = at
        self.track.history.append({"step": at, "loss": self.loss, "reg": verdict.reg, **verdict.metrics})
        if not self.best.size or verdict.value > self.track.best:  # a judge's numbers may be negative
            self.best = np.asarray(x_hat)
            self.track.best, self.track.best_step, self.track.best_reg = verdict.value, at, verdict.reg
            self.track.best_metrics = dict(verdict.metrics)

    def exhausted(self) -> bool:
        patience = self.config.patience
        waited = self.track.step - self.track.best_step
        return self.track.step >= self.steps or (patience is not None and waited >= patience)

    # ---- steps -----------------------------------------------------------------------------------------
    def advance(self, count: int) -> None:
        """`count` steps; their losses are looked at once they are all under way."""
        began, losses = time.perf_counter(), []
        for _ in range(count):
            at: Any = np.uint32(self.track.step)  # an array would belong to one device
            users = self.feed.at(self.track.step)
            self.state, loss = step(self.state, users, self.data, at, self.compiled_for)
            losses.append(loss)
            self.track.step += 1
        values = np.asarray(jnp.stack(losses))
        self.times.append((time.perf_counter() - began) / count)
        if np.isfinite(values[-1]):
            self.loss = float(values[-1])
        else:
            self.raise_reg()

    def raise_reg(self) -> None:
        """λ was too small for float32, the loss is NaN and the step did nothing: go on with a larger one."""
        now = math.exp(float(self.state.log_reg))
        larger = [reg for reg in sorted(self.config.reg_grid) if reg > now * 1.01]
        if not larger:
            raise SolveError(
                f"the loss is not finite at step {self.track.step} (λ={now:g}, {self.config.users} synthetic "
                "users); use a larger λ in reg_grid, a smaller rate, or precision='highest'."
            )
        self.state = self.state._replace(log_reg=_log(larger[0]))

    def report(self, seconds: float) -> None:
        track, config = self.track, self.config
        per_step = float(np.median(self.times[1:] or self.times or [0.0]))
        last = track.history[-1].get(config.criterion, float("nan")) if track.history else float("nan")
        self.progress(
            "distil", track.step, self.steps, loss=self.loss, validation=last, best=track.best,
            best_step=track.best_step, seconds=seconds, seconds_left=per_step * (self.steps - track.step),
        )  # fmt: skip

    # ---- checkpoints -----------------------------------------------------------------------------------
    def arrays(self) -> dict[str, np.ndarray]:
        adam = self.state.adam
        return {
            "logits": np.asarray(self.state.logits), "log_reg": np.asarray(self.state.log_reg)[None],
            "count": np.asarray(adam.count)[None], "best": self.best,
            "averaged": np.asarray(self.state.averaged),
            "mean_logits": np.asarray(adam.mu[0]), "mean_reg": np.asarray(adam.mu[1])[None],
            "square_logits": np.asarray(adam.nu[0]), "square_reg": np.asarray(adam.nu[1])[None],
        }  # fmt: skip

    def restore(self, found: Artifact) -> None:
        kinds = {
            name: ("i" if name == "count" else "f", array.shape) for name, array in self.arrays().items()
        }
        kinds["best"] = kinds["logits"]
        arrays = {name: found.array(name, *shape, kind=kind) for name, (kind, shape) in kinds.items()}
        if any((arrays[name] < 0).any() for name in ("count", "square_logits", "square_reg", "best")):
            raise found.unsound("a count, a mean of squares or a weight is negative")
        a: Any = batches.everywhere({name: array for name, array in arrays.items() if name != "best"})
        adam = optax.ScaleByAdamState(
            a["count"][0], (a["mean_logits"], a["mean_reg"][0]), (a["square_logits"], a["square_reg"][0])
        )
        self.state = State(a["logits"], a["log_reg"][0], a["averaged"], adam)
        self.best, told = arrays["best"], found.manifest["loss"]
        self.loss = float("nan") if told is None else found.number("loss", least=-math.inf)
        self.track = _checked(found, self.steps)

    def facts(self, identity: dict[str, Any]) -> dict[str, Any]:
        loss = self.loss if np.isfinite(self.loss) else None
        track = {**vars(self.track), "history": [_plain(row) for row in self.track.history]}
        return {"identity": identity, "track": track, "loss": loss}


def run(
    train: sp.csr_array,
    config: Config,
    *,
    on_validate: OnValidate,
    past: Past | None = None,
    directory: RunDirectory | None = None,
    resume: bool = False,
    progress: Progress = silent,
) -> Result:
    """Distil `train` with settings that are `Config.resolved` for it.

    past: an old summary that is continued, over the same items.
    on_validate: called with X̂ and the λ grid; says how good the summary is and which λ is best (`Verdict`).
    directory: where to keep checkpoints; SIGTERM and SIGINT then save and raise `Interrupted`.
    """
    this = _Run(train, config, on_validate, progress, config.seed, past)
    identity = {"data": fingerprint(train), **config.to_dict()}
    if past is not None:
        identity["previous"] = fingerprint(past.matrix)
    with ExitStack() as stack:
        stop = None
        if directory is not None:
            stack.enter_context(directory)
            found = directory.load(resume=resume, identity=identity)
            if found is not None:
                with found.understood():
                    this.restore(found)
            stop = stack.enter_context(asked_to_stop())
        began = saved = time.monotonic()
        before = this.track.seconds

        def save() -> None:
            nonlocal saved
            if directory is not None:
                this.track.seconds = before + time.monotonic() - began
                directory.save(this.facts(identity), this.arrays())
                saved = time.monotonic()

        while not this.track.finished:
            if this.track.step % this.every == 0 or this.track.step >= this.steps:
                if this.track.validated != this.track.step:
                    this.validate()
                    if this.exhausted():
                        this.track.finished = True
                    save()
                    this.report(before + time.monotonic() - began)
                if this.track.finished:
                    break
            # A GPU is fed up to the next validation, with a look at the signals in between; the CPU step by
            # step.
            until = min(this.every - this.track.step % this.every, this.steps - this.track.step)
            this.advance(min(until, 25) if this.on_gpu else 1)
            this.report(before + time.monotonic() - began)
            if stop is not None and directory is not None and batches.anybody(stop.is_set()):
                save()
                at = f"stopped at step {this.track.step} of {this.steps}"
                raise Interrupted(f"{at}; the checkpoint in {directory.path} resumes from there.")
            if time.monotonic() - saved > SECONDS_BETWEEN_CHECKPOINTS:
                save()
        if directory is None:
            this.track.seconds = before + time.monotonic() - began
    timed = this.times[1:]
    return Result(this.best, this.track, float(np.median(timed)) * 1e3 if timed else None)


def _checked(found: Artifact, steps: int) -> Track:
    """The track of a checkpoint, whose numbers are those of a run of at most so many steps."""
    track = Track(**found.manifest["track"])
    for name in ("step", "best_step"):
        if found.number("track", name, whole=True) > steps:
            raise found.unsound(f"{name} is {getattr(track, name)}, after the last of {steps} steps")
    found.number("track", "validated", whole=True, least=-1)
    found.number("track", "best", least=-math.inf)
    for name in ("best_reg", "seconds"):
        found.number("track", name)
    for row in (track.best_metrics, *track.history):
        for name, value in row.items():
            if value is not None:
                found.checked_number(name, value, least=-math.inf)
    if not isinstance(track.finished, bool):
        raise found.unsound(f"finished is {track.finished!r}")
    return track


def _log(reg: float) -> jax.Array:
    return batches.everywhere(jnp.log(jnp.float32(max(reg, 1e-12))))


def _plain(row: dict[str, float]) -> dict[str, float | None]:
    return {name: value if value is not None and np.isfinite(value) else None for name, value in row.items()}
