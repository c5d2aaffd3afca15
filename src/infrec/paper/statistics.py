"""The data table: the datasets as they are loaded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from infrec.paper import published
from infrec.paper.cells import Cell
from infrec.paper.experiment import Experiment, Plan
from infrec.paper.records import Record
from infrec.paper.results import Results, dataset_of
from infrec.report.document import Table, Value

NAMES = ("users", "items", "interactions", "sparsity")
PARTS = ("train", "validation", "test", "users_without_validation", "repeated")


def varied(plan: Plan, dataset: str) -> Iterator[Cell]:
    yield Cell(dataset, 0, beyond=("statistics",))


def figures_of(record: Record) -> dict[str, Value]:
    """Users, items, interactions and sparsity, beside the paper's."""
    users, items, n = (record["data"][f"loaded_{name}"] for name in NAMES[:3])
    paper = published.STATISTICS.get(dataset_of(record), {})
    figures = zip(NAMES, (users, items, n, 100 * (1 - n / (users * items))), strict=True)
    return {name: Value(name, value, paper=paper.get(name)) for name, value in figures}


def tables(each: list[Results]) -> Iterator[Table]:
    last = {here.dataset: here.records[-1] for here in each}
    yield Table(
        "Datasets as loaded; below ours, the paper's rounded figures.",
        ("dataset", *NAMES[:3], "sparsity (%)"),
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


def rows(results: Results) -> list[dict[str, Any]]:
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


EXPERIMENT = Experiment(
    name="statistics",
    title="The datasets",
    source="data table of the appendix",
    about="Users, items, interactions and sparsity of every dataset that is found.",
    varied=varied,
    tables=tables,
    rows=rows,
)
