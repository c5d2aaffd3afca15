"""The pictures of an audit: linkage by what is known, and who is recognised at what price."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infrec.report.figures import FAINT, INK, MARKERS, SERIES, WIDTH, _bare, _svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from infrec.privacy.audit import Audit
    from infrec.privacy.roc import Rate

ARMS = ("attack", "popularity", "control")
NAMES = {"attack": "people in the log", "popularity": "rows from popularity", "control": "control"}


def linkage(audit: Audit) -> str:
    """One line for each arm, over the number of known items."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for at, arm in enumerate(ARMS):
            rates: list[tuple[int, Rate]] = [
                (each.known, getattr(each, arm)) for each in audit.linkage if getattr(each, arm) is not None
            ]
            if not rates:
                continue
            x = [known for known, _ in rates]
            axes.fill_between(
                x,
                [100 * r.low for _, r in rates],
                [100 * r.high for _, r in rates],
                color=SERIES[at],
                alpha=0.15,
            )
            axes.plot(
                x,
                [100 * r.value for _, r in rates],
                color=SERIES[at],
                marker=MARKERS[at],
                linewidth=1.8,
                label=NAMES[arm],
            )
        axes.set_xscale("log", base=2)
        axes.set_xticks([each.known for each in audit.linkage], [str(each.known) for each in audit.linkage])
        axes.set_ylim(bottom=0)
        axes.set_xlabel("items that the attacker knows", color=INK, fontsize=9.5)
        axes.set_title("linked to the right row (%)", loc="left", color=INK, fontsize=10, fontweight="bold")
        _bare(axes, grid="y")
        axes.legend(frameon=False, labelcolor=INK, fontsize=9.5)

    return _svg("linkage", (WIDTH, 3.2), draw)


def roc(audit: Audit) -> str:
    """True positives over false positives on logarithmic axes: the left edge is what matters."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        curves = [*audit.membership, *([audit.popularity] if audit.popularity else [])]
        least = 1 / max(audit.control, 10)
        axes.plot([least, 1], [least, 1], color=FAINT, linewidth=1.2)
        axes.annotate(
            "guessing", (least * 2, least * 2), (4, -12), textcoords="offset points", color=INK, fontsize=9
        )
        for at, each in enumerate(curves):
            points = [(x, y) for x, y in each.curve if x > 0 and y > 0]
            axes.plot(
                [x for x, _ in points],
                [y for _, y in points],
                color=SERIES[at % 6],
                marker=MARKERS[at % 6],
                markevery=0.2,
                markersize=5,
                linewidth=1.8,
                label=each.score,
            )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set(xlim=(least, 1.05), ylim=(least, 1.05))
        axes.set_xlabel("share of the control wrongly accused", color=INK, fontsize=9.5)
        axes.set_title("share of members recognised", loc="left", color=INK, fontsize=10, fontweight="bold")
        _bare(axes, grid="y")
        axes.tick_params(which="minor", length=0)
        axes.legend(frameon=False, labelcolor=INK, fontsize=9.5)

    return _svg("roc", (WIDTH, 3.8), draw)
