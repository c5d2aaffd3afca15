"""Reconstruction: from a part of somebody's history, can the rest be named?

As in the paper's appendix: the attacker knows a share of a person's items, and how many are missing, fits
∞-AE on the release, and names as many items as are missing. What the model can say about anybody at all
(the control), or what is popular (the baseline), is no leak: only what it knows beyond that of the people
who were in the log.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.privacy.matching import AT_ONCE, Groups, parted
from infrec.privacy.membership import Rate, rate
from infrec.progress import Progress, silent
from infrec.randomness import generator

if TYPE_CHECKING:
    from infrec.models import Recommender

REVEALED = (0.5, 0.9)


@dataclass(frozen=True)
class Reconstruction:
    """A share of each history is known; the rest is predicted, as many items as are missing.

    exact: users all of whose missing items were named. partly: the mean share that was.
    """

    revealed: float
    exact: Mapping[str, Rate]
    partly: Mapping[str, Rate]


def reconstruction(
    model: Recommender,
    counts: NDArray[np.floating],
    groups: Groups,
    *,
    seed: int = 42,
    progress: Progress = silent,
) -> list[Reconstruction]:
    """For each share that is revealed: how many people are completed exactly, and how much of them."""
    everybody = groups.everybody
    n = np.diff(everybody.indptr)
    reconstructions = []
    for at, share in enumerate(REVEALED):
        missing = np.where(n >= 2, np.maximum(1, np.floor((1 - share) * n + 1e-9)), 0).astype(np.int64)
        rest, given = parted(everybody, missing, generator(seed, "hidden", str(share)))
        known = np.flatnonzero(missing)
        given, rest = given[known], rest[known]
        attack, alone = hits(given, rest, model=model), hits(given, rest, counts=counts)
        inside = known < groups.members.shape[0]
        arms = {"attack": attack[inside], "popularity": alone[inside], "control": attack[~inside]}
        arms = {name: shares for name, shares in arms.items() if len(shares)}
        exact = {name: rate(float((shares == 1).sum()), len(shares)) for name, shares in arms.items()}
        partly = {name: _mean(shares) for name, shares in arms.items()}
        reconstructions.append(Reconstruction(share, exact, partly))
        progress("reconstruction", at + 1, len(REVEALED))
    return reconstructions


def _mean(values: NDArray[np.floating]) -> Rate:
    """A mean over people of shares between 0 and 1, with its normal interval."""
    centre = float(values.mean())
    half = 1.96 * float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 1.0
    return Rate(centre, max(0.0, centre - half), min(1.0, centre + half), len(values))


def hits(
    given: sp.csr_array,
    rest: sp.csr_array,
    *,
    model: Recommender | None = None,
    counts: NDArray[np.floating] | None = None,
) -> NDArray[np.float64]:
    """Of each person's missing items, the share that is among as many named ones."""
    out = np.zeros(given.shape[0])
    for start in range(0, len(out), AT_ONCE):
        shown, wanted = given[start : start + AT_ONCE], rest[start : start + AT_ONCE]
        if model is not None:
            scores = np.array(model.score(shown), np.float32)
        else:
            scores = np.tile(np.asarray(counts, np.float32), (shown.shape[0], 1))
        scores[shown.nonzero()] = -np.inf
        missing = np.diff(wanted.indptr)
        there = (wanted.toarray() > 0) & _top(scores, missing)
        out[start : start + AT_ONCE] = there.sum(axis=1) / np.maximum(missing, 1)
    return out


def _top(scores: NDArray[np.float32], sizes: NDArray[np.integer]) -> NDArray[np.bool_]:
    """The `sizes` best items of each row, equals in the order of the items.

    Sorting values alone, instead of places, is several times faster where rows want lists of any length.
    """
    ordered = np.sort(scores, axis=1)
    last = np.take_along_axis(ordered, np.maximum(ordered.shape[1] - sizes, 0)[:, None] % ordered.shape[1], 1)
    above, level = scores > last, scores == last
    left = sizes[:, None] - above.sum(axis=1, keepdims=True)
    return (above | (level & (np.cumsum(level, axis=1) <= left))) & (sizes[:, None] > 0)
