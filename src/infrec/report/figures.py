"""Figures as inline SVG that follows the page: its colours are CSS variables, its text is text.

matplotlib draws with placeholder colours that are replaced afterwards, so the same picture is right on
a light and on a dark page. Models differ by marker as well as by colour.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from infrec.report.numbers import label, number
from infrec.report.records import Comparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# placeholder → what the page's style sheet decides
INK, FAINT, PAPER = "#010203", "#010204", "#010205"
SERIES = ("#010210", "#010211", "#010212", "#010213", "#010214", "#010215")
MARKERS = ("o", "s", "^", "D", "v", "P")
_VARIABLES = {
    INK: "var(--ink-soft)",
    FAINT: "var(--rule)",
    PAPER: "var(--paper)",
    **{colour: f"var(--series-{at})" for at, colour in enumerate(SERIES)},
}
WIDTH = 8.4  # inches; the page scales it


def available() -> bool:
    """Whether matplotlib, an optional extra, is installed."""
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def quality(record: Comparison, metrics: Sequence[str] = ("HR@10", "HR@100", "NDCG@10", "NDCG@100")) -> str:
    """One panel per metric, one dot with its interval per model."""
    metrics = [metric for metric in metrics if all(metric in model.metrics for model in record.models)]

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, len(metrics), sharey=True, squeeze=False, gridspec_kw={"wspace": 0.12})[0]
        for axes, metric in zip(panels, metrics, strict=True):
            for at, model in enumerate(record.models):
                value = model.metrics[metric]
                low, high = model.intervals.get(metric, (value, value))
                axes.plot([0, value], [at, at], color=FAINT, linewidth=1.2, zorder=1)
                axes.plot(
                    [low, high],
                    [at, at],
                    color=SERIES[at % 6],
                    linewidth=5,
                    alpha=0.35,
                    zorder=2,
                    solid_capstyle="round",
                )
                axes.plot(value, at, MARKERS[at % 6], color=SERIES[at % 6], markersize=6.5, zorder=3)
                axes.annotate(
                    number(metric, value),
                    (value, at),
                    (0, 9),
                    textcoords="offset points",
                    ha="center",
                    color=INK,
                    fontsize=9,
                )
            top = max(max(m.metrics[metric], m.intervals.get(metric, (0, 0))[1]) for m in record.models)
            axes.set(xlim=(0, top * 1.18), ylim=(len(record.models) - 0.5, -0.75))
            axes.set_title(f"{metric} (%)", loc="left", color=INK, fontsize=10, fontweight="bold")
            _bare(axes, grid="x")
            axes.locator_params(axis="x", nbins=4)
        panels[0].set_yticks(range(len(record.models)), [label(model.name) for model in record.models])
        panels[0].tick_params(axis="y", labelsize=10)

    return _svg("quality", (WIDTH, 0.62 * len(record.models) + 0.85), draw)


def coldness(record: Comparison, metric: str = "HR@10") -> str:
    """Quality for groups of users, from those we know least about to those we know best."""
    labels = [stratum.label for stratum in record.models[0].strata]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        n = len(record.models)
        for at, model in enumerate(record.models):
            x = [group + (at - (n - 1) / 2) * 0.09 for group in range(len(labels))]
            y = [stratum.metrics[metric] for stratum in model.strata]
            bounds = [s.intervals.get(metric, (v, v)) for s, v in zip(model.strata, y, strict=True)]
            axes.vlines(
                x,
                [low for low, _ in bounds],
                [high for _, high in bounds],
                color=SERIES[at % 6],
                linewidth=4,
                alpha=0.3,
                capstyle="round",
            )
            axes.plot(
                x,
                y,
                color=SERIES[at % 6],
                linewidth=1.6,
                marker=MARKERS[at % 6],
                markersize=6,
                markeredgecolor=PAPER,
                markeredgewidth=0.8,
                label=label(model.name),
            )
        axes.set_xticks(
            range(len(labels)), [f"{x.label}\n{x.users:,} users" for x in record.models[0].strata]
        )
        axes.set_ylim(bottom=0)
        axes.set_xlim(-0.5, len(labels) - 0.5)
        axes.set_title(f"{metric} (%)", loc="left", color=INK, fontsize=10, fontweight="bold")
        _bare(axes, grid="y")
        _legend(axes)

    return _svg("coldness", (WIDTH, 3.5), draw)


def popularity(record: Comparison) -> str:
    """Where on the popularity scale each model's recommendations lie, against the data itself."""
    groups = record.popularity_groups

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        n, width = len(record.models), 0.8 / max(1, len(record.models))
        for at, model in enumerate(record.models):
            x = [group + (at - (n - 1) / 2) * width for group in range(len(groups))]
            height = [100 * share for share in model.popularity]
            axes.bar(x, height, width * 0.92, color=SERIES[at % 6], label=label(model.name))
            for left, h in zip(x, height, strict=True):
                text = f"{h:.0f}" if h >= 0.5 or h == 0 else "<1"
                axes.annotate(
                    text,
                    (left, h),
                    (0, 3),
                    textcoords="offset points",
                    ha="center",
                    color=INK,
                    fontsize=8,
                    bbox={
                        "facecolor": PAPER,
                        "edgecolor": "none",
                        "pad": 0.8,
                    },  # the dashed line passes behind
                )
        even = 100 / len(groups)
        axes.axhline(
            even,
            color=INK,
            linewidth=1.2,
            linestyle=(0, (4, 3)),
            zorder=0.9,
            label=f"what users chose ({even:.0f} % each)",
        )
        axes.set_ylim(0, 108 * max(max(model.popularity) for model in record.models))
        axes.set_xticks(
            range(len(groups)), [f"{name}\n{count:,} item{'s' * (count != 1)}" for name, count in groups]
        )
        axes.set_xlim(-0.5, len(groups) - 0.5)
        axes.set_title("share of all top-10 lists (%)", loc="left", color=INK, fontsize=10, fontweight="bold")
        _bare(axes, grid="y")
        _legend(axes)

    return _svg("popularity", (WIDTH, 3.5), draw)


def _bare(axes: Axes, *, grid: Literal["x", "y"]) -> None:
    """No frame, a faint grid in one direction, text in the page's colour."""
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.grid(axis=grid, color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, colors=INK, labelsize=9)


def _legend(axes: Axes) -> None:
    axes.legend(
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=6,
        frameon=False,
        labelcolor=INK,
        fontsize=9.5,
        handlelength=1.6,
        borderaxespad=0.2,
        columnspacing=1.4,
    )


def _svg(name: str, inches: tuple[float, float], draw: Callable[[Figure], None]) -> str:
    """Draw, then hand the colours over to the page."""
    return on_page(name, drawn(name, inches, draw), _VARIABLES)


def drawn(name: str, inches: tuple[float, float], draw: Callable[[Figure], None], **layout: Any) -> str:
    """A figure as SVG with placeholder colours. Deterministic: no date, ids salted by the name."""
    import matplotlib
    from matplotlib.figure import Figure

    settings: dict[str, Any] = {"svg.fonttype": "none", "svg.hashsalt": f"infrec-{name}"}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=inches, facecolor="none", **({"layout": "constrained"} | layout))
        draw(figure)
        for axes in figure.axes:
            axes.set_facecolor("none")
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    return re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)


def on_page(name: str, svg: str, variables: Mapping[str, str]) -> str:
    """The figure as a part of a page: its colours are the page's, its ids are its own."""
    for placeholder, variable in variables.items():
        svg = svg.replace(placeholder, variable)
    svg = re.sub(r'\s(width|height)="[\d.]+pt"', "", svg, count=2)
    # One page holds several of these: names that matplotlib counts from 1 in each must not meet.
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'(xlink:href="#|url\(#)', rf"\1{name}-", svg)
    return svg.replace("<svg ", '<svg role="presentation" focusable="false" ', 1)
