"""Base of the models trained by epochs: settings, early stopping, padding, known users.

`epochs="auto"`, the default, stops early: on the validation data that `fit` is given, or else on an inner
holdout, after which the model is trained on everything for as many epochs as were best there.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec import machine
from infrec.contents import Artifact
from infrec.data import Interactions
from infrec.errors import ConfigError, DataError
from infrec.models.base import Recommender
from infrec.models.fitted import Fitted, State
from infrec.progress import Progress, silent
from infrec.search.criterion import early_stopping
from infrec.search.tunable import Strategy
from infrec.settings import AUTO, Auto, Settings, setting
from infrec.splits import inner_holdout

if TYPE_CHECKING:
    from infrec.data.interactions import InteractionsLike
    from infrec.models.batches import PaddedSizes, Sizes, Step
    from infrec.models.trainer import Params, Training

LATENT = (4, 8, 16, 32, 50, 64, 128)  # the paper's values
RATE = (0.001, 0.006, 0.01)
DROPOUT = (0.0, 0.3, 0.5)
LAYERS = (1, 2, 3)
TRACED = ("rate", "dropout", "l2")  # settings that a compiled function takes as arguments
_ITEMS_OF_A_USER = 10_000  # at most, of a log from which items are told apart


@dataclass(frozen=True)
class GradientSettings(Settings):
    """Settings of every model that is trained by epochs; each model has its own defaults."""

    latent: int = setting(64, "numbers per user and item", least=1, search=LATENT)
    rate: float = setting(0.006, "learning rate of Adam", above=0, search=RATE)
    l2: float = setting(0.0, "weight of half the squared norms of what a pair uses", least=0)
    epochs: int | Auto = setting(
        AUTO,
        "exactly so many, or stop early on validation data or on an inner holdout",
        least=1,
        fallback=AUTO,
        decided_by_data=True,
    )
    seed: int = setting(42, "seed of the start and of every draw", least=0)


@dataclass(frozen=True)
class DropoutSettings(GradientSettings):
    """Settings of a trained model with dropout."""

    dropout: float = setting(
        0.0, "share of the values that a training step leaves out", least=0, below=1, search=DROPOUT
    )


@dataclass(frozen=True, eq=False)
class GradientState(State):
    """The trained parameters that scores need, by name."""

    parameters: dict[str, NDArray[np.float32]]

    def arrays(self) -> dict[str, NDArray[Any]]:
        return self.parameters


@dataclass(frozen=True)
class Program:
    """A model as the trainer sees it; hashable, because functions are compiled for it."""

    def start(self, sizes: Sizes, log: Interactions, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """The parameters before the first step, of padded shapes; padding is 0 and must stay 0."""
        raise NotImplementedError

    def constants(self, sizes: Sizes, log: Interactions) -> Any:
        """Constants of the log that the loss needs beside the interactions."""
        return ()

    def loss(self, params: Params, step: Step, hyper: Mapping[str, Any]) -> Any:
        """The loss of a mini-batch. `hyper` are the model's numeric settings, which cost no compilation."""
        raise NotImplementedError


@dataclass(frozen=True)
class Embeddings(Program):
    """Users and items as vectors of `width` columns, of which `latent` are in use."""

    width: int
    latent: int = field(compare=False)  # changes no compiled function

    def start(self, sizes: Sizes, log: Interactions, rng: np.random.Generator) -> dict[str, np.ndarray]:
        return {
            "users": self.drawn(rng, log.n_users, sizes.users),
            "items": self.drawn(rng, log.n_items, sizes.items),
        }

    def drawn(self, rng: np.random.Generator, count: int, room: int) -> NDArray[np.float32]:
        """So many vectors before the first step."""
        return widened(normal(rng, (count, self.latent), 0.1), room, self.width)


class Trainable(ABC):
    """A model that can be trained, or anything else with a `Program`."""

    name: ClassVar[str]
    every: ClassVar[int] = 5  # epochs between two validations
    patience: ClassVar[int] = 6  # validations without a better one before it stops
    most_epochs: ClassVar[int] = 300

    @property
    @abstractmethod
    def selected(self) -> dict[str, Any]:
        """The settings by name; `seed` and `epochs` are among them."""

    @abstractmethod
    def program(self, log: Interactions) -> Program:
        """How the parameters begin and what the loss is.

        Args:
            log: The log to train on.
        """

    def hyper(self, log: Interactions) -> dict[str, float]:
        """The numeric settings that a compiled function takes as arguments.

        Args:
            log: The log to train on.
        """
        return {name: value for name, value in self.selected.items() if name in TRACED}

    def batch(self, log: Interactions) -> int | None:
        """Users of a mini-batch, where a model needs another number than the trainer's.

        Args:
            log: The log to train on.
        """
        return None

    def room(self, log: Interactions) -> PaddedSizes | None:
        """Padded sizes, where several logs are to share a compiled function.

        Args:
            log: The log to train on.
        """
        return None

    @abstractmethod
    def with_parameters(
        self, log: Interactions, trained: Mapping[str, NDArray[np.float32]], epochs: int
    ) -> Self:
        """The fitted model that these parameters of the trainer make."""


class GradientModel(Recommender, Trainable):
    """A model that is trained by epochs. A concrete one writes `program`, `_shapes`, and its scores."""

    strategy: ClassVar[Strategy] = "halving"
    fallback_epochs: ClassVar[int] = 50  # where nothing can be held out
    state_type: ClassVar = GradientState
    state: GradientState

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._early_stop_on: tuple[Interactions, sp.csr_array | None] | None = None
        self._checkpoint: Path | None = None

    @property
    def parameters(self) -> dict[str, NDArray[np.float32]]:
        """The trained parameters that scores need, by name."""
        return self.state.parameters

    # ---- what a concrete model writes ----------------------------------------------------------------------
    @abstractmethod
    def _shapes(self, log: Interactions) -> Iterable[tuple[str, tuple[int, ...]]]:
        """Name and shape of each parameter that scores need of anybody, and that is always stored.

        One after the other: the settings of a damaged file may promise more of them than there are.
        """

    def _adopt(
        self, log: Interactions, trained: Mapping[str, NDArray[np.float32]]
    ) -> dict[str, NDArray[Any]]:
        """The trainer's parameters that scores need, without their padding."""
        return {name: trained[name][tuple(slice(n) for n in shape)] for name, shape in self._shapes(log)}

    @abstractmethod
    def _size(self, log: Interactions) -> int:
        """How many numbers are trained, about."""

    def check_size(self, interactions: Interactions) -> None:
        """Refuse what cannot be learnt from, and what does not fit in memory, before anything is compiled."""
        users, items = int(np.count_nonzero(interactions.user_counts)), interactions.n_items
        if items > _ITEMS_OF_A_USER * users:
            raise DataError(
                f"{self.name} cannot learn {items:,} items from {users:,} users; expected a user for every "
                f"{_ITEMS_OF_A_USER:,} items: give it more users or fewer items, or use the model 'poprec'."
            )
        scores = 12 * min(512, interactions.n_users) * items  # of a mini-batch, with their slopes
        machine.require_memory(
            20 * self._size(interactions) + scores,  # parameters, slopes, both means of Adam, the best so far
            f"training {self.name} on {interactions.n_users:,} users × {items:,} items",
            "use a smaller latent, keep fewer items, or use the model 'infinite-ae'",
        )

    def check_update(self) -> None:
        """Models trained by epochs are fitted again."""
        raise ConfigError(
            f"{self.name} is trained by epochs and cannot be updated; fit it again on all interactions, or "
            "update a model in closed form, such as 'infinite-ae' or 'ease'."
        )

    # ---- training ------------------------------------------------------------------------------------------
    def training(self, log: Interactions, *, checkpoint: str | PathLike[str] | None = None) -> Training:
        """A training of this model on a log, not yet begun; the search pauses and resumes several of them.

        Args:
            log: The log to train on.
            checkpoint: A directory from which a killed training goes on.
        """
        from infrec.models.trainer import Training

        self.check_size(log)
        validation = self._early_stop_on or ()
        judged_by = [part.matrix if isinstance(part, Interactions) else part for part in validation]
        return Training(self, log, checkpoint=checkpoint, judged_by=[m for m in judged_by if m is not None])

    def fit(
        self,
        interactions: InteractionsLike,
        *,
        validation: InteractionsLike | None = None,
        context: sp.csr_array | None = None,
        seconds: float | None = None,
        progress: Progress = silent,
        checkpoint: str | PathLike[str] | None = None,
    ) -> Self:
        """Fit in place, as every model does.

        Args:
            interactions: The log to fit on, in any form that `Interactions.from_data` takes.
            validation: Training stops early on it; without it, on an inner holdout.
            context: The validation users' histories, where they are not the users of `interactions`.
            seconds: Search the settings for so long; without it they are as they are.
            progress: Called while it works.
            checkpoint: A directory from which a killed fit goes on when called again.
        """
        model = copy.copy(self)
        model._checkpoint = None if checkpoint is None else Path(checkpoint)
        super(GradientModel, model).fit(
            interactions, validation=validation, context=context, seconds=seconds, progress=progress
        )
        self._fitted = model._fitted
        return self

    def early_stop_on(self, validation: Interactions, context: sp.csr_array | None = None) -> Self:
        other = copy.copy(self)
        other._early_stop_on = (validation, context)
        return other

    def with_settings(self, **changes: Any) -> Self:
        other = super().with_settings(**changes)
        other._early_stop_on, other._checkpoint = self._early_stop_on, self._checkpoint
        return other

    def _fit(self, interactions: Interactions, progress: Progress = silent) -> Fitted:
        model, judge = self, None
        if self.settings.epochs == AUTO:
            if self._early_stop_on is not None and self._early_stop_on[0].n_interactions:
                judge = early_stopping(interactions, *self._early_stop_on)
            else:
                model = self.with_settings(epochs=self._epochs_inside(interactions, progress))
        training = model.training(interactions, checkpoint=self._place("fit"))
        return training.run(None, judge, progress).best.fitted

    def _epochs_inside(self, interactions: Interactions, progress: Progress) -> int:
        """The epochs that are best on an inner holdout; a fixed number where nothing can be held out."""
        inner = None if self._early_stop_on is not None else inner_holdout(interactions)
        if inner is None:
            return self.fallback_epochs
        training = self.training(inner[0], checkpoint=self._place("choose-epochs"))
        return training.run(None, early_stopping(*inner), progress).best_epoch

    def _place(self, name: str) -> Path | None:
        return None if self._checkpoint is None else self._checkpoint / name

    def with_parameters(
        self, log: Interactions, trained: Mapping[str, NDArray[np.float32]], epochs: int
    ) -> Self:
        other = copy.copy(self)
        other._early_stop_on = other._checkpoint = None  # they belonged to the fit
        parameters = {name: np.ascontiguousarray(array) for name, array in self._adopt(log, trained).items()}
        return other.with_fit(
            Fitted(replace(self.settings, epochs=max(1, epochs)), log, GradientState(parameters))
        )

    def _restore(self, artifact: Artifact, log: Interactions) -> GradientState:
        parameters = {name: artifact.array(name, *shape) for name, shape in self._shapes(log)}
        if "users" in artifact.arrays:  # of a model that knows its training users
            parameters["users"] = artifact.array("users", log.n_users, self._user_width)
        return GradientState(parameters)

    @property
    def _user_width(self) -> int:
        """Numbers that are learnt for a training user."""
        return int(self.selected.get("latent", 0))


def widened(array: NDArray[Any], *shape: int) -> NDArray[np.float32]:
    """An array with zeros added at the end of each axis."""
    out = np.zeros(shape, np.float32)
    out[tuple(slice(n) for n in array.shape)] = array
    return out


def width_of(latent: int) -> int:
    """The latent size that functions are compiled for: all up to 64 share one."""
    return -(-latent // 64) * 64


def normal(rng: np.random.Generator, shape: Sequence[int], scale: float) -> NDArray[np.float32]:
    return (scale * rng.standard_normal(tuple(shape))).astype(np.float32)
