"""Work in a process of its own, watched by this one.

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
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from infrec.errors import InfrecError
from infrec.progress import Progress

Result = TypeVar("Result")
SECONDS_TO_LEAVE = 30.0
_MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(4 << 20), "MALLOC_ARENA_MAX": "2"}


def run_in_child(
    work: Callable[..., Result], arguments: Mapping[str, Any], *, progress: Progress, ended: Callable[[], str]
) -> Result:
    """`work(**arguments, progress=…)` in a child; its result, or its error. ended: what an abort means."""
    fresh = multiprocessing.get_context("spawn")  # never forked: JAX may have started threads here
    ours, theirs = fresh.Pipe()
    child = fresh.Process(target=_child, args=(theirs, work, dict(arguments)), daemon=True)
    with _returning_memory():
        child.start()
    theirs.close()
    try:
        while True:
            try:
                kind, value = ours.recv()
            except EOFError:
                break
            if kind == "progress":
                progress(*value[0], **value[1])
                continue
            child.join(SECONDS_TO_LEAVE)
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
    raise InfrecError(ended())


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


def _child(pipe: Connection, work: Callable[..., Any], arguments: dict[str, Any]) -> None:
    _quiet()
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def progress(stage: str, done: float, total: float | None = None, **facts: object) -> None:
        pipe.send(("progress", ((stage, done, total), facts)))

    try:
        told: tuple[str, Any] = ("done", work(**arguments, progress=progress))
    except KeyboardInterrupt:
        told = ("failed", KeyboardInterrupt())
    except InfrecError as failure:
        told = ("failed", type(failure)(str(failure)))
    except BaseException as failure:
        told = ("failed", RuntimeError(f"{type(failure).__name__}: {failure}"))
        if os.environ.get("INFREC_DEBUG"):
            import traceback

            traceback.print_exc()
    pipe.send(told)
    pipe.close()
    # Without Python's own end, where JAX would wait for processes that may be gone.
    os._exit(0 if told[0] == "done" else 1)


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
