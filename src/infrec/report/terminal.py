"""Tables and claims on a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from infrec.report.document import Claim, Table, Value, Verdict
from infrec.report.numbers import MARKS, beside, interval, number

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table as Lines

TITLE_WIDTH = 76  # a title is as wide as its table, but no narrower than this


@dataclass(frozen=True)
class Titled:
    """A table under its title, which a narrow table does not break into many lines."""

    title: str
    lines: Lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.constrain import Constrain
        from rich.measure import Measurement
        from rich.text import Text

        width = max(TITLE_WIDTH, Measurement.get(console, options, self.lines).maximum)
        if self.title:
            yield Constrain(Text(self.title, style="table.title"), min(width, options.max_width))
        yield self.lines


def table(table: Table) -> Titled:
    """A table that rich prints; what stands below a number on a page stands behind it in a fainter colour."""
    from rich.markup import escape
    from rich.table import Table as Lines

    lines = Lines()
    for at, word in enumerate(table.head):
        lines.add_column(escape(word), justify="right" if at else "left", style="" if at else "bold")
    for row in table.rows:
        lines.add_row(*(escape(cell) if isinstance(cell, str) else _value(cell) for cell in row))
    return Titled(table.caption, lines)


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
