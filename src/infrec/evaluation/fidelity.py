"""How faithful a summary is: models fitted on it, on the full data and on as many random users; its card.

card = fidelity.card_of("my log", split, summary)
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from infrec import machine
from infrec.data import Summary
from infrec.errors import InfrecError
from infrec.evaluation.card_records import Card, Curve, Fidelity, Size, Which
from infrec.evaluation.evaluate import evaluate
from infrec.progress import Progress, Stopwatch, silent

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from infrec.data import Interactions
    from infrec.models import Recommender
    from infrec.splits import Split

MODELS = ("infinite-ae", "ease")
METRICS = ("HR@10", "HR@100", "NDCG@10")
CURVE_POINTS = 48
PICTURE = (210, 415)  # most users and items it shows: two pixels for a cell of a full-width page
ELSEWHERE = ("mode", "start", "seed", "users", "steps")  # settings that have a place of their own on the card
SEEN = "; with ε and δ all interactions went into the noisy sums, the test part's too"


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
    from infrec.distillation import dp_accounting, update

    about = summary.about
    if summary.items != split.train.items:  # with (ε, δ) it has the items that may be named
        split = update.with_items_of(split, summary)
        summary = summary.align_items(split.train.items)
    train = split.train
    watch = Stopwatch()
    with watch("measuring fidelity"):
        random = random_users(split, summary.n_users, seed)
        found = measure(
            split,
            {"full": None, "summary": summary, "finished": summary, "random": random},
            seed=seed,
            progress=progress,
        )
    versions = machine.versions()
    logs: dict[Which, Interactions] = {"full": train, "summary": summary, "random": random}
    return Card(
        dataset=dataset,
        items=train.n_items,
        mode=about["mode"],
        start=about["start"],
        discrete=summary.discrete,
        seed=about["seed"],
        steps=about["steps"],
        best_step=about["best_step"],
        full=size(train),
        summary=size(summary),
        random=size(random),
        settings={
            name: value
            for name, value in about["settings"].items()
            if name not in ELSEWHERE and value is not None and value is not False
        },
        seconds={"distilling": about["seconds"], **watch.seconds},
        fidelity=found,
        popularity=tuple(popularity(each, which) for which, each in logs.items()),
        activity=tuple(activity(each, which) for which, each in logs.items()),
        likeness=likeness(summary, train),
        picture=picture(summary, train),
        facts={
            "split": split.name + SEEN if "guarantee" in about and split.name != "own" else split.name,
            "protocol": "paper-code",
            "device": str(about.get("device", machine.device())),
            **{name: str(versions[name]) for name in ("infrec", "python", "jax", "numpy")},
        },
        guarantee=dp_accounting.with_epsilon(about.get("guarantee")),
    )


def random_users(split: Split, users: int, seed: int) -> Summary:
    """Users of the train part drawn at random: what a summary of so many users must beat.

    All of them where a summary has more: one that is carried on, or of invented users, may.
    """
    from infrec.samplers import sample

    return sample(split.train, users=min(users, split.train.n_users), seed=seed)


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

    found = []
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
            found.append(
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
    return tuple(found)


def document(found: Iterable[Fidelity]) -> dict[str, Any]:
    """By model and dataset, as `--json` has it; `ratio` is the summary's share of the full data's."""
    out: dict[str, Any] = {}
    for each in found:
        of_model = out.setdefault(each.model, {})
        of_model[each.data] = dict(each.metrics)
        if each.data == "summary":
            of_model["ratio"] = dict(each.share)
    return out


# ---- what a dataset looks like ---------------------------------------------------------------------------
def size(log: Interactions) -> Size:
    """Users, interactions, and the bytes of the interactions as a summary's Parquet file."""
    return Size(log.n_users, log.n_interactions, Summary.of(log).bytes)


def popularity(log: Interactions, which: Which) -> Curve:
    """In what share of users' histories items stand, the most popular first (in percent)."""
    held = np.sort(np.asarray(log.matrix.sum(axis=0), np.float64).ravel())[::-1]
    total = max(float(held.sum()), 1e-12)
    upto = np.cumsum(held)
    facts = {
        "items that anybody has (%)": 100 * float((held > 0).mean()),
        "users who have the most popular item (%)": 100 * float(held[0]) / log.n_users,
        **{
            f"interactions with the top {share} % of items (%)": 100 * float(upto[_last(share, held)]) / total
            for share in (1, 10, 50)
        },
    }
    return Curve(which, _points(100 * held / log.n_users), facts)


def activity(log: Interactions, which: Which) -> Curve:
    """How many interactions a user has (the sum of their weights), the most active first."""
    per_user = np.sort(np.asarray(log.matrix.sum(axis=1), np.float64).ravel())[::-1]
    facts = {
        "most": float(per_user[0]),
        "a tenth has more than": float(np.quantile(per_user, 0.9)),
        "median": float(np.median(per_user)),
        "a tenth has fewer than": float(np.quantile(per_user, 0.1)),
        "fewest": float(per_user[-1]),
        "mean": float(per_user.mean()),
    }
    return Curve(which, _points(per_user), facts)


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
    levels = np.ceil(15 * np.clip(cells[order[shown]], 0.0, 1.0)).astype(int)
    return tuple("".join(f"{level:x}" for level in row) for row in levels)
