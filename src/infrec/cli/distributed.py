"""`--distributed`: one of the processes that fit a model, or distil, together.

A fit reads its own partitions only. A distillation reads the whole log in every process, sparse, and makes
dense only its own part of each step's users.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from infrec import machine
from infrec.cli import child_process, console, launchers
from infrec.errors import InfrecError
from infrec.kernels.collectives import Team, lost
from infrec.progress import Progress, Stopwatch, silent

if TYPE_CHECKING:
    from infrec.cli.options import Processes, Source


def fit(
    data: str,
    out: Path,
    settings: Mapping[str, Any],
    centres: str | None,
    processes: Processes,
) -> dict[str, Any] | None:
    """The document of a fit on the first process; None on the others, whose part is then done."""
    from infrec.data.partitioned import is_partitioned

    if not is_partitioned(data):
        raise typer.BadParameter(
            f"{data} is not a prepared dataset, of which each process could read its part; make one with "
            f"`infrec datasets prepare {data} --out prepared`.",
            param_hint="DATA",
        )
    here = _place(processes)
    arguments = {"data": data, "out": out, "settings": dict(settings), "centres": centres, "here": here}
    with console.bars(enabled=here.index == 0) as progress:
        return run_member(_fit, arguments, here, progress)


def _fit(
    data: str,
    out: Path,
    settings: dict[str, Any],
    centres: str | None,
    here: launchers.Place,
    progress: Progress = silent,
) -> dict[str, Any] | None:
    """Meet the others, fit, and on the first process save."""
    watch = Stopwatch()
    with watch("meet"):
        team = _met(here, progress)
    from infrec.data.partitioned import PartitionedLog
    from infrec.models import InfiniteAE

    with watch("load"):
        dataset = PartitionedLog.open(data)
        if centres is not None:
            from infrec.data import Summary

            settings["centres"] = Summary.load(centres).align_items(dataset.items)
    before = machine.resident_bytes() / 1e6
    with watch("fit"):
        model = InfiniteAE(**settings).fit_prepared(dataset, team=team, progress=progress)
    with watch("save"):
        read = model.about["read"]
        processes = everybody(team, read | {"start_rss_mb": before, "peak_rss_mb": machine.peak_rss_mb()})
        about = {**model.about, "processes": processes, "launcher": here.launcher}
        model = model.with_fit(replace(model.fitted, about=about))
        if here.index == 0:
            model.save(out)
        _part(team, here)
    if here.index:
        return None
    return {
        "selected": dict(model.selected),
        "about": model.about,
        "candidates": [
            {"settings": dict(c.settings), "score": c.score, "error": c.error} for c in model.candidates
        ],
        "users": len(dataset.users),
        "items": len(dataset.items),
        "interactions": int(dataset.manifest["interactions"]),
        "seconds": watch.seconds,
        "peak_rss_mb": machine.peak_rss_mb(),
        "device": machine.device(),
    }


def _place(processes: Processes) -> launchers.Place:
    """Where this process stands, as its options or its launcher say."""
    return launchers.place(
        os.environ,
        coordinator=processes.coordinator,
        processes=processes.processes,
        index=processes.index,
    )


def distill(
    source: Source,
    run: Mapping[str, Any],
    out: Path,
    place: Path,
    resume: bool,
    processes: Processes,
) -> dict[str, Any] | None:
    """The document of a distillation on the first process, once its summary is in `out`; None on the others.

    place: where the first one keeps checkpoints.
    """
    here = _place(processes)
    arguments = {
        "source": source, "run": dict(run), "out": out, "place": place, "resume": resume, "here": here,
    }  # fmt: skip
    with (
        console.live_distillation("distil") if here.index == 0 else nullcontext(silent) as progress,
        passed_on() as signals,
    ):
        try:
            found = run_member(_distill, arguments, here, progress)
        except InfrecError:
            if signals:  # it ended because it was told to
                raise KeyboardInterrupt from None
            raise
    if found is not None and "stopped" in found:
        console.kept_checkpoint(place, found["stopped"])
        raise KeyboardInterrupt
    return found


def _distill(
    source: Source,
    run: dict[str, Any],
    out: Path,
    place: Path,
    resume: bool,
    here: launchers.Place,
    progress: Progress = silent,
) -> dict[str, Any] | None:
    """Meet the others, distil, and on the first process save."""
    if hasattr(os, "setpgrp"):
        os.setpgrp()  # Ctrl-C is for the parent, which passes on that this is to end
    team = _met(here, progress)
    import jax

    from infrec.cli import options
    from infrec.distillation import Interrupted
    from infrec.distillation import distill as make

    log = source.reading.load(source.data, progress)
    try:
        summary = make(source.split(log), **run, run_directory=place, resume=resume, progress=progress)
    except Interrupted as stopped:  # all of them at the same step
        _part(team, here)
        return {"stopped": str(stopped)}
    except jax.errors.JaxRuntimeError as failure:
        if here.count == 1 or "RESOURCE_EXHAUSTED" in str(failure):
            raise
        raise InfrecError(lost()) from failure
    told = everybody(team, {"peak_rss_mb": machine.peak_rss_mb()})
    if here.index == 0:
        source.noted(summary).save(out)
    _part(team, here)
    return {"processes": told, "notes": options.what_was_read(log)} if here.index == 0 else None


def run_member(
    work: Callable[..., dict[str, Any] | None],
    arguments: Mapping[str, Any],
    here: launchers.Place,
    progress: Progress,
) -> dict[str, Any] | None:
    """`work` in a child. What its sudden end means depends on whether it had met the others."""
    met = False

    def told(stage: str, done: float, total: float | None = None, **facts: object) -> None:
        nonlocal met
        met = True
        progress(stage, done, total, **facts)

    return child_process.run_in_child(
        work, arguments, progress=told, ended=lambda: lost() if met else launchers.unmet(here)
    )


def _met(here: launchers.Place, progress: Progress) -> Team:
    team = launchers.join(here)
    progress("meet the other processes", here.count, here.count)
    return team


@contextmanager
def passed_on() -> Iterator[list[int]]:
    """SIGTERM and the first Ctrl-C tell the child to end, which then saves; those that came are collected."""
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came  # only the main thread may set handlers
        return

    def tell(number: int, _: object) -> None:
        if came and number == signal.SIGINT:
            raise KeyboardInterrupt
        came.append(number)
        for child in multiprocessing.active_children():
            child.terminate()

    before = {number: signal.signal(number, tell) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield came
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def _part(team: Team, here: launchers.Place) -> None:
    """Leave when all are done: what is saved is there then, whoever else is not."""
    with suppress(*([InfrecError] if here.index == 0 else [])):
        team.all_sum(np.zeros(1))  # nobody leaves before
        launchers.leave(here)


def everybody(team: Team, own: Mapping[str, float]) -> list[dict[str, float]]:
    """The figures of every process, in their order, on every process."""
    table = team.concatenate(np.array([float(value) for value in own.values()]))
    rows = table.reshape(team.count, len(own))
    return [
        {"index": index}
        | {name: value if name.endswith("_mb") else int(value) for name, value in zip(own, row, strict=True)}
        for index, row in enumerate(rows.tolist())
    ]
