"""Rows as the tables and figures of several experiments show them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from infrec.paper.results import Row
from infrec.report.document import Cell, Point, Series, Table, Value


def value(metric: str, row: Row | None, *, paper: bool = False, best: bool = False) -> Value:
    """The cell of a row, with its interval; empty where nothing was measured.

    Args:
        metric: what the row is of.
        row: the row, or None.
        paper: whether the paper's number stands beside it, where there is one.
        best: whether it is stressed.
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
        caption: the sentence above it.
        corner: the name of what the lines are.
        columns: head → the key that `lines` look a cell up by.
        lines: the name of each line, and its cell by a column's key.
    """
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (name, *(cell(key) for key in columns.values())) for name, cell in lines
    )
    return Table(caption, (corner, *columns), rows)


def point(x: float, row: Row) -> Point:
    """A row at a place of the x axis."""
    return Point(float(x), row.value, row.low, row.high, row.seeds)


def series(points: Mapping[str, Sequence[Point]]) -> tuple[Series, ...]:
    """A series for each name that has points."""
    return tuple(Series(name, tuple(own)) for name, own in points.items() if own)


def axis(metric: str) -> str:
    """The name of a metric's axis: with its unit."""
    return metric if metric == "AUC" else f"{metric} (%)"
