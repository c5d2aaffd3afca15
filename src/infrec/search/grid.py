"""Every variant of a model is fitted and judged, one after the other; the best one is kept."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from infrec.errors import InfrecError, SolveError
from infrec.progress import Progress, silent
from infrec.search.criterion import Candidate, Criterion, Scorer, validate_alignment

if TYPE_CHECKING:
    import scipy.sparse as sp

    from infrec.data import Interactions

_NOTHING_SAID = "not judged: it reproduces the histories exactly, so validation says nothing about it"


class Variable(Scorer, Protocol):
    """A model with settings to try, as a search sees it."""

    @property
    def name(self) -> str:
        """Name of the model."""

    @property
    def is_interpolating(self) -> bool:
        """Whether it gives training users their own histories back."""

    def path(
        self, interactions: Interactions, variants: Sequence[Mapping[str, Any]], progress: Progress = silent
    ) -> Iterator[tuple[dict[str, Any], Self | InfrecError]]:
        """Each variant, fitted, or why it cannot be."""


M = TypeVar("M", bound=Variable)


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
    would be ranked by the order of the items alone.

    Args:
        model: The model, with the settings that do not vary.
        train: The log to fit on.
        validation: Held-out interactions of the same users.
        variants: The settings to try, in order.
        context: The validation users' histories when they are not the users of `train` (a model fitted on a
            summary); without it, row u of both is the same user.
        seconds: No variant is begun after that time (but until one has been judged).
        progress: Called after each variant.
    """
    validate_alignment(train, validation, known_users=context is None)
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
