"""Linkage: which released row belongs to a person of whom a few items are known?

A synthetic row has no name under it, so whose it is must be defined for members and control alike: a row
belongs to the person, of both groups together, whose whole history is most similar to it. The attacker
knows k items of a target (a quarter of them wrong) and names the row that matches best; the link is right
if that row belongs to the target. A release that knows nothing of single people gives its rows to members
and to the control alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from infrec.data.interactions import canonical
from infrec.privacy import groups as people
from infrec.privacy import roc
from infrec.privacy.groups import Groups
from infrec.privacy.matching import Matches, item_weights, match
from infrec.privacy.records import Linkage, Rate
from infrec.progress import Progress, silent
from infrec.randomness import generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

KNOWN = (2, 4, 8, 16)
WRONG = 0.25  # of the known items, rounded down
ROWS_AT_ONCE = 4096


def linkage(
    released: sp.csr_array,
    groups: Groups,
    popularity: NDArray[np.float64],
    *,
    seed: int = 42,
    progress: Progress = silent,
) -> list[Linkage]:
    """The attack for each number of known items, with its baseline and its control.

    popularity: how popular each item is, as far as the release tells: all that the baseline knows.
    """
    everybody = groups.everybody
    support = np.bincount(everybody.indices, minlength=everybody.shape[1])
    own = owners(released, everybody, support)
    sizes = np.maximum(1, np.rint(np.asarray(released.sum(axis=1)).ravel())).astype(np.int64)
    most = np.minimum(sizes, len(popularity))
    alone = people.by_popularity(popularity, most, generator(seed, "popular rows"))
    alone_own = owners(alone, everybody, support)
    found = []
    for at, known in enumerate(KNOWN):
        wrong = int(WRONG * known)
        targets, who = auxiliary(everybody, known, wrong, support, generator(seed, "known items", str(known)))
        if len(who):
            attack = match(targets, released, support=support, whose=(own, who))
            baseline = match(targets, alone, support=support, whose=(alone_own, who))
            found.append(_judged(attack, baseline, own, who, groups, known, wrong))
        progress("linkage", at + 1, len(KNOWN))
    return found


def owners(
    released: sp.csr_array, everybody: sp.csr_array, support: NDArray[np.integer]
) -> NDArray[np.int64]:
    """For each released row the person whose history it resembles most; −1 where it is like nobody's."""
    weights = item_weights(support) ** 2
    best, who = np.zeros(released.shape[0], np.float32), np.full(released.shape[0], -1, np.int64)
    for start in range(0, everybody.shape[0], ROWS_AT_ONCE):
        alike = people.cosine(everybody[start : start + ROWS_AT_ONCE], released, weights)
        at = alike.argmax(axis=0)
        value = alike[at, np.arange(alike.shape[1])]
        better = value > best
        best[better], who[better] = value[better], start + at[better]
    return who


def auxiliary(
    everybody: sp.csr_array, known: int, wrong: int, support: NDArray[np.integer], rng: np.random.Generator
) -> tuple[sp.csr_array, NDArray[np.int64]]:
    """What the attacker knows: `known − wrong` items of each history and `wrong` popular ones from elsewhere.

    Only of people who have that many items; their numbers come second.
    """
    right = known - wrong
    who = np.flatnonzero(np.diff(everybody.indptr) >= right)
    if not len(who):
        return sp.csr_array((0, everybody.shape[1]), dtype=np.float32), who
    own = everybody[who]
    shown = people.kept(own, people.picked(own, np.full(len(who), right), rng))
    if wrong:
        chance = support / support.sum()
        # A few more draws than needed: those that the person really has are no mistakes.
        row = np.repeat(np.arange(len(who)), 4 * wrong)
        drawn = sp.csr_array(
            (np.ones(len(row), np.float32), (row, rng.choice(len(support), len(row), p=chance))),
            shape=own.shape,
        )
        drawn = canonical(drawn - drawn.multiply(own))
        drawn.data[:] = 1.0
        mistakes = people.kept(drawn, people.picked(drawn, np.full(len(who), wrong), rng))
        shown = canonical(sp.csr_array(shown + mistakes))
    return shown, who


def _judged(
    attack: Matches,
    baseline: Matches,
    own: NDArray[np.int64],
    who: NDArray[np.int64],
    groups: Groups,
    known: int,
    wrong: int,
) -> Linkage:
    n = groups.members.shape[0]
    inside, outside = who < n, who >= n
    right = _credit(attack)
    named = (attack.index >= 0) & (own[attack.index] == who)
    linked = np.unique(attack.index[inside & named])
    return Linkage(
        known,
        wrong,
        _rate(right[inside]),
        _rate(_credit(baseline)[inside]),
        _rate(right[outside]) if outside.any() else None,
        _rate((right * attack.accepted)[inside]),
        len(linked) / len(own),
    )


def _credit(found: Matches) -> NDArray[np.float64]:
    """The chance that a row of the target's is named, where one of those that match equally well is drawn."""
    assert found.own is not None
    return np.where(found.index >= 0, found.own / np.maximum(found.ties, 1), 0.0)


def _rate(right: NDArray[np.float64]) -> Rate:
    return roc.rate(float(right.sum()), len(right))
