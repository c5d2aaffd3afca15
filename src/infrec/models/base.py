"""The contract of every model: fit, score, recommend, similar, save, load, and a declared search space.

What a fit gives is a value (`infrec.models.fitted`). A saved model has settings and candidates in its
manifest, the arrays of its state, ids and histories as Parquet; see `infrec.artifacts`.
"""

from __future__ import annotations

import copy
import logging
import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec import artifacts
from infrec.contents import Artifact
from infrec.data import Interactions
from infrec.data.change import Change, append, remove
from infrec.data.columns import Duplicates
from infrec.data.interactions import InteractionsLike
from infrec.data.strength import Strength
from infrec.errors import ArtifactError, ConfigError, DataError, InfrecError, NotFittedError, SolveError
from infrec.kernels import gram
from infrec.kernels.gram import FEW
from infrec.kernels.scores_gpu import ScoresThere
from infrec.models.dislikes import Dislikes
from infrec.models.fitted import Fitted, State
from infrec.models.lists import Lists
from infrec.models.new_items import NewItemsSettings, Placed
from infrec.models.reranking import Traits
from infrec.progress import Progress, silent
from infrec.search.criterion import Candidate
from infrec.search.tunable import Tunable
from infrec.search.tune import tune
from infrec.settings import AUTO

logger = logging.getLogger(__name__)
_SHOWN = 4  # settings in the text of a model
WITHOUT_IDS = "left out"  # in `about` of a model, what became of its users' ids
_OF_THE_LOG = (
    "weights",
    "half_life",
    "dislikes",
    "new_items",
)  # facts in `about` that stay when the log changes


class Recommender(Tunable, Lists):
    """A model is made with settings, fitted on `Interactions`, then asked about users or histories.

    A concrete model has `settings_type` and `state_type`, and writes `_fit`, `_score` and `_similarity`; it
    overrides `path` and `fitted_scores` where sharing work or knowing the training users makes them cheaper.

    Args:
        args, settings: Fields of `settings_type`, in order or by name.
    """

    state_type: ClassVar[type[State]] = State

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._fitted: Fitted | None = None
        self._traits: tuple[Fitted, Traits] | None = None

    @property
    def settings(self) -> Any:
        """The settings in use, of `settings_type`: those of the fit, or as requested before one."""
        return self._requested if self._fitted is None else self._fitted.settings

    @property
    def selected(self) -> dict[str, Any]:
        """The settings in use; a fit without dislikes has no weight of them."""
        return {
            name: value for name, value in super().selected.items() if (name, value) != ("dislikes", AUTO)
        }

    # ---- fitting -------------------------------------------------------------------------------------------
    def fit(
        self,
        interactions: InteractionsLike,
        *,
        validation: InteractionsLike | None = None,
        context: sp.csr_array | None = None,
        seconds: float | None = None,
        progress: Progress = silent,
    ) -> Self:
        """Fit in place, whole or not at all; fitted again, a model chooses again.

        Args:
            interactions: The log to fit on: `Interactions`, a dataframe, an Arrow table, or a matrix, users
                × items (`Interactions.from_data`).
            validation: "auto" settings are chosen on it, and it is never trained on; its users and items are
                those of the log. Without it they are chosen on an inner holdout, and the model is then fitted
                on everything.
            context: The validation users' histories, where they are not the users of `interactions`.
            seconds: Begin no further candidate after that time.
            progress: Called while it works.
        """
        log = Interactions.from_data(interactions)
        if validation is not None:
            validation = Interactions.from_data(validation, over=log if context is None else None)
        began = time.perf_counter()
        model = copy.copy(self)
        model._fitted = None
        tuned = tune(model, (log, validation), context=context, seconds=seconds, progress=progress)
        self._fitted = tuned.model._fitted
        logger.info("%s: fit took %.2f s: %r", self.name, time.perf_counter() - began, self)
        return self

    def check_size(self, interactions: Interactions) -> None:
        """Raise an error where a fit would not fit in memory, before anything large is allocated.

        Args:
            interactions: The log to fit on.
        """

    def check_time(self, interactions: Interactions) -> None:
        """Raise an error where choosing settings would take very long; a command asks before it begins.

        Args:
            interactions: The log to fit on.
        """

    def path(
        self, interactions: Interactions, variants: Sequence[Mapping[str, Any]], progress: Progress = silent
    ) -> Iterator[tuple[dict[str, Any], Self | InfrecError]]:
        for changes in variants:
            variant = self.with_settings(**changes)
            variant.check_size(interactions)
            try:
                yield dict(changes), variant.with_fit(variant._fit(interactions, progress))
            except InfrecError as failure:
                yield dict(changes), failure

    def with_fit(self, fitted: Fitted) -> Self:
        """The model that a fit made; this one stays as it is.

        Args:
            fitted: Result of a fit.
        """
        other = copy.copy(self)
        other._fitted = fitted
        return other

    def with_facts(self, **facts: Any) -> Self:
        return self.with_fit(replace(self.fitted, about={**self.about, **facts}))

    def with_dislikes(self, weight: float, progress: Progress = silent) -> Self:
        if not weight or self.log.dislikes is None:
            said = None
        else:
            said = self.fitted.dislikes or Dislikes.of(self.log, progress)
        settings = replace(self.settings, dislikes=weight)
        return self.with_fit(replace(self.fitted, settings=settings, dislikes=said))

    def scores_with_dislikes(self, rows: NDArray[np.integer]) -> NDArray[np.float32]:
        scores, said = self.fitted_scores(rows), self.fitted.dislikes
        if said is None:
            return scores
        return scores - np.float32(self.settings.dislikes) * said.fitted_scores(rows)

    def with_new_items(
        self, columns: Sequence[str] | None = None, settings: NewItemsSettings | None = None
    ) -> Self:
        """The fitted model with a place in every list for the items of its log that nobody has, by their
        features.

        Args:
            columns: Columns of the table about items; by default all that say what kind of item it is.
            settings: How far likeness reaches; `infrec.evaluation.coldness.choose_features` chooses it.
        """
        placed = Placed.of(self.log, columns, settings)
        about = {**self.about, "new_items": placed.facts()}
        return self.with_fit(replace(self.fitted, about=about, new_items=placed))

    def with_candidates(self, candidates: Sequence[Candidate]) -> Self:
        return self.with_fit(replace(self.fitted, candidates=list(candidates)))

    # ---- more data, and less -------------------------------------------------------------------------------
    def update(
        self,
        interactions: InteractionsLike,
        *,
        duplicates: Duplicates = "first",
        choose_again: bool = False,
        progress: Progress = silent,
    ) -> Self:
        """Take in more interactions in place: of users and items known or new. The result is that of a fit
        on everything, with the settings kept.

        Args:
            interactions: What is added, in any form that `Interactions.from_data` takes.
            duplicates: A known pair of user and item keeps its weight ("first"), or weights are added
                ("sum").
            choose_again: Choose the settings again that the last fit chose.
            progress: Called while it works.
        """
        self.check_update()
        more = Interactions.from_data(interactions)
        if more.synthetic_users:
            raise DataError(
                "a summary was given to take in, whose users only stand for others; expected a log: fit on "
                "the summary instead."
            )
        change = append(self.log, self._weighed(more), duplicates)
        if choose_again:
            found = {name for one in self.candidates for name in one.settings}
            found |= {"dislikes"} if "dislikes" in self.about else set()
            again = self.with_settings(**dict.fromkeys(found or self.search_space, AUTO))
            fitted = again.fit(change.after, progress=progress).fitted
        else:
            fitted = self._follow(change, progress)
        self._fitted = self._followed(fitted, progress)
        return self

    def _weighed(self, more: Interactions) -> Interactions:
        """More interactions with weights that count for what those of the model's own log do."""
        if (half_life := self.about.get("half_life")) is not None:
            raise ConfigError(
                f"the model was fitted with a half-life of {half_life}, and the weights of what it knows "
                "would have to fade further; fit it again on everything."
            )
        function = self.about.get("weights")
        return more if function is None else Strength.read(function)(more)

    def forget(self, users: Iterable[object] | object, *, progress: Progress = silent) -> Self:
        """Forget users in place. The result is that of a fit without them, over the same items and with the
        settings kept, in whose choice they had a part.

        Args:
            users: Their ids, or the id of one.
            progress: Called while it works.
        """
        self.check_update()
        ids = [users] if isinstance(users, str) or not isinstance(users, Iterable) else users
        self._fitted = self._followed(self._follow(remove(self.log, ids), progress), progress)
        return self

    def _followed(self, fitted: Fitted, progress: Progress) -> Fitted:
        """A later fit with the dislikes of its log, and what is known about that beside its interactions."""
        facts = {name: self.about[name] for name in _OF_THE_LOG if name in self.about}
        model = self.with_fit(replace(fitted, about={**facts, **fitted.about}, dislikes=None, new_items=None))
        if (placed := self.fitted.new_items) is not None:
            model = model.with_new_items(placed.features, placed.settings)
        weight = getattr(fitted.settings, "dislikes", 0.0)
        return model.with_dislikes(weight, progress).fitted if weight not in (0.0, AUTO) else model.fitted

    def check_update(self) -> None:
        """Raise an error where the model can neither take in more interactions nor forget a user."""
        if self.log.synthetic_users:
            raise DataError(
                f"this {self.name} model was fitted on a summary, whose users only stand for others; "
                "expected a model of a log: continue the summary (`infrec distill --continue`) and fit again."
            )
        if self.about.get("users") == WITHOUT_IDS:
            raise DataError(
                f"this {self.name} model was saved without user ids, so nobody knows whose interactions are "
                "whose; expected a model with ids: fit again on all data."
            )

    def _follow(self, change: Change, progress: Progress) -> Fitted:
        """The fit after a change of its log, settings kept: on everything, or what is cheaper and equal."""
        self.check_size(change.after)
        fitted = self.with_settings()._fit(change.after, progress)
        return replace(fitted, candidates=self.fitted.candidates)

    def without_users(self) -> Self:
        """A model fitted on a log without ids, which says so, and keeps no history that it can do without."""
        return self.with_fit(replace(self.fitted, about={**self.about, "users": WITHOUT_IDS}))

    # ---- scores --------------------------------------------------------------------------------------------
    @property
    def fitted(self) -> Fitted:
        """Result of the last fit: settings, log, state, about and candidates."""
        if self._fitted is None:
            raise NotFittedError(f"this {self.name} model is not fitted; call fit(interactions) first.")
        return self._fitted

    @property
    def log(self) -> Interactions:
        return self.fitted.log

    @property
    def state(self) -> Any:
        """The learnt state, of `state_type`."""
        return self.fitted.state

    @property
    def about(self) -> dict[str, Any]:
        """The decisions that the model made by itself, and why."""
        return {} if self._fitted is None else self._fitted.about

    @property
    def candidates(self) -> list[Candidate]:
        """The settings that the last fit tried."""
        return [] if self._fitted is None else list(self._fitted.candidates)

    @property
    def needs_no_kernel(self) -> bool:
        """Whether `fitted_scores` cost less than scores of the same histories under no name."""
        return False

    @property
    def knows_users(self) -> bool:
        """Whether something was learnt for each training user beside what their history says."""
        return False

    @property
    def popularity(self) -> NDArray[np.float32]:
        """The sum of each item's weights: what is recommended when nothing is known of a user."""
        return np.asarray(self.log.matrix.sum(axis=0), dtype=np.float32).ravel()

    @property
    def traits(self) -> Traits:
        if self._traits is None or self._traits[0] is not self.fitted:
            self._traits = (self.fitted, Traits(self))
        return self._traits[1]

    def score(self, histories: sp.csr_array, *, users: Sequence[object] | None = None) -> NDArray[np.float32]:
        if histories.shape[1] != self.log.n_items:
            raise DataError(
                f"the histories have {histories.shape[1]} columns; the model has {self.log.n_items} items."
            )
        if users is not None and len(users) != histories.shape[0]:
            raise DataError(f"{len(users)} users were named for {histories.shape[0]} histories.")
        known, said = None, self.fitted.dislikes
        many = users is not None and len(users) > FEW and not self.log.synthetic_users
        told = self.knows_users or (self.needs_no_kernel and many)
        if users is not None and (told or said is not None):
            known = self.log.users.positions(users)
        rows = sp.csr_array(histories, dtype=np.float32)  # whole numbers too, which a weight would round
        if not rows.has_canonical_format:  # repeated entries count together, as in a log
            rows = rows.copy()
            rows.sum_duplicates()
        with np.errstate(over="ignore", invalid="ignore"):
            scores = self._score_known(rows, known if told else None)
            if said is not None:
                scores = scores - np.float32(self.settings.dislikes) * said.score(rows, known)
            if self.fitted.new_items is not None:
                scores = self.fitted.new_items.fill(scores)
        if scores.size and not (np.isfinite(scores.min()) and np.isfinite(scores.max())):
            raise SolveError(
                f"the scores of {self.name} are NaN or infinite; expected finite numbers: fit it again, with "
                "a larger reg or a smaller rate, on weights of a smaller range."
            )
        return scores

    def fitted_scores(self, rows: slice | NDArray[np.integer]) -> NDArray[np.float32]:
        known = np.arange(self.log.n_users)[rows] if self.knows_users else None
        return self._score_known(self.log.matrix[rows], known)

    def _score_known(self, histories: sp.csr_array, known: NDArray[np.integer] | None) -> NDArray[np.float32]:
        """Scores of histories; `known` holds the training row of each, −1 where there is none.

        It is given where `knows_users`, and where `needs_no_kernel` of more than a few rows: a few people are
        answered in one way, whether they are named or not.
        """
        if known is not None and self.needs_no_kernel and gram.are_rows(histories, self.log.matrix, known):
            return self.fitted_scores(known)
        return self._score(histories)

    # ---- scores on an accelerator: a model with a way there writes one or both of the blocks ---------------
    def score_there(self, histories: sp.csr_array, size: int) -> ScoresThere | None:
        if histories.shape[1] != self.log.n_items or self.fitted.adjusts_scores:
            return None  # `score` does the rest, or says what is wrong
        block = self.block_there(histories, size)
        return None if block is None else ScoresThere(block, histories.shape[0])

    def fitted_scores_there(self, rows: NDArray[np.integer], size: int) -> ScoresThere | None:
        block = None if self.fitted.adjusts_scores else self.fitted_block_there(rows, size)
        return None if block is None else ScoresThere(block, len(rows))

    def block_there(self, histories: sp.csr_array, size: int) -> Any:
        """`score` of some histories as one array on the accelerator; None where that cannot be.

        Args:
            histories: CSR rows over the model's items.
            size: Rows of the array, the last of which belong to nobody.
        """
        return None

    def fitted_block_there(self, rows: NDArray[np.integer], size: int) -> Any:
        """`fitted_scores` of training users as one array on the accelerator; None where that cannot be.

        Args:
            rows: Their row numbers.
            size: Rows of the array, the last of which belong to nobody.
        """
        return None

    # ---- disk ----------------------------------------------------------------------------------------------
    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model as a directory, replacing an older one whole or not at all.

        Args:
            path: The directory.
        """
        fitted = self.fitted
        facts = {"model": self.name, "settings": self.selected, **fitted.facts()}
        arrays, tables = self._arrays() | fitted.arrays(), fitted.tables() | self._tables()
        artifacts.write(path, kind="model", manifest=facts, arrays=arrays, tables=tables)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """A fitted model from its directory; `infrec.load` does the same for any model.

        Args:
            path: The directory.
        """
        return cls.from_artifact(artifacts.read(path, kind="model"))

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        """A fitted model from what was read of its directory.

        Args:
            artifact: From `infrec.artifacts.read`.
        """
        name = artifact.manifest.get("model")
        if name != cls.name:
            raise ArtifactError(f"{artifact.path} holds a model named {name!r}; expected {cls.name!r}.")
        with artifact.understood():
            model = cls(**cls._saved_settings(artifact))
            if model.auto_settings:
                raise artifact.unsound(f"its setting {model.auto_settings[0]!r} is still 'auto'")
            return model.with_fit(Fitted.read(artifact, model.settings, model._restore))

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays to store beside settings and histories."""
        return self.state.arrays()

    def _tables(self) -> dict[str, pa.Table]:
        """Tables to store beside users, items and interactions."""
        return {}

    @classmethod
    def _saved_settings(cls, artifact: Artifact) -> dict[str, Any]:
        """The settings of a saved model; those of other versions are passed over."""
        names = cls.settings_type.names()
        return {name: value for name, value in artifact.manifest["settings"].items() if name in names}

    def _restore(self, artifact: Artifact, log: Interactions) -> Any:
        """The state that `_arrays` gave, read by the methods of the artifact, which check it; or learnt again
        where that is cheaper."""
        return self.state_type.read(artifact, self.settings, log)

    # ---- what a concrete model writes ----------------------------------------------------------------------
    def _fit(self, interactions: Interactions, progress: Progress = silent) -> Fitted:
        """Learn, with every setting fixed, and change nothing. A model writes this, or `path`."""
        return self.fit_variant(interactions, {}, progress).fitted

    @abstractmethod
    def _score(self, histories: sp.csr_array) -> NDArray[np.float32]: ...

    def __repr__(self) -> str:
        """The settings that are not the defaults, the first few of them, and the size of the log."""
        defaults = self.settings_type().to_dict()
        words = [f"{name}={value!r}" for name, value in self.selected.items() if value != defaults[name]]
        words[_SHOWN:] = ["…"] if len(words) > _SHOWN else []
        if self._fitted is not None:
            words.append(f"fitted on {self.log.n_users:,} users × {self.log.n_items:,} items")
        return f"{type(self).__name__}({', '.join(words)})"
