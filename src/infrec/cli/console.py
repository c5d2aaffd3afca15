"""Output of commands: tables on standard output, notes and bars on standard error; or one JSON document.

A distillation shows its loss, its validation, the best so far and the time left.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from infrec import drafts
from infrec.progress import Progress, silent
from infrec.report import numbers

if TYPE_CHECKING:
    from rich.console import Console

SECONDS_BETWEEN_LINES = 15.0  # where there is no terminal to draw on

_saved: list[str] = []
_began = time.perf_counter()


def begin() -> None:
    """A new command line: nothing saved, the clock at zero."""
    global _began
    _saved.clear()
    _began = time.perf_counter()


def elapsed() -> float:
    """Seconds since the command began."""
    return time.perf_counter() - _began


def out() -> Console:
    """Standard output. Tables keep their width when piped into a file or a pager."""
    from rich.console import Console

    return Console(file=sys.stdout, width=None if sys.stdout.isatty() else 110, highlight=False)


def err() -> Console:
    """Standard error: everything that is not the result."""
    from rich.console import Console

    return Console(
        file=sys.stderr, width=None if sys.stderr.isatty() else 110, highlight=False, soft_wrap=True
    )


def note(text: str) -> None:
    """Something worth knowing that is not the result."""
    err().print(text, style="dim", markup=False)


def complain(text: str) -> None:
    """Print an error, in one sentence."""
    console = err()
    console.print("error: ", style="bold red", end="")
    console.print(text, markup=False)


def plain(text: object) -> str:
    """Somebody's words or a path, to stand in rich text: brackets in them are brackets."""
    from rich.markup import escape

    return escape(str(text))


def saved(path: object) -> None:
    """Remember what is safely on disk, for the message of an interruption."""
    _saved.append(str(path))


def kept_checkpoint(place: object, stopped: str) -> None:
    """Note the checkpoint of a stopped run, for the message of the interruption."""
    where = stopped.partition(";")[0]
    saved(f"a checkpoint in {place} ({where}); the same command with --resume goes on from there")


def interruption() -> str:
    """The message of an interrupted command."""
    return f"interrupted; saved: {', '.join(_saved)}." if _saved else "interrupted; nothing was saved."


def emit(document: Mapping[str, Any]) -> None:
    """The one JSON document of a command run with --json."""
    text = json.dumps(drafts.plain(document), ensure_ascii=False, allow_nan=False, indent=2)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


@contextmanager
def bars(*, enabled: bool = True) -> Iterator[Progress]:
    """A progress callback that draws live bars on standard error; silent when nobody is looking."""
    if not enabled or not sys.stderr.isatty():
        yield silent
        return
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.fields[facts]}"),
    )
    with Bars(*columns, console=err(), transient=True) as live:
        tasks: dict[str, Any] = {}

        def update(stage: str, done: float, total: float | None = None, **facts: object) -> None:
            if stage not in tasks:
                tasks[stage] = live.add_task(stage, total=total, facts="")
            words = "  ".join(f"{key} {_brief(value)}" for key, value in facts.items())
            live.update(tasks[stage], completed=done, total=total, facts=words)

        yield update


def _brief(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@contextmanager
def live_distillation(title: str) -> Iterator[Progress]:
    """Loss, validation, best so far and time left: a bar on a terminal, else a line now and then."""
    if not sys.stderr.isatty():
        yield _progress_lines(title)
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
    with Bars(*columns, console=err(), transient=True) as bars:
        task: Any = None

        def update(stage: str, done: float, total: float | None = None, **facts: object) -> None:
            nonlocal task
            if (line := reached(stage, facts)) is not None:
                bars.console.print(line, style="dim")
                return
            if task is None:
                task = bars.add_task(title, total=total or 1, words="")
            if total is not None and "loss" in facts:
                bars.update(task, completed=done, total=total, words=progress_words(facts))
            else:
                bars.update(task, words=stage)

        yield update


def _progress_lines(title: str) -> Progress:
    last = time.monotonic()

    def update(stage: str, done: float, total: float | None = None, **facts: object) -> None:
        nonlocal last
        if (line := reached(stage, facts)) is not None:
            note(line)
        if "loss" in facts and time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            note(f"{title}: step {done:.0f} of {total:.0f}, {progress_words(facts)}")

    return update


def reached(stage: str, facts: dict[str, object]) -> str | None:
    """The quality that one number of users reached, in the search for the fewest that reach a target."""
    share, target = facts.get("share"), facts.get("target")
    if stage != "target" or not isinstance(share, float) or not isinstance(target, float):
        return None
    wanted = "enough" if share >= target else "not enough"
    return f"{facts.get('users')} users: {100 * share:.1f} % of full-data quality, {wanted}"


def progress_words(facts: dict[str, object]) -> str:
    """The figures of a step in words; one that is not there yet is left out."""

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
