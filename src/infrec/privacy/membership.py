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

Whoever scores above a threshold is called a member. The false-positive rate is that of the control; what
matters is the true-positive rate where hardly anybody of the control is accused, not the average over all
thresholds.

    (ε, δ)-differential privacy  ⇒  TPR ≤ e^ε · FPR + δ   and   1 − FPR ≤ e^ε · (1 − TPR) + δ

so a threshold whose rates break this for some ε proves that ε too small.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import betaincinv

from infrec.data import Interactions, Vocabulary
from infrec.privacy.matching import AT_ONCE, Groups, nearest, parted
from infrec.privacy.released import Released
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


# ---- rates, curves and what they prove, with their uncertainty --------------------------------------------
LEVEL = 0.95
FALSE_POSITIVES = {"10 %": 0.1, "1 %": 0.01, "0.1 %": 0.001}
FEWEST = 5  # people of the control above a threshold, for its false-positive rate to mean anything
RESAMPLES = 1000
POINTS = 200


@dataclass(frozen=True)
class Rate:
    """A share with its 95 % interval. of: how many it was measured on."""

    value: float
    low: float
    high: float
    of: int


@dataclass(frozen=True)
class Membership:
    """How well one score tells members from the control. tpr: true-positive rate by false-positive rate.

    curve: points (false-positive rate, true-positive rate). bound: the ε that this attack proves at least, at
    95 % confidence: no mechanism with a smaller ε would show it (up to its δ).
    """

    score: str
    auc: Rate
    tpr: Mapping[str, Rate]
    curve: Sequence[tuple[float, float]]
    bound: float

    @classmethod
    def of(
        cls,
        score: str,
        members: NDArray[np.floating],
        control: NDArray[np.floating],
        *,
        seed: int,
        delta: float = 0.0,
    ) -> Membership:
        """Everything about one score. delta: what the ε bound grants the mechanism."""
        measurable = {name: x for name, x in FALSE_POSITIVES.items() if x * len(control) >= FEWEST}
        tpr = {name: tpr_at(members, control, share, seed=seed) for name, share in measurable.items()}
        bound = epsilon_at_least(members, control, delta=delta, seed=seed)
        return cls(score, auc(members, control), tpr, curve(members, control), bound)

    @property
    def rarest(self) -> str | None:
        """The smallest share of outsiders wrongly accused that the control can tell, by its name."""
        return next((name for name in ("1 %", "10 %") if name in self.tpr), None)


def strongest(memberships: Sequence[Membership]) -> Membership:
    """The membership attack with the highest true-positive rate where few are wrongly accused."""
    return max(memberships, key=lambda each: each.tpr["1 %"].value if "1 %" in each.tpr else each.auc.value)


def rate(hits: float, of: int) -> Rate:
    """A share of independent people, with its Clopper–Pearson interval."""
    tail = (1 - LEVEL) / 2
    low = 0.0 if hits <= 0 else float(betaincinv(hits, of - hits + 1, tail))
    high = 1.0 if hits >= of else float(betaincinv(hits + 1, of - hits, 1 - tail))
    return Rate(hits / of if of else 0.0, low, high, of)


def threshold(control: NDArray[np.floating], share: float) -> float:
    """Above it lies at most this share of the control."""
    return float(np.sort(control)[::-1][math.floor(share * len(control))])


def tpr_at(members: NDArray[np.floating], control: NDArray[np.floating], share: float, *, seed: int) -> Rate:
    """The true-positive rate where at most this share of the control is accused.

    Its interval is a bootstrap over both groups: the threshold is as uncertain as the members. It holds
    Clopper–Pearson's, for of few members the bootstrap knows too little.
    """
    alone = rate(int((members > threshold(control, share)).sum()), len(members))
    rng = generator(seed, "tpr interval")
    ordered, m, k = np.sort(members), len(control), math.floor(share * len(control))
    # The (k+1)-th largest of m resampled people is the one at the (k+1)-th smallest of m uniform numbers.
    cut = np.sort(control)[::-1][(m * rng.beta(k + 1, m - k, RESAMPLES)).astype(np.int64)]
    above = 1 - np.searchsorted(ordered, cut, side="right") / len(ordered)
    drawn = rng.binomial(len(members), above) / len(members)
    tail = 50 * (1 - LEVEL)
    low, high = np.percentile(drawn, [tail, 100 - tail])
    return Rate(alone.value, min(float(low), alone.low), max(float(high), alone.high), len(members))


def auc(members: NDArray[np.floating], control: NDArray[np.floating]) -> Rate:
    """The chance that a member scores above somebody of the control (ties count half), with its interval."""
    value, n, m = _auc(members, control), len(members), len(control)
    return Rate(value, _compatible(value, 0.0, n, m), _compatible(value, 1.0, n, m), n)


def _compatible(value: float, end: float, n: int, m: int) -> float:
    """The AUC furthest towards `end` of which the one found is at most 1.96 deviations away.

    The deviation is that of the AUC in question, not of the one found, which is 0 where few people happen to
    be told apart without a mistake. At ½ it is that of guessing. From Newcombe, "Confidence intervals for an
    effect size measure based on the Mann–Whitney statistic" (Statistics in Medicine 2006), method 5.
    """
    more, near, far = (n + m) / 2 - 1, value, end
    for _ in range(60):
        at = (near + far) / 2
        spread = at * (1 - at) * (1 + more * ((1 - at) / (2 - at) + at / (1 + at))) / (n * m)
        near, far = (at, far) if abs(value - at) <= 1.96 * math.sqrt(spread) else (near, at)
    return near


def _auc(members: NDArray[np.floating], control: NDArray[np.floating]) -> float:
    ordered = np.sort(control)
    below = np.searchsorted(ordered, members, side="left") + np.searchsorted(ordered, members, side="right")
    return float(below.mean() / (2 * len(control)))


def curve(members: NDArray[np.floating], control: NDArray[np.floating]) -> tuple[tuple[float, float], ...]:
    """(false-positive rate, true-positive rate), evenly spaced on a logarithmic axis of the former."""
    m = len(control)
    counts = np.unique(np.geomspace(1, m, min(m, POINTS)).round().astype(int))
    cuts = np.sort(control)[::-1][counts - 1]
    # People at the cut itself are accused: the rates of the rule "at least".
    false = 1 - np.searchsorted(np.sort(control), cuts, side="left") / m
    true = 1 - np.searchsorted(np.sort(members), cuts, side="left") / len(members)
    return tuple((float(x), float(y)) for x, y in zip(false, true, strict=True))


def epsilon_at_least(
    members: NDArray[np.floating], control: NDArray[np.floating], *, delta: float = 0.0, seed: int = 0
) -> float:
    """A lower bound on ε at 95 % confidence, 0 where the attack proves nothing.

    The threshold is chosen on one half of the people and judged on the other, by Clopper–Pearson bounds.
    """
    rng = generator(seed, "bound")
    orders = [rng.permutation(len(group)) for group in (members, control)]
    try_in, try_out = members[orders[0][::2]], control[orders[1][::2]]
    judge_in, judge_out = members[orders[0][1::2]], control[orders[1][1::2]]
    if not len(judge_in) or not len(judge_out):
        return 0.0
    cuts = np.unique(np.quantile(np.concatenate([try_in, try_out]), np.linspace(0.001, 0.999, 200)))
    guess = [_bound(try_in, try_out, cut, delta) for cut in cuts]
    return max(0.0, _bound(judge_in, judge_out, float(cuts[int(np.argmax(guess))]), delta))


def _bound(members: NDArray[np.floating], control: NDArray[np.floating], cut: float, delta: float) -> float:
    """ln((TPR − δ)/FPR) or ln((1 − FPR − δ)/(1 − TPR)), the larger, each rate at its pessimistic end."""
    inside, outside = int((members > cut).sum()), int((control > cut).sum())
    true, false = rate(inside, len(members)), rate(outside, len(control))
    proofs = [(true.low - delta, false.high), (1 - false.high - delta, 1 - true.low)]
    return max(math.log(top / bottom) if top > 0 and bottom > 0 else -math.inf for top, bottom in proofs)
