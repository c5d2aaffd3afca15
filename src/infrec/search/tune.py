"""Try the values of a model's search space and keep the best on validation. Nothing here sees test data."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import scipy.sparse as sp

from infrec.data import Interactions
from infrec.errors import ConfigError
from infrec.models.base import Recommender
from infrec.models.gradient_model import GradientModel, watcher
from infrec.models.infinite_ae_plus import InfiniteAEPlus
from infrec.models.selection import Candidate, select
from infrec.progress import Progress, silent
from infrec.randomness import generator
from infrec.search.halving import halve
from infrec.splits import Split


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The best variant, fitted on train; its settings; everything that was tried, failures included.

    size: how many variants there are; a search with a limit of time need not try them all.
    criterion: what the candidates' scores are.
    """

    model: Recommender
    selected: dict[str, Any]
    candidates: list[Candidate]
    seconds: float
    size: int = 1
    criterion: str = "HR@100"


def tune(
    model: Recommender,
    data: Split | tuple[Interactions, Interactions],
    *,
    space: Mapping[str, Sequence[Any]] | None = None,
    context: sp.csr_array | None = None,
    seconds: float | None = None,
    seed: int = 42,
    progress: Progress = silent,
) -> SearchResult:
    """Fit every combination of the settings that are "auto" and keep the best one on validation: by HR@100,
    and by NDCG@100 where a model is trained by epochs and stops early by that.

    data: a split, of which only train and validation are looked at, or (train, validation).
    space: other values than the model's own search space (or the data's) for some of its settings.
    context: the validation users' histories, when the model is fitted on others (a summary's users).
    seconds: begin no candidate after that time. The candidates of a closed-form model share the costly part
        and are measured in full. Those of a model trained by epochs, whose settings are all fixed unless
        seconds or a space are given, come in a random order (by `seed`, the model's own settings first) and
        poor ones are dropped early: see `halving`. The winner's training then goes on to its end.
    An empty validation part chooses nothing: the fallback settings are used, and the candidates say so.
    """
    train, validation = (data.train, data.val) if isinstance(data, Split) else data
    if seconds is not None and not seconds > 0:
        raise ConfigError(f"seconds is {seconds}; expected more than 0.")
    if nothing := [name for name, values in (space or {}).items() if not len(values)]:
        raise ConfigError(f"the space has no value for {nothing[0]!r}; expected one or more to try.")
    if space and isinstance(model, InfiniteAEPlus):
        raise ConfigError(
            f"{model.name} searches along its own ladders and takes no space; expected none: fix a setting "
            f"when the model is made, as in {type(model).__name__}({next(iter(space))}=...)."
        )
    begin = time.perf_counter()
    if isinstance(model, GradientModel) and validation.n_interactions:
        wanted = model.search_space if space is None and seconds is not None else space
        if wanted:
            return _race(model, train, validation, wanted, context, seconds, seed, progress)
    if isinstance(model, InfiniteAEPlus) and model.auto_settings and validation.n_interactions:
        tuned = model.with_settings().fit(
            train, validation=validation, context=context, seconds=seconds, progress=progress
        )
        spent = time.perf_counter() - begin
        return SearchResult(tuned, tuned.selected, tuned.candidates, spent, len(tuned.candidates))
    variants = model.variants({**model.space_for(train), **(space or {})})
    if variants == [{}] or not validation.n_interactions:
        if validation.n_interactions:
            fitted = model.with_settings().early_stop_on(validation, context).fit(train, progress=progress)
        else:
            fitted = model.with_settings().fit(train, validation=validation, progress=progress)
        return SearchResult(fitted, fitted.selected, fitted.candidates, time.perf_counter() - begin)
    chosen = select(model, train, validation, variants, context=context, seconds=seconds, progress=progress)
    spent = time.perf_counter() - begin
    return SearchResult(chosen.model, chosen.model.selected, chosen.candidates, spent, len(variants))


def _race(
    model: GradientModel,
    train: Interactions,
    validation: Interactions,
    space: Mapping[str, Sequence[Any]],
    context: sp.csr_array | None,
    seconds: float | None,
    seed: int,
    progress: Progress,
) -> SearchResult:
    """Successive halving over a random order of the search space, the settings that the model has first."""
    begin = time.perf_counter()
    every = model.variants(space)
    own = {name: model.selected[name] for name in every[0]}
    others = [one for one in every if one != own]
    order = generator(seed, "search", model.name).permutation(len(others))
    variants = [own, *(others[at] for at in order)]
    raced = halve(
        lambda settings: model.with_settings(**settings).training(train),
        variants,
        watcher(train, validation, context),
        seconds=float("inf") if seconds is None else seconds,
        progress=progress,
    )
    raced.model.candidates = raced.candidates
    spent = time.perf_counter() - begin
    return SearchResult(raced.model, raced.model.selected, raced.candidates, spent, len(variants), "NDCG@100")
