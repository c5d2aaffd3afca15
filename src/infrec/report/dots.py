"""A figure of measurements beside each other: a panel for each metric, a dot with its interval for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from infrec.report.document import Figure, Measured, Panel, Point, Series, Table
from infrec.report.numbers import number


class Dot(NamedTuple):
    """One measurement.

    Args:
        place: Where its row is, from the top.
        name: Of its row.
        series: What it is drawn as.
        measured: The metrics.
        words: Its name where the figure is told in words.
    """

    place: float
    name: str
    series: str
    measured: Measured
    words: str


def figure(
    name: str, caption: str, dots: Sequence[Dot], series: Sequence[str], metrics: Sequence[str], table: Table
) -> Figure:
    """The figure of these measurements.

    Args:
        name: Of its file and of its ids on a page.
        caption: The sentences below it.
        dots: The measurements.
        series: What they are drawn as, in order.
        metrics: The panels; a metric that some measurement lacks has none.
        table: All figures, below it.
    """
    shared = [metric for metric in metrics if all(metric in dot.measured.metrics for dot in dots)]
    ticks = [(float(dot.place), dot.name) for dot in dots]

    def panel(metric: str) -> Panel:
        points = {
            one: [Point.of(dot.place, dot.measured, metric) for dot in dots if dot.series == one]
            for one in series
        }
        return Panel(
            f"{metric} (%)", "", "", [Series(*one) for one in points.items()], ticks=ticks, kind="dots"
        )

    alt = "; ".join(
        f"{dot.words}: " + ", ".join(f"{one} {number(one, dot.measured.metrics[one])}" for one in shared)
        for dot in dots
    )
    panels = [[panel(metric) for metric in shared]]
    return Figure(name, caption, panels, wide=True, alt=alt, table=table, table_open=True)
