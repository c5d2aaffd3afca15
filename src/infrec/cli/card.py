"""Where the card of a summary goes, and its figures as a table.

Of a summary with (ε, δ) it is written beside it: it has exact figures of the real log, which are not covered.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from infrec.artifacts import CARD
from infrec.report import numbers

if TYPE_CHECKING:
    from infrec.evaluation.card_records import Card


def folder(release: Path, *, guaranteed: bool) -> Path:
    """Where the card of a release lies: in its directory or, with (ε, δ), beside it."""
    return release.with_name(f"{release.name}-card") if guaranteed else release


def check_beside(place: Path) -> None:
    """Refuse before the work a directory beside the release that holds anything but an older card."""
    strange = [each.name for each in place.iterdir() if each.name not in CARD] if place.is_dir() else []
    if strange or (place.exists() and not place.is_dir()):
        holds = f" holds {strange[0]!r}" if strange else " is a file"
        raise typer.BadParameter(
            f"{place}, where the card goes,{holds}; move it away, give another name, or use --no-card.",
            param_hint="--out",
        )


def table(card: Card) -> Any:
    """Full data against summary against random users, for each model."""
    from rich.table import Table

    from infrec.report.card_figures import METRICS, names

    shown = Table(caption="measured on the original's test part (share of the full data's)", box=None)
    shown.caption_justify = "left"
    shown.add_column("fitted on", style="bold")
    for metric in METRICS:
        shown.add_column(metric, justify="right")
    called = names(card)
    previous = None
    for each in card.fidelity:
        if previous not in (None, each.model):
            shown.add_row()
        previous = each.model
        cells = [
            numbers.number(metric, each.metrics[metric])
            + (
                ""
                if each.data == "full" or metric not in each.share
                else f" [dim]({100 * each.share[metric]:.0f} %)[/]"
            )
            for metric in METRICS
        ]
        style = "green" if each.data == "summary" else None
        shown.add_row(f"{numbers.label(each.model)}, {called[each.data]}", *cells, style=style)
    return shown
