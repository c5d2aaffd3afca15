"""Documents as HTML: one file that needs nothing else, readable without scripts or sight."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from infrec.report import document as doc
from infrec.report import figures
from infrec.report.numbers import MARKS, beside, interval, number, signed

if TYPE_CHECKING:
    from infrec.evaluation.comparison import Recommended

NO_PLOTS = (
    "The plots need matplotlib, which is not installed here: pip install 'infrec[plot]'. "
    "The tables say the same."
)
COLOURS = {"good": "lead holds", "bad": "lead fails", "unsure": "lead open"}  # of a verdict in a sentence
FIGURE_HEAD = ("panel", "series", "x", "value", "low", "high", "seeds")
MATRIX_COLOUR = (0x2B, 0x84, 0xC6)  # stands out on a light and on a dark page
MATRIX_HEIGHT = 420  # in pixels, unless there are more rows than that shows
_Cell = str | tuple[str, str]  # HTML, with its class


def render(document: doc.Document, svgs: Mapping[str, str] | None = None) -> str:
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
        body.insert(1, _block(doc.Text(NO_PLOTS, "notice"), svgs))
    up = "" if document.up is None else f'<nav><a href="{document.up[0]}">{escape(document.up[1])}</a></nav>'
    footer = _tag("footer", escape(document.footer)) if document.footer else ""
    body_tag = '<body class="wide">' if document.wide else "<body>"
    lines = [up, _tag("h1", escape(document.heading)), *body, footer]
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{escape(document.title)}</title>\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>\n{style}</style>\n</head>\n{body_tag}\n<main>\n"
        + "\n".join(line for line in lines if line)
        + "\n</main>\n</body>\n</html>\n"
    )


def _part(part: doc.Section | doc.Block, svgs: Mapping[str, str]) -> str:
    if not isinstance(part, doc.Section):
        return _block(part, svgs)
    return _tag("h2", escape(part.heading)) + "".join(_block(block, svgs) for block in part.blocks)


def _block(block: doc.Block, svgs: Mapping[str, str]) -> str:
    match block:
        case doc.Figure():
            return _figure(block, svgs.get(block.name))
        case doc.Fold():
            return _details(block.summary, _block(block.block, svgs))
        case doc.Table():
            return _table(block)
        case doc.Matrix():
            return _matrix(block)
        case doc.Text(kind="note" | "warning"):
            warn = " warn" if block.kind == "warning" else ""
            return f'<div class="aside{warn}" role="note"><p>{_escaped(block.text)}</p></div>'
        case doc.Text():
            return _tag("p", _escaped(block.text), COLOURS.get(block.kind, block.kind))
        case doc.Pairs():
            pairs = block.pairs.items()
            entries = [_tag("dt", escape(name)) + _tag("dd", escape(value)) for name, value in pairs]
            return _tag("dl", "".join(entries), "words")
        case doc.Items():
            return _tag("ul", "".join(_tag("li", escape(item)) for item in block.items), block.kind)
        case doc.Tiles():
            tiles = [
                _tag("dt", escape(name)) + _tag("dd", escape(now), "now") + _tag("dd", escape(was), "was")
                for name, now, was in block.tiles
            ]
            return _tag("dl", "".join(_tag("div", tile) for tile in tiles), "tiles")
        case doc.Claims():
            return _claims(block)
        case doc.ClaimGrid():
            return _claim_grid(block)
        case doc.Explanations():
            explained = (_explained(entry, block.mark(entry)) for entry in block.entries)
            return _tag("ol", "".join(explained), "recs")
        case doc.Links():
            return _tag("div", "".join(_link(link) for link in block.links), "cards")


def _claims(block: doc.Claims) -> str:
    rows: list[Sequence[_Cell]] = []
    for one in block.claims:
        verdicts = ((escape(v), MARKS[v].kind) if v else "" for v in block.verdicts(one))
        rows.append((escape(one.text), escape(one.dataset), *verdicts, _escaped(one.figures)))
    return _grid(block.head, rows, kind="claims")


def _tag(name: str, body: str, kind: str = "") -> str:
    """An element with this HTML in it. kind: its class."""
    opening = f'{name} class="{kind}"' if kind else name
    return f"<{opening}>{body}</{name}>"


def _escaped(text: str) -> str:
    """Sentences, in which a number and its % stay together."""
    return escape(text).replace(" %", "&nbsp;%")


def _details(summary: str, body: str) -> str:
    return _tag("details", _tag("summary", escape(summary)) + body)


# ---- figures ----------------------------------------------------------------------------------------------
def _figure(figure: doc.Figure, svg: str | None) -> str:
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
        f'<div class="plot" role="img" tabindex="0" aria-label="{escape(alt)}">'
        f"{figures.inline(figure, svg)}</div>"
        f'<figcaption id="{figure.name}-caption">{escape(figure.caption)}</figcaption></figure>{table}'
    )


def _points(figure: doc.Figure) -> str:
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


def _matrix(matrix: doc.Matrix) -> str:
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
def _table(table: doc.Table) -> str:
    intervals = any(isinstance(cell, doc.Value) and _bounds(cell) for row in table.rows for cell in row)
    rows = ([_cell(cell) for cell in row] for row in table.rows)
    grid = _grid(table.head, rows, f"{table.caption} {table.ranges}" if intervals else table.caption)
    return grid + "".join(_tag("p", escape(remark), "quiet") for remark in table.remarks)


def _grid(
    head: Sequence[str],
    rows: Iterable[Sequence[_Cell]],
    caption: str = "",
    kind: str = "",
) -> str:
    """Cells of `rows` are HTML already, some with their class; the head and the caption are text."""
    heads = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    lines = ""
    for first, *rest in rows:
        cells = (_tag("td", cell) if isinstance(cell, str) else _tag("td", *cell) for cell in rest)
        lines += f'<tr><th scope="row">{first}</th>{"".join(cells)}</tr>'
    above = _tag("caption", escape(caption)) if caption else ""
    table = _tag("table", f"{above}<thead><tr>{heads}</tr></thead><tbody>{lines}</tbody>", kind)
    return f'<div class="scroll" tabindex="0">{table}</div>'


def _claim_grid(grid: doc.ClaimGrid) -> str:
    """A group of rows for each page; a claim's mark leads there."""
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in ("claim", *grid.datasets))
    groups = ""
    for page, claims in grid.rows:
        if not claims:
            continue
        address = f"{page.folder}/index.html"
        span = len(grid.datasets) + 1
        title = f'<a href="{address}">{escape(page.title)}</a>'
        lines = f'<tr><th scope="rowgroup" colspan="{span}">{title}</th></tr>'
        for text, found in claims:
            marks = "".join(_tag("td", "" if one is None else _mark(one, address)) for one in found)
            lines += f'<tr><th scope="row">{escape(text)}</th>{marks}</tr>'
        groups += _tag("tbody", lines)
    caption = _tag(
        "caption",
        "Each mark leads to its figures: ✓ holds, ✗ does not hold, ≈ undecided, ? cannot be tested.",
    )
    table = _tag("table", f"{caption}<thead><tr>{heads}</tr></thead>{groups}", "overview")
    return f'<div class="scroll" tabindex="0">{table}</div>'


def _mark(one: doc.Claim, address: str) -> str:
    words = f'aria-label="{escape(one.verdict)} on {escape(one.dataset)}" title="{escape(one.figures)}"'
    return f'<a class="{MARKS[one.verdict].kind}" href="{address}" {words}></a>'


def _bounds(cell: doc.Value) -> str:
    if cell.low is None or cell.high is None or cell.low == cell.high:
        return ""
    return interval(cell.metric, (cell.low, cell.high))


def _cell(cell: str | doc.Value) -> str:
    if isinstance(cell, str):
        return escape(cell)
    text = escape(number(cell.metric, cell.value))
    if cell.best:
        text = _tag("strong", text)
    text += "".join(_tag("small", escape(small)) for small in (cell.note, _bounds(cell)) if small)
    if cell.paper is not None:
        text += _tag("small", escape(beside(cell).removeprefix("paper ")), "paper")
    return text


# ---- explanations and links -------------------------------------------------------------------------------
def _explained(entry: Recommended, mark: str) -> str:
    mark = _tag("span", escape(mark), "hit") if mark else ""
    score = _tag("span", f"score {entry.score:.3f}", "score")
    widest = max(abs(amount) for _, amount in entry.parts) or 1.0
    head = _tag("div", _tag("span", escape(f"{entry.rank}. {entry.label}") + mark) + score, "rec-head")
    bars = (_bar(*part, widest, own=at < len(entry.items)) for at, part in enumerate(entry.parts))
    users = ", ".join(f"{user.label} ({signed(user.contribution, 3)})" for user in entry.users)
    below = _tag("p", escape(f"Users like this one who speak for it: {users}."), "quiet") if users else ""
    return _tag("li", head + _tag("div", "".join(bars), "why") + below)


def _bar(name: str, amount: float, widest: float, *, own: bool) -> str:
    kind = " against" if amount < 0 else "" if own else " quiet"
    return (
        f'<span class="{"own" if own else "quiet"}">{escape(name)}</span>'
        '<span class="track" aria-hidden="true">'
        f'<span class="bar{kind}" style="display:block;width:{100 * abs(amount) / widest:.1f}%"></span>'
        f'</span><span class="amount">{signed(amount, 3)}</span>'
    )


def _link(link: doc.Link) -> str:
    tally = " · ".join(
        _tag("span", f"{count} {escape(verdict)}", mark.kind)
        for verdict, mark in MARKS.items()
        if (count := sum(one.verdict == verdict for one in link.claims))
    )
    return (
        f'<a href="{link.folder}/index.html"><strong>{escape(link.title)}</strong>'
        f"{_tag('span', escape(link.facts), 'quiet')}{_tag('div', tally, 'tally')}</a>"
    )
