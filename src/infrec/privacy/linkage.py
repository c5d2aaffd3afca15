"""Linkage: which released row belongs to a person of whom a few items are known?

A synthetic row has no name under it, so whose it is must be defined for members and control alike: a row
belongs to the person, of both groups together, whose whole history is most similar to it. The attacker
knows k items of a target (a quarter of them wrong) and names the row that matches best; the link is right
if that row belongs to the target. A release that knows nothing of single people gives its rows to members
and to the control alike.

How near released rows lie to real people: a smoke alarm, and labelled so.

Distances prove nothing: a release can be far from everybody and still tell who was in the log, and near to
somebody who was not. But exact copies, or rows much nearer to members than to the control, need no further
proof.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from infrec.data.interactions import canonical
from infrec.privacy import groups as people
from infrec.privacy import roc
from infrec.privacy.groups import Groups
from infrec.privacy.matching import Matches, item_weights, match
from infrec.privacy.roc import Rate
from infrec.progress import Progress, silent
from infrec.randomness import generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

KNOWN = (2, 4, 8, 16)
WRONG = 0.25  # of the known items, rounded down
ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class Linkage:
    """Targets with k known items, `wrong` of them wrong: how often the attacker's best row is really theirs.

    claimed: how often the attacker would also have dared to say so. popularity: the same attack on rows drawn
    from item popularity alone. control: the same attack on people who were not in the log.
    rows: the share of released rows that the attack linked to a member.
    """

    known: int
    wrong: int
    attack: Rate
    popularity: Rate
    control: Rate | None
    claimed: Rate
    rows: float


@dataclass(frozen=True)
class Neighbours:
    """A smoke alarm, no measure of leakage: how near released rows lie to members and to the control.

    nearer: the share of rows nearer to a member than to anybody of an equally large control; half by chance.
    copies: rows that are a member's history exactly. likeness: median similarity to the nearest one.
    """

    nearer: float | None
    copies: int
    likeness: Mapping[str, float]


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
    """The attacker's knowledge: `known − wrong` items of each history and `wrong` popular ones of others.

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


def neighbours(rows: sp.csr_array, groups: Groups, *, seed: int = 42) -> Neighbours:
    """Nearest members and nearest control of each released row, as many of the one as of the other."""
    everybody = groups.everybody
    weights = item_weights(np.bincount(everybody.indices, minlength=everybody.shape[1])) ** 2
    to_members = people.cosine(groups.members, rows, weights)
    likeness = {"members": float(np.median(to_members.max(axis=0)))}
    copies = int((to_members.max(axis=0) > 1 - 1e-5).sum())
    if not groups.measurable:
        return Neighbours(None, copies, likeness)
    rng = generator(seed, "as many members")
    n, m = groups.members.shape[0], groups.control.shape[0]
    some = to_members[rng.choice(n, min(n, m), replace=False)].max(axis=0)
    control = groups.control if m <= n else groups.control[rng.choice(m, n, replace=False)]
    to_control = people.cosine(control, rows, weights).max(axis=0)
    likeness |= {"as many members": float(np.median(some)), "control": float(np.median(to_control))}
    nearer = float((some > to_control).sum() + 0.5 * (some == to_control).sum())
    return Neighbours(nearer / rows.shape[0], copies, likeness)
