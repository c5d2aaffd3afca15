"""The queue in front of a model: together when busy, bounded, each its own answer."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from infrec.serve.batching import Aside, Batcher
from infrec.serve.schemas import Problem


def test_what_arrives_together_is_one_batch_and_each_gets_its_own_answer() -> None:
    sizes = []

    def double(numbers: list[int]) -> list[int | Exception]:
        sizes.append(len(numbers))
        return [ValueError("odd") if number % 2 else 2 * number for number in numbers]

    async def ask() -> list[int | BaseException]:
        queue: Batcher[int, int] = Batcher(double, window=0.01, size=8, limit=100)
        found = await asyncio.gather(*(queue.submit(n) for n in range(20)), return_exceptions=True)
        queue.close()
        return found

    found = asyncio.run(ask())
    assert [each for each in found if not isinstance(each, Exception)] == [2 * n for n in range(0, 20, 2)]
    assert sum(isinstance(each, ValueError) for each in found) == 10
    assert sizes == [8, 8, 4]


def test_a_failing_batch_fails_its_requests_and_no_others() -> None:
    def fail_once(numbers: list[int]) -> list[int | Exception]:
        if 0 in numbers:
            raise RuntimeError("broken")
        return list(numbers)

    async def ask() -> None:
        queue: Batcher[int, int] = Batcher(fail_once, window=0, size=8, limit=8)
        with pytest.raises(RuntimeError, match="broken"):
            await queue.submit(0)
        assert await queue.submit(1) == 1
        queue.close()

    asyncio.run(ask())


def test_a_full_queue_refuses_at_once_and_those_who_leave_make_room() -> None:
    begun, go = threading.Event(), threading.Event()

    def wait(numbers: list[int]) -> list[int | Exception]:
        begun.set()
        go.wait(60)
        return list(numbers)

    async def ask() -> None:
        queue: Batcher[int, int] = Batcher(wait, window=0, size=1, limit=2)
        first = queue.submit(0)
        assert await asyncio.to_thread(begun.wait, 60)  # being scored
        second, third = queue.submit(1), queue.submit(2)
        with pytest.raises(Problem) as refused:
            queue.submit(3)
        assert refused.value.status == 503 and not first.done()
        second.cancel()
        go.set()
        assert await first == 0 and await third == 2
        assert await queue.submit(4) == 4
        queue.close()

    asyncio.run(ask())


def test_a_slow_model_has_a_shorter_queue() -> None:
    """4 at a time in 40 ms: at that pace 25 ms of patience are less than a batch, so a batch may wait."""

    def slow(numbers: list[int]) -> list[int | Exception]:
        time.sleep(0.04)
        return list(numbers)

    async def ask() -> None:
        queue: Batcher[int, int] = Batcher(slow, window=0, size=4, limit=50)
        await asyncio.gather(*(queue.submit(n) for n in range(24)))
        waiting = [queue.submit(n) for n in range(4)]
        with pytest.raises(Problem):
            queue.submit(9)
        await asyncio.gather(*waiting)
        queue.close()

    asyncio.run(ask())


def test_longer_work_is_bounded_too() -> None:
    async def ask() -> None:
        aside, go = Aside(limit=2), threading.Event()
        first = [asyncio.create_task(aside.run(lambda: go.wait(60))) for _ in range(2)]
        await asyncio.sleep(0)  # both begin
        with pytest.raises(Problem):
            await aside.run(lambda: None)
        go.set()
        assert await asyncio.gather(*first) == [True, True]
        assert await aside.run(lambda: 7) == 7
        aside.close()

    asyncio.run(ask())
