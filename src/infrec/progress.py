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


class _Silent:
    """Progress that says nothing. An object for the sake of its text: it is a default in many signatures."""

    def __call__(self, stage: str, done: float, total: float | None = None, **facts: object) -> None:
        pass

    def __repr__(self) -> str:
        return "silent"

    def __reduce__(self) -> str:
        return "silent"  # the one of this module, in another process too


silent: Progress = _Silent()


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
