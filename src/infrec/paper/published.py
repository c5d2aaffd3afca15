"""Numbers that the paper states: Table 1 and the data table.

Sachdeva, Dhaliwal, Wu, McAuley: Infinite Recommendation Networks: A Data-Centric Approach (NeurIPS 2022).
`published.csv` is Table 1 as published; LightGCN on Netflix "timed out" there and has no value.
"""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files

PAPER = "Sachdeva et al., Infinite Recommendation Networks: A Data-Centric Approach, NeurIPS 2022"
METRICS = ("AUC", "HR@10", "HR@100", "NDCG@10", "NDCG@100", "PSP@10")
DISTILLED_COLUMN = "distill-cf-500+infinite-ae"
COMPETITORS = ("poprec", "bias-only", "mf", "neumf", "lightgcn", "ease", "mvae")
COLUMNS = (*COMPETITORS, "infinite-ae", DISTILLED_COLUMN)
# The data table, as rounded there: users, items, interactions, sparsity in percent.
STATISTICS = {
    "magazine": {"users": 3e3, "items": 1.3e3, "interactions": 12e3, "sparsity": 99.7},
    "ml-1m": {"users": 6e3, "items": 3.7e3, "interactions": 1e6, "sparsity": 95.6},
    "douban": {"users": 2.6e3, "items": 34e3, "interactions": 1.2e6, "sparsity": 98.7},
    "netflix": {"users": 476e3, "items": 17e3, "interactions": 100e6, "sparsity": 98.9},
}
# Samples of the paper's datasets: the paper's figures stand beside, with a remark.
SAMPLES = {"netflix-sample": "netflix"}


@cache
def table1() -> dict[tuple[str, str, str], float]:
    """(dataset, model, metric) → value."""
    text = files("infrec.paper").joinpath("published.csv").read_text(encoding="utf-8")
    return {
        (row["dataset"], row["model"], row["metric"]): float(row["value"])
        for row in csv.DictReader(text.splitlines())
        if row["value"]
    }


def value(dataset: str, column: str, metric: str) -> float | None:
    """Table 1's number, where it has one; of a sample, that of the whole dataset."""
    return table1().get((SAMPLES.get(dataset, dataset), column, metric))


def values(dataset: str, column: str) -> list[float]:
    """A column of Table 1, in the order of `METRICS`; empty where it has none."""
    numbers = (value(dataset, column, metric) for metric in METRICS)
    return [number for number in numbers if number is not None]
