"""uvicorn's HTTP protocol with bounds: on connections, on a request's head and time, on what is discarded;
and with an answer to overload that costs next to nothing.

An event loop whose turns are short.

asyncio hands out everything that its selector found before it goes on with tasks. With hundreds of sockets
ready, as under overload, an answer that needs four turns (read, started, scored, written) waits four times
for hundreds of others. Here a turn takes a few of the sockets, and the next turns take the rest.
"""

from __future__ import annotations

import asyncio
import re
import selectors
import sys
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from infrec.serve.batching import Service
from infrec.serve.schemas import CLOSE, Problem, overloaded, too_slow
from infrec.serve.security import ALWAYS
from infrec.serve.settings import MAX_BODY, MAX_HEAD

_BUSY = b"/v1/recommend"  # what is refused before it is read
_PLAIN = b"POST /v1/recommend HTTP/1.1\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d{1,7})(?:\r\n|$)", re.IGNORECASE)
_SPECIAL = re.compile(rb"\r\n(?:transfer-encoding|connection|expect|upgrade|origin) *:", re.IGNORECASE)
_HEAD_TOO_LARGE = Problem(
    431, "head_too_large", f"the request line and headers are longer than {MAX_HEAD:,} bytes."
)
_SOCKETS = 16  # in a turn


def _whole(problem: Problem, *, close: bool = True) -> bytes:
    """The whole HTTP answer to a request that the application never sees."""
    line = f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}".encode()
    headers = dict([*problem.headers, *(CLOSE if close else ()), *ALWAYS])
    head = [line, b"content-type: application/json", b"content-length: %d" % len(problem.body)]
    return b"\r\n".join(
        [*head, *(name + b": " + value for name, value in headers.items()), b"", problem.body]
    )


_REFUSAL, _LAST_REFUSAL = _whole(overloaded(), close=False), _whole(overloaded())


class _Joined:
    """A transport that sends an answer's head together with its body: one packet, one wake-up."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._to, self._held = transport, b""
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        if self._held or not data.startswith(b"HTTP/1.1 ") or data.startswith(b"HTTP/1.1 1"):
            data, self._held = self._held + data, b""
            self._to.write(data)
        else:
            self._held = data

    def flush(self) -> None:
        if self._held:
            self.write(b"")

    def close(self) -> None:
        self.flush()
        self._to.close()


class Guarded(HttpToolsProtocol):
    """One connection. `service` is set on a subclass."""

    service: Service

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head = 0  # bytes of the request's head so far
        self._head_open = True
        self._unfinished = 0  # bytes that came since the head began, while it has not ended
        self._body = 0
        self._body_open = False
        self._refused = False
        self._refused_at = -1e9
        self._timer: asyncio.TimerHandle | None = None
        self._pieces: list[Any] = []  # of what came, still to be parsed
        self._piece: Any = b""
        self._offered = False  # another protocol, by the request that is being parsed

    # ---- the connection ---------------------------------------------------------------------------
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._joined = _Joined(transport)
        if len(self.connections) > self.service.settings.connections:
            self.service.counters.add("refused")
            transport.write(_LAST_REFUSAL)
            transport.close()
        else:
            self._expect_rest()

    def connection_lost(self, exc: Exception | None) -> None:
        self._arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self.service.overloaded and self._refuse(data):
            return
        was_open = self._head_open
        self._pieces = [data]
        while self._pieces and not self.transport.is_closing():
            self._piece = self._pieces.pop(0)
            super().data_received(self._piece)
        if self.transport.is_closing():
            return
        if self._head_open and was_open:
            self._unfinished += len(data)
            if self._unfinished > MAX_HEAD:
                self._give_up(_HEAD_TOO_LARGE)
                return
        # Also what drips in behind an answer: it has stopped the timer that closes a connection at rest.
        waits = self._free and self.timeout_keep_alive_task is None
        if (waits or (self._head_open and self._head) or self._refused) and self._timer is None:
            self._expect_rest()

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing is upgraded here. Java's client and `curl --http2` offer it with every request; the parser
        then takes what follows the head for another protocol's. The request begins anew without the offer.
        """
        failure = sys.exception()
        if not self._offered or failure is None:
            return
        method, version = self.scope["method"], self.parser.get_http_version()
        lines = [b"%b %b HTTP/%b" % (method.encode(), self.url, version.encode())]
        lines += [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        self._pieces = [b"\r\n".join([*lines, b"", b""]), memoryview(self._piece)[failure.args[0] :]]

    def _refuse(self, data: bytes) -> bool:
        """Answer a whole plain request for a recommendation without parsing it; False where it is none."""
        if not data.startswith(_PLAIN) or self._begun or not self._free:
            return False
        head, end, body = data.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not end or length is None or len(body) != int(length[1]) or _SPECIAL.search(head):
            return False
        self._arrived()
        self._count_refusal()
        self._refused_at = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._keep_alive_again()
        self.transport.write(_REFUSAL)
        return True

    @property
    def _free(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    @property
    def _begun(self) -> bool:
        """Whether a part of a request has been parsed that has not ended."""
        return (self._head_open and self._head > 0) or self._refused or self._body_open

    @property
    def _from_a_page(self) -> bool:
        """Whether a browser asks, whose page must be able to read even a refusal: left to the middleware."""
        return any(name == b"origin" for name, _ in self.headers)

    def _count_refusal(self) -> None:
        self.service.counters.add("refused")
        self.service.counters.request("/v1/recommend", 503, 0.0)

    def _keep_alive_again(self) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def timeout_keep_alive_handler(self) -> None:
        """A refusal leaves the timer of the last answer running, which is cheaper; this makes it good."""
        if self.loop.time() - self._refused_at < self.timeout_keep_alive:
            self._keep_alive_again()
        else:
            super().timeout_keep_alive_handler()

    def send_400_response(self, msg: str) -> None:
        self._give_up(Problem(400, "bad_request", "what arrived is no HTTP request that can be read."))

    def _give_up(self, problem: Problem) -> None:
        """Answer in the one shape, without the application, and close."""
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(_whole(problem))
            self.service.counters.request("other", problem.status, 0.0)
        self.transport.close()

    # ---- the head ---------------------------------------------------------------------------------
    def _expect_rest(self) -> None:
        seconds = self.service.settings.timeout
        self._timer = self.loop.call_later(seconds, self._too_slow)

    def _arrived(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            if (self._head_open and self._head) or self._refused:
                self._give_up(too_slow(self.service.settings.timeout))
            else:  # a connection that never said anything, or nothing new since its last answer
                self.transport.close()

    def on_message_begin(self) -> None:
        self._head, self._head_open, self._body = 1, True, 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._head += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head += len(name) + len(value) + 4
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._head_open, self._unfinished, self._body_open = False, 0, True
        self._arrived()
        if self.transport.is_closing():
            return
        if self._head > MAX_HEAD:
            self._give_up(_HEAD_TOO_LARGE)
            return
        self._offered = self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT"
        if self._offered:
            self.scope["method"] = self.parser.get_method().decode()
            return
        if self._free and self.url == _BUSY and self.service.overloaded and not self._from_a_page:
            self._refused = True
            self._count_refusal()
            return
        super().on_headers_complete()
        # The task that answers starts after this call, so nothing is written before.
        self.cycle.transport = self._joined  # type: ignore[assignment]

    def on_response_complete(self) -> None:
        self._joined.flush()
        super().on_response_complete()

    # ---- the body ---------------------------------------------------------------------------------
    def on_body(self, body: bytes) -> None:
        if self.transport.is_closing() and (self.cycle is None or self.cycle.response_complete):
            return
        self._body += len(body)
        done = self._refused or self.cycle.response_complete
        if done and self._body > MAX_BODY:  # nobody reads it any more
            self.transport.close()
        elif not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._body_open = False
        if self._offered:
            return
        if self._refused:
            self._refused = False
            self._arrived()
            if self.parser.should_keep_alive():
                self.transport.write(_REFUSAL)
                self._keep_alive_again()
            else:
                self.transport.write(_LAST_REFUSAL)
                self.transport.close()
        elif self.cycle is not None:
            super().on_message_complete()


class FewAtOnce(selectors.DefaultSelector):
    """The system's selector, whose finds are handed out a few at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._left: list[tuple[selectors.SelectorKey, int]] = []

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if not self._left:
            self._left = super().select(timeout)
            if len(self._left) <= _SOCKETS:
                ready, self._left = self._left, []
                return ready
        some, self._left = self._left[:_SOCKETS], self._left[_SOCKETS:]
        now = self.get_map()
        # What was closed or paused in the meantime is not ready any more.
        fresh = [(now.get(key.fileobj), events) for key, events in some]
        return [
            (key, events & key.events) for key, events in fresh if key is not None and events & key.events
        ]
