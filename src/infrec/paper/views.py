"""Rows as the tables and figures of several experiments show them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from infrec.paper.published import METRICS
from infrec.paper.results import Row, Rows
from infrec.report.document import Cell, Point, Series, Table, Value


def value(metric: str, row: Row | None, *, paper: bool = False, best: bool = False) -> Value:
    """The cell of a row, with its interval; empty where nothing was measured.

    Args:
        metric: What the row is of.
        row: The row, or None.
        paper: Whether the paper's number stands beside it, where there is one.
        best: Whether it is stressed.
    """
    if row is None:
        return Value(metric, None)
    return Value(metric, row.value, row.low, row.high, row.paper if paper else None, best)


def pivot(
    caption: str,
    corner: str,
    columns: Mapping[str, Any],
    lines: Iterable[tuple[str, Callable[[Any], Value]]],
) -> Table:
    """A table of two directions.

    Args:
        caption: The sentence above it.
        corner: The name of what the lines are.
        columns: Head → the key that `lines` look a cell up by.
        lines: The name of each line, and its cell by a column's key.
    """
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (name, *(cell(key) for key in columns.values())) for name, cell in lines
    )
    return Table(caption, (corner, *columns), rows)


def by_metric(caption: str, corner: str, lines: Mapping[str, Rows], *, paper: bool = False) -> Table:
    """Every metric of each line; the best of a column is stressed.

    Args:
        caption: The sentence above it.
        corner: The name of what the lines are.
        lines: By name, the rows of one model or strategy.
        paper: Whether the paper's numbers stand beside them.
    """
    every = [row for rows in lines.values() for row in rows]
    best = {metric: max((r.value for r in every if r.metric == metric), default=None) for metric in METRICS}

    def line(rows: Rows) -> Callable[[str], Value]:
        def cell(metric: str) -> Value:
            row = rows.get(metric=metric)
            return value(metric, row, paper=paper, best=row is not None and row.value == best[metric])

        return cell

    columns = {metric: metric for metric in METRICS}
    return pivot(caption, corner, columns, [(name, line(rows)) for name, rows in lines.items()])


def point(x: float, row: Row) -> Point:
    """A row at a place of the x axis."""
    return Point(float(x), row.value, row.low, row.high, row.seeds)


def series(points: Mapping[str, Sequence[Point]]) -> tuple[Series, ...]:
    """A series for each name that has points."""
    return tuple(Series(name, tuple(own)) for name, own in points.items() if own)


def axis(metric: str) -> str:
    """The name of a metric's axis: with its unit."""
    return metric if metric == "AUC" else f"{metric} (%)"
