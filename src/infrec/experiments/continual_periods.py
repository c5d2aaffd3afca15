"""An appendix figure: the strategies of `continual`, one period at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from infrec.experiments import continual, published
from infrec.experiments.base import (
    Claim,
    Experiment,
    Figure,
    Findings,
    Panel,
    Point,
    Series,
    Table,
    Value,
    claim,
)
from infrec.experiments.cells import DISTILLED
from infrec.experiments.names import name
from infrec.experiments.periods import STRATEGIES
from infrec.experiments.rows import Results, data_of

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


def findings(results: Results) -> Findings:
    claims, figures, tables = [], [], []
    for dataset in results.datasets():
        found = of_strategies(results, dataset)
        claims.append(most_periods(dataset, found))
        figures.append(figure(dataset, found))
        tables.append(table(dataset, found))
    return Findings(claims=claims, figures=figures, tables=tables, notes=continual.notes())


def most_periods(dataset: str, found: Periods, metric: str = "HR@10") -> Claim:
    text = "Exemplars by Distill-CF are the best of the four strategies in most periods"
    rivals = [rival for rival in continual.RIVALS if rival in found]
    if DISTILLED not in found or len(rivals) < len(continual.RIVALS):
        return claim(text, dataset, None, "not every strategy is measured yet.")

    def values(strategy: str) -> list[float]:
        """Without the first, on which all strategies have the same model: there is no past yet."""
        return [each["metrics"][metric] for each in found[strategy][1:]]

    ours = values(DISTILLED)
    leads = {
        rival: sum(a > b for a, b in zip(ours, values(rival), strict=True)) for rival in continual.RIVALS
    }
    best = sum(
        own > max(others)
        for own, others in zip(ours, zip(*map(values, continual.RIVALS), strict=True), strict=True)
    )
    told = ", ".join(f"{name(rival)} in {count}" for rival, count in leads.items())
    return claim(
        text,
        dataset,
        2 * best > len(ours),
        f"best in {best} of {len(ours)} periods ({metric}); ahead of {told}.",
    )


def figure(dataset: str, found: Periods) -> Figure:
    def panel(metric: str) -> Panel:
        series = tuple(
            Series(strategy, tuple(_point(each, metric) for each in own)) for strategy, own in found.items()
        )
        return Panel(f"{dataset}: {metric}", "period", f"{metric} (%)", series)

    caption = (
        "MVAE after each period, measured on the next, by strategy. Bands are 95 % intervals over the "
        "period's users, means over seeds."
    )
    panels = tuple((panel(metric),) for metric in ("HR@10", "HR@100", "NDCG@100"))
    return Figure(f"continual-periods-{dataset}", caption, panels)


def _point(measured: Mapping[str, Any], metric: str) -> Point:
    low, high = measured["intervals"][metric]
    return Point(float(measured["period"]), measured["metrics"][metric], low, high, measured["seeds"])


def table(dataset: str, found: Periods, metric: str = "HR@10") -> Table:
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
    head = ("period", "users", "of items never seen", *(name(strategy) for strategy in found))
    return Table(f"{dataset}: {metric} on each period, by strategy.", head, tuple(lines))


def rows(results: Results) -> list[dict[str, Any]]:
    """For programs: one row for each period, strategy and metric."""
    return [
        {
            "dataset": dataset,
            "source": strategy,
            "model": continual.MODEL,
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


EXPERIMENT = Experiment(
    name="continual-periods",
    title="A model that is updated, one period at a time",
    source="appendix",
    about="The strategies of continual on each of the periods that they were measured on.",
    cells=continual.cells,
    findings=findings,
    datasets=("ml-1m",),
    rows=rows,
)
