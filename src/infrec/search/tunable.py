"""A model as a search sees it: settings, some of which are open, and fits of its variants."""

from __future__ import annotations

import inspect
import itertools
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, Literal, ParamSpec, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.data import Interactions
from infrec.errors import ConfigError, InfrecError
from infrec.progress import Progress, silent
from infrec.search.criterion import Candidate, Scorer
from infrec.settings import AUTO, Settings

if TYPE_CHECKING:
    from infrec.search.halving import Training

Strategy = Literal["grid", "ladder", "halving"]
Fields = ParamSpec("Fields")


def takes(
    settings_type: Callable[Fields, Settings],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, Fields], None]]:
    """A decorator of a model's constructor: to type checkers, its arguments are the fields of its settings.

    Args:
        settings_type: The class of the settings.
    """
    return lambda constructor: constructor


class Tunable(Scorer):
    """A model that is made with settings; those that are "auto" are chosen on validation data.

    Args:
        args, settings: Fields of `settings_type`, in order or by name.
    """

    name: ClassVar[str]
    strategy: ClassVar[Strategy] = "grid"  # how its settings are searched
    settings_type: ClassVar[type[Settings]]  # its fields are the constructor's arguments
    search_space: ClassVar[Mapping[str, tuple[Any, ...]]]  # the values to try, of settings that have some
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
        self._requested = self.settings_type(*args, **settings)

    # ---- settings ------------------------------------------------------------------------------------------
    @property
    def settings(self) -> Any:
        """The settings in use, of `settings_type`."""
        return self._requested

    @property
    def selected(self) -> dict[str, Any]:
        """The settings in use; after `fit`, none of them is "auto"."""
        return self.settings.to_dict()

    @property
    def auto_settings(self) -> list[str]:
        """The settings that are "auto" and are chosen on validation."""
        decided = self.settings_type.decided_by_data()
        return [name for name, value in self.selected.items() if value == AUTO and name not in decided]

    @property
    def takes_dislikes(self) -> bool:
        """Whether dislikes beside a log count in the scores."""
        return "dislikes" in self.settings_type.names()

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments that make such a model, by name: the settings as requested, before any fit.

        Args:
            deep: Of no effect: no setting holds a model. Tools that choose settings pass it.
        """
        return {name: getattr(self._requested, name) for name in self.settings_type.names()}

    def set_params(self, **changes: Any) -> Self:
        """This model, unfitted, with other settings.

        Args:
            changes: Settings by name; the others are as requested.
        """
        vars(self).update(vars(type(self)(**(self.get_params() | changes))))
        return self

    def with_settings(self, **changes: Any) -> Self:
        """An unfitted variant.

        Args:
            changes: Settings by name; the others are as requested.
        """
        return type(self)(**(self.settings.to_dict() | changes))

    def variants(self, space: Mapping[str, Sequence[Any]] | None = None) -> list[dict[str, Any]]:
        """Every combination of values to try: of the settings that are "auto", and of those that `space`
        names.

        [{}] when nothing is open. The values are those of `space`, else of the model's own search space.

        Args:
            space: Values by setting, instead of those of the model's own search space.
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
        """Values that the data itself brings for open settings, instead of the search space's.

        Args:
            interactions: The log to fit on.
        """
        return {}

    # ---- fits of variants ----------------------------------------------------------------------------------
    @abstractmethod
    def path(
        self, interactions: Interactions, variants: Sequence[Mapping[str, Any]], progress: Progress = silent
    ) -> Iterator[tuple[dict[str, Any], Self | InfrecError]]:
        """Fit one variant after the other; a failure is yielded, not raised.

        Args:
            interactions: The log to fit on.
            variants: Changes of settings, one after the other.
            progress: Called while it works.
        """

    def fit_variant(
        self, interactions: Interactions, settings: Mapping[str, Any], progress: Progress = silent
    ) -> Self:
        """The variant with these settings, fitted; its failure is raised.

        Args:
            interactions: The log to fit on.
            settings: Changes of settings.
            progress: Called while it works.
        """
        ((_, fitted),) = self.path(interactions, [settings], progress)
        if isinstance(fitted, InfrecError):
            raise fitted
        return fitted

    @abstractmethod
    def with_candidates(self, candidates: Sequence[Candidate]) -> Self:
        """The fitted model with the record of what was tried.

        Args:
            candidates: The variants that were tried.
        """

    @abstractmethod
    def with_dislikes(self, weight: float, progress: Progress = silent) -> Self:
        """The fitted model with another weight of its log's dislikes.

        Args:
            weight: The weight; 0: they count for nothing.
            progress: Called while it works.
        """

    @abstractmethod
    def scores_with_dislikes(self, rows: NDArray[np.integer]) -> NDArray[np.float32]:
        """`fitted_scores`, less what dislikes count.

        Args:
            rows: Row numbers of the training users.
        """

    @abstractmethod
    def with_facts(self, **facts: Any) -> Self:
        """The fitted model with more about what was decided for it, and why.

        Args:
            facts: Anything that JSON can hold, by name.
        """

    @property
    def is_interpolating(self) -> bool:
        """Whether `fitted_scores` are the training histories themselves, whatever was held out of them."""
        return False

    def early_stop_on(self, validation: Interactions, context: sp.csr_array | None = None) -> Self:
        """The model, told beforehand what it will be judged by; those trained by epochs stop early on it.

        Args:
            validation: Held-out interactions.
            context: The validation users' histories where they are not the training users.
        """
        return self

    def training(self, log: Interactions) -> Training:
        """A training that can pause, of a model whose strategy is "halving".

        Args:
            log: The log to train on.
        """
        raise NotImplementedError(self.name)

    def climb(
        self,
        log: Interactions,
        validation: Interactions | None,
        *,
        context: sp.csr_array | None,
        seconds: float | None,
        progress: Progress,
    ) -> tuple[dict[str, Any], list[Candidate]]:
        """Settings found on a ladder, and what was tried, of a model whose strategy is "ladder".

        Args:
            log: The log to fit on.
            validation: Held-out interactions of it, or None.
            context: The validation users' histories where they are not the users of the log.
            seconds: Begin no candidate after that time.
            progress: Called while it works.
        """
        raise NotImplementedError(self.name)
