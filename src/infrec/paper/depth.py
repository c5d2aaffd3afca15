"""An appendix figure: does a deeper ∞-AE do better?"""

from __future__ import annotations

import json

from infrec.paper import published
from infrec.paper.cells import Cell, Data, Fit, pairs
from infrec.paper.experiment import Experiment, Plan
from infrec.paper.results import Results, Row, Rows
from infrec.paper.views import by_metric
from infrec.report.document import Claim, Figure, Findings, Panel, Point, Series, Table, claim
from infrec.report.numbers import number

DEPTHS = (1, 2, 3, 4, 5, 6)
QUICK_DEPTHS = (1, 2, 4)
# Each depth chooses its own λ, from the paper's grid and some between: the best λ falls with the depth.
REG = (0.5, 1, 2, 5, 10, 20, 50, 100)


def cells(plan: Plan) -> list[Cell]:
    return plan.grid(
        [
            Cell(dataset, 0, Data(), (Fit("infinite-ae", pairs(depth=depth), pairs(reg=REG)),))
            for dataset in plan.datasets
            for depth in (QUICK_DEPTHS if plan.quick else DEPTHS)
        ]
    )


def depth_of(row: Row) -> int:
    return int(json.loads(row.settings)["depth"])


def findings(results: Results) -> Findings:
    rows, datasets = results.rows, results.datasets()
    panels = tuple(panel(dataset, rows.where(dataset=dataset)) for dataset in datasets)
    caption = (
        "∞-AE with one to six hidden layers, λ chosen on validation for each: every metric relative to "
        "its best depth. Bands are 95 % intervals over users."
    )
    return Findings(
        claims=[deeper_is_worse(dataset, rows.where(dataset=dataset)) for dataset in datasets],
        figures=[Figure("depth", caption, (panels,))] if panels else (),
        tables=[table(dataset, rows.where(dataset=dataset), results) for dataset in datasets],
        notes=["The paper keeps one λ grid for all depths; here each depth has its own λ from a finer one."],
    )


def panel(dataset: str, rows: Rows) -> Panel:
    series = []
    for metric in published.METRICS:
        own = sorted(rows.where(metric=metric), key=depth_of)
        best = max((row.value for row in own), default=0.0)
        if best:
            points = (
                Point(float(depth_of(r)), r.value / best, r.low / best, r.high / best, r.seeds) for r in own
            )
            series.append(Series(metric, tuple(points)))
    return Panel(dataset, "hidden layers", "relative to the best depth", tuple(series))


def table(dataset: str, rows: Rows, results: Results) -> Table:
    regs = {
        dict(record["configuration"]["fits"][0]["settings"])["depth"]: record["measured"][0]["selected"][
            "reg"
        ]
        for record in results.records
        if record["configuration"]["dataset"] == dataset
    }
    lines = {
        f"{depth} (λ={regs[depth]:g})": Rows(row for row in rows if depth_of(row) == depth)
        for depth in sorted(regs)
    }
    return by_metric(f"{dataset}: ∞-AE by depth.", "hidden layers", lines)


def deeper_is_worse(dataset: str, rows: Rows) -> Claim:
    text = "∞-AE tends to get worse with depth; one or two layers are generally best"
    best_at, falls, parts = [], [], []
    for metric in published.METRICS:
        own = sorted(rows.where(metric=metric), key=depth_of)
        if len(own) < 2:
            continue
        best = max(own, key=lambda row: row.value)
        shallow = max(row.value for row in own if depth_of(row) <= 2)
        best_at.append(depth_of(best))
        falls.append(own[-1].value < shallow)
        parts.append(
            f"{metric} best at {depth_of(best)} ({number(metric, best.value)}; "
            f"{number(metric, own[0].value)} at {depth_of(own[0])}, {number(metric, own[-1].value)} at "
            f"{depth_of(own[-1])})"
        )
    if not parts:
        return claim(text, dataset, None)
    shallow_best, most = sum(depth <= 2 for depth in best_at), len(best_at) / 2
    counted = (
        f"{shallow_best} of {len(best_at)} metrics are best with one or two layers, {sum(falls)} are lower "
        "with the most: "
    )
    return claim(text, dataset, shallow_best > most and sum(falls) > most, counted + "; ".join(parts) + ".")


EXPERIMENT = Experiment(
    name="depth",
    title="How does depth affect ∞-AE?",
    source="appendix",
    about="∞-AE with 1 to 6 hidden layers on all users, each with its own λ.",
    cells=cells,
    findings=findings,
    datasets=("ml-1m", "magazine", "douban-book"),
)
