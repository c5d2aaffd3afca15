"""How long work tells what it is doing: a callback, silent in the library, a live bar on the command line."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol


class Progress(Protocol):
    """Called as work proceeds. `done` of `total` in any unit; `facts` are figures worth showing (loss=…)."""

    def __call__(self, stage: str, done: float, total: float | None = None, **facts: object) -> None: ...


def silent(stage: str, done: float, total: float | None = None, **facts: object) -> None:
    """The default: say nothing."""


@dataclass
class Stopwatch:
    """Seconds spent in named stages: `with watch("fit"): …`, then `watch.seconds["fit"]`."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start
