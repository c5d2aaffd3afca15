"""Places that commands write to, checked before the work: nothing is lost, and nothing fails at the end."""

from __future__ import annotations

from pathlib import Path

import typer

_OF_A_RUN = (".", "lock", "checkpoint", "variant-", "users-", "sums", "distillation")


def check(out: Path, what: str) -> None:
    """Refuse before the work what could not be saved after it; never replace another kind of thing."""
    from infrec import artifacts

    if out.exists() and not out.is_dir():
        raise typer.BadParameter(
            f"{out} is a file; a {what} is a directory, give a new name.", param_hint="--out"
        )
    if not out.is_dir() or not any(out.iterdir()):
        return
    kind = artifacts.kind_of(out) or "directory of something else"
    if kind != what:
        raise typer.BadParameter(f"{out} is a {kind}, not a {what}; give a new name.", param_hint="--out")
    if strange := artifacts.strangers(out):
        raise typer.BadParameter(
            f"{out} also holds {strange[0]!r}, which infrec did not write and replacing it would lose; move "
            "that away, or give a new name.",
            param_hint="--out",
        )


def run_directory(out: Path) -> Path:
    """Where the run keeps its checkpoints; removed in the end, so a folder with anything else is refused."""
    place = out.with_name(f"{out.name}.run")
    found = [each.name for each in place.iterdir()] if place.is_dir() else []
    strange = [name for name in found if not name.startswith(_OF_A_RUN)]
    if strange:
        raise typer.BadParameter(
            f"{place}, where the run keeps its checkpoints, holds {strange[0]!r}, which no run wrote; move "
            "it away, or give another name.",
            param_hint="--out",
        )
    return place


def check_card(place: Path) -> None:
    """Refuse a directory beside the release that holds anything but an older card."""
    from infrec.artifacts import CARD

    strange = [one.name for one in place.iterdir() if one.name not in CARD] if place.is_dir() else []
    if strange or (place.exists() and not place.is_dir()):
        holds = f" holds {strange[0]!r}" if strange else " is a file"
        raise typer.BadParameter(
            f"{place}, where the card goes,{holds}; move it away, give another name, or use --no-card.",
            param_hint="--out",
        )
