"""Figure 5: MVAE carried through 17 periods of ML-1M. Do distilled exemplars keep the past best?

An appendix figure: the strategies of `continual`, one period at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infrec.paper import published
from infrec.paper.cells import DISTILLED, PERIODS, Cell, Data, pairs
from infrec.paper.continual_strategies import STRATEGIES
from infrec.paper.experiment import QUICK_STEPS, Experiment, Plan
from infrec.paper.results import Results, Rows, part, rows_of
from infrec.paper.views import axis, by_metric, point, series, value
from infrec.report.document import Claim, Figure, Findings, Panel, Series, Table, Value, claim
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
    here = {dataset: own.rows for dataset, own in results.by_dataset().items()}
    return Findings(
        claims=[beats(dataset, rows) for dataset, rows in here.items()],
        figures=[figure(dataset, rows) for dataset, rows in here.items()],
        tables=[table(dataset, rows) for dataset, rows in here.items()],
        notes=notes(),
    )


def beats(dataset: str, rows: Rows, metric: str = "HR@10") -> Claim:
    text = "Exemplars by Distill-CF beat ADER, Individual and Joint, on average over the periods"
    means = {row.source: row.value for row in rows.where(metric=metric)}
    if any(strategy not in means for strategy in (DISTILLED, *RIVALS)):
        return claim(text, dataset, None, "not every strategy is measured yet.")
    beaten = [rival for rival in RIVALS if means[DISTILLED] > means[rival]]
    lines = "; ".join(f"{label(s)} {number(metric, means[s])}" for s in STRATEGIES if s in means)
    ahead = f"Distill-CF is ahead of {listed([label(rival) for rival in beaten])}."
    return claim(text, dataset, len(beaten) == len(RIVALS), f"mean {metric}: {lines}. {ahead}")


def figure(dataset: str, rows: Rows) -> Figure:
    """A place for each strategy; the bars are 95 % intervals."""
    there = [strategy for strategy in STRATEGIES if rows.where(source=strategy)]
    ticks = [(float(at), label(strategy).removesuffix(" (0/1)")) for at, strategy in enumerate(there)]

    def panel(metric: str) -> Panel:
        drawn = [
            Series(strategy, [point(at, row) for row in rows.where(source=strategy, metric=metric)])
            for at, strategy in enumerate(there)
        ]
        return Panel(f"{dataset}: {metric}", "", axis(metric), drawn, ticks=ticks)

    caption = (
        f"MVAE on {dataset}, updated period by period and measured on the next one: means over the periods. "
        "Bars are 95 % intervals over users, means over seeds."
    )
    return Figure(f"continual-{dataset}", caption, [[panel(metric)] for metric in published.METRICS])


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


# ---- period by period -------------------------------------------------------------------------------------
def periods(results: Results) -> dict[str, Rows]:
    """Each strategy on one dataset; the label of a row is the number of its period."""
    rows = Rows(
        rows_of(
            part(record, str(period["period"]), period)
            for record in results.records
            for period in record["measured"][0].get("periods", ())
        )
    )
    of_strategies = {strategy: rows.where(source=strategy) for strategy in STRATEGIES}
    return {strategy: own for strategy, own in of_strategies.items() if own}


def period_findings(results: Results) -> Findings:
    here = results.by_dataset()
    return Findings(
        claims=[most_periods(dataset, periods(own)) for dataset, own in here.items()],
        figures=[period_figure(dataset, periods(own)) for dataset, own in here.items()],
        tables=[period_table(dataset, own) for dataset, own in here.items()],
        notes=notes(),
    )


def most_periods(dataset: str, of_strategies: Mapping[str, Rows], metric: str = "HR@10") -> Claim:
    text = "Exemplars by Distill-CF are the best of the four strategies in most periods"
    if any(strategy not in of_strategies for strategy in (DISTILLED, *RIVALS)):
        return claim(text, dataset, None, "not every strategy is measured yet.")

    def values(strategy: str) -> list[float]:
        """Without the first, on which all strategies have the same model: there is no past yet."""
        return [row.value for row in of_strategies[strategy].where(metric=metric)[1:]]

    ours, theirs = values(DISTILLED), {rival: values(rival) for rival in RIVALS}
    best = sum(value > max(rivals) for value, *rivals in zip(ours, *theirs.values(), strict=True))
    leads = ", ".join(
        f"{label(rival)} in {sum(a > b for a, b in zip(ours, rows, strict=True))}"
        for rival, rows in theirs.items()
    )
    figures = f"best in {best} of {len(ours)} periods ({metric}); ahead of {leads}."
    return claim(text, dataset, 2 * best > len(ours), figures)


def period_figure(dataset: str, of_strategies: Mapping[str, Rows]) -> Figure:
    def panel(metric: str) -> Panel:
        points = {
            strategy: [point(int(row.label), row) for row in rows.where(metric=metric)]
            for strategy, rows in of_strategies.items()
        }
        return Panel(f"{dataset}: {metric}", "period", axis(metric), series(points))

    caption = (
        "MVAE after each period, measured on the next, by strategy. Bands are 95 % intervals over the "
        "period's users, means over seeds."
    )
    panels = [[panel(metric)] for metric in ("HR@10", "HR@100", "NDCG@100")]
    return Figure(f"continual-periods-{dataset}", caption, panels)


def period_table(dataset: str, results: Results, metric: str = "HR@10") -> Table:
    """Periods down, strategies across."""
    of_strategies = {name: rows.where(metric=metric) for name, rows in periods(results).items()}
    records = (record["measured"][0] for record in results.records)
    measured: list[dict[str, Any]] = next((one["periods"] for one in records if "periods" in one), [])
    lines: list[list[str | Value]] = []
    for period, *rows in zip(measured, *of_strategies.values(), strict=False):
        best = max(row.value for row in rows)
        about = (f"{period['period']}", f"{period['users']}", f"{period['unseen_percent']:.2f} %")
        lines.append([*about, *(value(metric, row, best=row.value == best) for row in rows)])
    head = ("period", "users", "of items never seen", *map(label, of_strategies))
    return Table(f"{dataset}: {metric} on each period, by strategy.", head, lines)


def period_rows(results: Results) -> list[dict[str, Any]]:
    """For programs: one row for each period, strategy and metric."""
    return [
        {
            "dataset": dataset,
            "source": strategy,
            "model": MODEL,
            "period": int(row.label),
            "metric": row.metric,
            "value": row.value,
            "low": row.low,
            "high": row.high,
            "seeds": row.seeds,
            "paper": None,
        }
        for dataset, own in results.by_dataset().items()
        for strategy, rows in periods(own).items()
        for period in rows.every("label")
        for metric in published.METRICS
        for row in rows.where(label=period, metric=metric)
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
