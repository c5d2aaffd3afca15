"""How faithful a summary is: models fitted on it, on the full data and on as many random users; its card.

card = fidelity.card_of("my log", split, summary)
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from infrec import machine
from infrec.data import Summary
from infrec.errors import InfrecError
from infrec.evaluation.distributions import Curve, Size, Which, likeness, picture
from infrec.evaluation.evaluate import evaluate
from infrec.metrics.intervals import Interval
from infrec.progress import Progress, Stopwatch, silent

if TYPE_CHECKING:
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
