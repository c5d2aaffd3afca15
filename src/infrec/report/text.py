"""Documents as text: whole ones in Markdown, for the documentation, figures being files beside it; tables and
claims on a terminal, as rich text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from infrec.report import document as doc
from infrec.report.document import Claim, Table, Value, Verdict
from infrec.report.numbers import MARKS, beside, interval, number, signed

if TYPE_CHECKING:
    from rich.console import Group


def markdown(document: doc.Document, svgs: Mapping[str, str] | None = None) -> str:
    """A document as Markdown.

    Args:
        document: What it shows.
        svgs: Its figures by name, each to lie beside it as `NAME.svg`; others are left out.
    """
    parts = [f"# {document.heading}"]
    for part in document.parts:
        if isinstance(part, doc.Section):
            parts += [f"## {part.heading}", *(_block(block, svgs or {}) for block in part.blocks)]
        else:
            parts.append(_block(part, svgs or {}))
    return "\n\n".join(part for part in (*parts, document.footer) if part) + "\n"


def _block(block: doc.Block, svgs: Mapping[str, str]) -> str:
    match block:
        case doc.Fold():
            return _block(block.block, svgs)
        case doc.Figure() if block.name in svgs:
            picture = f"![{block.caption}]({block.name}.svg)"
            return f"{picture}\n\n{_table(block.table)}" if block.table else picture
        case doc.Figure():
            return _table(block.table) if block.table else ""
        case doc.Table():
            return _table(block)
        case doc.Claims():
            marks = {one: [MARKS[v].words if v else "" for v in block.verdicts(one)] for one in block.claims}
            rows = ([one.text, one.dataset, *marks[one], one.figures] for one in block.claims)
            return _grid(block.head, rows)
        case doc.ClaimGrid():
            return _claim_grid(block)
        case doc.Text():
            return f"**{block.text}**" if block.kind in ("notice", "warning") else block.text
        case doc.Pairs():
            return _list(f"**{name}**: {value}" for name, value in block.pairs.items())
        case doc.Items():
            return _list(block.items)
        case doc.Tiles():
            return _list(f"{name}: **{now}** ({was})" for name, now, was in block.tiles)
        case doc.Matrix():
            return block.caption
        case doc.Explanations():
            return _list(
                f"**{entry.rank}. {entry.label}** {block.mark(entry)} ({entry.score:.3f}): "
                + ", ".join(f"{name} {signed(amount, 3)}" for name, amount in entry.parts)
                for entry in block.entries
            )
        case doc.Links():
            return _list(f"[{link.title}]({link.folder}/README.md): {link.facts}" for link in block.links)


def _list(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _table(table: doc.Table) -> str:
    grid = _grid(table.head, ([_cell(cell) for cell in row] for row in table.rows))
    return "\n\n".join((table.caption, grid, *table.remarks))


def _claim_grid(grid: doc.ClaimGrid) -> str:
    """A row for each claim; its mark on a dataset leads to the page with the figures."""
    lines = []
    for page, claims in grid.rows:
        there = f"{page.folder}/README.md"
        for text, found in claims:
            marks = ["" if one is None else f"[{MARKS[one.verdict].words[0]}]({there})" for one in found]
            lines.append([text, *marks])
    return _grid(("claim", *grid.datasets), lines)


def _cell(cell: str | doc.Value) -> str:
    if isinstance(cell, str):
        return cell
    text = number(cell.metric, cell.value)
    text = f"**{text}**" if cell.best else text
    small = "; ".join(filter(None, (beside(cell) if cell.paper is not None else "", cell.note)))
    return f"{text} ({small})" if small else text


def _grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


# ---- on a terminal ----------------------------------------------------------------------------------------
def rich_table(table: Table) -> Group:
    """A table that rich prints under its caption, which may be wider than the table; what stands below a
    number on a page stands behind it in a fainter colour."""
    from rich.console import Group
    from rich.markup import escape
    from rich.table import Table as Lines
    from rich.text import Text

    lines = Lines()
    for at, word in enumerate(table.head):
        lines.add_column(escape(word), justify="right" if at else "left", style="" if at else "bold")
    for row in table.rows:
        lines.add_row(*(escape(cell) if isinstance(cell, str) else _value(cell) for cell in row))
    return Group(*([Text(table.caption, style="table.title")] if table.caption else []), lines)


def _value(cell: Value) -> str:
    text = number(cell.metric, cell.value)
    text = f"[bold]{text}[/]" if cell.best else text
    if cell.paper is not None:
        return f"{text}\n[dim]{beside(cell)}[/]"
    small = cell.note
    if not small and cell.low is not None and cell.high is not None:
        small = interval(cell.metric, (cell.low, cell.high))
    return f"{text} [dim]{small}[/]" if small else text


def rich_claim(one: Claim) -> str:
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
