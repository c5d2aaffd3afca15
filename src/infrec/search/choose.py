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
from infrec.models.selection import Candidate, select
from infrec.progress import Progress, silent
from infrec.splits import Split


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The best variant, fitted on train; its settings; everything that was tried, failures included."""

    model: Recommender
    selected: dict[str, Any]
    candidates: list[Candidate]
    seconds: float


def choose(
    model: Recommender,
    data: Split | tuple[Interactions, Interactions],
    *,
    space: Mapping[str, Sequence[Any]] | None = None,
    context: sp.csr_array | None = None,
    seconds: float | None = None,
    progress: Progress = silent,
) -> SearchResult:
    """Fit every combination of the settings that are "auto" and keep the one with the best validation HR@100.

    data: a split, of which only train and validation are looked at, or (train, validation).
    space: other values than the model's own search space (or the data's) for some of its settings.
    context: the validation users' histories, when the model is fitted on others (a summary's users).
    seconds: begin no candidate after that time. The candidates of a closed-form model share the costly part
        and are measured in full: half a measurement says nothing certain about the rest.
    An empty validation part chooses nothing: the fallback settings are used, and the candidates say so.
    """
    train, validation = (data.train, data.val) if isinstance(data, Split) else data
    if seconds is not None and not seconds > 0:
        raise ConfigError(f"seconds is {seconds}; expected more than 0.")
    begin = time.perf_counter()
    variants = model.variants({**model.space_for(train), **(space or {})})
    if variants == [{}] or not validation.n_interactions:
        fitted = model.with_settings().fit(train, validation=validation, progress=progress)
        return SearchResult(fitted, fitted.selected, fitted.candidates, time.perf_counter() - begin)
    chosen = select(model, train, validation, variants, context=context, seconds=seconds, progress=progress)
    return SearchResult(chosen.model, chosen.model.selected, chosen.candidates, time.perf_counter() - begin)
