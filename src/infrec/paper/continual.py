"""Figure 5: MVAE carried through 17 periods of ML-1M. Do distilled exemplars keep the past best?

An appendix figure: the strategies of `continual`, one period at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from infrec.paper import published
from infrec.paper.cells import DISTILLED, PERIODS, Cell, Data, pairs
from infrec.paper.continual_strategies import STRATEGIES
from infrec.paper.experiment import QUICK_STEPS, Experiment, Plan
from infrec.paper.results import Results, Rows, data_of
from infrec.paper.views import axis, by_metric, point
from infrec.report.document import Claim, Figure, Findings, Panel, Point, Series, Table, Value, claim
from infrec.report.numbers import label, listed, number

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
    told = "; ".join(f"{label(s)} {number(metric, found[s].value)}" for s in STRATEGIES if s in found)
    return claim(
        text,
        dataset,
        len(beaten) == len(RIVALS),
        f"mean {metric}: {told}. Distill-CF is ahead of {listed([label(each) for each in beaten])}.",
    )


def figure(dataset: str, rows: Rows) -> Figure:
    """A place for each strategy; the bars are 95 % intervals."""
    there = [strategy for strategy in STRATEGIES if rows.where(source=strategy)]
    ticks = tuple((float(at), label(strategy).removesuffix(" (0/1)")) for at, strategy in enumerate(there))

    def panel(metric: str) -> Panel:
        rows_of = [rows.get(source=strategy, metric=metric) for strategy in there]
        drawn = tuple(
            Series(strategy, () if row is None else (point(at, row),))
            for at, (strategy, row) in enumerate(zip(there, rows_of, strict=True))
        )
        return Panel(f"{dataset}: {metric}", "", axis(metric), drawn, ticks=ticks)

    metrics = published.METRICS
    caption = (
        f"MVAE on {dataset}, updated period by period and measured on the next one: means over the periods. "
        "Bars are 95 % intervals over users, means over seeds."
    )
    return Figure(f"continual-{dataset}", caption, tuple((panel(metric),) for metric in metrics))


def table(dataset: str, rows: Rows) -> Table:
    """Strategies down, metrics across."""
    lines = {label(one): rows.where(source=one) for one in STRATEGIES if rows.where(source=one)}
    seeds = max((row.seeds for row in rows), default=0)
    caption = f"{dataset}: MVAE by strategy, mean over the periods and over {seeds} seed{'s' * (seeds != 1)}."
    return by_metric(caption, "strategy", lines)


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


Periods = Mapping[str, Sequence[Mapping[str, Any]]]  # strategy → what was measured on each period


def of_strategies(results: Results, dataset: str) -> dict[str, list[dict[str, Any]]]:
    """Each strategy's periods, with means over seeds."""
    found: dict[str, list[list[dict[str, Any]]]] = {}
    for record in results.records:
        measured = record["measured"][0]
        if record["configuration"]["dataset"] == dataset and "periods" in measured:
            found.setdefault(data_of(record).name, []).append(measured["periods"])
    return {
        strategy: [_mean(seeds) for seeds in zip(*found[strategy], strict=False)]
        for strategy in STRATEGIES
        if strategy in found
    }


def _mean(seeds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    def mean(values: Sequence[float]) -> float:
        return sum(values) / len(values)

    first = seeds[0]
    metrics = {name_: mean([each["metrics"][name_] for each in seeds]) for name_ in first["metrics"]}
    bounds = {
        name_: [mean([each["intervals"][name_][side] for each in seeds]) for side in (0, 1)]
        for name_ in first["intervals"]
    }
    return {**first, "metrics": metrics, "intervals": bounds, "seeds": len(seeds)}


def period_findings(results: Results) -> Findings:
    claims, figures, tables = [], [], []
    for dataset in results.datasets():
        found = of_strategies(results, dataset)
        claims.append(most_periods(dataset, found))
        figures.append(period_figure(dataset, found))
        tables.append(period_table(dataset, found))
    return Findings(claims=claims, figures=figures, tables=tables, notes=notes())


def most_periods(dataset: str, found: Periods, metric: str = "HR@10") -> Claim:
    text = "Exemplars by Distill-CF are the best of the four strategies in most periods"
    rivals = [rival for rival in RIVALS if rival in found]
    if DISTILLED not in found or len(rivals) < len(RIVALS):
        return claim(text, dataset, None, "not every strategy is measured yet.")

    def values(strategy: str) -> list[float]:
        """Without the first, on which all strategies have the same model: there is no past yet."""
        return [each["metrics"][metric] for each in found[strategy][1:]]

    ours = values(DISTILLED)
    leads = {rival: sum(a > b for a, b in zip(ours, values(rival), strict=True)) for rival in RIVALS}
    best = sum(
        own > max(others) for own, others in zip(ours, zip(*map(values, RIVALS), strict=True), strict=True)
    )
    told = ", ".join(f"{label(rival)} in {count}" for rival, count in leads.items())
    return claim(
        text,
        dataset,
        2 * best > len(ours),
        f"best in {best} of {len(ours)} periods ({metric}); ahead of {told}.",
    )


def period_figure(dataset: str, found: Periods) -> Figure:
    def panel(metric: str) -> Panel:
        series = tuple(
            Series(strategy, tuple(_period_point(each, metric) for each in own))
            for strategy, own in found.items()
        )
        return Panel(f"{dataset}: {metric}", "period", f"{metric} (%)", series)

    caption = (
        "MVAE after each period, measured on the next, by strategy. Bands are 95 % intervals over the "
        "period's users, means over seeds."
    )
    panels = tuple((panel(metric),) for metric in ("HR@10", "HR@100", "NDCG@100"))
    return Figure(f"continual-periods-{dataset}", caption, panels)


def _period_point(measured: Mapping[str, Any], metric: str) -> Point:
    low, high = measured["intervals"][metric]
    return Point(float(measured["period"]), measured["metrics"][metric], low, high, measured["seeds"])


def period_table(dataset: str, found: Periods, metric: str = "HR@10") -> Table:
    """Periods down, strategies across."""
    lines = []
    for each in zip(*found.values(), strict=False):
        best = max(one["metrics"][metric] for one in each)
        first = each[0]
        line: list[str | Value] = [
            f"{first['period']}",
            f"{first['users']}",
            f"{first['unseen_percent']:.2f} %",
        ]
        for one in each:
            value, (low, high) = one["metrics"][metric], one["intervals"][metric]
            line.append(Value(metric, value, low, high, best=value == best))
        lines.append(tuple(line))
    head = ("period", "users", "of items never seen", *(label(strategy) for strategy in found))
    return Table(f"{dataset}: {metric} on each period, by strategy.", head, tuple(lines))


def period_rows(results: Results) -> list[dict[str, Any]]:
    """For programs: one row for each period, strategy and metric."""
    return [
        {
            "dataset": dataset,
            "source": strategy,
            "model": MODEL,
            "period": each["period"],
            "metric": metric,
            "value": each["metrics"][metric],
            "low": each["intervals"][metric][0],
            "high": each["intervals"][metric][1],
            "seeds": each["seeds"],
            "paper": None,
        }
        for dataset in results.datasets()
        for strategy, own in of_strategies(results, dataset).items()
        for each in own
        for metric in published.METRICS
    ]


CONTINUAL_PERIODS = Experiment(
    name="continual-periods",
    title="A model that is updated, one period at a time",
    source="appendix",
    about="The strategies of continual on each of the periods that they were measured on.",
    cells=cells,
    findings=period_findings,
    datasets=("ml-1m",),
    rows=period_rows,
)
