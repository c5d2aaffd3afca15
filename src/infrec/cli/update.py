"""`infrec fit --update MODEL`: a saved model takes in more data, or forgets users."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from infrec.cli import console
from infrec.cli.reading import Reading
from infrec.progress import Progress, Stopwatch

if TYPE_CHECKING:
    from infrec.models import Recommender


def check_usage(given: dict[str, Any]) -> None:
    """Refuse options that say how a model is fitted from scratch.

    Args:
        given: Options by name, and what they are.
    """
    if wrong := [name for name, value in given.items() if value]:
        raise typer.BadParameter(
            f"{wrong[0]} belongs to a fit from scratch, and --update keeps model and settings as they are; "
            "leave one of them out."
        )


def updated(
    path: Path,
    data: str | None,
    forget: Sequence[str],
    choose_again: bool,
    reading: Reading,
    watch: Stopwatch,
    progress: Progress,
) -> Recommender:
    """The model of a directory after it took in DATA and forgot users.

    Args:
        path: The saved model.
        data: What it takes in; None: nothing.
        forget: Ids of the users whom it forgets.
        choose_again: Whether its settings are chosen again.
        reading: How DATA is to be read.
        watch: Told what loading and updating took.
        progress: Called while it works.
    """
    from infrec import models

    with watch("load"):
        model = models.load(path)
        model.check_update()
        log = None if data is None else reading.load(data, progress)
    before = model.log.n_interactions
    with watch("fit"):
        if log is not None:
            model.update(log, duplicates=reading.duplicates, choose_again=choose_again, progress=progress)
            added = model.log.n_interactions - before
            console.note(f"{added:,} of {log.n_interactions:,} interactions are new to the model.")
        if forget:
            model.forget(list(forget), progress=progress)
            gone = len(set(forget))
            console.note(f"{gone:,} {'users are' if gone > 1 else 'user is'} forgotten.")
    return model
