"""Tables and claims on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infrec.report.document import Claim, Table, Value, Verdict
from infrec.report.numbers import MARKS, beside, interval, number

if TYPE_CHECKING:
    from rich.table import Table as Lines


def table(table: Table) -> Lines:
    """A table that rich prints; what stands below a number on a page stands behind it in a fainter colour."""
    from rich.markup import escape
    from rich.table import Table as Lines

    lines = Lines(title=escape(table.caption), title_justify="left")
    for at, word in enumerate(table.head):
        lines.add_column(escape(word), justify="right" if at else "left", style="" if at else "bold")
    for row in table.rows:
        lines.add_row(*(escape(cell) if isinstance(cell, str) else _value(cell) for cell in row))
    return lines


def _value(cell: Value) -> str:
    text = number(cell.metric, cell.value)
    text = f"[bold]{text}[/]" if cell.best else text
    if cell.paper is not None:
        return f"{text}\n[dim]{beside(cell)}[/]"
    small = cell.note
    if not small and cell.low is not None and cell.high is not None:
        small = interval(cell.metric, (cell.low, cell.high))
    return f"{text} [dim]{small}[/]" if small else text


def claim(one: Claim) -> str:
    """A claim with its verdict, as rich text."""
    from rich.markup import escape

    verdict = (
        _mark(one.verdict)
        if one.ours is None
        else (f"{_mark(one.verdict)}; on our summaries {_mark(one.ours)}")
    )
    return f"{verdict} ({escape(one.dataset)}) {escape(one.text)}: [dim]{escape(one.figures)}[/]"


def _mark(verdict: Verdict) -> str:
    words, _, colour = MARKS[verdict]
    return f"[{colour}]{words}[/]"
