"""Output of commands: tables on standard output, notes and bars on standard error; or one JSON document.

With --quiet neither notes nor progress; with --verbose what the library logs, and a line instead of a bar.

A distillation shows its loss, its validation, the best so far and the time left. Directories that commands
write to are checked before the work: nothing is lost, and nothing fails at the end.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from infrec import drafts
from infrec.progress import Progress, silent
from infrec.report import numbers

if TYPE_CHECKING:
    from rich.console import Console

SECONDS_BETWEEN_LINES = 15.0  # where there is no terminal to draw on

_saved: list[str] = []
_argv: tuple[str, ...] = ()
_began = time.perf_counter()
_quiet, _verbose = False, False


def begin(argv: Sequence[str] = ()) -> None:
    """A new command line: nothing saved, the clock at zero, as loud as usual."""
    global _began, _argv
    _argv = tuple(argv)
    _saved.clear()
    _began = time.perf_counter()
    set_volume()


def argv() -> tuple[str, ...]:
    """The words of this command line."""
    return _argv


def set_volume(*, quiet: bool = False, verbose: bool = False) -> None:
    """How much is said beside the result; both flags are those of the command."""
    global _quiet, _verbose
    if quiet and verbose:
        raise typer.BadParameter("--quiet and --verbose exclude each other; give one.")
    _quiet, _verbose = quiet, verbose
    library = logging.getLogger("infrec")
    library.setLevel(logging.DEBUG if verbose else logging.NOTSET)
    for handler in [one for one in library.handlers if isinstance(one, _Notes)]:
        library.removeHandler(handler)
    if verbose:
        library.addHandler(_Notes())


class _Notes(logging.Handler):
    """A handler that prints records of the library as notes, each after the seconds since the start."""

    def emit(self, record: logging.LogRecord) -> None:
        note(f"{elapsed():7.2f} s  {record.getMessage()}")


def elapsed() -> float:
    """Seconds since the command began."""
    return time.perf_counter() - _began


# ---- words -------------------------------------------------------------------------------------------------
def out() -> Console:
    """Standard output. Tables keep their width when piped into a file or a pager."""
    from rich.console import Console

    return Console(file=sys.stdout, width=None if sys.stdout.isatty() else 110, highlight=False, emoji=False)


def err() -> Console:
    """Standard error: everything that is not the result."""
    from rich.console import Console

    width = None if sys.stderr.isatty() else 110
    return Console(file=sys.stderr, width=width, highlight=False, emoji=False, soft_wrap=True)


def say(text: str) -> None:
    """A sentence of the result, as rich text."""
    out().print(text, soft_wrap=True)


def then(command: str) -> str:
    """The command that a person may want to give next, as rich text."""
    return f"[dim]Next: {plain(command)}[/]"


def table(rows: Iterable[Sequence[object]], head: Sequence[str] = (), right: Sequence[str] = ()) -> None:
    """Plain columns. Without a head, the first column names what stands in the second.

    right: the columns that stand to the right, such as numbers.
    """
    from rich.table import Table

    lines = Table(show_header=bool(head), header_style="bold", box=None, padding=(0, 2, 0, 0))
    for at, name in enumerate(head or ("", "")):
        style = None if head or at else "bold"
        lines.add_column(name, justify="right" if name in right else "left", style=style, overflow="fold")
    for row in rows:
        lines.add_row(*(plain(cell) for cell in row))
    out().print(lines)


def note(text: str) -> None:
    """Something worth knowing that is not the result; not with --quiet."""
    if not _quiet:
        warn(text)


def warn(text: str) -> None:
    """Something that has to be known, also with --quiet."""
    err().print(text, style="dim", markup=False)


def plain(text: object) -> str:
    """Somebody's words or a path, to stand in rich text: brackets in them are brackets."""
    from rich.markup import escape

    return escape(str(text))


def emit(document: Mapping[str, Any]) -> None:
    """The one JSON document of a command run with --json."""
    text = json.dumps(drafts.plain(document), ensure_ascii=False, allow_nan=False, indent=2)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


# ---- what was saved, and where -----------------------------------------------------------------------------
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


def check_out(out: Path, what: str) -> None:
    """Refuse before the work what could not be saved after it; never replace another kind of thing."""
    from infrec import artifacts

    wrong = None
    if out.exists() and not out.is_dir():
        wrong = f"is a file; a {what} is a directory, give a new name."
    elif out.is_dir() and any(out.iterdir()):
        if (kind := artifacts.kind_of(out) or "directory of something else") != what:
            wrong = f"is a {kind}, not a {what}; give a new name."
        elif strange := artifacts.strangers(out):
            wrong = (
                f"also holds {strange[0]!r}, which infrec did not write and replacing it would lose; move "
                "that away, or give a new name."
            )
    if wrong is not None:
        raise typer.BadParameter(f"{out} {wrong}", param_hint="--out")


def check_file(out: Path, option: str, endings: Iterable[str] = ()) -> None:
    """Refuse before the work a file that could not be written.

    Args:
        out: The file.
        option: The option that names it.
        endings: Those that it may have; any, where none are given.
    """
    problem = None
    if out.is_dir() or not out.absolute().parent.is_dir():
        problem = "is a directory" if out.is_dir() else "lies in a folder that does not exist"
        problem += "; expected a file to write."
    elif endings and out.suffix.lower() not in endings:
        problem = f"ends in {out.suffix!r}" if out.suffix else "has no ending"
        problem += f"; expected one of {', '.join(endings)}, which says what to write."
    if problem is not None:
        raise typer.BadParameter(f"{out} {problem}", param_hint=option)


# ---- how far the work is -----------------------------------------------------------------------------------
@contextmanager
def bars(*, enabled: bool = True) -> Iterator[Progress]:
    """A progress callback: live bars on a terminal, elsewhere a line now and then, nothing with --quiet.

    The fact `words` is shown as it is, any other with its name.
    """
    if not enabled or _quiet:
        yield silent
        return
    if not _drawn():
        yield _lines()
        return
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.fields[words]}"),
    )
    with Bars(*columns, console=err(), transient=True) as live:
        tasks: dict[str, Any] = {}

        def update(stage: str, done: float, total: float | None = None, **facts: object) -> None:
            if stage not in tasks:
                tasks[stage] = live.add_task(stage, total=total, words="")
            live.update(tasks[stage], completed=done, total=total, words=_words(facts))

        yield update


def _drawn() -> bool:
    """Whether progress is a bar: somebody looks, and no lines of the log would break it."""
    return sys.stderr.isatty() and not _verbose


def _lines() -> Progress:
    """Progress as plain lines, for logs of jobs and pipes; work that is soon done leaves none."""
    last = time.monotonic()

    def update(stage: str, done: float, total: float | None = None, **facts: object) -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            count = f"{done:,.0f}" if total is None else f"{done:,.0f} of {total:,.0f}"
            note("  ".join(filter(None, (f"{stage}: {count}", _words(facts)))))

    return update


def _words(facts: Mapping[str, object]) -> str:
    return "  ".join(
        str(value) if key == "words" else f"{key} {_brief(value)}" for key, value in facts.items()
    )


def _brief(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@contextmanager
def steps(title: str, describe: Callable[[str, str, dict[str, Any]], str | None]) -> Iterator[Progress]:
    """The steps of a long run in words: beside a bar on a terminal, else on a line now and then.

    describe: The words for a stage, "12 of 300" and facts; None for stages that are not the run's own steps.
    """
    last = time.monotonic()
    with bars() as draw:

        def update(stage: str, done: float, total: float | None = None, **facts: object) -> None:
            nonlocal last
            if not _drawn() and time.monotonic() - last < SECONDS_BETWEEN_LINES:
                return
            words = describe(stage, f"{done:.0f} of {total or 0:.0f}", facts)
            if _drawn():
                draw(title if words else f"  {stage}", done, total, **({"words": words} if words else facts))
            elif words is not None:
                last = time.monotonic()
                note(f"{title}: {words}")

        yield update


@contextmanager
def live_distillation(title: str) -> Iterator[Progress]:
    """Loss, validation, best so far and time left of each step, and the quality that was reached."""
    with steps(title, step_words) as progress:

        def update(stage: str, done: float, total: float | None = None, **facts: object) -> None:
            if (line := reached(stage, facts)) is not None:
                note(line)
            else:
                progress(stage, done, total, **facts)

        yield update


def reached(stage: str, facts: dict[str, object]) -> str | None:
    """The quality that one number of users reached, in the search for the fewest that reach a target."""
    share, target = facts.get("share"), facts.get("target")
    if stage != "target" or not isinstance(share, float) or not isinstance(target, float):
        return None
    wanted = "enough" if share >= target else "not enough"
    return f"{facts.get('users')} users: {100 * share:.1f} % of full-data quality, {wanted}"


def step_words(stage: str, count: str, facts: dict[str, Any]) -> str | None:
    """The figures of a distillation's step in words; one that is not there yet is left out."""
    if "loss" not in facts:
        return None

    def known(name: str) -> float | None:
        value = facts.get(name)
        return float(value) if isinstance(value, int | float) and value >= 0 else None  # nor NaN

    parts = [f"step {count}"]
    if (value := known("loss")) is not None:
        parts.append(f"loss {value:.4g}")
    if (value := known("validation")) is not None:
        parts.append(f"validation {value:.2f}")
    if (value := known("best")) is not None:
        parts.append(f"best {value:.2f} (step {facts.get('best_step')})")
    if value := known("seconds_left"):
        parts.append(f"{numbers.seconds(value)} left")
    return ", ".join(parts)
