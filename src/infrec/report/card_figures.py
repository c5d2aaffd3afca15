"""The pictures of a summary's card: how faithful it is, how it is spread, and what it looks like."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from infrec.evaluation.card_records import Card, Curve, Which
from infrec.report.figures import FAINT, INK, MARKERS, SERIES, WIDTH, _bare, _svg
from infrec.report.numbers import label, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METRICS = ("HR@10", "HR@100", "NDCG@10")
# What a dataset looks like in every plot: its colour and its marker.
LOOK: dict[Which, int] = {"summary": 0, "finished": 0, "random": 1, "full": 2}
CELL = (0x2B, 0x84, 0xC6)  # of the picture: stands out on a light and on a dark page


def names(card: Card) -> dict[Which, str]:
    """Names of the datasets on the card."""
    return {
        "full": f"all {card.full.users:,} users",
        "summary": f"summary ({card.summary.users:,} users)",
        "finished": "all users, summary as centres",
        "random": f"{card.random.users if card.random else card.summary.users:,} random users",
    }


def fidelity(card: Card) -> str:
    """One panel per metric; for each model a dot with its interval for each dataset it was fitted on."""
    metrics = [metric for metric in METRICS if all(metric in each.metrics for each in card.fidelity)]
    called = names(card)
    models = list(dict.fromkeys(each.model for each in card.fidelity))
    # A gap between the models, so that each reads as a group.
    places = [at + 0.7 * models.index(each.model) for at, each in enumerate(card.fidelity)]

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, len(metrics), sharey=True, squeeze=False, gridspec_kw={"wspace": 0.1})[0]
        for axes, metric in zip(panels, metrics, strict=True):
            for place, each in zip(places, card.fidelity, strict=True):
                value, look = each.metrics[metric], LOOK[each.data]
                low, high = each.intervals.get(metric, (value, value))
                axes.plot([0, value], [place, place], color=FAINT, linewidth=1.2, zorder=1)
                axes.plot([low, high], [place, place], color=SERIES[look], linewidth=5, alpha=0.35, zorder=2)
                axes.plot(value, place, MARKERS[look], color=SERIES[look], markersize=6.5, zorder=3)
                axes.annotate(
                    number(metric, value),
                    (max(high, value), place),
                    (6, 0),
                    textcoords="offset points",
                    va="center",
                    color=INK,
                    fontsize=9,
                )
            top = max(max(x.metrics[metric], x.intervals.get(metric, (0, 0))[1]) for x in card.fidelity)
            axes.set(xlim=(0, top * 1.25 or 1), ylim=(places[-1] + 0.6, -0.6))
            axes.set_title(f"{metric} (%)", loc="left", color=INK, fontsize=10, fontweight="bold")
            _bare(axes, grid="x")
            axes.locator_params(axis="x", nbins=4)
        panels[0].set_yticks(places, [f"{label(x.model)}, {called[x.data]}" for x in card.fidelity])
        panels[0].tick_params(axis="y", labelsize=9.5, pad=8)

    return _svg("fidelity", (WIDTH, 0.38 * len(card.fidelity) + 1.0), draw)


def distributions(card: Card) -> str:
    """Popularity of items and activity of users, each from the largest to the smallest, on log axes."""

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2, gridspec_kw={"wspace": 0.08})
        _curves(
            left, card, card.popularity, "users who have the item (%)", "items, the most popular first (%)"
        )
        _curves(right, card, card.activity, "interactions of a user", "users, the most active first (%)")
        figure.legend(
            *left.get_legend_handles_labels(),
            loc="outside lower center",
            ncols=3,
            frameon=False,
            labelcolor=INK,
            fontsize=9.5,
        )

    return _svg("distributions", (WIDTH, 3.6), draw)


def _curves(axes: Axes, card: Card, curves: Sequence[Curve], title: str, under: str) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    called = names(card)
    for curve in sorted(curves, key=lambda each: -LOOK[each.data]):
        points = [(x, y) for x, y in curve.points if y > 0]
        look = LOOK[curve.data]
        axes.plot(
            [100 * x for x, _ in points],
            [y for _, y in points],
            color=SERIES[look],
            linewidth=2.2 if curve.data == "summary" else 1.6,
            marker=MARKERS[look],
            markersize=5,
            markevery=0.14,
            label=called[curve.data],
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    axes.set_title(title, loc="left", color=INK, fontsize=10, fontweight="bold")
    axes.set_xlabel(under, color=INK, fontsize=9.5)
    _bare(axes, grid="y")
    axes.tick_params(which="minor", length=0)


# ---- the summary itself ----------------------------------------------------------------------------------
def picture(rows: Sequence[str]) -> str:
    """Rows of hexadecimal digits as the address of a PNG: one pixel a cell, opaque where the weight is 1."""
    height, width = len(rows), len(rows[0])
    pixels = b"".join(b"\0" + bytes(int(digit, 16) for digit in row) for row in rows)
    alpha = bytes(round(255 * level / 15) for level in range(16))
    png = b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", bytes(CELL) * 16),
            _chunk(b"tRNS", alpha),
            _chunk(b"IDAT", zlib.compress(pixels, 9)),
            _chunk(b"IEND", b""),
        ]
    )
    return "data:image/png;base64," + base64.b64encode(png).decode()


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
