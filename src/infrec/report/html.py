"""Documents as HTML: one file that needs nothing else, readable without scripts or sight."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from infrec.report import figures
from infrec.report.document import (
    Bar,
    Block,
    Claims,
    Document,
    Explained,
    Explanations,
    Figure,
    Fold,
    Items,
    Links,
    Matrix,
    Pairs,
    Section,
    Table,
    Text,
    Tiles,
    Value,
)
from infrec.report.numbers import beside, interval, number, signed

NO_PLOTS = (
    "The plots need matplotlib, which is not installed here: pip install 'infrec[plot]'. "
    "The tables say the same."
)
VERDICTS = {"holds": "holds", "does not hold": "fails", "cannot be tested here": "open"}
FIGURE_HEAD = ("panel", "series", "x", "value", "low", "high", "seeds")
MATRIX_COLOUR = (0x2B, 0x84, 0xC6)  # stands out on a light and on a dark page
MATRIX_HEIGHT = 420  # in pixels, unless there are more rows than that shows


def render(document: Document, svgs: Mapping[str, str] | None = None) -> str:
    """The page of a document.

    Args:
        document: What it shows.
        svgs: Its figures as `figures.drawings` draws them, where they are drawn already. Without matplotlib
            the figures are left out, the page says so, and their tables remain.
    """
    svgs = figures.drawings(document) if svgs is None else svgs
    style = files("infrec.report").joinpath("page.css").read_text(encoding="utf-8")
    body = [_part(part, svgs) for part in document.parts]
    if any(document.figures) and not svgs:
        body.insert(1, _text(Text(NO_PLOTS, "notice")))
    up = "" if document.up is None else f'<nav><a href="{document.up[0]}">{escape(document.up[1])}</a></nav>'
    footer = f"<footer>{escape(document.footer)}</footer>" if document.footer else ""
    body_tag = '<body class="wide">' if document.wide else "<body>"
    lines = [up, f"<h1>{escape(document.heading)}</h1>", *body, footer]
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{escape(document.title)}</title>\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>\n{style}</style>\n</head>\n{body_tag}\n<main>\n"
        + "\n".join(line for line in lines if line)
        + "\n</main>\n</body>\n</html>\n"
    )


def _part(part: Section | Block, svgs: Mapping[str, str]) -> str:
    if not isinstance(part, Section):
        return _block(part, svgs)
    return f"<h2>{escape(part.heading)}</h2>" + "".join(_block(block, svgs) for block in part.blocks)


def _block(block: Block, svgs: Mapping[str, str]) -> str:
    if isinstance(block, Figure):
        return _figure(block, svgs.get(block.name))
    if isinstance(block, Fold):
        return _details(block.summary, _block(block.block, svgs))
    return _WRITERS[type(block)](block)


def _details(summary: str, body: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{body}</details>"


# ---- figures ----------------------------------------------------------------------------------------------
def _figure(figure: Figure, svg: str | None) -> str:
    if figure.table is None:
        table = _details("The same as a table", _points(figure))
    elif figure.table_open or svg is None:
        table = _table(figure.table)
    else:
        table = _details("The same as a table", _table(figure.table))
    if svg is None:
        return table
    alt = figure.alt or "; ".join(
        f"{panel.title}, {panel.y}: " + ", ".join(figures.legend(series.name) for series in panel.series)
        for panel in figure.panels
    )
    return (
        f'<figure aria-labelledby="{figure.name}-caption">'
        f'<div class="plot" role="img" aria-label="{escape(alt)}">{figures.inline(figure, svg)}</div>'
        f'<figcaption id="{figure.name}-caption">{escape(figure.caption)}</figcaption></figure>{table}'
    )


def _points(figure: Figure) -> str:
    """Every number of a figure, so that it can be read, copied and checked."""
    rows = [
        [
            escape(f"{panel.title}: {panel.y}"),
            escape(figures.legend(series.name)),
            f"{point.x:g}",
            f"{point.value:.6g}",
            f"{point.low:.6g}",
            f"{point.high:.6g}",
            f"{point.seeds}",
        ]
        for panel in figure.panels
        for series in panel.series
        for point in series.points
    ]
    return _grid(FIGURE_HEAD, rows, f"The data of the figure {figure.name}.")


def _matrix(matrix: Matrix) -> str:
    height, width = len(matrix.rows), len(matrix.rows[0])
    shown = max(MATRIX_HEIGHT, height * 2) if height > 20 else height * 20
    return (
        '<figure aria-labelledby="picture-caption"><div class="matrix">'
        f'<img src="{png(matrix.rows)}" alt="{escape(matrix.alt)}" width="{width}" height="{height}" '
        f'style="height:{shown}px"></div>'
        f'<figcaption id="picture-caption">{escape(matrix.caption)}</figcaption></figure>'
    )


def png(rows: Sequence[str]) -> str:
    """Rows of hexadecimal digits as the address of a PNG: one pixel a cell, opaque where the weight is 1."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width = len(rows), len(rows[0])
    pixels = b"".join(b"\0" + bytes(int(digit, 16) for digit in row) for row in rows)
    image = b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            chunk(b"PLTE", bytes(MATRIX_COLOUR) * 16),
            chunk(b"tRNS", bytes(round(255 * level / 15) for level in range(16))),
            chunk(b"IDAT", zlib.compress(pixels, 9)),
            chunk(b"IEND", b""),
        ]
    )
    return "data:image/png;base64," + base64.b64encode(image).decode()


# ---- tables -----------------------------------------------------------------------------------------------
def _table(table: Table) -> str:
    intervals = any(isinstance(cell, Value) and _bounds(cell) for row in table.rows for cell in row)
    rows = ([_cell(cell) for cell in row] for row in table.rows)
    return _grid(table.head, rows, f"{table.caption} {table.ranges}" if intervals else table.caption)


def _grid(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str) -> str:
    """Cells of `rows` are HTML already; the head and the caption are text."""
    heads = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    lines = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}</tr>'
        for first, *rest in rows
    )
    return (
        f'<div class="scroll"><table><caption>{escape(caption)}</caption><thead><tr>{heads}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
    )


def _bounds(cell: Value) -> str:
    if cell.low is None or cell.high is None or cell.low == cell.high:
        return ""
    return interval(cell.metric, (cell.low, cell.high))


def _cell(cell: str | Value) -> str:
    if isinstance(cell, str):
        return escape(cell)
    text = escape(number(cell.metric, cell.value))
    if cell.best:
        text = f"<strong>{text}</strong>"
    text += "".join(f"<small>{escape(small)}</small>" for small in (cell.note, _bounds(cell)) if small)
    if cell.paper is not None:
        text += f'<small class="paper">{escape(beside(cell).removeprefix("paper "))}</small>'
    return text


def _claims(block: Claims) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(one.text)}</th><td>{escape(one.dataset)}</td>'
        f'<td class="{VERDICTS[one.verdict]}">{escape(one.verdict)}</td>'
        f"<td>{_escaped(one.figures)}</td></tr>"
        for one in block.claims
    )
    head = "".join(f'<th scope="col">{word}</th>' for word in ("claim", "data", "here", "figures"))
    return (
        f'<div class="scroll"><table class="claims"><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _escaped(text: str) -> str:
    """Sentences, in which a number and its % stay together."""
    return escape(text).replace(" %", "&nbsp;%")


# ---- words ------------------------------------------------------------------------------------------------
def _text(block: Text) -> str:
    if block.kind in ("note", "warning"):
        warn = " warn" if block.kind == "warning" else ""
        return f'<div class="aside{warn}" role="note"><p>{_escaped(block.text)}</p></div>'
    return f"<p{_class(block.kind)}>{_escaped(block.text)}</p>"


def _pairs(block: Pairs) -> str:
    pairs = block.pairs.items()
    entries = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in pairs)
    return f'<dl class="words">{entries}</dl>'


def _items(block: Items) -> str:
    items = "".join(f"<li>{escape(item)}</li>" for item in block.items)
    return f"<ul{_class(block.kind)}>{items}</ul>"


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def _tiles(block: Tiles) -> str:
    tiles = "".join(
        f'<div><dt>{escape(name)}</dt><dd class="now">{escape(now)}</dd>'
        f'<dd class="was">{escape(was)}</dd></div>'
        for name, now, was in block.tiles
    )
    return f'<dl class="tiles">{tiles}</dl>'


def _explanations(block: Explanations) -> str:
    return f'<ol class="recs">{"".join(_explained(entry) for entry in block.entries)}</ol>'


def _explained(entry: Explained) -> str:
    mark = f'<span class="hit">{escape(entry.mark)}</span>' if entry.mark else ""
    widest = max(abs(bar.amount) for bar in entry.bars) or 1.0
    return (
        f'<li><div class="rec-head"><span>{escape(entry.label)}{mark}</span>'
        f'<span class="score">score {entry.score:.3f}</span></div>'
        f'<div class="why">{"".join(_bar(bar, widest) for bar in entry.bars)}</div>'
        + (f'<p class="quiet">{escape(entry.below)}</p>' if entry.below else "")
        + "</li>"
    )


def _bar(bar: Bar, widest: float) -> str:
    kind = " against" if bar.amount < 0 else " quiet" if bar.kind == "rest" else ""
    return (
        f'<span class="{"quiet" if bar.kind == "rest" else "own"}">{escape(bar.label)}</span>'
        '<span class="track" aria-hidden="true">'
        f'<span class="bar{kind}" style="display:block;width:{100 * abs(bar.amount) / widest:.1f}%"></span>'
        f'</span><span class="amount">{signed(bar.amount, 3)}</span>'
    )


def _links(block: Links) -> str:
    cards = ""
    for link in block.links:
        tally = " · ".join(
            f'<span class="{mark}">{count} {escape(verdict)}</span>'
            for verdict, mark in VERDICTS.items()
            if (count := sum(one.verdict == verdict for one in link.claims))
        )
        cards += (
            f'<a href="{link.folder}/index.html"><strong>{escape(link.title)}</strong>'
            f'<span class="quiet">{escape(link.facts)}</span><div class="tally">{tally}</div></a>'
        )
    return f'<div class="cards">{cards}</div>'


_WRITERS: dict[type, Any] = {
    Text: _text,
    Pairs: _pairs,
    Items: _items,
    Tiles: _tiles,
    Matrix: _matrix,
    Table: _table,
    Claims: _claims,
    Explanations: _explanations,
    Links: _links,
}
