"""Do weighted summaries serve other models than the one they were made through, in other libraries too?"""

from __future__ import annotations

from collections.abc import Iterator

from infrec.paper import peers
from infrec.paper.cells import DISTILLED, FULL, Cell, Data, Fit, pairs
from infrec.paper.experiment import BEYOND, KNOWN_DATASETS, Experiment, Judged, Plan, claimed
from infrec.paper.results import HR, Results, pivot, value
from infrec.paper.verdicts import every, margin
from infrec.report.document import Table
from infrec.report.numbers import label

MODELS = ("infinite-ae", "infinite-ae-plus", "ease", "mf", "neumf", "lightgcn", "mvae", *peers.NAMES)
CLOSED = ("infinite-ae", "ease")  # of a quick look
PERCENT = 10  # of the log's interactions, in the summary and of the random users
SMALL = dict.fromkeys(("magazine", "douban-book", "lastfm-2k", "demo"), 33)  # of logs below 200,000
WEIGHTED, RANDOM = f"{DISTILLED}-weighted", "user-rns"
METRICS = (HR, "HR@100", "NDCG@10")
KEPT = 0.93


def varied(plan: Plan, dataset: str) -> Iterator[Cell]:
    """Every model on all users, on a weighted summary, and on random users with as many interactions."""
    percent = SMALL.get(dataset, PERCENT)
    summary = plan.distilled(None, "weighted", targets="others", percent=percent)
    for data in (Data(), summary, Data(RANDOM, settings=pairs(percent=percent))):
        for model in (*CLOSED, *peers.NAMES) if plan.quick else MODELS:
            if model in peers.NAMES and not peers.installed():
                continue
            fit = Fit(model) if model in peers.NAMES else plan.fit(dataset, model, data)
            yield Cell(dataset, 0, data, (fit,))


@claimed("Every model keeps 93 % of its quality on the weighted summary")
def keeps_quality(here: Results) -> Judged:
    pairs = here.rows.where(metric=HR).pairs("model", {"source": WEIGHTED}, {"source": FULL})
    shares = (f"{label(own.model)} {100 * own.value / full.value:.0f} %" for own, full in pairs if full.value)
    return every(margin(own, full, KEPT) for own, full in pairs), f"{HR}: {', '.join(shares)}"


@claimed("Every model is better on the weighted summary than on random users with as many interactions")
def beats_random_users(here: Results) -> Judged:
    pairs = here.rows.where(metric=HR).pairs("model", {"source": WEIGHTED}, {"source": RANDOM})
    figures = ", ".join(f"{label(own.model)} {own} against {random}" for own, random in pairs)
    return every(margin(own, random) for own, random in pairs), f"{HR}: {figures}"


def tables(each: list[Results]) -> Iterator[Table]:
    """Models down; what they are fitted on and metrics across."""
    names = {FULL: "all users", WEIGHTED: "summary", RANDOM: "random users"}
    columns = {f"{name}, {metric}": (source, metric) for source, name in names.items() for metric in METRICS}
    for here in each:
        yield pivot(
            f"{here.dataset}: models fitted on everything, and on what is smaller.",
            "model",
            {label(model): own for model in MODELS if (own := here.rows.where(model=model))},
            columns,
            lambda own, of: value(of[1], own.get(source=of[0], metric=of[1])),
        )


EXPERIMENT = Experiment(
    name="transfer",
    title="Do weighted summaries serve other models?",
    source=BEYOND,
    about="Nine models on everything, on a weighted summary, and on random users with as many interactions.",
    varied=varied,
    claims=(keeps_quality, beats_random_users),
    tables=tables,
    notes=(
        "Summary and random users have 33 % of the interactions of a log below 200,000, 10 % of a larger "
        "one.",
        "λ of ∞-AE and EASE is chosen on validation for each data; other models of ours have the settings "
        "chosen on the full data. ALS and BPR are implicit's, where it is installed; six settings of each "
        "were tried on validation.",
    ),
    datasets=KNOWN_DATASETS,
)
