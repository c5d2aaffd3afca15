"""The figures of an experiment as SVG: for a page, whose colours they take, and as files of their own.

Each source and each model looks the same in every figure: a colour, a marker, and where they meet, a dash.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from infrec.paper.cells import DISTILLED, FULL, GENERATED
from infrec.paper.names import name
from infrec.report.document import Figure, Panel
from infrec.report.figures import FAINT, INK, PAPER, drawn, on_page

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

SERIES = tuple(f"#0103{at:02x}" for at in range(9))
_ON_PAGE = {INK: "var(--ink-soft)", FAINT: "var(--rule)", PAPER: "var(--paper)"} | {
    colour: f"var(--series-{at})" for at, colour in enumerate(SERIES)
}
# A file of its own is white paper.
_LIGHT = ("#0072b2", "#d55e00", "#6b7280", "#009e73", "#b0579a", "#8a6d00", "#2f9bd6", "#1d2329", "#8c2d04")
_ON_PAPER = {INK: "#3c454e", FAINT: "#dcdcd4", PAPER: "#ffffff"} | dict(zip(SERIES, _LIGHT, strict=True))
WIDTH, ROW, LEGEND_LINE = 9.6, 2.35, 0.2  # inches


class Style(NamedTuple):
    colour: int
    marker: str
    dash: Any = "-"


DASHED = (0, (4, 2))
STYLES = {
    "interaction-rns": Style(5, "v"),
    "user-rns": Style(3, "s"),
    "head-user": Style(4, "^"),
    "svp-cf": Style(2, "D"),
    GENERATED: Style(8, "X"),
    DISTILLED: Style(0, "o"),
    f"{DISTILLED}-soft": Style(6, "P"),
    f"{DISTILLED}-published": Style(1, "X"),
    FULL: Style(7, "*", DASHED),
    "poprec": Style(2, "D"),
    "bias-only": Style(5, "v"),
    "mf": Style(3, "s"),
    "neumf": Style(4, "^"),
    "lightgcn": Style(6, "P"),
    "ease": Style(1, "s"),
    "mvae": Style(8, "X"),
    "infinite-ae": Style(0, "o"),
    "infinite-ae-plus": Style(7, "*"),
    "joint": Style(7, "*"),
    "individual": Style(2, "D"),
    "fine-tune": Style(4, "^"),
    "ader": Style(1, "s"),
}
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<")


def style_of(series: str, at: int) -> Style:
    """How a series is drawn; `model|source` has the model's colour and the source's dash."""
    if "|" in series:
        model, source = series.split("|")
        own = STYLES[model]
        return own if source == DISTILLED else Style(own.colour, "D", DASHED)
    again = at // len(MARKERS)  # the second time round, each marker comes in another colour
    return STYLES.get(series) or Style((at + 3 * again) % len(SERIES), MARKERS[at % len(MARKERS)])


def called(series: str) -> str:
    """The name of a series in the legend and in tables."""
    return ", ".join(name(word) for word in series.split("|"))


def draw(figure: Figure) -> str:
    """The SVG with placeholder colours."""
    rows, columns = len(figure.rows), max(len(row) for row in figure.rows)
    names = list(dict.fromkeys(series.name for panel in figure.panels for series in panel.series))
    per_line = max(
        1, int((88 if columns > 1 else 50) // (max((len(called(each)) for each in names), default=1) + 7))
    )
    legend = LEGEND_LINE * math.ceil(len(names) / per_line) + 0.12
    height = legend + ROW * rows
    width = WIDTH * {1: 0.55, 2: 0.85}.get(columns, 1.0)

    def fill(drawing: Drawing) -> None:
        # Places in inches: one legend on top, then rows of panels with room for their labels.
        axes = drawing.subplots(
            rows,
            columns,
            squeeze=False,
            sharey="row" if figure.same_y else False,
            gridspec_kw={
                "left": 0.62 / width,
                "right": 1 - 0.16 / width,
                "top": 1 - (legend + 0.24) / height,
                "bottom": 0.47 / height,
                "wspace": 0.52 / ((width - 0.7) / columns - 0.4),
                "hspace": 0.72 / (ROW - 0.72),
            },
        )
        handles: dict[str, Any] = {}
        for at_row, row in enumerate(axes):
            for at_column, one in enumerate(row):
                if at_column < len(figure.rows[at_row]):
                    panel = figure.rows[at_row][at_column]
                    labels = at_row == 0 or panel.title != figure.rows[0][at_column].title
                    _panel(one, panel, names, handles, title=labels, y=not (figure.same_y and at_column))
                    _axes(one, panel, columns)
                else:
                    one.set_visible(False)
        if handles:
            drawing.legend(
                [handles[each] for each in names if each in handles],
                [called(each) for each in names if each in handles],
                loc="upper left",
                bbox_to_anchor=(0.5 / width, 1 - 0.02 / height),
                ncols=per_line,
                frameon=False,
                labelcolor=INK,
                fontsize=8.5,
                handlelength=2.2,
                columnspacing=1.6,
                borderaxespad=0.0,
                borderpad=0.2,
            )

    return drawn(figure.name, (width, height), fill, layout=None)


def inline(figure: Figure, svg: str) -> str:
    """For a page, which shows figures of few panels smaller."""
    share = {1: 0.55, 2: 0.85}.get(max(len(row) for row in figure.rows), 1.0)
    return on_page(figure.name, svg, _ON_PAGE).replace(
        "<svg ", f'<svg style="max-width:{65 * share:.0f}rem" ', 1
    )


def standalone(svg: str) -> str:
    """A file that any program shows: light colours on white."""
    for placeholder, colour in _ON_PAPER.items():
        svg = svg.replace(placeholder, colour)
    background = '<rect width="100%" height="100%" fill="#ffffff"/>'
    end = svg.index(">", svg.index("<svg")) + 1
    style = "<style>text { font-family: system-ui, 'DejaVu Sans', sans-serif !important; }</style>"
    return f'<?xml version="1.0" encoding="utf-8"?>\n{svg[:end]}\n{style}{background}{svg[end:]}'


def _panel(
    axes: Axes, panel: Panel, names: Sequence[str], handles: dict[str, Any], *, title: bool, y: bool
) -> None:
    for series in panel.series:
        at = names.index(series.name)
        style, x = style_of(series.name, at), [point.x for point in series.points]
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
            linewidth=1.9 if series.name.startswith((DISTILLED, "infinite-ae")) else 1.3,
            marker=style.marker,
            markersize=7 if len(x) == 1 else 5 if len(x) < 20 else 2.5,
            markeredgecolor=PAPER,
            markeredgewidth=0.6,
            zorder=3 if series.name.startswith((DISTILLED, "infinite-ae")) else 2,
        )
    if panel.line is not None:
        axes.axhline(panel.line[0], color=INK, linewidth=1, linestyle=DASHED, zorder=1)
    if title:
        axes.set_title(panel.title, loc="left", color=INK, fontsize=9.5, fontweight="bold", pad=5)
    if y:
        axes.set_ylabel(panel.y, color=INK, fontsize=8.5, labelpad=3)
    axes.set_xlabel(panel.x, color=INK, fontsize=8.5, labelpad=2)
    if not panel.series:
        axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center", color=INK, fontsize=9)


def _axes(axes: Axes, panel: Panel, columns: int) -> None:
    """Two axes, a faint grid, few ticks: the points' own on a log axis, or if they are few and round."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

    places = sorted({point.x for series in panel.series for point in series.points})
    if panel.log_x and places:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator(_apart(places, 0.043 * max(3, columns))))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    elif panel.ticks:
        axes.set_xticks([place for place, _ in panel.ticks], [label for _, label in panel.ticks])
    elif 0 < len(places) <= 8 and places[-1] < 20 and all(place == round(place, 2) for place in places):
        axes.set_xticks(places, [f"{place:g}" for place in places])
    else:
        axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    if not panel.series:  # no places, so no numbers on the axes
        axes.set_xticks([])
        axes.set_yticks([])
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(INK)
        axes.spines[side].set_linewidth(0.8)
    axes.grid(color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=2.5, width=0.8, colors=INK, labelsize=8)
    axes.margins(x=0.05)


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
