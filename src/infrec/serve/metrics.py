"""Numbers about the service in Prometheus' text format.

Each process counts in its own row of a shared array; whichever is asked adds the rows up.

Written by hand because prometheus-client's multiprocess mode takes 7 times as long to count a request and 6
to 15 times as long to write the text, on the event loop, and saves about 20 of these lines (docs/serve.md).
"""

from __future__ import annotations

import mmap
import time
from bisect import bisect_left
from collections.abc import Iterable
from pathlib import Path

from infrec import machine
from infrec.serve.served_model import Served

ROUTES = (
    *("/v1/recommend", "/v1/explain", "/v1/items", "/v1/models", "/v1/summary"),
    *("/healthz", "/readyz", "/metrics", "/openapi.json", "page", "other"),
)
STATUSES = (200, 204, 304, 400, 401, 403, 404, 405, 408, 413, 415, 421, 422, 431, 500, 503)
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_ROUTE = {route: at for at, route in enumerate(ROUTES)}
_STATUS = {status: at for at, status in enumerate(STATUSES)}
_REQUESTS = 0
_TIMES = _REQUESTS + len(ROUTES) * len(STATUSES)
_WIDTH = len(BOUNDS) + 2  # one beyond the last bound, and the sum
_SINGLE = _TIMES + len(ROUTES) * _WIDTH
SINGLE = {
    "refused": ("refused_total", "counter", "Requests refused because too many waited."),
    "batches": ("batches_total", "counter", "Batches scored."),
    "batched": ("batched_total", "counter", "Requests in those batches."),
    "reloads": ("reloads_total", "counter", "Models replaced while serving."),
    "failed_reloads": ("failed_reloads_total", "counter", "Replacements refused."),
    "waiting": ("waiting", "gauge", "Requests waiting to be scored."),
    "resident": ("resident_bytes", "gauge", "Resident memory of the processes that answer."),
}
_PLACE = {name: _SINGLE + at for at, name in enumerate(SINGLE)}
SLOTS = _SINGLE + len(SINGLE)


class Counters:
    """Counts of this process, and their sums over all processes."""

    def __init__(self, file: Path | None = None, row: int = 0, rows: int = 1) -> None:
        size = 8 * SLOTS * rows
        if file is None:
            self._all = memoryview(mmap.mmap(-1, size)).cast("d")
        else:
            with file.open("r+b") as handle:
                self._all = memoryview(mmap.mmap(handle.fileno(), size)).cast("d")
        self._rows = rows
        self._mine = self._all[row * SLOTS : (row + 1) * SLOTS]
        self._began = time.time()

    @staticmethod
    def create(file: Path, rows: int) -> None:
        file.write_bytes(bytes(8 * SLOTS * rows))

    def request(self, route: str, status: int, seconds: float) -> None:
        at, mine = _ROUTE.get(route, len(ROUTES) - 1), self._mine
        mine[_REQUESTS + at * len(STATUSES) + _STATUS.get(status, _STATUS[500])] += 1
        start = _TIMES + at * _WIDTH
        mine[start + bisect_left(BOUNDS, seconds)] += 1
        mine[start + _WIDTH - 1] += seconds

    def add(self, name: str, amount: float = 1) -> None:
        self._mine[_PLACE[name]] += amount

    def total(self, name: str) -> float:
        """The sum of a single count over all processes."""
        return self._sum(_PLACE[name])

    def _sum(self, at: int) -> float:
        return sum(self._all[at + row * SLOTS] for row in range(self._rows))

    def set(self, name: str, value: float) -> None:
        self._mine[_PLACE[name]] = value

    def text(self, models: Iterable[Served]) -> str:
        """All numbers in Prometheus' text format, for /metrics."""
        self.set("resident", machine.resident_bytes())
        total = [self._sum(at) for at in range(SLOTS)]
        answered = [
            f'{{route="{route}",status="{status}"}} {count:.0f}'
            for route, at in _ROUTE.items()
            for status, place in _STATUS.items()
            if (count := total[_REQUESTS + at * len(STATUSES) + place])
        ]
        times = {
            route: total[_TIMES + at * _WIDTH : _TIMES + (at + 1) * _WIDTH] for route, at in _ROUTE.items()
        }
        took = [line for route, own in times.items() if sum(own[:-1]) for line in _histogram(route, own)]
        lines = [
            *_metric("requests_total", "counter", "Requests answered.", answered),
            *_metric("request_seconds", "histogram", "Time from a request's head to its answer.", took),
        ]
        for name, declared in SINGLE.items():
            lines += _metric(*declared, [f" {total[_PLACE[name]]:.10g}"])
        lines += _metric("start_time_seconds", "gauge", "When this process began.", [f" {self._began:.10g}"])
        labels = [
            f'{{name="{_escaped(one.name)}",hash="{one.hash}",type="{one.model.name}"}} 1' for one in models
        ]
        return "\n".join([*lines, *_metric("model", "gauge", "The models that answer.", labels)]) + "\n"


def _metric(name: str, kind: str, words: str, samples: Iterable[str]) -> list[str]:
    """A metric with its values; each sample is what follows its name."""
    head = [f"# HELP infrec_{name} {words}", f"# TYPE infrec_{name} {kind}"]
    return head + [f"infrec_{name}{sample}" for sample in samples]


def _histogram(route: str, times: list[float]) -> list[str]:
    lines, below = [], 0.0
    for bound, count in zip([*BOUNDS, "+Inf"], times[:-1], strict=True):
        below += count
        lines.append(f'_bucket{{route="{route}",le="{bound}"}} {below:.0f}')
    lines.append(f'_sum{{route="{route}"}} {times[-1]:.6f}')
    lines.append(f'_count{{route="{route}"}} {below:.0f}')
    return lines


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
