"""An open-loop load generator for 127.0.0.1, in one thread, bounded in time, count and connections.

Requests leave when they are due, not when the last answer came, so that a server that falls behind shows it.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

MOST_SECONDS, MOST_REQUESTS, MOST_CONNECTIONS = 60.0, 500_000, 512


@dataclass
class Outcome:
    """Seconds from when a request was due to its whole answer, by status."""

    planned: int
    seconds: float
    taken: dict[int, list[float]] = field(default_factory=dict)
    unsent: int = 0  # due, but every connection was waiting for an answer
    failed: int = 0  # closed or reset before the answer

    def rate(self, status: int = 200) -> float:
        return len(self.taken.get(status, ())) / self.seconds

    def percentile(self, share: float, status: int = 200) -> float:
        """In milliseconds."""
        values = self.taken.get(status)
        return float(np.percentile(values, share)) * 1000 if values else float("nan")


def connect(port: int, how_many: int) -> list[socket.socket]:
    links = []
    for _ in range(how_many):
        link = socket.create_connection(("127.0.0.1", port), timeout=10)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link.setblocking(False)
        links.append(link)
    return links


def run(
    port: int,
    requests: Sequence[bytes],
    *,
    seconds: float,
    rate: float | None = None,
    connections: int = 64,
    drop: bool = False,
    seed: int = 0,
) -> Outcome:
    """Open loop at `rate` a second (Poisson); closed loop over all connections without a rate.

    An arrival that finds every connection waiting goes out late, and the wait counts; with `drop` it is not
    sent at all and counted as such: a server that is told to take ten times what it can must not be measured
    by our own queue.
    """
    seconds, connections = min(seconds, MOST_SECONDS), min(connections, MOST_CONNECTIONS)
    links = connect(port, connections)
    by_number = {link.fileno(): link for link in links}
    waiting: dict[int, float] = {}
    partial: dict[int, bytes] = {}
    idle = [link.fileno() for link in links]
    poll = select.epoll()
    for number in by_number:
        poll.register(number, select.EPOLLIN)
    due = None
    if rate is not None:
        count = min(int(rate * seconds), MOST_REQUESTS)
        due = np.cumsum(np.random.default_rng(seed).exponential(1 / rate, count)).tolist()
    outcome = Outcome(len(due) if due is not None else 0, seconds)
    clock, sent, n = time.perf_counter, 0, len(requests)
    began = clock()
    end = began + seconds
    while True:
        now = clock()
        if due is None:
            while idle and now < end:
                number = idle.pop()
                waiting[number] = now
                by_number[number].send(requests[sent % n])
                sent += 1
        else:
            while sent < len(due) and began + due[sent] <= now:
                if idle:
                    number = idle.pop()
                    waiting[number] = began + due[sent]
                    by_number[number].send(requests[sent % n])
                elif drop:
                    outcome.unsent += 1
                else:
                    break
                sent += 1
        over = now >= end if due is None else sent >= len(due)
        if (over and not waiting) or now > end + 5:
            break
        pause = 0.05
        if due is not None and sent < len(due) and idle:
            pause = max(0.0, began + due[sent] - clock())
        for number, _ in poll.poll(min(pause, 0.05)):
            try:
                data = partial.pop(number, b"") + by_number[number].recv(262144)
            except ConnectionError:
                data = b""
            head = data.find(b"\r\n\r\n")
            length = data.find(b"content-length: ")
            if data and (head < 0 or len(data) < head + 4 + _number(data, length + 16)):
                partial[number] = data
                continue
            since = waiting.pop(number, None)
            if not data:
                outcome.failed += since is not None
                poll.unregister(number)
                if number in idle:
                    idle.remove(number)
                continue
            if since is not None:
                outcome.taken.setdefault(int(data[9:12]), []).append(clock() - since)
                idle.append(number)
    for link in links:
        link.close()
    poll.close()
    outcome.failed += len(waiting)
    outcome.seconds = clock() - began
    return outcome


def _number(data: bytes, start: int) -> int:
    return int(data[start : data.index(b"\r", start)])
