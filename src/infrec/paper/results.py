"""The results of an experiment: its records, and rows of them in tables and figures."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from infrec.paper.cells import PUBLISHED_KIND
from infrec.paper.experiment import KNOWN_DATASETS
from infrec.paper.published import METRICS
from infrec.paper.records import LOOK, Record, Records
from infrec.paper.rows import Row, Rows, rows_of
from infrec.report.document import Point, Series, Table, Value

MAIN = PUBLISHED_KIND
AT_EDGE = "λ at the edge"
HR = "HR@10"  # decides claims, where nothing else is said
MAIN_AND_ALL = (("", (HR,)), ("-all", METRICS))  # a main figure and the appendix's: suffix, metrics


@dataclass(frozen=True)
class Results:
    """The records of one experiment, and the way to those of the others.

    dataset: the only one, where they are those of one. damaged: lines of the file that were no records.
    """

    records: Sequence[Record]
    others: Callable[[str], Results]
    dataset: str = ""
    damaged: int = 0

    def __post_init__(self) -> None:
        if not self.dataset:
            object.__setattr__(self, "records", _with_short_names(self.records))

    @classmethod
    def at(cls, root: Path, name: str) -> Results:
        """Results of an experiment, from its records under `root`."""
        kept = Records(root / name)
        all_records = kept.read().values()
        # Where a dataset was also measured in earnest, its quick records have served their purpose.
        earnest = {dataset_of(r) for r in all_records if not of_a_look(r)}
        records = [r for r in all_records if not (of_a_look(r) and dataset_of(r) in earnest)]
        return cls(records, lambda other: cls.at(root, other), damaged=kept.damaged)

    @cached_property
    def rows(self) -> Rows:
        return Rows(rows_of(self.records))

    def datasets(self) -> list[str]:
        """The datasets that have records, in the order of the paper's table, then the others."""
        there = {dataset_of(record) for record in self.records}
        known = [name for name in KNOWN_DATASETS if name in there]
        return known + sorted(there - set(known))

    def quick_datasets(self) -> list[str]:
        """The datasets of which there is only a quick look."""
        return sorted({dataset_of(record) for record in self.records if of_a_look(record)})

    def each(self) -> list[Results]:
        """The results on each dataset, in the order of `datasets`."""
        return [
            Results([record for record in self.records if dataset_of(record) == name], self.others, name)
            for name in self.datasets()
        ]


def dataset_of(record: Record) -> str:
    return str(record["configuration"]["dataset"])


def of_a_look(record: Record) -> bool:
    """Whether only a quick look has asked for it, shortened or not."""
    return bool(record["configuration"]["quick"] or record.get(LOOK))


def _with_short_names(records: Sequence[Record]) -> list[Record]:
    """A dataset that was given as a path is called by the file's name, where that is one dataset's alone."""
    given = {dataset_of(record) for record in records}
    called = {name: Path(name).stem if os.sep in name else name for name in given}
    shared = {short for short, count in Counter(called.values()).items() if count > 1}
    called = {name: name if short in shared else short for name, short in called.items()}
    return [{**r, "configuration": {**r["configuration"], "dataset": called[dataset_of(r)]}} for r in records]


# ---- rows in tables and figures ---------------------------------------------------------------------------
def value(metric: str, row: Row | None, *, paper: bool = False, best: float | None = None) -> Value:
    """The cell of a row, with its interval; empty where nothing was measured.

    Args:
        metric: What the row is of.
        row: The row, or None.
        paper: Whether the paper's number stands beside it, where there is one.
        best: The largest value, which is stressed.
    """
    if row is None:
        return Value(metric, None)
    note = AT_EDGE if row.edge else ""
    return Value(metric, row.value, row.low, row.high, row.paper if paper else None, row.value == best, note)


def pivot(
    caption: str,
    corner: str,
    lines: Mapping[str, Any],
    columns: Mapping[str, Any],
    cell: Callable[[Any, Any], Value],
) -> Table:
    """A table of two directions.

    Args:
        caption: The sentence above it.
        corner: The name of what the lines are.
        lines: By name, what `cell` is asked with.
        columns: By name, what `cell` is asked with.
        cell: The cell of a line and a column.
    """
    rows: list[Sequence[str | Value]] = [
        (name, *(cell(line, key) for key in columns.values())) for name, line in lines.items()
    ]
    return Table(caption, (corner, *columns), rows)


def by_metric(caption: str, corner: str, lines: Mapping[str, Rows]) -> Table:
    """Every metric of each line, the rows of one model or strategy; the best of a column is stressed."""
    every = [row for rows in lines.values() for row in rows]
    best = {metric: max((r.value for r in every if r.metric == metric), default=None) for metric in METRICS}

    def cell(rows: Rows, metric: str) -> Value:
        return value(metric, rows.get(metric=metric), best=best[metric])

    return pivot(caption, corner, lines, {metric: metric for metric in METRICS}, cell)


def point(x: float, row: Row) -> Point:
    """A row at a place of the x axis."""
    return Point(float(x), row.value, row.low, row.high, row.seeds)


def series(points: Mapping[str, Sequence[Point]]) -> list[Series]:
    """A series for each name that has points."""
    return [Series(name, own) for name, own in points.items() if own]


def axis(metric: str) -> str:
    """The name of a metric's axis: with its unit."""
    return metric if metric == "AUC" else f"{metric} (%)"
