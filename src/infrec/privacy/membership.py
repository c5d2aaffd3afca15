"""Membership: was this person in the log? A score for everybody; the control says what it means.

distance:    similarity to the nearest released row.
model:       ∞-AE is fitted on the release; half of a history is shown to it, and its scores of the rest,
             standardised over the items not shown, are averaged. Who was learnt from may be predicted better.
popularity:  the baseline, which knows nothing but how popular the person's items are.
likelihood:  the first two, each against what it would be with and without this person.

The likelihood ratio: what would a person's score be had they been in, and had they not?

Shadows are releases made in the same way from random halves of everybody whose membership is at stake. For
each person the scores of shadows that held them and of those that did not are two normal distributions,
with their own means and one common variance each (there are few shadows); the logarithm of the ratio of the
two densities, at the score that the real release gives, is the attack's score. From "Membership inference
attacks from first principles" (Carlini and others, IEEE S&P 2022).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.data import Interactions, Vocabulary
from infrec.privacy.groups import AT_ONCE, Groups, nearest, parted
from infrec.privacy.released import Released
from infrec.privacy.roc import Membership, strongest
from infrec.progress import Progress, silent
from infrec.randomness import generator

if TYPE_CHECKING:
    from infrec.models import Recommender

HALVINGS = 4  # ways in which each history is cut in two
WORST = 10

Scores = Mapping[str, "NDArray[np.float64]"]


def membership(
    released: Released,
    groups: Groups,
    *,
    shadows: int = 0,
    delta: float = 0.0,
    seed: int = 42,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Every score, the baseline, and the members whom the strongest score puts furthest above the control.

    delta: what the bound on ε grants the mechanism.
    """
    scores = dict(_scores(released, groups, seed, progress))
    if shadows:
        scores["likelihood"] = _likelihood(released, groups, dict(scores), shadows, seed, progress)
    logs = np.log(released.counts + 0.5)
    popularity = (groups.everybody @ logs) / np.maximum(np.diff(groups.everybody.indptr), 1)
    *measured, alone = (
        Membership.of(name, *groups.split(score), seed=seed, delta=delta)
        for name, score in {**scores, "popularity": popularity}.items()
    )
    best = strongest(measured).score
    return {
        "membership": tuple(measured),
        "popularity": alone,
        "worst": _worst(groups, scores[best], best),
    }


def _worst(groups: Groups, scores: NDArray[np.float64], name: str) -> tuple[dict[str, Any], ...]:
    inside, outside = groups.split(scores)
    return tuple(
        {
            "user": groups.ids[at],
            "score": name,
            "value": float(inside[at]),
            "control_above": float((outside >= inside[at]).mean()),
        }
        for at in np.argsort(-inside, kind="stable")[:WORST]
    )


# ---- scores -----------------------------------------------------------------------------------------------
def _scores(released: Released, groups: Groups, seed: int, progress: Progress = silent) -> Scores:
    rows = released.read(groups.everybody)
    distance = {} if rows is None else {"distance": nearest(rows, groups.everybody, groups.support).to_row}
    return {**distance, "model": predicted(released.model, groups.everybody, seed=seed, progress=progress)}


def predicted(
    model: Recommender, everybody: sp.csr_array, *, seed: int = 42, progress: Progress = silent
) -> NDArray[np.float64]:
    """How well the model predicts each half of a history from the other; a single item, from nothing."""
    total = np.zeros(everybody.shape[0])
    for at in range(HALVINGS):
        half = (np.diff(everybody.indptr) + 1) // 2
        first, second = parted(everybody, half, generator(seed, "halves", str(at)))
        total += _standing(model, first, second)
        total += _standing(model, second, first)
        progress("membership", at + 1, HALVINGS)
    return total / (2 * HALVINGS)


def _standing(model: Recommender, given: sp.csr_array, targets: sp.csr_array) -> NDArray[np.float64]:
    """The mean standardised score of the items asked for, among those not given."""
    out = np.zeros(given.shape[0])
    for start in range(0, len(out), AT_ONCE):
        shown, wanted = given[start : start + AT_ONCE], targets[start : start + AT_ONCE]
        scores: NDArray[Any] = np.asarray(model.score(shown), np.float64)
        free = np.ones(scores.shape)
        free[shown.nonzero()] = 0.0
        count = np.maximum(free.sum(axis=1), 1)
        centre = (free * scores).sum(axis=1) / count
        spread = np.sqrt((free * (scores - centre[:, None]) ** 2).sum(axis=1) / count)
        sums = np.asarray(wanted.multiply(scores).sum(axis=1)).ravel()
        n = np.diff(wanted.indptr)
        standing = (sums / np.maximum(n, 1) - centre) / np.maximum(spread, 1e-12)
        out[start : start + AT_ONCE] = np.where(n > 0, standing, 0.0)
    return out


# ---- the likelihood ratio ---------------------------------------------------------------------------------
def _likelihood(
    released: Released, groups: Groups, observed: Scores, shadows: int, seed: int, progress: Progress
) -> NDArray[np.float64]:
    """The log-likelihood ratio of each person, summed over the scores."""
    assert released.remake is not None
    member = halves(groups.everybody.shape[0], shadows, seed)
    shadow_scores = []
    for at, inside in enumerate(member):
        rows = np.flatnonzero(inside)
        log = Interactions(groups.everybody[rows], Vocabulary.numbered(len(rows)), released.items)
        shadow_scores.append(_scores(released.remake(log, seed + at + 1), groups, seed + at + 1))
        progress("shadows", at + 1, shadows)
    return ratio(observed, shadow_scores, member)


def halves(people: int, shadows: int, seed: int) -> NDArray[np.bool_]:
    """[shadow, person]: who is in which; everybody in half of the shadows."""
    order = generator(seed, "shadows").random((shadows, people)).argsort(axis=0)
    return order < shadows // 2


def ratio(observed: Scores, shadow_scores: list[Scores], member: NDArray[np.bool_]) -> NDArray[np.float64]:
    """log N(score; mean with, variance with) − log N(score; mean without, variance without), summed."""
    total = np.zeros(member.shape[1])
    for name, score in observed.items():
        table = np.stack([scores[name] for scores in shadow_scores])
        for inside, sign in ((member, 1.0), (~member, -1.0)):
            count = inside.sum(axis=0)
            mean = np.where(inside, table, 0.0).sum(axis=0) / count
            variance = np.where(inside, (table - mean) ** 2, 0.0).sum() / (count - 1).sum() + 1e-18
            total += sign * (-0.5 * np.log(variance) - (score - mean) ** 2 / (2 * variance))
    return total
