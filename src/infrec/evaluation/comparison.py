"""Models side by side on one split: how good, for whom, what they recommend, and one user explained.

The records are plain data; `report.comparison` makes a page of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from infrec import machine, metrics
from infrec.errors import ConfigError
from infrec.evaluation.coldness import by_user_coldness
from infrec.evaluation.evaluate import Evaluation, compare, drawn_users, evaluate
from infrec.evaluation.fidelity import versions
from infrec.metrics.intervals import Interval, intervals_of
from infrec.models.balance import Balance
from infrec.models.reranking import Reranker
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


# ---- lists that are not all alike: accuracy against coverage, distance within lists and novelty -----------
SHARES = (0.0, 1 / 3, 2 / 3, 1.0)  # of the wish, each of which is measured
_BATCH_SCORES = 4 << 20  # that exist at a time


@dataclass(frozen=True)
class Step:
    """Lists under one wish.

    Args:
        diversity, popularity: The wish; 0 and 0 are lists by scores alone.
        metrics: Name → value: hit rate, NDCG, coverage and distance in percent, novelty in bits.
        intervals: Name → (low, high), 95 %, by resampling users; not for coverage, which is no mean.
    """

    diversity: float
    popularity: float
    metrics: Mapping[str, float]
    intervals: Mapping[str, Interval] = field(default_factory=dict)


@dataclass(frozen=True)
class Trade:
    """One model's lists, from those by scores alone to those of the whole wish.

    Args:
        model: Its name.
        k: Length of the lists.
        users: How many users were measured.
        steps: The lists under growing parts of the wish.
    """

    model: str
    k: int
    users: int
    steps: tuple[Step, ...]


def trade(
    model: Recommender,
    split: Split,
    balance: Balance,
    *,
    protocol: metrics.Protocol = "paper-code",
    seed: int = 42,
    sample_users: int | None = None,
    progress: Progress = silent,
) -> Trade:
    """Measure the lists of a fitted model under thirds of a wish, on the test part of a split.

    The distance of two items is 1 − the cosine of their columns of the train part, whatever the model thinks.

    Args:
        model: A model fitted on the train part.
        split: The split.
        balance: The wish.
        protocol: The hit rate and NDCG, and the length of the lists (the protocol's first).
        seed: Of the bootstrap and of `sample_users`.
        sample_users: Measure on so many users, drawn at random.
        progress: Called with how many users are done.
    """
    if balance.neutral:
        raise ConfigError("diversity and popularity are 0; expected a wish, such as diversity=0.3.")
    users: NDArray[np.intp] = np.arange(split.train.n_users)
    if protocol == "graph":
        users = np.flatnonzero(split.test.user_counts)
    if sample_users is not None and sample_users < len(users):
        users = drawn_users(users, sample_users, seed)
    k, both = metrics.LENGTHS[protocol][0], (balance.diversity, balance.popularity)
    wishes = [Balance(*(round(share * wish, 6) + 0.0 for wish in both)) for share in SHARES]
    tallies = [_Tally(split, protocol, k) for _ in wishes]
    rerankers = [Reranker.of(model.traits, wish, None) for wish in wishes]
    step = max(1, _BATCH_SCORES // split.train.n_items)
    for start in range(0, len(users), step):
        some = users[start : start + step]
        context = split.test_context[some]
        scores = model.score(context, users=split.train.users.take(some))
        for reranker, tally in zip(rerankers, tallies, strict=True):
            if reranker is None:
                tally.add(some, metrics.top_k(scores, k, exclude=context))
            else:
                tally.add(some, reranker.best(scores, context, k, exclude=context))
        progress("lists", start + len(some), len(users))
    found = [tally.step(wish, seed) for wish, tally in zip(wishes, tallies, strict=True)]
    return Trade(model.name, k, len(users), tuple(found))


class _Tally:
    """Figures of the lists under one wish, a batch of users at a time."""

    def __init__(self, split: Split, protocol: metrics.Protocol, k: int) -> None:
        self.split, self.protocol, self.k = split, protocol, k
        self.counts = split.train.item_counts
        self.columns = metrics.unit_columns(split.train.matrix)
        self.exposure = np.zeros(split.train.n_items, np.int64)
        self.batches: list[dict[str, Any]] = []

    def add(self, users: np.ndarray, top: np.ndarray) -> None:
        held_out, k = self.split.test.matrix[users], self.k
        weights = np.ones(len(self.counts))  # of PSP, which is not shown
        values = metrics.ranking_metrics(top, held_out, weights, k=(k,), protocol=self.protocol)
        hit_rate = f"{metrics.HIT_RATE[self.protocol]}@{k}"
        kept = {name: 100.0 * values[name] for name in (hit_rate, f"NDCG@{k}")}
        kept[f"distance@{k}"] = 100.0 * metrics.intra_list_distance(top, self.columns)
        kept[f"novelty@{k}"] = metrics.novelty(top, self.counts, self.split.train.n_users)
        self.exposure += metrics.exposure(top, len(self.exposure))
        self.batches.append(kept)

    def step(self, wish: Balance, seed: int) -> Step:
        """The means, with their intervals."""
        per_user = {name: np.concatenate([batch[name] for batch in self.batches]) for name in self.batches[0]}
        means = {name: float(values.mean()) for name, values in per_user.items()}
        means[f"coverage@{self.k}"] = 100.0 * metrics.coverage(self.exposure)
        bounds = intervals_of(per_user, seed=seed)
        return Step(wish.diversity, wish.popularity, means, bounds)
