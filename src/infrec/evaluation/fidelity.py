"""How faithful a summary is: models fitted on it, on the full data and on as many random users; its card.

card = fidelity.card_of("my log", split, summary)
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from infrec import machine
from infrec.data import Summary
from infrec.errors import InfrecError
from infrec.evaluation.evaluate import evaluate
from infrec.metrics.intervals import Interval
from infrec.progress import Progress, Stopwatch, silent

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from infrec.data import Interactions
    from infrec.models import Recommender
    from infrec.splits import Split

MODELS = ("infinite-ae", "ease")
METRICS = ("HR@10", "HR@100", "NDCG@10")
ELSEWHERE = ("mode", "start", "seed", "users", "steps")  # settings that have a place of their own on the card
SEEN = "; with ε and δ all interactions went into the noisy sums, the test part's too"


@dataclass(frozen=True)
class Fidelity:
    """One model fitted on one dataset, measured on the original's test part.

    share: each metric as a part of what the same model reaches when it is fitted on the full data.
    """

    model: str
    data: Which
    metrics: Mapping[str, float]
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    share: Mapping[str, float] = field(default_factory=dict)
    selected: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Card:
    """Everything the card of a summary shows.

    start: what the optimisation started from, `popularity` or `users` (rows of real users).
    seconds: spent, by stage. `steps` were made, and the summary of `best_step` was kept.
    popularity: in what share of users' histories the items stand. activity: interactions per user.
    likeness: rank correlation of the items' popularity in the summary with that in the original.
    picture: synthetic users × most popular items, a hexadecimal digit a cell, 0 to f (the largest).
    facts: small print worth keeping (library versions, device, command).
    guarantee: ε, δ, what they mean and what they do not cover; None where there is none.
    size_reason: what the number of interactions follows from.
    audit: what `infrec audit` found, without anybody's id (`Audit.as_dict(ids=False)`); None before it.
    """

    dataset: str
    items: int
    mode: str
    start: str
    discrete: bool
    seed: int
    steps: int
    best_step: int
    full: Size
    summary: Size
    random: Size | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    fidelity: Sequence[Fidelity] = ()
    popularity: Sequence[Curve] = ()
    activity: Sequence[Curve] = ()
    likeness: float | None = None
    picture: Sequence[str] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    guarantee: Mapping[str, Any] | None = None
    audit: Mapping[str, Any] | None = None
    size_reason: str = ""

    def by_model(self) -> dict[str, Any]:
        """The metrics by model and dataset, as `--json` has them; `ratio` is the summary's share."""
        metrics: dict[str, Any] = {}
        for each in self.fidelity:
            of_model = metrics.setdefault(each.model, {})
            of_model[each.data] = dict(each.metrics)
            if each.data == "summary":
                of_model["ratio"] = dict(each.share)
        return metrics

    def as_dict(self) -> dict[str, Any]:
        """The record as JSON can hold it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Card:
        """A record that `as_dict` wrote."""
        random = record.get("random")
        return cls(
            **{
                **record,
                "full": Size(**record["full"]),
                "summary": Size(**record["summary"]),
                "random": None if random is None else Size(**random),
                "fidelity": tuple(Fidelity(**each) for each in record["fidelity"]),
                "popularity": tuple(Curve.from_dict(each) for each in record["popularity"]),
                "activity": tuple(Curve.from_dict(each) for each in record["activity"]),
                "picture": tuple(record["picture"]),
            }
        )


# ---- measuring --------------------------------------------------------------------------------------------
def card_of(
    dataset: str, split: Split, summary: Summary, *, seed: int = 42, progress: Progress = silent
) -> Card:
    """The card of a summary: measured against its source and against as many random users.

    Args:
        dataset: What the source is called on the card.
        split: The source; models are fitted on its train part and measured on its test part.
        summary: What `distill` made of it.
        seed: Seed of the random users, of the AUC's negatives and of the intervals.
        progress: Called as the work goes on.
    """
    about, guarantee = summary.about, summary.about.get("guarantee")
    if guarantee is not None:
        from infrec.distillation import dp_accounting

        guarantee = dp_accounting.with_epsilon(guarantee)
    if summary.items != split.train.items:  # with (ε, δ) it has the items that may be named
        from infrec.distillation import update

        split = update.with_items_of(split, summary)
        summary = summary.align_items(split.train.items)
    train = split.train
    watch = Stopwatch()
    with watch("measuring fidelity"):
        from infrec.samplers import sample

        # All of them where a summary has more: one that is carried on, or of invented users, may.
        users = min(summary.n_users, train.n_users)
        random = sample(train, users=users, seed=seed)
        measurements = measure(
            split,
            {"full": None, "summary": summary, "finished": summary, "random": random},
            seed=seed,
            progress=progress,
        )
    logs: dict[Which, Interactions] = {"full": train, "summary": summary, "random": random}
    return Card(
        dataset=dataset,
        items=train.n_items,
        **{name: about[name] for name in ("mode", "start", "seed", "steps", "best_step")},
        discrete=summary.discrete,
        full=Size.of(train),
        summary=Size.of(summary),
        random=Size.of(random),
        settings={
            name: value
            for name, value in about["settings"].items()
            if name not in ELSEWHERE and value is not None and value is not False
        },
        seconds={"distilling": about["seconds"], **watch.seconds},
        fidelity=measurements,
        popularity=tuple(Curve.of_popularity(each, which) for which, each in logs.items()),
        activity=tuple(Curve.of_activity(each, which) for which, each in logs.items()),
        likeness=likeness(summary, train),
        picture=picture(summary, train),
        facts={
            "split": split.name + SEEN if guarantee is not None and split.name != "own" else split.name,
            "protocol": "paper-code",
            "device": str(about.get("device", machine.device())),
            **versions(),
        },
        guarantee=guarantee,
        size_reason=about.get("size_reason", ""),
    )


def versions() -> dict[str, str]:
    """The libraries that decide a figure, for the small print."""
    known = machine.versions()
    return {name: str(known[name]) for name in ("infrec", "python", "jax", "numpy")}


def measure(
    split: Split,
    datasets: Mapping[Which, Interactions | None],
    *,
    models: Iterable[str] = MODELS,
    seed: int = 42,
    progress: Progress = silent,
) -> tuple[Fidelity, ...]:
    """Every model on every dataset (None: the train part itself). What cannot be fitted is left out.

    ∞-AE is also finished: α solved on the train part, with the dataset called "finished" as its centres.
    """
    from infrec.models import InfiniteAE, create
    from infrec.search import tune

    measurements = []
    for name in models:
        full: Mapping[str, float] = {}
        for which, train in datasets.items():
            if which == "finished" and name != "infinite-ae":
                continue
            try:
                if which == "finished" and train is not None:
                    finished = InfiniteAE(centres=train)
                    finished.fit(split.train, validation=split.val, progress=progress)
                    fitted: Recommender = finished.with_only_centres()
                else:
                    # Other users than the split's: validation asks for the split's own histories.
                    context = None if train is None else split.train.matrix
                    data = (split.train if train is None else train, split.val)
                    fitted = tune(create(name), data, context=context, progress=progress).model
                result = evaluate(fitted, split, seed=seed, progress=progress)
            except InfrecError as error:
                warnings.warn(f"{name} on {which} data was not measured: {error}", stacklevel=2)
                continue
            metrics = {metric: result.metrics[metric] for metric in METRICS}
            if which == "full":
                full = metrics
            measurements.append(
                Fidelity(
                    name,
                    which,
                    metrics,
                    {metric: result.intervals[metric] for metric in METRICS if metric in result.intervals},
                    {metric: value / full[metric] for metric, value in metrics.items() if full.get(metric)},
                    {key: fitted.selected[key] for key in fitted.search_space},
                )
            )
            del fitted
    return tuple(measurements)


# ---- how much a dataset is, how popularity and activity are spread, and a picture of it -------------------
CURVE_POINTS = 48
PICTURE = (210, 415)  # most users and items it shows: two pixels for a cell of a full-width page

# The train part; what was distilled of it; that as centres of a fit on the train part; random users.
Which = Literal["full", "summary", "finished", "random"]


@dataclass(frozen=True)
class Size:
    """How much a dataset is. `bytes`: its interactions as Parquet."""

    users: int
    interactions: int
    bytes: int

    @classmethod
    def of(cls, log: Interactions) -> Size:
        """Users, interactions, and the bytes of the interactions as a summary's Parquet file."""
        return cls(log.n_users, log.n_interactions, Summary.of(log).bytes)


@dataclass(frozen=True)
class Curve:
    """A distribution of one dataset, largest first: points (share of items or users, value), and figures."""

    data: Which
    points: Sequence[tuple[float, float]]
    facts: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Curve:
        """A record as `asdict` writes it."""
        return cls(**{**record, "points": tuple((x, y) for x, y in record["points"])})

    @classmethod
    def of_popularity(cls, log: Interactions, which: Which) -> Curve:
        """In what share of users' histories items stand, the most popular first (in percent)."""
        held = np.sort(_amounts(log, axis=0))[::-1]
        total = max(float(held.sum()), 1e-12)
        upto = np.cumsum(held)
        facts = {
            "items that anybody has (%)": 100 * float((held > 0).mean()),
            "users who have the most popular item (%)": 100 * float(held[0]) / log.n_users,
        }
        for share in (1, 10, 50):
            top = float(upto[_last(share, held)])
            facts[f"interactions with the top {share} % of items (%)"] = 100 * top / total
        return cls(which, _points(100 * held / log.n_users), facts)

    @classmethod
    def of_activity(cls, log: Interactions, which: Which) -> Curve:
        """How many interactions a user has, the most active first."""
        per_user = np.sort(_amounts(log, axis=1))[::-1]
        facts = {
            "most": float(per_user[0]),
            "a tenth has more than": float(np.quantile(per_user, 0.9)),
            "median": float(np.median(per_user)),
            "a tenth has fewer than": float(np.quantile(per_user, 0.1)),
            "fewest": float(per_user[-1]),
            "mean": float(per_user.mean()),
        }
        return cls(which, _points(per_user), facts)


def _amounts(log: Interactions, axis: int) -> NDArray[np.float64]:
    """Interactions by item (0) or user (1): their number or, where most items have some weight, its sum."""
    matrix = log.matrix
    if 2 * matrix.nnz <= matrix.shape[0] * matrix.shape[1]:
        matrix = matrix.astype(bool).astype(np.float64)
    return np.asarray(matrix.sum(axis=axis), np.float64).ravel()


def _last(percent: int, values: NDArray[np.float64]) -> int:
    return max(1, round(len(values) * percent / 100)) - 1


def _points(values: NDArray[np.float64]) -> tuple[tuple[float, float], ...]:
    """A few points of a sorted array, evenly spaced on a logarithmic axis."""
    ranks = np.unique(np.geomspace(1, len(values), CURVE_POINTS).round().astype(int))
    return tuple((float(rank / len(values)), float(values[rank - 1])) for rank in ranks)


def likeness(summary: Interactions, train: Interactions) -> float | None:
    """Rank correlation of the items' popularity in the two; None where one of them has no order."""
    ranks = [_ranks(np.asarray(log.matrix.sum(axis=0)).ravel()) for log in (summary, train)]
    if min(float(r.std()) for r in ranks) == 0.0:
        return None
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _ranks(values: NDArray[Any]) -> NDArray[np.float64]:
    """Equal values share the mean of their ranks."""
    _, group, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[group]


def picture(summary: Interactions, train: Interactions) -> tuple[str, ...]:
    """Synthetic users × most popular items as rows of hexadecimal digits; like users stand together."""
    columns = np.argsort(-train.item_counts, kind="stable")[: PICTURE[1]]
    cells = summary.matrix[:, columns].toarray().astype(np.float64)
    centred = cells - cells.mean(axis=0)
    # The direction in which users differ most orders them; its sign is free, so the fullest end comes last.
    along = np.linalg.svd(centred, full_matrices=False)[0][:, 0]
    if cells[np.argmax(along)].sum() < cells[np.argmin(along)].sum():
        along = -along
    order = np.argsort(along, kind="stable")
    shown = np.linspace(0, len(order) - 1, min(len(order), PICTURE[0])).round().astype(int)
    levels = np.ceil(15 * np.clip(cells[order[shown]] / cells.max(), 0.0, 1.0)).astype(int)
    return tuple("".join(f"{level:x}" for level in row) for row in levels)
