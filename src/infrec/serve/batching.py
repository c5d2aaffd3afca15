"""Requests that arrive together are scored together: a short window, a bounded queue, one thread.

While a batch is being scored the next one gathers, so that batches grow with the load and a lone request
waits for the window only.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Generic, TypeVar

from infrec.serve.problems import overloaded

Ask = TypeVar("Ask")
Answer = TypeVar("Answer")
_Batch = list[tuple[Ask, "asyncio.Future[Answer]"]]
_PATIENCE = 0.025  # seconds in the queue


class Batcher(Generic[Ask, Answer]):
    """Hands lists of requests to `work`, in a thread of its own; each gets its own answer or exception."""

    def __init__(
        self,
        work: Callable[[list[Ask]], list[Answer | Exception]],
        *,
        window: float,
        size: int,
        limit: int,
    ) -> None:
        self._work, self._window, self._size, self._limit = work, window, size, limit
        self._pool = ThreadPoolExecutor(1, "scoring")
        self._waiting: list[tuple[Ask, asyncio.Future[Answer]]] = []
        self._busy = False
        self._timer: asyncio.TimerHandle | None = None
        self._pace = 0.0  # seconds for each request of late
        self._room = limit

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """Whether another one would wait too long, by the pace of late, or too many wait already."""
        return len(self._waiting) >= self._room

    def submit(self, ask: Ask) -> asyncio.Future[Answer]:
        """The answer, in a moment; `Problem` 503 at once when too many wait already."""
        if self.full:
            raise overloaded()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((ask, answer))
        if not self._busy and self._timer is None:
            self._timer = loop.call_later(self._window, self._start)
        return answer

    def _start(self) -> None:
        self._timer = None
        # Whoever has gone away in the meantime is not scored.
        alive = [each for each in self._waiting if not each[1].done()]
        batch, self._waiting = alive[: self._size], alive[self._size :]
        if batch:
            self._busy = True
            self._pool.submit(self._run, batch, asyncio.get_running_loop())

    def _run(self, batch: _Batch[Ask, Answer], loop: asyncio.AbstractEventLoop) -> None:
        """In the thread."""
        began = time.perf_counter()
        answers: list[Answer | Exception]
        try:
            answers = self._work([ask for ask, _ in batch])
        except Exception as failure:
            answers = [failure] * len(batch)
        with suppress(RuntimeError):  # the loop has ended in the meantime
            loop.call_soon_threadsafe(self._finish, batch, answers, time.perf_counter() - began)

    def _finish(self, batch: _Batch[Ask, Answer], answers: list[Answer | Exception], seconds: float) -> None:
        self._busy = False
        for (_, future), answer in zip(batch, answers, strict=True):
            if future.done():
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)
        self._measure(len(batch), seconds)
        if self._waiting:
            self._start()

    def _measure(self, answered: int, seconds: float) -> None:
        """The queue may hold what is answered within `_PATIENCE` at the pace of late; at least another batch,
        for small ones cost more each, and at most `limit`."""
        pace = seconds / answered
        if answered < self._size or not self._pace:
            self._pace, self._room = pace, self._limit  # it keeps up
        else:
            self._pace = 0.8 * self._pace + 0.2 * pace
            self._room = min(self._limit, max(self._size, int(_PATIENCE / self._pace)))

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class Aside:
    """Single pieces of work that take longer (explanations, searches), off the event loop, bounded too."""

    def __init__(self, limit: int = 32) -> None:
        self._pool = ThreadPoolExecutor(1, "aside")
        self._limit, self._pending = limit, 0

    async def run(self, work: Callable[[], Answer]) -> Answer:
        if self._pending >= self._limit:
            raise overloaded()
        self._pending += 1
        job = asyncio.get_running_loop().run_in_executor(self._pool, work)
        job.add_done_callback(self._one_less)  # not when the client leaves: the thread is still at it
        return await job

    def _one_less(self, _: asyncio.Future[Any]) -> None:
        self._pending -= 1

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
