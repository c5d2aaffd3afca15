"""An appendix figure: does a deeper ∞-AE do better?"""

from __future__ import annotations

import json
from collections.abc import Iterator

from infrec.paper.cells import Cell, Data, Fit, pairs
from infrec.paper.experiment import Experiment, Judged, Plan, claimed
from infrec.paper.published import METRICS
from infrec.paper.results import Results, Row, Rows, by_metric
from infrec.paper.verdicts import Answer, Untestable, every, margin, most
from infrec.report.document import Figure, Panel, Point, Series, Table

DEPTHS = (1, 2, 3, 4, 5, 6)
QUICK_DEPTHS = (1, 2, 4)
SHALLOW = 2  # layers at most
# Each depth chooses its own λ, from a grid as fine for every depth: the best λ falls with the depth, and a
# coarse grid favours the depths whose best λ happens to lie on it.
REG = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1, 1.4, 2, 2.8, 4, 5, 7, 10, 14, 20, 28, 40, 50, 70, 100)


def varied(plan: Plan, dataset: str) -> Iterator[Cell]:
    for depth in QUICK_DEPTHS if plan.quick else DEPTHS:
        yield Cell(dataset, 0, Data(), (Fit("infinite-ae", pairs(depth=depth), pairs(reg=REG)),))


def depth_of(row: Row) -> int:
    return int(json.loads(row.settings)["depth"])


def by_depth(here: Results, metric: str) -> Rows:
    return Rows(sorted(here.rows.where(metric=metric), key=depth_of))


@claimed("∞-AE tends to get worse with depth; one or two layers are generally best")
def deeper_is_worse(here: Results) -> Judged:
    """In most metrics the best one of at most two layers is above every deeper one."""
    answers: list[Answer] = []
    parts = []
    for metric in METRICS:
        own = by_depth(here, metric)
        first = Rows(row for row in own if depth_of(row) <= SHALLOW).best
        deep = [row for row in own if depth_of(row) > SHALLOW]
        if not deep:
            raise Untestable
        best, last = own.best, deep[-1]
        answers.append(every(margin(first, row) for row in deep))
        word = {True: "best beyond the intervals", None: "within the intervals", False: "behind"}[answers[-1]]
        parts.append(
            f"{metric} best at {depth_of(best)} ({best}), {first} at {depth_of(first)}, {last} at "
            f"{depth_of(last)}: {word}"
        )
    counted = (
        f"one or two layers are best beyond the intervals in {answers.count(True)} of {len(answers)} metrics"
    )
    return most(answers), f"{counted}, behind in {answers.count(False)}: {'; '.join(parts)}"


def figures(each: list[Results]) -> Iterator[Figure]:
    def panel(here: Results) -> Panel:
        series = []
        for metric in METRICS:
            own = by_depth(here, metric)
            if best := own.best.value:
                shares = (
                    Point(depth_of(r), r.value / best, r.low / best, r.high / best, r.seeds) for r in own
                )
                series.append(Series(metric, list(shares)))
        return Panel(here.dataset, "hidden layers", "relative to the best depth", series)

    yield Figure(
        "depth",
        "∞-AE with one to six hidden layers, λ chosen on validation for each: every metric relative to its "
        "best depth. Bands are 95 % intervals over users.",
        [[panel(here) for here in each]],
    )


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
