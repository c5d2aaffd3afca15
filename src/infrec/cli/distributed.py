"""`--distributed`: one of the processes that fit a model, or distil, together.

A fit reads its own partitions only. A distillation reads the whole log in every process, sparse, and makes
dense only its own part of each step's users.

JAX's runtime ends a process on the spot when another one of the job is gone: no Python code runs any more,
and what stands on the terminal is a stack of C++ calls. So the work is done by a child that prints nothing;
this process draws its progress, hands on its result or its error, and has a sentence ready should it just
end. When this process is killed, the child ends as well.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import typer

from infrec import artifacts, machine
from infrec.checkpoints import asked_to_stop
from infrec.cli import console, launchers, options
from infrec.cli.reading import report_lines
from infrec.errors import InfrecError
from infrec.kernels.collectives import JaxProcesses, Team, lost
from infrec.progress import Progress, Stopwatch, silent

if TYPE_CHECKING:
    from infrec.cli.options import Processes
    from infrec.cli.reading import Source

Result = TypeVar("Result")
SECONDS_TO_MEET = 120
SECONDS_OF_SILENCE = 20  # after which a process that sends no heartbeat counts as gone
SECONDS_TO_LEAVE = 30.0
_MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(4 << 20), "MALLOC_ARENA_MAX": "2"}


def fit(
    data: str, out: Path, settings: dict[str, Any], centres: str | None, processes: Processes
) -> dict[str, Any] | None:
    """The document of a fit on the first process; None on the others, whose part is then done."""
    from infrec.data.partitioned import KIND

    if artifacts.kind_of(data) != KIND:
        raise typer.BadParameter(
            f"{data} is not a prepared dataset, of which each process could read its part; make one with "
            f"`infrec datasets prepare {data} --out prepared`.",
            param_hint="DATA",
        )
    here = launchers.place(os.environ, **processes.given())
    with console.bars(enabled=here.index == 0) as progress:
        return run_member(partial(_fit, data, out, settings, centres, here), here, progress)


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
        team = join(here, progress)
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
        leave(team, here)
    if here.index:
        return None
    sizes = (len(dataset.users), len(dataset.items), int(dataset.manifest["interactions"]))
    return options.fit_document(model, *sizes, watch.seconds)


def distill(
    source: Source, run: dict[str, Any], out: Path, place: Path, resume: bool, processes: Processes
) -> dict[str, Any] | None:
    """The document of a distillation on the first process, once its summary is in `out`; None on the others.

    place: where the first one keeps checkpoints.
    """
    here = launchers.place(os.environ, **processes.given())
    with (
        console.live_distillation("distil") if here.index == 0 else nullcontext(silent) as progress,
        asked_to_stop(end_children) as stop,
    ):
        try:
            work = partial(_distill, source, run, out, place, resume, here)
            document = run_member(work, here, progress)
        except InfrecError:
            if stop.is_set():  # it ended because it was told to
                raise KeyboardInterrupt from None
            raise
    if document is not None and "stopped" in document:
        console.kept_checkpoint(place, document["stopped"])
        raise KeyboardInterrupt
    return document


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
    team = join(here, progress)
    import jax

    from infrec.distillation import Interrupted
    from infrec.distillation import distill as make

    log = source.reading.load(source.data, progress)
    try:
        summary = make(source.split(log), **run, run_directory=place, resume=resume, progress=progress)
    except Interrupted as stopped:  # all of them at the same step
        leave(team, here)
        return {"stopped": str(stopped)}
    except jax.errors.JaxRuntimeError as failure:
        if here.count == 1 or "RESOURCE_EXHAUSTED" in str(failure):
            raise
        raise InfrecError(lost()) from failure
    processes = everybody(team, {"peak_rss_mb": machine.peak_rss_mb()})
    if here.index == 0:
        source.noted(summary).save(out)
    leave(team, here)
    return {"processes": processes, "notes": report_lines(log.report)} if here.index == 0 else None


# ---- the other processes -----------------------------------------------------------------------------------
def join(here: launchers.Place, progress: Progress = silent) -> Team:
    """Meet the other processes (`jax.distributed`); before anything else of JAX is used."""
    team = Team()
    if here.count > 1:
        import jax

        try:
            jax.distributed.initialize(
                here.coordinator,
                here.count,
                here.index,
                local_device_ids=here.device,
                cluster_detection_method="deactivate",
                initialization_timeout=SECONDS_TO_MEET,
                heartbeat_timeout_seconds=SECONDS_OF_SILENCE,
                shutdown_timeout_seconds=SECONDS_OF_SILENCE,
            )
        except (RuntimeError, ValueError) as failure:
            raise InfrecError(unmet(here, " ".join(str(failure).split())[:160])) from failure
        team = JaxProcesses()
        team.all_sum(np.zeros(1))  # every connection is made now, so that one that breaks is noticed at once
    progress("meet the other processes", here.count, here.count)
    return team


def unmet(here: launchers.Place, why: str = f"waited {SECONDS_TO_MEET} s") -> str:
    """The error message of a process that the others did not join."""
    return (
        f"process {here.index} of {here.count} did not meet the others at {here.coordinator} ({why}); check "
        "that all were started, with the same --coordinator, and that its port is free and reachable."
    )


def leave(team: Team, here: launchers.Place) -> None:
    """Part when all are done: what is saved is there then, whoever else is not."""
    with suppress(*([InfrecError] if here.index == 0 else [])):
        team.all_sum(np.zeros(1))  # nobody leaves before
        if here.count > 1:
            import jax

            jax.distributed.shutdown()


def everybody(team: Team, own: Mapping[str, float]) -> list[dict[str, float]]:
    """The figures of every process, in their order, on every process."""
    table = team.concatenate(np.array([float(value) for value in own.values()]))
    rows = table.reshape(team.count, len(own))
    return [
        {"index": index}
        | {name: value if name.endswith("_mb") else int(value) for name, value in zip(own, row, strict=True)}
        for index, row in enumerate(rows.tolist())
    ]


# ---- the child that does the work --------------------------------------------------------------------------
def run_member(work: Callable[..., Result], here: launchers.Place, progress: Progress) -> Result:
    """`work(progress=…)` in a child; its result, or its error.

    What its sudden end means depends on whether it had met the others, which its first progress says.
    """
    fresh = multiprocessing.get_context("spawn")  # never forked: JAX may have started threads here
    ours, theirs = fresh.Pipe()
    child = fresh.Process(target=_child, args=(theirs, work), daemon=True)
    with _returning_memory():
        child.start()
    theirs.close()
    met = False
    try:
        with suppress(EOFError):
            while (message := ours.recv())[0] == "progress":
                met = True
                progress(*message[1], **message[2])
            child.join(SECONDS_TO_LEAVE)
            kind, value = message
            if kind == "failed":
                raise value
            return value
        child.join(SECONDS_TO_LEAVE)
    finally:
        if child.is_alive():
            child.kill()
            child.join()
    if child.exitcode == -signal.SIGKILL:
        raise InfrecError("the process that did the work was killed, most likely for lack of memory.")
    raise InfrecError(lost() if met else unmet(here))


def end_children() -> None:
    """Tell the child to end, which then saves."""
    for child in multiprocessing.active_children():
        child.terminate()


@contextmanager
def _returning_memory() -> Iterator[None]:
    """A child started here gives freed arrays back to the system: glibc would keep some per thread."""
    ours = {name: value for name, value in _MALLOC.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            del os.environ[name]


def _child(pipe: Connection, work: Callable[..., Any]) -> None:
    _quiet()
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def progress(stage: str, done: float, total: float | None = None, **facts: object) -> None:
        pipe.send(("progress", (stage, done, total), facts))

    try:
        message: tuple[str, Any] = ("done", work(progress=progress))
    except KeyboardInterrupt:
        message = ("failed", KeyboardInterrupt())
    except InfrecError as failure:
        message = ("failed", type(failure)(str(failure)))
    except BaseException as failure:
        message = ("failed", RuntimeError(f"{type(failure).__name__}: {failure}"))
        if os.environ.get("INFREC_DEBUG"):
            import traceback

            traceback.print_exc()
    pipe.send(message)
    pipe.close()
    # Without Python's own end, where JAX would wait for processes that may be gone.
    os._exit(0 if message[0] == "done" else 1)


def _quiet() -> None:
    """C++ libraries print what they like, where they like; the terminal is the parent's."""
    sink = 2 if os.environ.get("INFREC_DEBUG") else os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        if stream != sink:
            os.dup2(sink, stream)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
