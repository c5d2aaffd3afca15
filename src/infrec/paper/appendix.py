"""The paper's appendix: its data table, ∞-AE by depth, and models by how cold users and items are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from infrec.paper import published, table1
from infrec.paper.cells import Cell, Data, Fit, pairs
from infrec.paper.experiment import Experiment, Judged, Plan, claimed
from infrec.paper.published import METRICS
from infrec.paper.records import Record
from infrec.paper.results import (
    Results,
    Row,
    Rows,
    by_metric,
    dataset_of,
    parts,
    pivot,
    point,
    series,
    value,
)
from infrec.paper.verdicts import Answer, Untestable, every, margin, most
from infrec.report.document import Figure, Panel, Point, Series, Table, Value
from infrec.report.numbers import label

# ---- the data table: the datasets as they are loaded ------------------------------------------------------
FIGURES = ("users", "items", "interactions", "sparsity")
PARTS = ("train", "validation", "test", "users_without_validation", "repeated")


def varied_statistics(plan: Plan, dataset: str) -> Iterator[Cell]:
    yield Cell(dataset, 0, beyond=("statistics",))


def figures_of(record: Record) -> dict[str, Value]:
    """Users, items, interactions and sparsity, beside the paper's."""
    users, items, n = (record["data"][f"loaded_{name}"] for name in FIGURES[:3])
    paper = published.STATISTICS.get(dataset_of(record), {})
    figures = zip(FIGURES, (users, items, n, 100 * (1 - n / (users * items))), strict=True)
    return {name: Value(name, value, paper=paper.get(name)) for name, value in figures}


def statistics_tables(each: list[Results]) -> Iterator[Table]:
    last = {here.dataset: here.records[-1] for here in each}
    yield Table(
        "Datasets as loaded; below ours, the paper's rounded figures.",
        ("dataset", *FIGURES[:3], "sparsity (%)"),
        [(name, *figures_of(record).values()) for name, record in last.items()],
    )
    yield Table(
        "What is held out, and what the reader dropped.",
        ("dataset", "train", "validation", "test", "users without validation", "rows dropped", "split"),
        [
            (name, *(f"{record['data'][part]:,}" for part in PARTS), record["data"]["split"])
            for name, record in last.items()
        ],
    )


def statistics_rows(results: Results) -> list[dict[str, Any]]:
    return [
        {
            "dataset": dataset_of(record),
            "model": None,
            "metric": name,
            "value": one.value,
            "paper": one.paper,
        }
        for record in results.records
        for name, one in figures_of(record).items()
    ]


STATISTICS = Experiment(
    name="statistics",
    title="The datasets",
    source="data table of the appendix",
    about="Users, items, interactions and sparsity of every dataset that is found.",
    varied=varied_statistics,
    tables=statistics_tables,
    rows=statistics_rows,
)


# ---- does a deeper ∞-AE do better? ------------------------------------------------------------------------
DEPTHS = (1, 2, 3, 4, 5, 6)
QUICK_DEPTHS = (1, 2, 4)
SHALLOW = 2  # layers at most
# Each depth chooses its own λ, from a grid as fine for every depth: the best λ falls with the depth, and a
# coarse grid favours the depths whose best λ happens to lie on it.
DEPTH_GRID = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1, 1.4, 2, 2.8, 4, 5, 7, 10, 14, 20, 28, 40, 50, 70, 100)


def varied_depth(plan: Plan, dataset: str) -> Iterator[Cell]:
    for depth in QUICK_DEPTHS if plan.quick else DEPTHS:
        yield Cell(dataset, 0, Data(), (Fit("infinite-ae", pairs(depth=depth), pairs(reg=DEPTH_GRID)),))


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


def depth_figures(each: list[Results]) -> Iterator[Figure]:
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


def depth_tables(each: list[Results]) -> Iterator[Table]:
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


DEPTH = Experiment(
    name="depth",
    title="How does depth affect ∞-AE?",
    source="appendix",
    about="∞-AE with 1 to 6 hidden layers on all users, each with its own λ.",
    varied=varied_depth,
    claims=(deeper_is_worse,),
    figures=depth_figures,
    tables=depth_tables,
    notes=["The paper keeps one λ grid for all depths; here each depth has its own λ from a finer one."],
)


# ---- for which users and items does each model work? ------------------------------------------------------
Kind = Literal["users", "items"]
KINDS: tuple[Kind, ...] = ("users", "items")
COLD_METRIC = "HR@100"
COLD_METRICS = {"users": COLD_METRIC, "items": "found@100"}
# Which of the bins, counted from the coldest, are meant by the paper's words; None: the middle one.
WORDS: dict[str, tuple[Kind, int | None]] = {
    "tail users": ("users", 0),
    "head users": ("users", -1),
    "torso items": ("items", None),
    "head items": ("items", -1),
}


def varied_cold(plan: Plan, dataset: str) -> Iterator[Cell]:
    """Those of Table 1 that are fitted on all users: what was measured there is not measured again."""
    return (cell for cell in table1.varied(plan, dataset) if cell.data == Data())


def strata(here: Results, kind: Kind) -> dict[str, dict[str, Any]]:
    """The bins by their names, coldest first: `low`, `high` and `size`."""
    measured = (record["measured"][0].get("strata", {}) for record in here.records)
    by_name = {_range(stratum): stratum for strata in measured for stratum in strata.get(kind, ())}
    return dict(sorted(by_name.items(), key=lambda named: (named[1]["low"], named[1]["high"])))


def bins(here: Results, kind: Kind) -> dict[str, Rows]:
    """Each model's rows; the label of a row is the name of its bin."""

    def of(record: Record) -> Iterable[tuple[str, dict[str, Any]]]:
        for one in record["measured"][0].get("strata", {}).get(kind, ()):
            figures = {"metrics": one["value"], "intervals": one["interval"]}
            yield _range(one), {name: {COLD_METRICS[kind]: value} for name, value in figures.items()}

    rows = parts(here.records, of)
    of_models = {model: rows.where(model=model) for model in table1.MODELS}
    return {model: own for model, own in of_models.items() if own}


def _range(stratum: Mapping[str, Any]) -> str:
    low, high = stratum["low"], stratum["high"]
    return f"{low}" if low == high else f"{low}–{high}"


@claimed("∞-AE leads on tail and head users, and on torso and head items")
def leads(here: Results) -> Judged:
    lines: list[str] = []
    led: list[Answer] = []
    for words, (kind, at) in WORDS.items():
        names, of_models = list(strata(here, kind)), bins(here, kind)
        rivals = Rows(row for model in table1.COMPETITORS for row in of_models.get(model, ()))
        if not names or "infinite-ae" not in of_models:
            raise Untestable
        name = names[len(names) // 2 if at is None else at]
        own, others = of_models["infinite-ae"].one(label=name), rivals.where(label=name)
        led.append(every(margin(own, row) for row in others))
        lines.append(f"{words} {own} against {label(others.best.model)} {others.best}")
    return table1.over_competitors(led, list(bins(here, "users")), "; ".join(lines))


def cold_figures(each: list[Results]) -> Iterator[Figure]:
    def panel(here: Results, kind: Kind) -> Panel:
        names = list(strata(here, kind))
        points = {
            model: [point(names.index(row.label), row) for row in rows]
            for model, rows in bins(here, kind).items()
        }
        y = f"{COLD_METRIC} (%)" if kind == "users" else "found in the top 100 (%)"
        ticks = [(float(at), name) for at, name in enumerate(names)]
        title, x = f"{here.dataset}: {kind}", f"train interactions of {kind}"
        return Panel(title, x, y, series(points), ticks=ticks)

    yield Figure(
        "cold",
        "Quality for users and items from the coldest to the warmest, by their interactions in the train "
        "part, in bins as equal in size as ties allow. Left: HR@100 of the users of a bin. Right: the "
        "share of a bin's held-out interactions that stand in a top 100.",
        [[panel(here, kind) for kind in KINDS] for here in each],
    )


def cold_tables(each: list[Results]) -> Iterator[Table]:
    """Models down, bins across."""
    for here in each:
        for kind in KINDS:
            of_models = bins(here, kind)
            everything = Rows(row for rows in of_models.values() for row in rows)

            def cell(rows: Rows, name: str, everything: Rows = everything) -> Value:
                return value(COLD_METRIC, rows.get(label=name), best=everything.where(label=name).best.value)

            what = (
                f"{COLD_METRIC} (%)" if kind == "users" else "share of held-out interactions in a top 100 (%)"
            )
            yield pivot(
                f"{here.dataset}: {what} by train interactions of {kind} (how many {kind} in brackets).",
                "model",
                {label(model): rows for model, rows in of_models.items()},
                {f"{name} ({one['size']:,})": name for name, one in strata(here, kind).items()},
                cell,
            )


def cold_rows(results: Results) -> list[dict[str, Any]]:
    return [
        {
            **row.only("dataset", "model", "metric", "value", "paper"),
            "of": kind,
            "train_interactions": [by_name[row.label]["low"], by_name[row.label]["high"]],
            "size": by_name[row.label]["size"],
            **row.only("low", "high", "seeds"),
        }
        for here in results.each()
        for kind in KINDS
        for by_name in [strata(here, kind)]
        for rows in bins(here, kind).values()
        for row in rows
    ]


COLD = Experiment(
    name="cold",
    title="How does ∞-AE perform on cold users and cold items?",
    source="appendix",
    about="Every model on all users, HR@100 by coldness in bins of equal size, as far as ties allow.",
    varied=varied_cold,
    claims=(leads,),
    figures=cold_figures,
    tables=cold_tables,
    notes=(
        "Users with equally many interactions share a bin, so bins are not all of a size, and the "
        "smallest datasets have fewer: on magazine most users have a single interaction in the train "
        "part. How many are in a bin stands in the tables' heads.",
        "Tail and head are the coldest and the warmest bin, torso is the middle one.",
    ),
    rows=cold_rows,
    seeds=1,
    shown=lambda here: bool(strata(here, "users")),
)
