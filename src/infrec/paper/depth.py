"""An appendix figure: does a deeper ∞-AE do better?"""

from __future__ import annotations

import json
from collections.abc import Iterator

from infrec.paper.cells import Cell, Data, Fit, pairs
from infrec.paper.experiment import Experiment, Judged, Plan, claimed
from infrec.paper.published import METRICS
from infrec.paper.results import Results, Row, Rows, by_metric
from infrec.report.document import Figure, Panel, Point, Series, Table

DEPTHS = (1, 2, 3, 4, 5, 6)
QUICK_DEPTHS = (1, 2, 4)
# Each depth chooses its own λ, from the paper's grid and some between: the best λ falls with the depth.
REG = (0.5, 1, 2, 5, 10, 20, 50, 100)


def varied(plan: Plan, dataset: str) -> Iterator[Cell]:
    for depth in QUICK_DEPTHS if plan.quick else DEPTHS:
        yield Cell(dataset, 0, Data(), (Fit("infinite-ae", pairs(depth=depth), pairs(reg=REG)),))


def depth_of(row: Row) -> int:
    return int(json.loads(row.settings)["depth"])


def by_depth(here: Results, metric: str) -> list[Row]:
    return sorted(here.rows.where(metric=metric), key=depth_of)


@claimed("∞-AE tends to get worse with depth; one or two layers are generally best")
def deeper_is_worse(here: Results) -> Judged:
    best_at, falls, parts = [], [], []
    for metric in METRICS:
        own = by_depth(here, metric)
        if len(own) < 2 or depth_of(own[0]) > 2:
            continue
        first, *_, last = own
        best = max(own, key=lambda row: row.value)
        best_at.append(depth_of(best))
        falls.append(last.value < max(row.value for row in own if depth_of(row) <= 2))
        parts.append(
            f"{metric} best at {depth_of(best)} ({best}; {first} at {depth_of(first)}, {last} at "
            f"{depth_of(last)})"
        )
    if not parts:
        return None
    shallow, most = sum(depth <= 2 for depth in best_at), len(parts) / 2
    counted = (
        f"{shallow} of {len(parts)} metrics are best with one or two layers, {sum(falls)} are lower with the "
        "most: "
    )
    return shallow > most and sum(falls) > most, counted + "; ".join(parts)


def figures(each: list[Results]) -> Iterator[Figure]:
    yield Figure(
        "depth",
        "∞-AE with one to six hidden layers, λ chosen on validation for each: every metric relative to its "
        "best depth. Bands are 95 % intervals over users.",
        [[panel(here) for here in each]],
    )


def panel(here: Results) -> Panel:
    series = []
    for metric in METRICS:
        own = by_depth(here, metric)
        best = max((row.value for row in own), default=0.0)
        if best:
            points = [
                Point(float(depth_of(r)), r.value / best, r.low / best, r.high / best, r.seeds) for r in own
            ]
            series.append(Series(metric, points))
    return Panel(here.dataset, "hidden layers", "relative to the best depth", series)


def tables(each: list[Results]) -> Iterator[Table]:
    for here in each:
        regs = {
            record["configuration"]["fits"][0]["settings"]["depth"]: record["measured"][0]["selected"]["reg"]
            for record in here.records
        }
        lines = {
            f"{depth} (λ={regs[depth]:g})": Rows(row for row in here.rows if depth_of(row) == depth)
            for depth in sorted(regs)
        }
        yield by_metric(f"{here.dataset}: ∞-AE by depth.", "hidden layers", lines)


EXPERIMENT = Experiment(
    name="depth",
    title="How does depth affect ∞-AE?",
    source="appendix",
    about="∞-AE with 1 to 6 hidden layers on all users, each with its own λ.",
    varied=varied,
    claims=(deeper_is_worse,),
    figures=figures,
    tables=tables,
    notes=["The paper keeps one λ grid for all depths; here each depth has its own λ from a finer one."],
)
