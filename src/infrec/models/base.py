"""The contract of every model: fit, score, recommend, similar, save, load, and a declared search space."""

from __future__ import annotations

import copy
import inspect
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec import artifacts
from infrec.contents import Artifact
from infrec.data import Interactions
from infrec.errors import ConfigError, DataError, InfrecError, NotFittedError, SolveError
from infrec.models import lists, storage
from infrec.models.selection import Candidate, best_first, select
from infrec.progress import Progress, silent
from infrec.settings import AUTO, Settings

INNER_SEED = 42

OnUnknown = Literal["popular", "skip", "error"]


class Recommender(ABC):
    """A model is made with settings, fitted on `Interactions`, then asked about users or histories.

    A concrete model writes `_fit`, `_score`, `_similarity`, `_arrays` and `_restore`; it overrides `path` and
    `fitted_scores` where sharing work or knowing the training users makes them cheaper.
    """

    name: ClassVar[str]
    settings_type: ClassVar[type[Settings]]  # its fields are the constructor's arguments
    settings: Any  # of that type
    search_space: ClassVar[
        Mapping[str, tuple[Any, ...]]
    ]  # the values to try of each setting that can be searched
    fallback: ClassVar[Mapping[str, Any]]  # of each "auto", where nothing can be held out to choose by

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Show the settings as the constructor's signature, and their documentation under its own."""
        super().__init_subclass__(**kwargs)
        if "settings_type" in vars(cls):
            cls.search_space = cls.settings_type.search_space()
            cls.fallback = cls.settings_type.fallbacks()
            cls.__signature__ = inspect.signature(cls.settings_type)  # type: ignore[attr-defined]
            cls.__doc__ = f"{inspect.cleandoc(cls.__doc__ or '')}\n\n{cls.settings_type.described()}"

    def __init__(self, *args: Any, **settings: Any) -> None:
        self.settings_type.check_names(settings, self.name)
        self.settings = self.settings_type(*args, **settings)
        self.candidates: list[Candidate] = []
        self.about: dict[str, Any] = {}  # what the model decided by itself, and why
        self._log: Interactions | None = None
        self._asked: tuple[Any, Any] | None = None  # the settings before and after the last fit

    # ---- settings ------------------------------------------------------------------------------------------
    def with_settings(self, **changes: Any) -> Self:
        """An unfitted variant."""
        return type(self)(**(self.settings.to_dict() | changes))

    @property
    def selected(self) -> dict[str, Any]:
        """The settings in use; after `fit`, none of them is "auto"."""
        return self.settings.to_dict()

    @property
    def auto_settings(self) -> list[str]:
        """The settings that are "auto" and are chosen on validation."""
        return [
            n
            for n, value in self.selected.items()
            if value == AUTO and n not in self.settings_type.decided_by_data()
        ]

    def variants(self, space: Mapping[str, Sequence[Any]] | None = None) -> list[dict[str, Any]]:
        """Every combination of values to try: of the settings that are "auto", and of those that `space`
        names.

        [{}] when nothing is open. The values are those of `space`, else of the model's own search space.
        """
        space = dict(space or {})
        self.settings_type.check_names(space, self.name)
        open_settings = [name for name in self.selected if name in self.auto_settings or name in space]
        values = {**self.search_space, **space}
        undeclared = [name for name in open_settings if name not in values]
        if undeclared:
            raise ConfigError(f"{undeclared[0]}='auto' of {self.name} has no values to try; give it a value.")
        every = itertools.product(*(values[name] for name in open_settings))
        return [dict(zip(open_settings, combination, strict=True)) for combination in every]

    def space_for(self, interactions: Interactions) -> dict[str, Sequence[Any]]:
        """Values that the data itself brings for open settings, instead of the search space's."""
        return {}

    # ---- fitting -------------------------------------------------------------------------------------------
    def fit(
        self,
        interactions: Interactions,
        *,
        validation: Interactions | None = None,
        progress: Progress = silent,
    ) -> Self:
        """Fit in place. "auto" settings are chosen on `validation` (HR@100), which is never trained on.

        Without `validation` they are chosen on an inner holdout, and the model is then fitted on everything.
        Fitted again, a model chooses again.
        """
        if interactions.n_interactions == 0:
            raise DataError(f"there are no interactions to fit {self.name} on; expected at least one.")
        if (asked := self._as_asked()) is not self:
            return self._take_over(
                Recommender.fit(asked, interactions, validation=validation, progress=progress)
            )
        self._check_size(interactions)
        variants = self.variants(self.space_for(interactions))
        if len(variants) == 1:
            model = self if validation is None else self.early_stop_on(validation)
            return self._become(model._fitted(interactions, variants[0], progress), [])
        if validation is not None and validation.n_interactions:
            chosen = select(self, interactions, validation, variants, progress=progress)
            return self._become(chosen.model, chosen.candidates)
        inner = None if validation is not None else inner_holdout(interactions)
        if inner is None:  # nothing to choose by
            settings = {name: self.fallback[name] for name in variants[0]}
            reason = "used as it is: no user has enough interactions to hold one out"
            return self._become(
                self._fitted(interactions, settings, progress), [Candidate(settings, error=reason)]
            )
        chosen = select(self, *inner, variants, progress=progress)
        candidates = chosen.candidates
        del chosen, inner  # the data twice is enough
        ranked = best_first(candidates)
        while True:
            best = ranked.pop(0)
            try:
                return self._become(self._fitted(interactions, best.settings, progress), candidates)
            except SolveError as failure:  # λ = 0, where two users differed only in what was hidden
                if not ranked:
                    raise
                candidates[candidates.index(best)] = best.without_solution(str(failure))

    def path(
        self, interactions: Interactions, variants: Sequence[Mapping[str, Any]], progress: Progress = silent
    ) -> Iterator[tuple[dict[str, Any], Self | InfrecError]]:
        """Fit one variant after the other; a failure is yielded, not raised. Override it to share work."""
        for changes in variants:
            try:
                yield dict(changes), self._fitted(interactions, changes, progress)
            except InfrecError as failure:
                yield dict(changes), failure

    def early_stop_on(self, validation: Interactions, context: sp.csr_array | None = None) -> Self:
        """The model, told beforehand what it will be judged by; those trained by epochs stop early on it.

        `context` holds the validation users' histories when they are not the training users.
        """
        return self

    def _fitted(self, interactions: Interactions, changes: Mapping[str, Any], progress: Progress) -> Self:
        variant = self.with_settings(**changes)
        variant._log = interactions
        return variant._fit(interactions, progress)

    def _become(self, other: Recommender, candidates: list[Candidate]) -> Self:
        """Take over what a fitted variant has learnt; a failed fit before this point has changed nothing."""
        asked = self.settings
        self._take_over(other)
        self.candidates, self._asked = candidates, (asked, self.settings)
        return self

    def _take_over(self, other: Recommender) -> Self:
        self.__dict__ = dict(other.__dict__)
        return self

    def _as_asked(self) -> Self:
        """The model with the settings that it had before a fit chose; itself where they are still its own."""
        if self._asked is None or self._asked[0] == self.settings or self._asked[1] != self.settings:
            return self
        other = copy.copy(self)
        other.settings, other._asked = self._asked[0], None
        return other

    # ---- scores --------------------------------------------------------------------------------------------
    @property
    def log(self) -> Interactions:
        """The log that the model was fitted on: its vocabularies and histories."""
        if self._log is None:
            raise NotFittedError(f"this {self.name} model is not fitted; call fit(interactions) first.")
        return self._log

    @property
    def knows_users(self) -> bool:
        """Whether something was learnt for each training user beside what their history says."""
        return False

    @property
    def is_interpolating(self) -> bool:
        """Whether `fitted_scores` are the training histories themselves, whatever was held out of them."""
        return False

    @property
    def popularity(self) -> NDArray[np.float32]:
        """The sum of each item's weights: what is recommended when nothing is known of a user."""
        return np.asarray(self.log.matrix.sum(axis=0), dtype=np.float32).ravel()

    def score(self, histories: sp.csr_array, *, users: Sequence[object] | None = None) -> NDArray[np.float32]:
        """A score for every item, given histories as CSR rows over the model's items; higher is better.

        `users` names the rows' users: for those it was trained on, a model may use what it has learnt for
        them beside their history. All others are judged by their history alone, and so are all users where
        the model was trained on a summary or a sample, whose users are not the ones asked about.
        """
        if histories.shape[1] != self.log.n_items:
            raise DataError(
                f"the histories have {histories.shape[1]} columns; the model has {self.log.n_items} items."
            )
        if users is not None and len(users) != histories.shape[0]:
            raise DataError(f"{len(users)} users were named for {histories.shape[0]} histories.")
        known = None
        if users is not None and self.knows_users:
            known = self.log.users.positions(users)
        rows = sp.csr_array(histories, dtype=np.float32)  # whole numbers too, which a weight would round
        if not rows.has_canonical_format:  # repeated entries count together, as in a log
            rows = rows.copy()
            rows.sum_duplicates()
        with np.errstate(over="ignore", invalid="ignore"):
            scores = self._score_known(rows, known)
        if scores.size and not (np.isfinite(scores.min()) and np.isfinite(scores.max())):
            raise SolveError(
                f"the scores of {self.name} are NaN or infinite; expected finite numbers: fit it again, with "
                "a larger reg or a smaller rate, on weights of a smaller range."
            )
        return scores

    def fitted_scores(self, rows: slice | NDArray[np.integer]) -> NDArray[np.float32]:
        """The scores of training users for their own training histories."""
        known = np.arange(self.log.n_users)[rows] if self.knows_users else None
        return self._score_known(self.log.matrix[rows], known)

    def _score_known(self, histories: sp.csr_array, known: NDArray[np.integer] | None) -> NDArray[np.float32]:
        """Scores of histories; `known` holds the training row of each, −1 where there is none."""
        return self._score(histories)

    def recommend(
        self,
        users: Iterable[object] | None = None,
        *,
        histories: Iterable[Iterable[object]] | sp.csr_array | None = None,
        k: int = 10,
        exclude_seen: bool = True,
        only: Iterable[object] | None = None,
        exclude: Iterable[object] | None = None,
        on_unknown: OnUnknown = "popular",
    ) -> pa.Table:
        """The k best items of known users (by id), of histories (lists of item ids), or of everybody.

        Columns: user (the id, or the number of the history), item, rank from 1, score, source ("model", or
        "popular" where nothing is known of the user), and title when known.
        """
        return lists.recommend(
            self,
            users,
            histories=histories,
            k=k,
            exclude_seen=exclude_seen,
            only=only,
            exclude=exclude,
            on_unknown=on_unknown,
        )

    def similar(self, item: object, k: int = 10) -> pa.Table:
        """The k items most like this one: item, rank, score, and title when known."""
        return lists.similar(self, self._similarity, item, k)

    # ---- disk ----------------------------------------------------------------------------------------------
    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model as a directory, replacing an older one whole or not at all."""
        storage.save(self, path, self._arrays(), self._tables())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """A fitted model from its directory; `infrec.load` does the same for any model."""
        return cls.from_artifact(artifacts.read(path, kind="model"))

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        settings, candidates, log = storage.contents(cls.name, artifact)
        with artifact.understood():
            names = cls.settings_type.names()  # those of other versions are passed over
            model = cls(**{name: value for name, value in settings.items() if name in names})
            model._log, model.candidates = log, candidates
            model.about = dict(artifact.manifest.get("about", {}))
            if model.auto_settings:
                raise artifact.unsound(f"its setting {model.auto_settings[0]!r} is still 'auto'")
            model._restore(artifact)
        return model

    # ---- what a concrete model writes ----------------------------------------------------------------------
    def _check_size(self, interactions: Interactions) -> None:  # noqa: B027 (most models need none)
        """Raise `MemoryBudgetError` before anything large is allocated, where a model can be too large."""

    @abstractmethod
    def _fit(self, interactions: Interactions, progress: Progress = silent) -> Self:
        """Learn, with every setting fixed; return self."""

    @abstractmethod
    def _score(self, histories: sp.csr_array) -> NDArray[np.float32]: ...

    @abstractmethod
    def _similarity(self, item: int) -> NDArray[np.floating[Any]]:
        """How alike every item is to this one."""

    @abstractmethod
    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays to store beside settings and histories."""

    def _tables(self) -> dict[str, pa.Table]:
        """Tables to store beside users, items and interactions."""
        return {}

    @abstractmethod
    def _restore(self, artifact: Artifact) -> None:
        """Take back what `_arrays` gave, by the methods of the artifact, which check it; or learn it again
        where that is cheaper."""

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.selected.items())
        fitted = f", fitted on {self._log!r}" if self._log is not None else ""
        return f"{type(self).__name__}({settings}{fitted})"


def inner_holdout(interactions: Interactions) -> tuple[Interactions, Interactions] | None:
    """A fifth of each user's interactions to choose by; None when no user has enough."""
    from infrec.splits import holdout

    try:
        # Without the data's own parts: this is a holdout inside what we were given to train on. Without its
        # times, which no model looks at and which are half of a large log's memory.
        split = holdout(interactions.with_matrix(interactions.matrix), seed=INNER_SEED)
    except DataError:
        return None
    held_out = split.val.with_matrix(split.val.matrix.maximum(split.test.matrix))
    if not held_out.n_interactions or not split.train.n_interactions:
        return None
    return split.train, held_out
