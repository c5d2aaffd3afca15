"""Independent blocks of work on every core that this process may use."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor


def cores() -> int:
    """How many cores this process may run on (a container may allow fewer than the machine has)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_parallel(work: Callable[[int], None], blocks: Iterable[int]) -> None:
    """Call `work` for each block. numpy and scipy release the interpreter in the loops that matter here."""
    todo = list(blocks)
    if len(todo) <= 1 or cores() == 1:
        for block in todo:
            work(block)
        return
    with ThreadPoolExecutor(min(cores(), len(todo))) as pool:
        for _ in pool.map(work, todo):
            pass
