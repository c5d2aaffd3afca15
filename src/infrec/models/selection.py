"""Which of a model's variants ranks held-out items best: the criterion that `fit` and `search` share."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from infrec.errors import DataError, InfrecError, SolveError
from infrec.metrics.ranking import hit_rate_at
from infrec.progress import Progress, silent
from infrec.randomness import generator

if TYPE_CHECKING:
    from infrec.data import Interactions
    from infrec.models.base import Recommender

_BLOCK = 512  # users whose scores exist at a time
_NOTHING_SAID = "not judged: it reproduces the histories exactly, so validation says nothing about it"
JUDGES = 20_000  # users at most whose held-out items decide; the same ones for every candidate


@dataclass(frozen=True)
class Candidate:
    """A variant that was tried: its settings, its validation HR@100 in percent, or why there is none.

    Of one trained by epochs: NDCG@100, the best so far at each rung (epochs, score); why it went no further.
    """

    settings: Mapping[str, Any]
    score: float | None = None
    error: str | None = None
    seconds: float = 0.0
    rungs: Sequence[tuple[int, float]] = ()
    dropped: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "rungs", tuple((int(epochs), score) for epochs, score in self.rungs))

    def without_solution(self, failure: str) -> Candidate:
        """This candidate, chosen on a part of the interactions, marked as impossible to fit on all."""
        return replace(self, error=f"on all interactions, {failure}")


@dataclass(frozen=True, eq=False)
class Selection:
    """The best variant, fitted, and everything that was tried."""

    model: Recommender
    candidates: list[Candidate]


def select(
    model: Recommender,
    train: Interactions,
    validation: Interactions,
    variants: Sequence[Mapping[str, Any]],
    *,
    context: sp.csr_array | None = None,
    seconds: float | None = None,
    progress: Progress = silent,
) -> Selection:
    """Fit the variants on `train` one after the other and keep the one that ranks `validation` best.

    The last of equals wins: search spaces begin with the least regularised value. A variant that fails is
    recorded and skipped, and so is one that gives training users their own histories back: what is held out
    would be ranked by the order of the items alone. With `seconds`, no variant is begun after that time (but
    until one has been judged).
    `context` holds the validation users' histories when they are not the users of `train` (a model fitted on
    a summary); without it, row u of both is the same user.
    """
    validate_alignment(train, validation, known_users=context is None)
    start = last = time.perf_counter()
    best: Recommender | None = None
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
                score = validation_score(fitted, validation.matrix, context=context)
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
    best.candidates = candidates
    return Selection(best, candidates)


def best_first(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Those that were judged, the best one first; of equals the last, as in `select`."""
    judged = [(one.score, at, one) for at, one in enumerate(candidates) if one.score is not None]
    return [one for *_, one in sorted(judged, key=lambda each: each[:2], reverse=True)]


def cutoff(n_items: int) -> int:
    """The list length of the criterion: the paper's 100, or a fifth of the items where those are fewer.

    With 60 items, every variant would reach 100 % at 100 and the choice would be left to chance.
    """
    return min(100, max(1, n_items // 5))


def validation_score(
    model: Recommender, held_out: sp.csr_array, *, context: sp.csr_array | None = None
) -> float:
    """Mean HR at `cutoff` in percent over all users; without a held-out item one counts 0, as published."""
    k = cutoff(held_out.shape[1])
    seen = model.log.matrix if context is None else context
    rows = np.flatnonzero(np.diff(held_out.indptr))
    share = len(rows) / max(1, held_out.shape[0])
    if len(rows) > JUDGES:
        rows = np.sort(generator(0, "judges").choice(rows, JUDGES, replace=False))
    total = 0.0
    for start in range(0, len(rows), _BLOCK):
        some = rows[start : start + _BLOCK]
        scores = model.fitted_scores(some) if context is None else model.score(context[some])
        total += float(hit_rate_at(scores, seen[some], held_out[some], k).sum())
    return 100.0 * share * total / max(1, len(rows))


def validate_alignment(train: Interactions, validation: Interactions, *, known_users: bool = True) -> None:
    """Both must be over the same items, and over the same users where rows are matched by number."""
    if validation.items != train.items:
        raise DataError(
            "the validation data has other items than the training data; expected the same, in order."
        )
    if known_users and validation.users != train.users:
        raise DataError(
            "the validation data has other users than the training data; expected the same, in order."
        )
