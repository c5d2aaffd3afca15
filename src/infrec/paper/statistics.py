"""The data table: the datasets as they are loaded."""

from __future__ import annotations

from typing import Any

from infrec.paper import published
from infrec.paper.cells import Cell
from infrec.paper.experiment import Experiment, Plan
from infrec.paper.records import Record
from infrec.paper.results import Results
from infrec.report.document import Findings, Table, Value

NAMES = ("users", "items", "interactions", "sparsity")


def cells(plan: Plan) -> list[Cell]:
    return plan.grid([Cell(dataset, 0, beyond=("statistics",)) for dataset in plan.datasets])


def figures_of(record: Record) -> dict[str, float]:
    """Users, items, interactions and sparsity, as the paper's table has them."""
    data = record["data"]
    users, items, n = (data[f"loaded_{name}"] for name in NAMES[:3])
    return {"users": users, "items": items, "interactions": n, "sparsity": 100 * (1 - n / (users * items))}


def findings(results: Results) -> Findings:
    by_name = {record["configuration"]["dataset"]: record for record in results.records}
    lines: list[tuple[str | Value, ...]] = []
    parts: list[tuple[str | Value, ...]] = []
    for dataset in results.datasets():
        record = by_name[dataset]
        paper = published.STATISTICS.get(dataset, {})
        found = figures_of(record)
        lines.append((dataset, *(Value(name, found[name], paper=paper.get(name)) for name in NAMES)))
        data = record["data"]
        whole = ("train", "validation", "test", "users_without_validation", "repeated")
        parts.append((dataset, *(f"{data[name]:,}" for name in whole), data["split"]))
    tables = [
        Table(
            "Datasets as loaded; below ours, the paper's rounded figures.",
            ("dataset", *NAMES[:3], "sparsity (%)"),
            tuple(lines),
        ),
        Table(
            "What is held out, and what the reader dropped.",
            ("dataset", "train", "validation", "test", "users without validation", "rows dropped", "split"),
            tuple(parts),
        ),
    ]
    return Findings(tables=tables if lines else ())


def rows_of(results: Results) -> list[dict[str, Any]]:
    return [
        {
            "dataset": record["configuration"]["dataset"],
            "model": None,
            "metric": name,
            "value": value,
            "paper": published.STATISTICS.get(record["configuration"]["dataset"], {}).get(name),
        }
        for record in results.records
        for name, value in figures_of(record).items()
    ]


EXPERIMENT = Experiment(
    name="statistics",
    title="The datasets",
    source="data table of the appendix",
    about="Users, items, interactions and sparsity of every dataset that is found.",
    cells=cells,
    findings=findings,
    rows=rows_of,
)
