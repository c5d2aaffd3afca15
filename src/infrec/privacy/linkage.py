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

Reconstruction: from a part of somebody's history, can the rest be named? As in the paper's appendix: the
attacker knows a share of a person's items, and how many are missing, fits ∞-AE on the release, and names as
many items as are missing. What the model can say about anybody at all (the control), or what is popular (the
baseline), is no leak: only what it knows beyond that of the people who were in the log.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.data.interactions import canonical
from infrec.privacy.matching import AT_ONCE, Groups, Matches, match, nearest, parted
from infrec.privacy.membership import Rate, rate
from infrec.progress import Progress, silent
from infrec.randomness import generator

if TYPE_CHECKING:
    from infrec.models import Recommender

KNOWN = (2, 4, 8, 16)
WRONG = 0.25  # of the known items, rounded down


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

    @classmethod
    def of(cls, rows: sp.csr_array, groups: Groups, *, seed: int = 42) -> Neighbours:
        """Nearest members and nearest control of each released row, as many of the one as of the other."""
        support = groups.support
        to_members = nearest(rows, groups.members, support).to_person
        likeness = {"members": float(np.median(to_members))}
        copies = int((to_members > 1 - 1e-5).sum())
        if not groups.measurable:
            return cls(None, copies, likeness)
        rng = generator(seed, "as many members")
        n, m = groups.members.shape[0], groups.control.shape[0]
        members = groups.members[rng.choice(n, min(n, m), replace=False)]
        control = groups.control if m <= n else groups.control[rng.choice(m, n, replace=False)]
        some, others = (nearest(rows, people, support).to_person for people in (members, control))
        likeness |= {"as many members": float(np.median(some)), "control": float(np.median(others))}
        nearer = float((some > others).sum() + 0.5 * (some == others).sum())
        return cls(nearer / rows.shape[0], copies, likeness)


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
    everybody, support, n = groups.everybody, groups.support, groups.members.shape[0]
    sizes = np.clip(np.rint(released.sum(axis=1)).astype(np.int64), 1, len(popularity))
    alone = _by_popularity(popularity, sizes, generator(seed, "popular rows"))
    own, alone_own = (nearest(rows, everybody, support).person for rows in (released, alone))
    linkages = []
    for at, known in enumerate(KNOWN):
        wrong = int(WRONG * known)
        targets, who = auxiliary(everybody, known, wrong, support, generator(seed, "known items", str(known)))
        if len(who):
            attack = match(targets, released, support=support, whose=(own, who))
            baseline = match(targets, alone, support=support, whose=(alone_own, who))
            right, inside = _credit(attack), who < n
            linked = np.unique(attack.index[inside & (attack.index >= 0) & (own[attack.index] == who)])
            linkages.append(
                Linkage(
                    known,
                    wrong,
                    attack=_rate(right[inside]),
                    popularity=_rate(_credit(baseline)[inside]),
                    control=None if inside.all() else _rate(right[~inside]),
                    claimed=_rate((right * attack.accepted)[inside]),
                    rows=len(linked) / len(own),
                )
            )
        progress("linkage", at + 1, len(KNOWN))
    return linkages


def _by_popularity(
    counts: NDArray[np.floating], sizes: NDArray[np.integer], rng: np.random.Generator
) -> sp.csr_array:
    """Rows of these sizes that know nothing but how popular items are: drawn in proportion, no item twice."""
    keys = np.log(np.maximum(counts, 1e-9))[None, :] + rng.gumbel(size=(len(sizes), len(counts)))
    order = np.argsort(-keys, axis=1)
    row, place = np.nonzero(np.arange(len(counts))[None, :] < sizes[:, None])
    ones = np.ones(len(row), np.float32)
    return canonical(sp.csr_array((ones, (row, order[row, place])), shape=keys.shape))


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
    shown, _ = parted(own, np.full(len(who), right), rng)
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
        mistakes, _ = parted(drawn, np.full(len(who), wrong), rng)
        shown = canonical(sp.csr_array(shown + mistakes))
    return shown, who


def _credit(matches: Matches) -> NDArray[np.float64]:
    """The chance that a row of the target's is named, where one of those that match equally well is drawn."""
    assert matches.own is not None
    return np.where(matches.index >= 0, matches.own / np.maximum(matches.ties, 1), 0.0)


def _rate(right: NDArray[np.float64]) -> Rate:
    return rate(float(right.sum()), len(right))


# ---- reconstruction ---------------------------------------------------------------------------------------
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
