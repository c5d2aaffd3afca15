"""A distillation for the command line: what it reads, its search, its live display, an end that saves."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from infrec.cli import console
from infrec.cli.console import live_distillation
from infrec.cli.options import Reading
from infrec.progress import Progress
from infrec.report import numbers

if TYPE_CHECKING:
    from infrec.data import Interactions, Summary
    from infrec.evaluation.card_records import Card
    from infrec.splits import Split


_OF_A_RUN = (".", "lock", "checkpoint", "variant-", "users-", "sums", "distillation")
_OWN_OPTIONS = ("users", "mode", "seed")


@dataclass(frozen=True, eq=False)
class Source:
    """The source of a distillation and how to read it: here, or in the process that does the work."""

    data: str
    reading: Reading
    previous: Summary | None
    set_aside: float | None
    seed: int

    def read(self, progress: Progress) -> Split:
        """Train, validation and test part, the same whoever reads them."""
        return self.split(self.reading.load(self.data, progress))

    def read_log(self, progress: Progress) -> Interactions:
        """The log for a distillation with (ε, δ): whether a row counts depends on that row alone."""
        return self.reading.load(self.data, progress, by_row=True)

    def users(self, log: Interactions) -> Interactions:
        """The log without those set aside, which depends on each user's id alone."""
        from infrec.cli import protection

        return protection.without_users(log, self.set_aside, self.seed)

    def split(self, log: Interactions) -> Split:
        from infrec.cli import protection
        from infrec.distillation import update
        from infrec.splits import holdout

        if self.previous is not None:  # both over the items of both
            log = update.over(log, update.joined(self.previous, log), self.previous)
        return protection.without_some(holdout(log, seed=self.seed), self.set_aside, self.seed)


def distinct(pairs: Sequence[str]) -> Sequence[str]:
    """The pairs of `--set`, after refusing settings that have an option of their own."""
    for pair in pairs:
        name = pair.partition("=")[0].strip()
        if name in _OWN_OPTIONS:
            option = "--" + name.replace("_", "-")
            raise typer.BadParameter(f"{name} has an option of its own; use {option}.", param_hint="--set")
    return pairs


def run_beside(out: Path) -> Path:
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


def distilled(
    data: Split | Interactions, run: dict[str, Any], place: Path, search: bool, resume: bool
) -> tuple[Summary, list[dict[str, Any]]]:
    """The summary, or with `search` the best of the paper's grid, and what was tried."""
    from infrec.distillation import Interrupted
    from infrec.distillation import distill as make
    from infrec.splits import Split

    best: Summary | None = None
    tried = []
    variants = grid(run, data.train) if search and isinstance(data, Split) else [{}]
    for at, changes in enumerate(variants):
        of = f" ({at + 1} of {len(variants)}: {numbers.settings(changes)})" if search else ""
        folder = place / f"variant-{at}" if search else place
        try:
            with live_distillation(f"distil{of}") as progress:
                made = make(data, **(run | changes), run_directory=folder, resume=resume, progress=progress)
        except Interrupted as stopped:
            note_checkpoint(place, str(stopped))
            raise
        score = made.about["validation"].get(made.about["criterion"], 0.0)
        tried.append({"settings": changes, "score": score})
        if best is None or score > best.about["validation"].get(best.about["criterion"], 0.0):
            best = made
    assert best is not None
    return best, tried


def note_checkpoint(place: Path, stopped: str) -> None:
    """Note the checkpoint of a stopped run, for the message of the interruption."""
    where = stopped.partition(";")[0]
    console.saved(f"a checkpoint in {place} ({where}); the same command with --resume goes on from there")


def grid(run: dict[str, Any], train: Interactions) -> list[dict[str, Any]]:
    """The paper's search space, less what is fixed; the size of discrete rows is not searched."""
    from itertools import product

    from infrec.distillation.settings import search_space

    space = search_space(train.n_interactions / train.n_users, train.n_items)
    sized = run["mode"] == "discrete" or any(
        run[name] is not None for name in ("per_user", "total", "percent")
    )
    open_settings = {
        name: values
        for name, values in space.items()
        if run.get(name) is None and not (name == "gamma" and sized)
    }
    return [dict(zip(open_settings, values, strict=True)) for values in product(*open_settings.values())]


@contextmanager
def ends_on_sigterm() -> Iterator[None]:
    """SIGTERM ends the command as Ctrl-C does: with what was saved, and exit code 130."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def show(summary: Summary, record: Card | None, data: str, out: Path, page: Path | None) -> None:
    """Print the summary for a person. page: the card's."""
    from infrec.report import terminal
    from infrec.report.card import fidelity_table

    about = summary.about
    kind = "interactions" if summary.discrete else "fractional interactions"
    best = f", the best of them {about['best_step']:,}" if about["validation"] else ""
    said = console.out()
    said.print(
        f"[bold]{summary.n_users:,}[/] synthetic users with [bold]{summary.n_interactions:,}[/] {kind} in "
        f"{numbers.seconds(about['seconds'])} ({about['steps']:,} steps{best}), "
        f"{numbers.size(summary.bytes)} in [bold]{console.plain(out)}[/].",
        soft_wrap=True,
    )
    target = about.get("target")
    if target and not target["reached"]:
        console.note(
            f"no summary reached {100 * target['asked']:g} % of full-data quality; this is the best one."
        )
    if record is not None and page is not None:
        said.print(terminal.table(fidelity_table(record)))
        said.print(f"Card: [bold]{console.plain(page)}[/]", soft_wrap=True)
    said.print(f"Next: infrec evaluate {data} --train-on {out}", style="dim", soft_wrap=True, markup=False)
