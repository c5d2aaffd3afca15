"""Figure 5: MVAE carried through 17 periods of ML-1M. Do distilled exemplars keep the past best?"""

from __future__ import annotations

from infrec.experiments import published
from infrec.experiments.base import (
    QUICK_STEPS,
    Claim,
    Experiment,
    Figure,
    Findings,
    Panel,
    Plan,
    Point,
    Series,
    Table,
    Value,
    claim,
)
from infrec.experiments.cells import DISTILLED, PERIODS, Cell, Data, pairs
from infrec.experiments.names import listed, name, number
from infrec.experiments.periods import STRATEGIES
from infrec.experiments.rows import Results, Row, Rows

MODEL = "mvae"
COUNT, QUICK_COUNT = 17, 3  # periods
EXEMPLARS = 25  # percent of a period's interactions
RIVALS = ("ader", "individual", "joint")  # of the paper's claim


def cells(plan: Plan) -> list[Cell]:
    """One cell for each strategy: all of its periods."""
    settings = {"periods": QUICK_COUNT if plan.quick else COUNT, "exemplars": EXEMPLARS}
    quick = QUICK_STEPS if plan.quick else {}
    return plan.grid(
        [
            Cell(
                dataset,
                0,
                Data(PERIODS, settings=pairs(strategy=strategy, **settings, **quick)),
                (plan.fit(dataset, MODEL, whole=False),),
            )
            for dataset in plan.datasets
            for strategy in STRATEGIES
        ]
    )


def findings(results: Results) -> Findings:
    rows, datasets = results.rows, results.datasets()
    return Findings(
        claims=[beats(dataset, rows.where(dataset=dataset)) for dataset in datasets],
        figures=[figure(dataset, rows.where(dataset=dataset)) for dataset in datasets],
        tables=[table(dataset, rows.where(dataset=dataset)) for dataset in datasets],
        notes=notes(),
    )


def beats(dataset: str, rows: Rows, metric: str = "HR@10") -> Claim:
    text = "Exemplars by Distill-CF beat ADER, Individual and Joint, on average over the periods"
    found = {row.source: row for row in rows.where(metric=metric)}
    ours = found.get(DISTILLED)
    if ours is None or any(rival not in found for rival in RIVALS):
        return claim(text, dataset, None, "not every strategy is measured yet.")
    beaten = [rival for rival in RIVALS if ours.value > found[rival].value]
    told = "; ".join(f"{name(s)} {number(metric, found[s].value)}" for s in STRATEGIES if s in found)
    return claim(
        text,
        dataset,
        len(beaten) == len(RIVALS),
        f"mean {metric}: {told}. Distill-CF is ahead of {listed([name(each) for each in beaten])}.",
    )


def figure(dataset: str, rows: Rows) -> Figure:
    """A place for each strategy; the bars are 95 % intervals."""
    there = [strategy for strategy in STRATEGIES if rows.where(source=strategy)]
    ticks = tuple((float(at), name(strategy).removesuffix(" (0/1)")) for at, strategy in enumerate(there))

    def panel(metric: str) -> Panel:
        series = []
        for at, strategy in enumerate(there):
            row = rows.get(source=strategy, metric=metric)
            points = () if row is None else (_point(at, row),)
            series.append(Series(strategy, points))
        y = metric if metric == "AUC" else f"{metric} (%)"
        return Panel(f"{dataset}: {metric}", "", y, tuple(series), ticks=ticks)

    metrics = published.METRICS
    caption = (
        f"MVAE on {dataset}, updated period by period and measured on the next one: means over the periods. "
        "Bars are 95 % intervals over users, means over seeds."
    )
    return Figure(f"continual-{dataset}", caption, tuple((panel(metric),) for metric in metrics))


def _point(at: int, row: Row) -> Point:
    return Point(float(at), row.value, row.low, row.high, row.seeds)


def table(dataset: str, rows: Rows) -> Table:
    """Strategies down, metrics across."""
    lines = []
    for strategy in STRATEGIES:
        own = rows.where(source=strategy)
        if not own:
            continue
        line: list[str | Value] = [name(strategy)]
        for metric in published.METRICS:
            row = own.get(metric=metric)
            best = max((r.value for r in rows.where(metric=metric)), default=None)
            line.append(
                Value(metric, None)
                if row is None
                else Value(metric, row.value, row.low, row.high, best=row.value == best)
            )
        lines.append(tuple(line))
    seeds = max((row.seeds for row in rows), default=0)
    caption = f"{dataset}: MVAE by strategy, mean over the periods and over {seeds} seed{'s' * (seeds != 1)}."
    return Table(caption, ("strategy", *published.METRICS), tuple(lines))


def notes() -> list[str]:
    return [
        f"The log is cut by time into {COUNT} periods of equally many interactions. ML-1M as prepared here "
        "has no times across users; its user ids run backwards in time and most users rated in one sitting, "
        "so its order is (−user, place in the user's own history). Nearly everybody in a period is new then.",
        "Trained on the periods up to i, measured on period i + 1: the last fifth of each user's "
        "interactions there is to be found, given the earlier ones and everything before. Items that no "
        "period up to i has cannot be recommended and count as missed.",
        "Joint and Individual are trained from the beginning in each period; ADER and Distill-CF go on from "
        "the last model. Fine-tune, which the paper does not have, is ADER without exemplars.",
        f"ADER's and Distill-CF's exemplars have equally many interactions: {EXEMPLARS} % of a period's. "
        "Both are replayed with ADER's adaptive distillation loss (λ_base = 0.8): the paper injects "
        "summaries “instead”. ADER herds in MVAE's latent means, among the period's users and its old "
        "exemplars; Distill-CF carries its summary on, as `infrec distill --continue` does.",
        "A tenth of each period's interactions decides when training stops. The settings of MVAE are those "
        "chosen on the whole dataset's validation part. The paper states no figures for this experiment.",
    ]


EXPERIMENT = Experiment(
    name="continual",
    title="Do distilled exemplars help a model that is updated period by period?",
    source="Figure 5",
    about="MVAE through 17 periods with Joint, Individual, ADER and Distill-CF exemplars: the means.",
    cells=cells,
    findings=findings,
    datasets=("ml-1m",),
)
