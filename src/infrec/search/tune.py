"""The one door to choosing on validation: `Recommender.fit`, `infrec evaluate`, experiments go through it.

Nothing here sees test data. A model says by its `strategy` how its settings are searched:

    grid      every value that is open is fitted and judged                                      `select`
    ladder    one setting at a time, up and down its values                                      `ladder`
    halving   nothing, unless seconds or a space are given; then many are trained a little       `halving`

Chosen likewise are the weight of dislikes (fewest of them in lists that find likes as well as before) and the
function that makes weights of interactions even.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
import scipy.sparse as sp

from infrec.data import Interactions
from infrec.data.strength import EVEN, NONE, Strength
from infrec.errors import ConfigError, DataError, InfrecError, SolveError
from infrec.metrics.ranking import hits, top_k, truncated_ndcg
from infrec.progress import Progress, silent
from infrec.randomness import generator
from infrec.search.criterion import (
    JUDGES,
    Candidate,
    Criterion,
    cutoff,
    draw_judges,
    early_stopping,
    validate_alignment,
)
from infrec.search.halving import halve
from infrec.search.tunable import Tunable
from infrec.settings import AUTO
from infrec.splits import Split, inner_holdout

logger = logging.getLogger(__name__)
NOTHING_HELD_OUT = "used as it is: no user has enough interactions to hold one out"
_NOTHING_SAID = "not judged: it reproduces the histories exactly, so validation says nothing about it"
WEIGHTS_OF_DISLIKES = (0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.5)
_BLOCK = 512  # judges of these whose scores exist at a time
_BETTER = 1.005  # times as good as the plainest another function of weights must be

M = TypeVar("M", bound=Tunable)
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Tuned(Generic[M]):
    """The best variant, fitted; everything that was tried, failures included.

    Args:
        model: The best variant, fitted.
        candidates: Everything that was tried.
        seconds: Time of the search.
        size: How many variants there are; a search with a limit of time need not try them all.
        criterion: The measure of the candidates' scores.
    """

    model: M
    candidates: list[Candidate]
    seconds: float
    size: int = 1
    criterion: str = "HR@100"

    @property
    def selected(self) -> dict[str, Any]:
        """The settings of the best variant."""
        return self.model.selected


def tune(
    model: M,
    data: Split | tuple[Interactions, Interactions | None],
    *,
    space: Mapping[str, Sequence[Any]] | None = None,
    context: sp.csr_array | None = None,
    seconds: float | None = None,
    seed: int = 42,
    progress: Progress = silent,
) -> Tuned[M]:
    """Choose the settings of a model that are "auto" on validation, and fit it on the train part.

    Candidates are judged by HR@100; by NDCG@100 where a model is trained by epochs and stops early by that;
    by the mean of both on a ladder. The candidates of a closed-form model share the costly part and are
    measured in full. Those of a model trained by epochs, whose settings are all fixed unless seconds or a
    space are given, come in a random order (the model's own settings first) and poor ones are dropped early.

    Args:
        model: The model, with the settings that are fixed.
        data: A split, of which only train and validation are looked at, or (train, validation). Without a
            validation part, an inner holdout of the train part is chosen on, and the model then fitted on
            all of it. An empty one chooses nothing: the fallback settings are used, and a candidate says so.
        space: Other values than the model's own search space (or the data's) for some of its settings.
        context: The validation users' histories, when the model is fitted on others (a summary's users).
        seconds: Begin no candidate after that time; the winner's training goes on to its end.
        seed: Seed of the order in which models trained by epochs are tried.
        progress: Called after each candidate.
    """
    train, validation = (data.train, data.val) if isinstance(data, Split) else data
    _check(model, train, validation, space, context, seconds)
    if train.dislikes is not None:
        if not model.takes_dislikes:
            warnings.warn(
                f"{model.name} learns nothing from dislikes, they only stay out of the lists of those who "
                "said so; the models infinite-ae and ease learn from them.",
                stacklevel=3,
            )
        elif model.settings.dislikes != 0:
            options = {"space": space, "context": context, "seconds": seconds, "seed": seed}
            return _tune_with_dislikes(model, train, validation, **options, progress=progress)
    begin = time.perf_counter()
    wanted = model.search_space if space is None and seconds is not None else space
    if model.strategy == "ladder" and model.auto_settings:
        settings, candidates = model.climb(
            train, validation, context=context, seconds=seconds, progress=progress
        )
        fitted, size, criterion = model.fit_variant(train, settings, progress), len(candidates), "HR@100"
    elif model.strategy == "halving" and validation is not None and validation.n_interactions and wanted:
        variants = _in_random_order(model, wanted, seed)
        raced = halve(
            lambda settings: model.with_settings(**settings).training(train),
            variants,
            early_stopping(train, validation, context),
            seconds=float("inf") if seconds is None else seconds,
            progress=progress,
        )
        fitted, candidates, size, criterion = raced.model, raced.candidates, len(variants), "NDCG@100"
    else:
        variants = model.variants({**model.space_for(train), **(space or {})})
        fitted, candidates, size = _judged(model, train, validation, variants, context, seconds, progress)
        criterion = "HR@100"
    for one in candidates:
        result = one.error if one.score is None else f"{criterion} {one.score:.2f} %"
        tried = ", ".join(f"{name}={value}" for name, value in one.settings.items())
        logger.debug("%s: tried %s: %s (%.2f s)", model.name, tried, result, one.seconds)
    return Tuned(fitted.with_candidates(candidates), candidates, time.perf_counter() - begin, size, criterion)


def _judged(
    model: M,
    train: Interactions,
    validation: Interactions | None,
    variants: Sequence[Mapping[str, Any]],
    context: sp.csr_array | None,
    seconds: float | None,
    progress: Progress,
) -> tuple[M, list[Candidate], int]:
    """The best of all variants, fitted; what was tried; and how many could have been."""
    if validation is not None:
        model = model.early_stop_on(validation, context)
    if validation is not None and validation.n_interactions and variants != [{}]:
        fitted, candidates = select(
            model, train, validation, variants, context=context, seconds=seconds, progress=progress
        )
        return fitted, candidates, len(variants)
    if len(variants) == 1:
        return model.fit_variant(train, variants[0], progress), [], 1
    return *_without_validation(model, train, validation is None, variants, progress), 1


def _check(
    model: Tunable,
    train: Interactions,
    validation: Interactions | None,
    space: Mapping[str, Sequence[Any]] | None,
    context: sp.csr_array | None,
    seconds: float | None,
) -> None:
    if not train.n_interactions:
        raise DataError(f"there are no interactions to fit {model.name} on; expected at least one.")
    if validation is not None:
        validate_alignment(train, validation, known_users=context is None)
    if seconds is not None and not seconds > 0:
        raise ConfigError(f"seconds is {seconds}; expected more than 0.")
    if nothing := [name for name, values in (space or {}).items() if not len(values)]:
        raise ConfigError(f"the space has no value for {nothing[0]!r}; expected one or more to try.")
    if space and model.strategy == "ladder":
        raise ConfigError(
            f"{model.name} searches along its own ladders and takes no space; expected none: fix a setting "
            f"when the model is made, as in {type(model).__name__}({next(iter(space))}=...)."
        )


def _in_random_order(model: Tunable, space: Mapping[str, Sequence[Any]], seed: int) -> list[dict[str, Any]]:
    """Every combination of the space, the settings that the model has first."""
    every = model.variants(space)
    own = {name: model.selected[name] for name in every[0]}
    others = [one for one in every if one != own]
    order = generator(seed, "search", model.name).permutation(len(others))
    return [own, *(others[at] for at in order)]


def select(
    model: M,
    train: Interactions,
    validation: Interactions,
    variants: Sequence[Mapping[str, Any]],
    *,
    context: sp.csr_array | None = None,
    seconds: float | None = None,
    progress: Progress = silent,
) -> tuple[M, list[Candidate]]:
    """The variant that ranks `validation` best by HR@100, fitted on `train`, and everything that was tried.

    The last of equals wins: search spaces begin with the least regularised value. A variant that fails is
    recorded and skipped, and so is one that gives training users their own histories back: what is held out
    would be ranked by the order of the items alone. No variant is begun after `seconds`, but until one has
    been judged.
    """
    criterion = Criterion(validation.matrix, context)
    start = last = time.perf_counter()
    best: M | None = None
    best_score = -1.0
    candidates: list[Candidate] = []
    for settings, fitted in model.path(train, variants, progress):
        score, error = None, None
        if isinstance(fitted, InfrecError):
            error = str(fitted)
        elif context is None and fitted.is_interpolating:
            error = _NOTHING_SAID
            best = fitted if len(variants) == 1 else best
        else:
            try:
                score = criterion(fitted)
            except SolveError as failure:
                error = str(failure)
            else:
                if score >= best_score:
                    best, best_score = fitted, score
        del fitted
        now = time.perf_counter()
        candidates.append(Candidate(dict(settings), score, error, now - last))
        last = now
        progress("choose settings", len(candidates), len(variants), **settings, score=score)
        if seconds is not None and best is not None and now - start >= seconds:
            for rest in variants[len(candidates) :]:
                candidates.append(Candidate(dict(rest), error=f"not tried: the {seconds:g} s were over"))
            break
    if best is None:
        raise SolveError(
            f"all {len(candidates)} candidate settings of {model.name} failed; the last one said: "
            f"{candidates[-1].error if candidates else 'there was nothing to try'}"
        )
    return best, candidates


def _without_validation(
    model: M,
    train: Interactions,
    may_hold_out: bool,
    variants: Sequence[Mapping[str, Any]],
    progress: Progress,
) -> tuple[M, list[Candidate]]:
    """The variant that is best on an inner holdout, fitted on everything; else the fallback."""
    inner = inner_holdout(train) if may_hold_out else None
    if inner is None:
        settings = {name: model.fallback[name] for name in variants[0]}
        return model.fit_variant(train, settings, progress), [Candidate(settings, error=NOTHING_HELD_OUT)]
    candidates = select(model, *inner, variants, progress=progress)[1]
    return first_solved(candidates, lambda settings: model.fit_variant(train, settings, progress)), candidates


def best_first(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Those that were judged, the best one first; of equals the last, as everywhere."""
    judged = [(one.score, at, one) for at, one in enumerate(candidates) if one.score is not None]
    return [one for *_, one in sorted(judged, key=lambda entry: entry[:2], reverse=True)]


def first_solved(candidates: list[Candidate], fit: Callable[[Mapping[str, Any]], T]) -> T:
    """Result of fitting the best candidate that can be fitted; those before it are marked as impossible.

    They were judged on a part of the interactions: λ = 0 fails where two users differ only in what was
    hidden.
    """
    ranked = best_first(candidates)
    while True:
        best = ranked.pop(0)
        try:
            return fit(best.settings)
        except SolveError as failure:
            if not ranked:
                raise
            error = f"on all interactions, {failure}"
            candidates[candidates.index(best)] = replace(best, error=error)


# ---- the weight of dislikes --------------------------------------------------------------------------------
def _tune_with_dislikes(
    model: M, train: Interactions, validation: Interactions | None, **options: Any
) -> Tuned[M]:
    """The open settings as without dislikes, then the weight of these, where some are hidden to choose it by.

    options: See `tune`.
    """
    begin, progress = time.perf_counter(), options["progress"]
    weight, plain = model.settings.dislikes, model.with_settings(dislikes=0.0)
    if weight != AUTO or options["context"] is not None:
        tuned = tune(plain, (train, validation), **options)
        weight = 0.0 if weight == AUTO else weight
        return replace(tuned, model=tuned.model.with_dislikes(weight, progress))
    parts = (train, validation) if validation is not None else inner_holdout(train)
    hidden = None if parts is None or parts[1] is None else parts[1].dislikes
    if parts is None or parts[1] is None or hidden is None or not hidden.n_interactions:
        return tune(plain, (train, validation), **options)
    first = tune(plain, parts, **options)
    chosen, tried = weigh_dislikes(first.model, parts[1], progress)
    if validation is None:
        fitted = first_solved(
            first.candidates or [Candidate({}, 0.0)],
            lambda settings: plain.fit_variant(train, settings, progress),
        )
        chosen = fitted.with_dislikes(chosen.settings.dislikes, progress)
    chosen = chosen.with_facts(dislikes=[asdict(one) for one in tried]).with_candidates(first.candidates)
    return replace(first, model=chosen, seconds=time.perf_counter() - begin)


@dataclass(frozen=True)
class TriedWeight:
    """NDCG@100 in percent of lists with a weight: of hidden likes, and of hidden dislikes."""

    weight: float
    likes: float
    dislikes: float


def weigh_dislikes(model: M, hidden: Interactions, progress: Progress) -> tuple[M, list[TriedWeight]]:
    """The model with the weight with which hidden dislikes stand lowest, among those with which hidden likes
    stand no lower than with 0; and everything that was tried.

    Args:
        model: The model, fitted on a log with dislikes, which do not count yet.
        hidden: What was held out of the log: likes, and dislikes beside them.
        progress: Called after each weight.
    """
    tried: list[TriedWeight] = []
    variant = model
    for number, weight in enumerate(WEIGHTS_OF_DISLIKES):
        variant = (variant if weight else model).with_dislikes(weight, progress)
        tried.append(TriedWeight(weight, *_ndcg(variant, hidden)))
        progress("choose the weight of dislikes", number + 1, len(WEIGHTS_OF_DISLIKES), dislikes=weight)
    return variant.with_dislikes(best_weight(tried).weight), tried


def best_weight(tried: list[TriedWeight]) -> TriedWeight:
    """The weight to take, the smallest of equals; `tried` begins with 0.

    Args:
        tried: What was found with each weight.
    """
    return min((one for one in tried if one.likes >= tried[0].likes), key=lambda one: one.dislikes)


def _ndcg(model: Tunable, hidden: Interactions) -> tuple[float, float]:
    """NDCG in percent of hidden likes and of hidden dislikes, each over the users who have some.

    Args:
        model: A fitted model; what the users of its log have or dislike is in no list.
        hidden: Hidden likes, with dislikes beside them.
    """
    log = model.log
    assert log.dislikes is not None and hidden.dislikes is not None
    k, values = cutoff(log.n_items), []
    for target in (hidden.matrix, hidden.dislikes.matrix):
        judges = draw_judges(np.flatnonzero(np.diff(target.indptr)), JUDGES, "judges")
        quality = []
        for start in range(0, len(judges), _BLOCK):
            some = judges[start : start + _BLOCK]
            seen = sp.csr_array(log.matrix[some] + log.dislikes.matrix[some])
            top = top_k(model.scores_with_dislikes(some), k, exclude=seen)
            quality.append(truncated_ndcg(hits(top, target[some]), np.diff(target[some].indptr)))
        values.append(100.0 * float(np.concatenate(quality).mean()) if quality else 0.0)
    return values[0], values[1]


# ---- what weights count for --------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class StrengthChoice:
    """The function of weights that ranks validation data best, and NDCG@100 of each, in percent."""

    strength: Strength
    scores: Mapping[str, float]


def choose_strength(model: M, data: Split | Interactions, progress: Progress = silent) -> StrengthChoice:
    """The function of weights that suits a model and a log, by NDCG@100 on validation.

    Args:
        model: The model, unfitted; its open settings are chosen for each function.
        data: A split, of which only train and validation are looked at; or a log, of which a part is held
            out.
        progress: Called while it works.
    """
    whole, given = (data.train, data.val) if isinstance(data, Split) else (data, None)
    parts = (whole, given) if given is not None and given.n_interactions else inner_holdout(whole)
    if parts is None:
        return StrengthChoice(Strength.of(NONE, whole), {})
    train, validation = parts
    scores: dict[str, float] = {}
    for number, how in enumerate(EVEN):
        strength = Strength.of(how, train)
        try:
            tuned = tune(model, (strength(train), strength(validation)))
            if not tuned.model.is_interpolating:
                scores[how] = Criterion(validation.matrix, metric="NDCG")(tuned.model)
        except SolveError:
            continue
        progress("choose what weights count for", number + 1, len(EVEN), weight_as=how)
    plain = scores.get(NONE, 0.0)
    best = max(scores, key=lambda how: scores[how], default=NONE)
    if scores.get(best, 0.0) <= _BETTER * plain:
        best = NONE
    return StrengthChoice(Strength.of(best, whole), scores)
