"""The one trainer of all models that are trained by gradient steps: Adam, whole epochs as compiled loops.

A model gives a `Program`: how its parameters begin and what its loss is on a mini-batch of users. The trainer
does the rest: it draws users, positives and negatives on the device, takes the steps of an epoch in one
`lax.scan`, validates at a fixed cadence, keeps the best, stops early, and saves checkpoints. Every random
number is a function of the seed and the epoch, so a training that was paused, killed or resumed ends, on the
CPU, with the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec import checkpoints
from infrec.checkpoints import CheckpointedLoop, fingerprint
from infrec.contents import Artifact
from infrec.data import Interactions
from infrec.errors import SolveError
from infrec.models import batches
from infrec.models.batches import Batch, Log, Pairs, Sizes, Step
from infrec.progress import Progress, silent
from infrec.randomness import generator
from infrec.randomness import key as stream

if TYPE_CHECKING:
    from jaxtyping import Array, Float

    from infrec.models.gradient_model import Program, Trainable

Params = dict[str, Any]  # name → array
Validate = Callable[[Any], float]

STEPS_OF_AN_EPOCH = 16  # at least: a small log is gone over several times
_ADAM = optax.scale_by_adam()


class State(NamedTuple):
    """All that changes from step to step."""

    params: Params
    adam: optax.ScaleByAdamState


def bpr(scores: Float[Array, "batch items"], pairs: Pairs) -> Array:
    """−log σ(score of the positive − score of the negative), the mean over the pairs (Rendle et al., 2009).

    All scores of a mini-batch come from one matrix product, and the pairs only pick from them: on a CPU that
    is several times faster than gathering and scattering the embeddings of each pair.
    """
    flat, width = scores.reshape(-1), scores.shape[1]
    difference = flat[pairs.row * width + pairs.positive] - flat[pairs.row * width + pairs.negative]
    return jnp.sum(pairs.weight * jax.nn.softplus(-difference))


def penalty(users: Float[Array, "batch k"], items: Float[Array, "items k"], pairs: Pairs) -> Array:
    """½ (|user|² + |positive|² + |negative|²), the mean over the pairs."""
    of_users, of_items = (users**2).sum(axis=1), (items**2).sum(axis=1)
    each = of_users[pairs.row] + of_items[pairs.positive] + of_items[pairs.negative]
    return 0.5 * jnp.sum(pairs.weight * each)


def dropped(values: Array, rate: Array, key: Array) -> Array:
    """Dropout: each value is 0 with probability `rate`, and the others grow to keep the mean."""
    kept = jax.random.bernoulli(key, 1 - rate, values.shape)
    return jnp.where(kept, values / (1 - rate), 0.0)


@partial(jax.jit, static_argnums=(0, 1, 2), donate_argnums=(3,))
def _epoch(
    program: Program, sizes: Sizes, passes: int, state: State, log: Log, constants: Any,
    hyper: Mapping[str, Array], key: Array, number: Array,
) -> tuple[State, Array]:  # fmt: skip
    """One epoch: `passes` over all users in random mini-batches."""
    key = jax.random.fold_in(key, number)
    shuffles = jax.random.split(jax.random.fold_in(key, 0), passes)
    users, present = jax.vmap(lambda one: batches.order(log, sizes, one))(shuffles)
    steps = passes * sizes.blocks

    def one(state: State, at: tuple[Array, ...]) -> tuple[State, Array]:
        batch_users, batch_present, place = at
        batch = Batch(batch_users, batch_present, number * steps + place)
        step = Step(batch, jax.random.fold_in(key, place + 1), log, constants, sizes)
        loss, gradient = jax.value_and_grad(lambda params: program.loss(params, step, hyper))(state.params)
        updates, adam = _ADAM.update(gradient, state.adam)
        params = jax.tree.map(lambda old, update: old - hyper["rate"] * update, state.params, updates)
        return State(params, adam), loss

    shape = (steps, sizes.batch)
    state, losses = jax.lax.scan(
        one, state, (users.reshape(shape), present.reshape(shape), jnp.arange(steps))
    )
    return state, jnp.mean(losses)


class Training:
    """A training that can pause: `run(until)` goes on from where it stands, and pausing changes nothing.

    epoch, epochs: done so far, and the most it will do. every: epochs between two validations.
    scores: (epoch, score) of each validation. done: by its epochs, or because nothing got better for long.
    """

    def __init__(
        self,
        model: Trainable,
        log: Interactions,
        *,
        checkpoint: str | PathLike[str] | None = None,
        judged_by: Sequence[sp.csr_array] = (),
    ) -> None:
        """judged_by: validation data and its users' histories, which a checkpoint must agree on."""
        self._model, self._log, self._judged_by = model, log, judged_by
        self._program = model.program(log)
        self._sizes, self._on_device = batches.on_device(log, batch=model.batch(log), room=model.room(log))
        self._passes = max(1, -(-STEPS_OF_AN_EPOCH // self._sizes.blocks))
        self._constants = self._program.constants(self._sizes, log)
        self._hyper = {name: jnp.float32(value) for name, value in model.hyper(log).items()}
        seed, epochs = model.selected["seed"], model.selected["epochs"]
        self._key = stream(seed, "train", model.name)
        start = self._program.start(self._sizes, log, generator(seed, "start", model.name))
        params = {name: jnp.asarray(array, jnp.float32) for name, array in start.items()}
        self._state = State(params, _ADAM.init(params))
        self.epoch, self.every, self.patience = 0, model.every, model.patience
        self.fixed = epochs != "auto"
        self.epochs: int = epochs if self.fixed else model.most_epochs
        self.scores: list[tuple[int, float]] = []
        self.best_score: float | None = None
        self.best_epoch = 0
        self.loss = float("nan")
        self._best: dict[str, np.ndarray] | None = None
        self._checkpoints = CheckpointedLoop("training", self, checkpoint)

    @property
    def done(self) -> bool:
        waited = self.epoch - self.best_epoch
        patient = self.fixed or not self.scores or waited < self.patience * self.every
        return self.epoch >= self.epochs or not patient

    @property
    def best(self) -> Any:
        """The fitted model of the best validation; as it stands now where none was made."""
        if self._best is None:
            return self.model()
        return self._model.with_parameters(self._log, self._best, self.best_epoch)

    @property
    def steps(self) -> int:
        """Steps of an epoch."""
        return self._passes * self._sizes.blocks

    @property
    def best_parameters(self) -> dict[str, np.ndarray]:
        """Parameters of `best`, padded as in training: another training can start from them."""
        return self._parameters() if self._best is None else self._best

    def model(self) -> Any:
        """The fitted model as it stands now: a copy that later epochs do not change."""
        return self._model.with_parameters(self._log, self._parameters(), self.epoch)

    def run(
        self, until: int | None = None, validate: Validate | None = None, progress: Progress = silent
    ) -> Training:
        """Train up to this epoch (or to the end), asking `validate` how good the model is now and then."""
        until = self.epochs if until is None else min(until, self.epochs)
        with self._checkpoints:
            if self.epoch < until and not self.done:  # the first epoch is compiled before it is done
                progress(f"train {self._model.name}", self.epoch, self.epochs)
            while self.epoch < until and not self.done:
                self._advance()
                validated = validate is not None and (
                    self.epoch % self.every == 0 or self.epoch == self.epochs
                )
                if validate is not None and validated:
                    self._judge(validate)
                shown = {"validation": self.scores[-1][1]} if self.scores else {}
                progress(f"train {self._model.name}", self.epoch, self.epochs, loss=self.loss, **shown)
                self._checkpoints.after_part(save=validated or self.done)
        return self

    def _advance(self) -> None:
        self._state, loss = _epoch(
            self._program, self._sizes, self._passes, self._state, self._on_device, self._constants,
            self._hyper, self._key, jnp.int32(self.epoch),
        )  # fmt: skip
        self.loss = float(loss)
        if not np.isfinite(self.loss):
            raise SolveError(
                f"the loss of {self._model.name} is not finite at epoch {self.epoch + 1}; use a smaller rate."
            )
        self.epoch += 1

    def _judge(self, validate: Validate) -> None:
        score = validate(self.model())
        self.scores.append((self.epoch, score))
        if self.best_score is None or score > self.best_score:
            self.best_score, self.best_epoch, self._best = score, self.epoch, self._parameters()

    def _parameters(self) -> dict[str, np.ndarray]:
        return {name: np.array(array) for name, array in self._state.params.items()}

    # ---- checkpoints ---------------------------------------------------------------------------------------
    @property
    def position(self) -> str:
        """Where it stands, for the message of an interruption."""
        return f"epoch {self.epoch} of {self.epochs}"

    def identity(self) -> dict[str, Any]:
        """Model, settings and data, which a checkpoint must agree on."""
        settings = {name: str(value) for name, value in self._model.selected.items()}
        judged_by = () if self.fixed else self._judged_by  # where the epochs are fixed, nothing is judged
        validation = " ".join(map(fingerprint, judged_by)) or None
        data = fingerprint(self._log.matrix)
        return {"model": self._model.name, "data": data, "validation": validation, **settings}

    def checkpoint(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Figures and arrays of a checkpoint."""
        facts = {
            "epoch": self.epoch, "loss": self.loss, "scores": self.scores, "best_score": self.best_score,
            "best_epoch": self.best_epoch,
        }  # fmt: skip
        trees = {"now": self._state, "best": self._best or {}}
        return facts, checkpoints.to_arrays(trees)

    def restore(self, artifact: Artifact) -> None:
        """Go on from a checkpoint."""

        def at_epoch(name: str, value: Any) -> int:
            if artifact.checked_number(name, value, whole=True) > self.epochs:
                raise artifact.unsound(f"{name} is {value}, after the last of {self.epochs} epochs")
            return int(value)

        facts = artifact.manifest["state"]
        self.epoch, self.best_epoch = (at_epoch(name, facts[name]) for name in ("epoch", "best_epoch"))
        self.loss = artifact.number("state", "loss", least=-math.inf)
        self.scores = [
            (
                at_epoch("a score's epoch", epoch),
                float(artifact.checked_number("a score", score, least=-math.inf)),
            )
            for epoch, score in facts["scores"]
        ]
        self.best_score = None
        if facts["best_score"] is not None:
            self.best_score = artifact.number("state", "best_score", least=-math.inf)
        like = {"now": self._state, "best": {} if self.best_score is None else self._state.params}
        trees: Any = checkpoints.from_arrays(artifact, like)
        self._state = jax.tree.map(jnp.asarray, trees["now"])
        self._best = trees["best"] or None
        if self._state.adam.count != self.epoch * self.steps:
            raise artifact.unsound(f"{self._state.adam.count} steps are not those of {self.epoch} epochs")
