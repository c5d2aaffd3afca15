"""Where the card of a summary goes.

Of a summary with (ε, δ) it is written beside it: it has exact figures of the real log, which are not covered.
"""

from __future__ import annotations

from pathlib import Path

import typer

from infrec.artifacts import CARD


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
