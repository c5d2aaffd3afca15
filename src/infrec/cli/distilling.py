"""Running a distillation for the command line: with a live display, a search, and an end that saves."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infrec.cli import console
from infrec.cli.live import live
from infrec.report import numbers

if TYPE_CHECKING:
    from infrec.distillation import Summary
    from infrec.splits import Split


def distilled(
    split: Split, run: dict[str, Any], place: Path, search: bool, resume: bool
) -> tuple[Summary, list[dict[str, Any]]]:
    """The summary, or with `search` the best of the paper's grid, and what was tried."""
    from infrec.distillation import Interrupted
    from infrec.distillation import distill as make

    best: Summary | None = None
    tried = []
    variants = grid(run, split) if search else [{}]
    for at, changes in enumerate(variants):
        of = f" ({at + 1} of {len(variants)}: {numbers.settings(changes)})" if search else ""
        folder = place / f"variant-{at}" if search else place
        try:
            with live(f"distil{of}") as progress:
                made = make(split, **(run | changes), run_directory=folder, resume=resume, progress=progress)
        except Interrupted as stopped:
            where = str(stopped).partition(";")[0]
            console.saved(
                f"a checkpoint in {place} ({where}); the same command with --resume goes on from there"
            )
            raise
        score = made.about["validation"].get(made.about["criterion"], 0.0)
        tried.append({"settings": changes, "score": score})
        if best is None or score > best.about["validation"].get(best.about["criterion"], 0.0):
            best = made
    assert best is not None
    return best, tried


def grid(run: dict[str, Any], split: Split) -> list[dict[str, Any]]:
    """The paper's search space, less what is fixed; the size of discrete rows is not searched."""
    from itertools import product

    from infrec.distillation.config import search_space

    space = search_space(split.train.n_interactions / split.train.n_users, split.train.n_items)
    sized = run["mode"] == "discrete" or any(
        run[name] is not None for name in ("per_user", "total", "percent")
    )
    still_open = {
        name: values
        for name, values in space.items()
        if run.get(name) is None and not (name == "gamma" and sized)
    }
    return [dict(zip(still_open, values, strict=True)) for values in product(*still_open.values())]


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
