"""Models side by side on one split: how good, for whom, what they recommend, and one user explained.

The records are plain data; `report.comparison` makes a page of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from infrec import machine
from infrec.evaluation.coldness import by_user_coldness
from infrec.evaluation.evaluate import Evaluation, compare, evaluate
from infrec.evaluation.fidelity import versions
from infrec.metrics.intervals import Interval
from infrec.progress import Progress, Stopwatch, silent
from infrec.splits import holdout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from infrec.data import Interactions
    from infrec.evaluation.fidelity import Card
    from infrec.models import InfiniteAE, Recommender
    from infrec.splits import Split

GROUPS = ("most popular", "popular", "middle", "rarer", "long tail")
METRIC = "HR@10"  # of groups of users, and of who leads
REASONS = 3


@dataclass(frozen=True)
class Stratum:
    """Quality for one group of users. `label` says which, in words a reader understands (`3–7 items`)."""

    label: str
    users: int
    metrics: Mapping[str, float]
    intervals: Mapping[str, Interval] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelRecord:
    """One model measured on one split. `popularity`: the share of its recommendations in each group."""

    name: str
    metrics: Mapping[str, float]
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    selected: Mapping[str, Any] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    strata: Sequence[Stratum] = ()
    popularity: Sequence[float] = ()


@dataclass(frozen=True)
class Lead:
    """How far one model is ahead of another, user by user: the difference and its 95 % interval."""

    first: str
    second: str
    metric: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Reason:
    """One thing that spoke for a recommendation, and how much of the score it is."""

    label: str
    contribution: float


@dataclass(frozen=True)
class Recommended:
    """One recommended item and why. `items` are of the user's own history; `users` are others like them.

    rest: what the items of the history that are not listed add together. baseline: the item's score for
    somebody without a history. Items, rest and baseline add up to the score.
    """

    rank: int
    label: str
    score: float
    items: Sequence[Reason] = ()
    users: Sequence[Reason] = ()
    rest: float = 0.0
    baseline: float = 0.0
    held_out: bool = False

    @property
    def parts(self) -> list[tuple[str, float]]:
        """The parts of the score by name."""
        items = [(item.label, item.contribution) for item in self.items]
        return [*items, ("the rest of the history", self.rest), ("without a history", self.baseline)]


@dataclass(frozen=True)
class Example:
    """Recommendations for one user, with that user's history."""

    user: str
    model: str
    history: Sequence[str]
    recommended: Sequence[Recommended]


@dataclass(frozen=True)
class Comparison:
    """Several models on one split: everything the HTML report shows.

    popularity_groups: items from the most to the least popular, cut so that each group holds the same
        share of the interactions; (label, number of items).
    card: what a summary of the same data is worth, where one was distilled.
    facts: small print worth keeping (library versions, device, command).
    """

    dataset: str
    protocol: str
    split: str
    users: int
    items: int
    interactions: int
    models: Sequence[ModelRecord]
    leads: Sequence[Lead] = ()
    popularity_groups: Sequence[tuple[str, int]] = ()
    example: Example | None = None
    card: Card | None = None
    facts: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The record as JSON can hold it."""
        return asdict(self)


# ---- measuring --------------------------------------------------------------------------------------------
def compare_models(
    log: Interactions,
    names: Sequence[str],
    *,
    dataset: str,
    seed: int = 42,
    facts: Mapping[str, str] | None = None,
    progress: Progress = silent,
) -> Comparison:
    """Fit and measure models on one split.

    Args:
        log: The interactions; 80 / 10 / 10 % of each user's are drawn, or its own parts are used.
        names: The models; where ∞-AE is among them, its recommendations for one user are explained.
        dataset: The name of the data on the page.
        seed: Of the split and of the intervals.
        facts: Small print.
        progress: Called with what is being done.
    """
    from infrec import models

    split = holdout(log, seed=seed)
    group_of = popularity_groups(split.train.item_counts, len(GROUPS))
    records, evaluations, example = [], {}, None
    for name in names:
        watch = Stopwatch()
        with watch("fit"):
            model = models.create(name).fit(split.train, validation=split.val, progress=progress)
        with watch("evaluate"):
            evaluations[name] = evaluate(model, split, seed=seed, progress=progress)
        records.append(_record(model, evaluations[name], group_of, watch.seconds))
        if name == models.InfiniteAE.name:
            example = _example(model, split)
    sizes = [int((group_of == at).sum()) for at in range(len(GROUPS))]
    return Comparison(
        dataset=dataset,
        protocol="paper-code",
        split=split.name,
        users=split.train.n_users,
        items=split.train.n_items,
        interactions=log.n_interactions,
        models=tuple(records),
        leads=_leads(evaluations, seed),
        popularity_groups=tuple(zip(GROUPS, sizes, strict=True)),
        example=example,
        facts={**(facts or {}), "device": machine.device(), **versions()},
    )


def popularity_groups(counts: NDArray[np.int64], groups: int) -> NDArray[np.int64]:
    """The group of each item, most popular first; each group holds about equally many interactions."""
    order = np.argsort(-counts, kind="stable")
    before = np.cumsum(counts[order]) - counts[order]
    group_of = np.empty(len(counts), np.int64)
    group_of[order] = np.minimum(before * groups // max(1, int(counts.sum())), groups - 1)
    return group_of


def _record(
    model: Recommender, evaluation: Evaluation, group_of: NDArray[np.int64], seconds: dict[str, float]
) -> ModelRecord:
    shown = np.bincount(group_of, weights=evaluation.exposure[10], minlength=len(GROUPS))
    strata = tuple(
        Stratum(f"{s.label} items", s.size, {METRIC: s.metrics[METRIC]}, {METRIC: s.intervals[METRIC]})
        for s in by_user_coldness(evaluation)
    )
    return ModelRecord(
        model.name,
        dict(evaluation.metrics),
        dict(evaluation.intervals),
        selected={name: model.selected[name] for name in model.search_space},
        seconds=seconds,
        strata=strata,
        popularity=tuple((shown / max(1.0, shown.sum())).tolist()),
    )


def _leads(evaluations: dict[str, Evaluation], seed: int) -> tuple[Lead, ...]:
    """The best model against the second best, user by user."""
    if len(evaluations) < 2:
        return ()
    first, second = sorted(evaluations, key=lambda name: -evaluations[name].metrics[METRIC])[:2]
    difference = compare(evaluations[first], evaluations[second], seed=seed)[METRIC]
    return (Lead(first, second, METRIC, difference.value, difference.low, difference.high),)


def _example(model: Any, split: Split) -> Example:
    """Recommendations with reasons for the first user of whom about ten items are known."""
    context = split.test_context
    row = int(np.argmin(np.abs(np.diff(context.indptr) - 10)))
    items = split.train.items
    history = items.take(context.indices[context.indptr[row] : context.indptr[row + 1]]).to_pylist()
    held_out = set(items.take(split.test.matrix[[row]].indices).to_pylist())
    recommended = model.recommend(histories=[history], k=5)
    title = _titles(model)
    return Example(
        user=str(split.train.users[row]),
        model=model.name,
        history=tuple(title(item) for item in history),
        recommended=tuple(_explained(model, history, r, title, held_out) for r in recommended),
    )


def _explained(
    model: InfiniteAE,
    history: list[object],
    row: dict[str, Any],
    title: Callable[[object], str],
    held_out: set[object],
) -> Recommended:
    explanation = model.explain(history, row["item"])
    items, users = (list(islice(reasons, REASONS)) for reasons in (explanation.items, explanation.users))
    return Recommended(
        rank=row["rank"],
        label=title(row["item"]),
        score=explanation.score,
        items=tuple(Reason(title(reason["item"]), reason["contribution"]) for reason in items),
        users=tuple(Reason(str(reason["user"]), reason["contribution"]) for reason in users),
        rest=explanation.score - explanation.baseline - sum(reason["contribution"] for reason in items),
        baseline=explanation.baseline,
        held_out=row["item"] in held_out,
    )


def _titles(model: Recommender) -> Callable[[object], str]:
    """item id → its title where there is one, else the id."""
    log = model.log
    if log.titles is None:
        return str
    known = dict(zip(log.items.ids.to_pylist(), log.titles.to_pylist(), strict=True))
    return lambda item: str(known.get(item) or item)
