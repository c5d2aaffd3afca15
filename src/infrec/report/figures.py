"""Figures as SVG: for a page, whose colours they take, and as files of their own.

matplotlib draws with placeholder colours that are replaced afterwards, so the same picture is right on a
light and on a dark page. Each source and each model looks the same in every figure: a colour, a marker, and
where they meet, a dash.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Sequence
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any

from infrec.report.document import Document, Figure, Panel
from infrec.report.numbers import COLOURS, DASHED, label, style_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

# placeholder → the page's style sheet decides, or white paper for a file of its own
INK, FAINT, PAPER = "#010203", "#010204", "#010205"
SERIES = tuple(f"#0103{at:02x}" for at in range(COLOURS))
_ON_PAGE = {INK: "var(--ink-soft)", FAINT: "var(--rule)", PAPER: "var(--paper)"} | {
    colour: f"var(--series-{at})" for at, colour in enumerate(SERIES)
}
_LIGHT = ("#0072b2", "#d55e00", "#6b7280", "#009e73", "#b0579a", "#8a6d00", "#2f9bd6", "#1d2329", "#8c2d04")
_ON_PAPER = {INK: "#3c454e", FAINT: "#dcdcd4", PAPER: "#ffffff"} | dict(zip(SERIES, _LIGHT, strict=True))
# Inches: a page, a row of panels, a taller one, a line of the legend, a row of dots, a letter of its name.
WIDTH, ROW, TALL_ROW, LEGEND_LINE, DOTS_LINE, LETTER = 9.6, 2.35, 3.2, 0.2, 0.38, 0.07
WIDE = 0.875  # of the page: as wide as a page of text
OURS = ("distill-cf", "infinite-ae")


def available() -> bool:
    """Whether matplotlib, an optional extra, is installed."""
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def drawings(document: Document) -> dict[str, str]:
    """The figures of a document by name, with placeholder colours; none without matplotlib."""
    return {figure.name: draw(figure) for figure in document.figures} if available() else {}


def legend(series: str) -> str:
    """The name of a series in the legend and in tables."""
    return ", ".join(label(word) for word in series.split("|"))


# ---- a figure ---------------------------------------------------------------------------------------------
def draw(figure: Figure) -> str:
    """The SVG of a figure with placeholder colours."""
    rows, columns = len(figure.rows), max(len(row) for row in figure.rows)
    dots = figure.panels[0].kind == "dots"
    names = list(dict.fromkeys(series.name for panel in figure.panels for series in panel.series))
    longest = max((len(legend(each)) for each in names), default=1)
    per_line = max(1, (88 if columns > 1 or figure.wide else 50) // (longest + 7))
    top = 0.04 if dots else LEGEND_LINE * math.ceil(len(names) / per_line) + 0.12
    row = TALL_ROW if figure.wide else ROW
    row = 0.55 + DOTS_LINE * len(figure.panels[0].ticks) if dots else row
    left = 0.2 + LETTER * max(len(name) for _, name in figure.panels[0].ticks) if dots else 0.62
    height, width = top + row * rows, WIDTH * _share(figure)

    def fill(drawing: Drawing) -> None:
        # Places in inches: one legend on top, then rows of panels with room for their labels.
        axes = drawing.subplots(
            rows,
            columns,
            squeeze=False,
            sharey="row" if figure.same_y else False,
            gridspec_kw={
                "left": left / width,
                "right": 1 - 0.16 / width,
                "top": 1 - (top + 0.24) / height,
                "bottom": (0.27 if dots else 0.47) / height,
                "wspace": 0.12 if dots else 0.52 / ((width - 0.7) / columns - 0.4),
                "hspace": 0.72 / (row - 0.72),
            },
        )
        handles: dict[str, Any] = {}
        for at_row, row_of_axes in enumerate(axes):
            for at_column, one in enumerate(row_of_axes):
                if at_column >= len(figure.rows[at_row]):
                    one.set_visible(False)
                    continue
                panel = figure.rows[at_row][at_column]
                _PANELS[panel.kind](one, panel, names, handles)
                first = at_row == 0 or panel.title != figure.rows[0][at_column].title
                _words(one, panel, title=first, y=not (figure.same_y and at_column))
                _axes(one, panel, columns, names_of_rows=at_column == 0)
        if handles:
            drawing.legend(
                [handles[each] for each in names if each in handles],
                [legend(each) for each in names if each in handles],
                loc="upper left",
                bbox_to_anchor=(0.5 / width, 1 - 0.02 / height),
                ncols=per_line,
            )

    return _drawn(figure.name, (width, height), fill)


def _share(figure: Figure) -> float:
    """The part of the page's width that a figure of few panels takes."""
    if figure.wide:
        return WIDE
    return {1: 0.55, 2: 0.85}.get(max(len(row) for row in figure.rows), 1.0)


def _drawn(name: str, inches: tuple[float, float], fill: Callable[[Drawing], None]) -> str:
    """The SVG that `fill` draws. Deterministic: no date, ids salted by the name."""
    import matplotlib
    from matplotlib.figure import Figure as Drawing

    looks = files("infrec.report").joinpath("figures.mplstyle")
    with as_file(looks) as style, matplotlib.rc_context({"svg.hashsalt": f"infrec-{name}"}, style):
        drawing = Drawing(figsize=inches)
        fill(drawing)
        buffer = io.StringIO()
        drawing.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    return re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)


def inline(figure: Figure, svg: str) -> str:
    """A drawing as a part of a page: its colours are the page's, its ids are its own."""
    for placeholder, variable in _ON_PAGE.items():
        svg = svg.replace(placeholder, variable)
    svg = re.sub(r'\s(width|height)="[\d.]+pt"', "", svg, count=2)
    # One page holds several of these: names that matplotlib counts from 1 in each must not meet.
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{figure.name}-\1"', svg)
    svg = re.sub(r'(xlink:href="#|url\(#)', rf"\1{figure.name}-", svg)
    style = f'style="max-width:{65 * _share(figure):.0f}rem"'
    return svg.replace("<svg ", f'<svg {style} role="presentation" focusable="false" ', 1)


def standalone(svg: str) -> str:
    """A drawing as a file that any program shows: light colours on white."""
    for placeholder, colour in _ON_PAPER.items():
        svg = svg.replace(placeholder, colour)
    background = '<rect width="100%" height="100%" fill="#ffffff"/>'
    end = svg.index(">", svg.index("<svg")) + 1
    style = "<style>text { font-family: system-ui, 'DejaVu Sans', sans-serif !important; }</style>"
    return f'<?xml version="1.0" encoding="utf-8"?>\n{svg[:end]}\n{style}{background}{svg[end:]}'


# ---- a panel ----------------------------------------------------------------------------------------------
def _curves(axes: Axes, panel: Panel, names: Sequence[str], handles: dict[str, Any]) -> None:
    for series in panel.series:
        style, x = style_of(series.name, names.index(series.name)), [point.x for point in series.points]
        colour = SERIES[style.colour]
        low, high = [p.low for p in series.points], [p.high for p in series.points]
        if len(x) > 1:
            axes.fill_between(x, low, high, color=colour, alpha=0.13, linewidth=0)
        else:
            axes.vlines(x, low, high, color=colour, alpha=0.4, linewidth=2.5)
        (handles[series.name],) = axes.plot(
            x,
            [point.value for point in series.points],
            color=colour,
            linestyle=style.dash,
            linewidth=1.9 if series.name.startswith(OURS) else 1.3,
            marker=style.marker,
            markersize=7 if len(x) == 1 else 5 if len(x) < 20 or panel.log_y else 2.5,
            markevery=0.15 if len(x) >= 20 and panel.log_y else None,
            markeredgecolor=PAPER,
            markeredgewidth=0.6,
            zorder=3 if series.name.startswith(OURS) else 2,
        )


def _dots(axes: Axes, panel: Panel, names: Sequence[str], handles: dict[str, Any]) -> None:
    """A dot with its interval in each row; the rows have names, so there is no legend."""
    points = [point for series in panel.series for point in series.points]
    for series in panel.series:
        style = style_of(series.name, names.index(series.name))
        for point in series.points:
            place = [point.x, point.x]
            colour = SERIES[style.colour]
            axes.plot([0, point.value], place, color=FAINT, linewidth=1.2, zorder=1)
            axes.plot([point.low, point.high], place, color=colour, linewidth=5, alpha=0.35, zorder=2)
            axes.plot(point.value, point.x, style.marker, color=colour, markersize=6.5, zorder=3)
            axes.annotate(
                f"{point.value:.2f}",
                (max(point.high, point.value), point.x),
                (6, 0),
                textcoords="offset points",
                va="center",
                color=INK,
                fontsize=9,
            )
    widest = max(max(point.value, point.high) for point in points)
    axes.set(xlim=(0, widest * 1.25 or 1), ylim=(max(point.x for point in points) + 0.6, -0.6))


def _bars(axes: Axes, panel: Panel, names: Sequence[str], handles: dict[str, Any]) -> None:
    width = 0.8 / len(panel.series)
    axes.set_ylim(0, 1.1 * max(point.value for series in panel.series for point in series.points))
    for at, series in enumerate(panel.series):
        places = [point.x + (at - (len(panel.series) - 1) / 2) * width for point in series.points]
        values = [point.value for point in series.points]
        colour = SERIES[style_of(series.name, names.index(series.name)).colour]
        handles[series.name] = axes.bar(places, values, width * 0.92, color=colour)
        for place, value in zip(places, values, strict=True):
            axes.annotate(
                f"{value:.0f}" if value >= 0.5 or value == 0 else "<1",
                (place, value),
                (0, 3),
                textcoords="offset points",
                ha="center",
                color=INK,
                fontsize=8,
                bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 0.8},  # the dashed line passes behind
            )


_PANELS = {"curves": _curves, "dots": _dots, "bars": _bars}


def _words(axes: Axes, panel: Panel, *, title: bool, y: bool) -> None:
    if panel.line is not None:
        axes.axhline(panel.line[0], color=INK, linewidth=1, linestyle=DASHED, zorder=1)
    if title:
        axes.set_title(panel.title)
    if y:
        axes.set_ylabel(panel.y, labelpad=3)
    axes.set_xlabel(panel.x, labelpad=2)
    if not panel.series:
        axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center", color=INK, fontsize=9)


def _axes(axes: Axes, panel: Panel, columns: int, *, names_of_rows: bool) -> None:
    """Few ticks: the points' own on a log axis, or if they are few and round."""
    from matplotlib.ticker import MaxNLocator

    if panel.kind == "dots":
        axes.set_yticks(
            [at for at, _ in panel.ticks], [name for _, name in panel.ticks] if names_of_rows else []
        )
        axes.xaxis.set_major_locator(MaxNLocator(4))
    elif panel.log_y:
        _shares(axes)
    else:
        _places(axes, panel, columns)
        axes.yaxis.set_major_locator(MaxNLocator(5))
    if not panel.series:  # no places, so no numbers on the axes
        axes.set_xticks([])
        axes.set_yticks([])
    if panel.kind == "dots":
        axes.tick_params(axis="y", length=0, labelsize=9)
    else:
        axes.margins(x=0.05)
    if panel.from_zero:
        axes.set_ylim(bottom=0)


def _places(axes: Axes, panel: Panel, columns: int) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

    places = sorted({point.x for series in panel.series for point in series.points})
    if panel.log_x and places:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator(_apart(places, 0.043 * max(3, columns))))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    elif panel.ticks:
        axes.set_xticks([place for place, _ in panel.ticks], [name for _, name in panel.ticks])
    elif 0 < len(places) <= 8 and places[-1] < 20 and all(place == round(place, 2) for place in places):
        axes.set_xticks(places, [f"{place:g}" for place in places])
    else:
        axes.xaxis.set_major_locator(MaxNLocator(5))


def _shares(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, NullLocator

    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
        axis.set_minor_locator(NullLocator())


def _apart(places: Sequence[float], share: float) -> list[float]:
    """Those of the places that are this share of a logarithmic axis apart: their labels do not touch."""
    span = math.log(places[-1] / places[0]) or 1.0
    kept = [places[-1]]
    for place in reversed(places[:-1]):
        if math.log(kept[-1] / place) / span > share:
            kept.append(place)
    return kept[::-1]


def _short(value: float) -> str:
    return f"{value / 1000:g}k" if value >= 1000 and value % 100 == 0 else f"{value:,.0f}"
