"""What a distillation shows while it runs: loss, validation, the best so far, the time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from infrec.cli import console
from infrec.progress import Progress
from infrec.report import numbers

SECONDS_BETWEEN_LINES = 15.0  # where there is no terminal to draw on


@contextmanager
def live(title: str) -> Iterator[Progress]:
    """Loss, validation, best so far and time left: a bar on a terminal, else a line now and then."""
    if not sys.stderr.isatty():
        yield _lines(title)
        return
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[words]}"),
    )
    with Bars(*columns, console=console.err(), transient=True) as bars:
        task: Any = None

        def update(stage: str, done: float, total: float | None = None, **facts: object) -> None:
            nonlocal task
            if (line := reached(stage, facts)) is not None:
                bars.console.print(line, style="dim")
                return
            if task is None:
                task = bars.add_task(title, total=total or 1, words="")
            if total is not None and "loss" in facts:
                bars.update(task, completed=done, total=total, words=words(facts))
            else:
                bars.update(task, words=stage)

        yield update


def _lines(title: str) -> Progress:
    last = time.monotonic()

    def update(stage: str, done: float, total: float | None = None, **facts: object) -> None:
        nonlocal last
        if (line := reached(stage, facts)) is not None:
            console.note(line)
        if "loss" in facts and time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            console.note(f"{title}: step {done:.0f} of {total:.0f}, {words(facts)}")

    return update


def reached(stage: str, facts: dict[str, object]) -> str | None:
    """What one number of users reached, in the search for the fewest that reach a target."""
    share, target = facts.get("share"), facts.get("target")
    if stage != "target" or not isinstance(share, float) or not isinstance(target, float):
        return None
    wanted = "enough" if share >= target else "not enough"
    return f"{facts.get('users')} users: {100 * share:.1f} % of full-data quality, {wanted}"


def words(facts: dict[str, object]) -> str:
    """What a step told, in words; a figure that is not there yet is left out."""

    def known(name: str) -> float | None:
        value = facts.get(name)
        return float(value) if isinstance(value, int | float) and value == value and value >= 0 else None

    parts = []
    if (value := known("loss")) is not None:
        parts.append(f"loss {value:.4g}")
    if (value := known("validation")) is not None:
        parts.append(f"validation {value:.2f}")
    if (value := known("best")) is not None:
        parts.append(f"best {value:.2f} (step {facts.get('best_step')})")
    if value := known("seconds_left"):
        parts.append(f"{numbers.seconds(value)} left")
    return ", ".join(parts)
