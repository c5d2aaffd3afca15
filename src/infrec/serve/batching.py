"""Requests that arrive together are scored together: a short window, a bounded queue, one thread.

While a batch is being scored the next one gathers, so that batches grow with the load and a lone request
waits for the window only.

The models that answer now, by name, each with its queue; replaced one by one while requests run.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

from infrec import machine
from infrec.serve.answers import recommend
from infrec.serve.metrics import Counters
from infrec.serve.schemas import Problem, RecommendRequest, overloaded
from infrec.serve.served_model import Served
from infrec.serve.settings import Settings

_PATIENCE = 0.025  # seconds in the queue

Ask = TypeVar("Ask")
Answer = TypeVar("Answer")
_Batch = list[tuple[Ask, "asyncio.Future[Answer]"]]


class Batcher(Generic[Ask, Answer]):
    """Hands lists of requests to `work`, in a thread of its own; each gets its own answer or exception."""

    def __init__(
        self, work: Callable[[list[Ask]], list[Answer | Exception]], *, window: float, size: int, limit: int
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
        alive = [(ask, answer) for ask, answer in self._waiting if not answer.done()]
        batch, self._waiting = alive[: self._size], alive[self._size :]
        if batch:
            self._busy = True
            self._pool.submit(self._run, batch, asyncio.get_running_loop())

    def _run(self, batch: _Batch[Ask, Answer], loop: asyncio.AbstractEventLoop) -> None:
        """Score a batch, in the thread."""
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


class Service:
    """Everything a request may need. `put` may be called from any thread; the rest from the event loop."""

    def __init__(self, settings: Settings, names: Sequence[str], counters: Counters | None = None) -> None:
        self.settings, self.names = settings, tuple(names)
        self.counters = counters or Counters()
        self.aside = Aside()
        self.stopping = False
        self._served: dict[str, Served] = {}
        self._queues = {
            name: Batcher(
                partial(self._score, name),
                window=settings.window,
                size=settings.batch,
                limit=settings.queue,
            )
            for name in self.names
        }

    @property
    def ready(self) -> bool:
        return len(self._served) == len(self.names) and not self.stopping

    @property
    def overloaded(self) -> bool:
        """Whether no model can take another request; asked before a request is even read."""
        return all(queue.full for queue in self._queues.values())

    @property
    def waiting(self) -> int:
        return sum(queue.waiting for queue in self._queues.values())

    def models(self) -> list[Served]:
        return [self._served[name] for name in self.names if name in self._served]

    def put(self, served: Served) -> None:
        """Answer with this one from now on; a batch that is being scored finishes with the old one."""
        self._served[served.name] = served
        # Whichever process is asked for the numbers adds up what each has said of itself.
        self.counters.set("resident", machine.resident_bytes())

    def get(self, name: str | None) -> Served:
        """The model of a name; the first one without."""
        try:
            return self._served[self.names[0] if name is None else name]
        except KeyError:
            known = ", ".join(self.names)
            raise Problem(
                404, "unknown_model", f"there is no model {name!r:.200}; there is: {known}."
            ) from None

    def recommend(self, name: str, request: RecommendRequest) -> asyncio.Future[tuple[bytes, Served]]:
        """The answer of the next batch, and the model that gave it."""
        queue = self._queues[name]
        if queue.full:
            self.counters.add("refused")
        return queue.submit(request)

    def original_of(self, summary: Served) -> Served | None:
        """A served model of real users that has the summary's items: what its popularity is compared with."""
        originals = (one for one in self.models() if one.kind == "log" and one.log.items == summary.log.items)
        return next(originals, None)

    def _score(self, name: str, requests: list[RecommendRequest]) -> list[tuple[bytes, Served] | Exception]:
        served = self._served[name]
        self.counters.set("waiting", self.waiting)
        self.counters.add("batches")
        self.counters.add("batched", len(requests))
        answers = recommend(served, requests)
        return [answer if isinstance(answer, Exception) else (answer, served) for answer in answers]

    def close(self) -> None:
        self.aside.close()
        for queue in self._queues.values():
            queue.close()
