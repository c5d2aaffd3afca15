"""Membership: was this person in the log? A score for everybody; the control says what it means.

distance:    similarity to the nearest released row.
model:       ∞-AE is fitted on the release; half of a history is shown to it, and its scores of the rest,
             standardised over the items not shown, are averaged. Who was learnt from may be predicted better.
popularity:  the baseline, which knows nothing but how popular the person's items are.
likelihood:  the first two, each against what it would be with and without this person (`shadows.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from infrec.privacy import groups as people
from infrec.privacy.matching import item_weights
from infrec.progress import Progress, silent
from infrec.randomness import generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from infrec.models import Recommender

HALVINGS = 4  # ways in which each history is cut in two
AT_ONCE = 1024


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
