"""MVAE carried on from one period of a log to the next, with a memory of the past (ADER).

ADER (Mi, Lin, Faltings: Adaptively Distilled Exemplar Replay, RecSys 2020) goes on from the parameters of
the last period and replays a few exemplars E of the past beside the new data D. On the exemplars the model
is held to what it said before, over the items that were known then:

    L = L_CE(D) + λ L_KD(E),   L_KD = −Σ_i p̂_i log p_i,   λ = λ_base √(|I_before|/|I_now| · |E|/|D|)

with p̂ the softmax of the model before the update, p that of the model being updated, and I the known items.

Where MVAE makes a difference:
- ADER's examples are (session, next item), MVAE's are whole histories. An interaction is taken for an
  example: |E| and |D| count interactions, and an exemplar's L_KD counts as often as it has interactions, as
  the multinomial likelihood of a history does.
- MVAE's divergence keeps the posterior near its prior; it stays, for exemplars as for new users. β does not
  begin at 0 again when training goes on.
- The loss is written (1 − w) L_CE + w L_KD with w = λ/(1 + λ): the same direction, and finite when nothing
  is new. (Adam does not see the scale.)

Items that were never seen have untrained weights: they are left out of the softmax and of histories, and
rank behind all others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.data import Interactions
from infrec.models.gradient_model import widened, width_of
from infrec.models.mvae import ANNEALING, MVAE, Autoencoder

if TYPE_CHECKING:
    from infrec.models.batches import PaddedSizes, Sizes, Step
    from infrec.models.trainer import Params

BASE_WEIGHT = 0.8  # λ_base, as in ADER's published program
REPLAYED = 4  # a step replays one exemplar for so many new users


def adaptive_weight(items_before: int, items_now: int, exemplars: int, new: int) -> float:
    """λ = λ_base √(|I_before|/|I_now| · |E|/|D|): the more is new, the less the past weighs.

    λ_base where neither items nor interactions have grown; 0 without a past; infinite when nothing is new.
    """
    if not exemplars or not items_before:
        return 0.0
    return BASE_WEIGHT * math.sqrt(items_before / items_now * exemplars / new) if new else math.inf


def share(weight: float) -> float:
    """λ/(1 + λ): the part of the loss that is about the past, from 0 to 1."""
    return 1.0 if math.isinf(weight) else weight / (1.0 + weight)


@dataclass(frozen=True, eq=False)
class Memory:
    """Memory that goes from one update to the next. known: the items so far.

    parameters, steps: of the model, and the steps that made them; without them it begins anew. exemplars,
    taught: histories to replay, and the probabilities that the model gave every item for them.
    """

    known: NDArray[np.bool_]
    parameters: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    steps: int = 0
    exemplars: sp.csr_array | None = None
    taught: NDArray[np.float32] | None = None


@dataclass(frozen=True, eq=False)
class Update:
    """An update. past: what is remembered; known: the items from now on, with those of the new data.

    weight: λ. room: what shapes are made for.
    """

    past: Memory
    known: NDArray[np.bool_]
    weight: float = 0.0
    room: PaddedSizes | None = None


@dataclass(frozen=True)
class Rehearsal(Autoencoder):
    """The trainer's view: the autoencoder's loss on new users, and the replayed past."""

    replays: bool
    update: Update = field(compare=False, repr=False)  # goes into arguments, changes no compiled function

    def start(self, sizes: Sizes, log: Interactions, rng: np.random.Generator) -> dict[str, np.ndarray]:
        begun = self.update.past.parameters
        return {n: np.array(a) for n, a in begun.items()} if begun else super().start(sizes, log, rng)

    def constants(self, sizes: Sizes, log: Interactions) -> Any:
        import jax.numpy as jnp

        past = self.update.past

        def allowed(items: NDArray[np.bool_]) -> Any:
            return jnp.where(jnp.asarray(widened(items, sizes.items)) > 0, 0.0, -jnp.inf)

        out = {
            **super().constants(sizes, log),
            "items": allowed(self.update.known),
            "steps": jnp.float32(past.steps),
        }
        if past.exemplars is None or past.taught is None:
            return out
        rows, per_user = past.exemplars.shape[0], log.n_interactions / max(1, (log.user_counts > 0).sum())
        height = max(128, 1 << (rows - 1).bit_length())
        amount = np.asarray(past.exemplars.sum(axis=1), np.float32).ravel()
        return out | {
            "exemplars": jnp.asarray(widened(past.exemplars.toarray() * past.known, height, sizes.items)),
            "taught": jnp.asarray(widened(past.taught, height, sizes.items)),
            # Per interaction, and then as many as a new user has: λ weighs like with like.
            "amount": jnp.asarray(widened(amount * per_user / max(amount.mean(), 1e-12), height)),
            "before": allowed(past.known),
            "share": jnp.float32(share(self.update.weight)),
        }

    def beta(self, step: Step, hyper: Mapping[str, Any]) -> Any:
        import jax.numpy as jnp

        done = step.batch.step + step.constants["steps"]
        return hyper["beta"] * jnp.minimum(1.0, done / ANNEALING)

    def loss(self, params: Params, step: Step, hyper: Mapping[str, Any]) -> Any:
        new = super().loss(params, step, hyper)
        if not self.replays:
            return new
        w = step.constants["share"]
        return (1 - w) * new + w * self.replayed(params, step, hyper)

    def replayed(self, params: Params, step: Step, hyper: Mapping[str, Any]) -> Any:
        """L_KD, and the divergence, of a random part of the exemplars."""
        import jax
        import jax.numpy as jnp

        c = step.constants
        there = c["amount"] > 0
        chance = jax.random.uniform(step.stream(3), there.shape) + jnp.where(there, 0.0, 1.0)
        drawn = jnp.argsort(chance)[: max(1, step.sizes.batch // REPLAYED)]
        logits, divergence = self.forward(params, c["exemplars"][drawn], step, hyper, streams=(4, 5))
        log_softmax = jax.nn.log_softmax(logits + c["before"])
        taught = c["taught"][drawn]
        agreement = jnp.sum(jnp.where(taught > 0, taught * log_softmax, 0.0), axis=1)
        each = self.beta(step, hyper) * divergence - c["amount"][drawn] * agreement
        present = there[drawn]
        return jnp.sum(jnp.where(present, each, 0.0)) / jnp.maximum(present.sum(), 1)


class UpdatedMVAE(MVAE):
    """An MVAE of the items known so far, trained on from what is remembered."""

    every: ClassVar[int] = 1  # an update is short
    patience: ClassVar[int] = 6
    most_epochs: ClassVar[int] = 100
    updating: Update

    def with_update(self, update: Update) -> Self:
        other = self.with_settings()
        other.updating = update
        return other

    def with_settings(self, **changes: Any) -> Self:
        other = super().with_settings(**changes)
        if hasattr(self, "updating"):
            other.updating = self.updating
        return other

    def program(self, log: Interactions) -> Rehearsal:
        s = self.settings
        replays = self.updating.past.exemplars is not None
        return Rehearsal(width_of(s.latent), s.latent, s.hidden, s.layers, replays, self.updating)

    def room(self, log: Interactions) -> PaddedSizes | None:
        return self.updating.room

    def represent(self, histories: sp.csr_array) -> NDArray[np.float32]:
        known = sp.diags_array(self.updating.known.astype(np.float32))
        return super().represent(sp.csr_array(histories @ known))

    def _score(self, histories: sp.csr_array) -> NDArray[np.float32]:
        scores = super()._score(histories)
        unknown = ~self.updating.known
        if unknown.any():
            scores[:, unknown] = scores.min(axis=1, keepdims=True) - 1.0
        return scores

    def probabilities(self, histories: sp.csr_array) -> NDArray[np.float32]:
        """Probability of every known item, by softmax over their scores: a later update is held to it."""
        scores = super()._score(histories)
        scores[:, ~self.updating.known] = -np.inf
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)
