"""Membership: was this person in the log? A score for everybody; the control says what it means.

distance:    similarity to the nearest released row.
model:       ∞-AE is fitted on the release; half of a history is shown to it, and its scores of the rest,
             standardised over the items not shown, are averaged. Who was learnt from may be predicted better.
popularity:  the baseline, which knows nothing but how popular the person's items are.
likelihood:  the first two, each against what it would be with and without this person (`membership.py`).

The likelihood ratio: what would a person's score be had they been in, and had they not?

Shadows are releases made in the same way from random halves of everybody whose membership is at stake. For
each person the scores of shadows that held them and of those that did not are two normal distributions,
with their own means and one common variance each (there are few shadows); the logarithm of the ratio of the
two densities, at the score that the real release gives, is the attack's score. From "Membership inference
attacks from first principles" (Carlini and others, IEEE S&P 2022).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from infrec.errors import ConfigError
from infrec.privacy import groups as people
from infrec.privacy.matching import item_weights
from infrec.progress import Progress, silent
from infrec.randomness import generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from infrec.models import Recommender

HALVINGS = 4  # ways in which each history is cut in two
AT_ONCE = 1024

FEWEST_SHADOWS = 4


def distance(rows: sp.csr_array, everybody: sp.csr_array) -> NDArray[np.float64]:
    """The similarity of each person to the released row that is most like them."""
    weights = item_weights(np.bincount(everybody.indices, minlength=everybody.shape[1])) ** 2
    out = np.zeros(everybody.shape[0])
    for start in range(0, len(out), AT_ONCE):
        out[start : start + AT_ONCE] = people.cosine(everybody[start : start + AT_ONCE], rows, weights).max(
            axis=1
        )
    return out


def popularity(counts: NDArray[np.floating], everybody: sp.csr_array) -> NDArray[np.float64]:
    """The mean logarithm of how often each person's items stand in the release."""
    logs = np.log(np.asarray(counts, np.float64) + 0.5)
    return (everybody @ logs) / np.maximum(np.diff(everybody.indptr), 1)


def predicted(
    model: Recommender, everybody: sp.csr_array, *, seed: int = 42, progress: Progress = silent
) -> NDArray[np.float64]:
    """How well the model predicts each half of a history from the other; a single item, from nothing."""
    total = np.zeros(everybody.shape[0])
    for at in range(HALVINGS):
        rng = generator(seed, "halves", str(at))
        first = people.picked(everybody, (np.diff(everybody.indptr) + 1) // 2, rng)
        for shown in (first, ~first):
            given, asked = people.kept(everybody, shown), people.kept(everybody, ~shown)
            total += _standing(model, given, asked)
        progress("membership", at + 1, HALVINGS)
    return total / (2 * HALVINGS)


def _standing(model: Recommender, given: sp.csr_array, asked: sp.csr_array) -> NDArray[np.float64]:
    """The mean standardised score of the items asked for, among those not given."""
    out = np.zeros(given.shape[0])
    for start in range(0, len(out), AT_ONCE):
        shown, wanted = given[start : start + AT_ONCE], asked[start : start + AT_ONCE]
        scores: NDArray[Any] = np.asarray(model.score(shown), np.float64)
        free = np.ones(scores.shape)
        free[shown.nonzero()] = 0.0
        count = np.maximum(free.sum(axis=1), 1)
        centre = (free * scores).sum(axis=1) / count
        spread = np.sqrt((free * (scores - centre[:, None]) ** 2).sum(axis=1) / count)
        sums = np.asarray(wanted.multiply(scores).sum(axis=1)).ravel()
        n = np.diff(wanted.indptr)
        out[start : start + AT_ONCE] = np.where(
            n > 0, (sums / np.maximum(n, 1) - centre) / np.maximum(spread, 1e-12), 0.0
        )
    return out


Scores = Mapping[str, "NDArray[np.float64]"]


def check_shadows(shadows: int) -> None:
    if shadows < FEWEST_SHADOWS or shadows % 2:
        raise ConfigError(
            f"{shadows} shadows were asked for; expected an even number of at least {FEWEST_SHADOWS}."
        )


def halves(people: int, shadows: int, seed: int) -> NDArray[np.bool_]:
    """[shadow, person]: who is in which; everybody in half of the shadows."""
    rng = generator(seed, "shadows")
    order = rng.random((shadows, people)).argsort(axis=0)
    return order < shadows // 2


def likelihood(
    observed: Scores,
    shadow: Callable[[NDArray[np.int64], int], Scores],
    people: int,
    *,
    shadows: int,
    seed: int = 42,
    progress: Progress = silent,
) -> NDArray[np.float64]:
    """The log-likelihood ratio of each person, summed over the scores.

    observed: what the real release says of everybody. shadow: makes one from the people numbered so, and
    scores everybody with it.
    """
    member = halves(people, shadows, seed)
    made = []
    for at in range(shadows):
        made.append(shadow(np.flatnonzero(member[at]), at))
        progress("shadows", at + 1, shadows)
    return ratio(observed, made, member)


def ratio(observed: Scores, made: list[Scores], member: NDArray[np.bool_]) -> NDArray[np.float64]:
    """log N(score; mean with, variance with) − log N(score; mean without, variance without), summed."""
    total = np.zeros(member.shape[1])
    for name, score in observed.items():
        table = np.stack([scores[name] for scores in made])
        for inside, sign in ((member, 1.0), (~member, -1.0)):
            count = inside.sum(axis=0)
            mean = np.where(inside, table, 0.0).sum(axis=0) / count
            variance = np.where(inside, (table - mean) ** 2, 0.0).sum() / (count - 1).sum() + 1e-18
            total += sign * (-0.5 * np.log(variance) - (score - mean) ** 2 / (2 * variance))
    return total
