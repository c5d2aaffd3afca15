"""One process that answers: its socket, its signals, its log."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket
import sys
import threading
from contextlib import nullcontext
from typing import Any

import uvicorn

from infrec.errors import ConfigError
from infrec.serve import app
from infrec.serve.batching import Service
from infrec.serve.http_protocol import FewAtOnce, Guarded
from infrec.serve.settings import Settings

log = logging.getLogger("infrec.serve")
GRACE = 4  # seconds for requests in flight when stopping; the whole takes less than 5


class Server(uvicorn.Server):
    """uvicorn with our protocol and our signals."""

    def __init__(self, service: Service, bound: socket.socket) -> None:
        self._service, self._bound = service, bound
        super().__init__(
            uvicorn.Config(
                app.create(service),
                http=type("GuardedConnection", (Guarded,), {"service": service}),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=GRACE,
                timeout_keep_alive=max(5, int(service.settings.timeout)),
                backlog=min(2048, 2 * service.settings.connections),
            )
        )

    def capture_signals(self) -> Any:  # the caller's handlers call `stop`
        return nullcontext()

    def stop(self) -> None:
        self._service.stopping = True
        self.should_exit = True

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(FewAtOnce())) as runner:
            runner.run(self.serve([self._bound]))


def leave_soon() -> None:
    """End this process although a thread may still be at a long explanation that nobody waits for."""
    last = threading.Timer(0.5, os._exit, (0,))
    last.daemon = True
    last.start()


def bind(settings: Settings) -> socket.socket:
    """The listening socket, or what stands in its way.

    Args:
        settings: Where to listen.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # With its protocol named, asyncio switches Nagle's algorithm off: an answer leaves at once, not in 40 ms.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((settings.host, settings.port))
        bound.listen(2048)  # whoever comes before the first answer waits instead of failing
    except (OSError, OverflowError) as failure:
        bound.close()
        reason = getattr(failure, "strerror", None) or str(failure)
        raise ConfigError(
            f"cannot listen on {settings.host} port {settings.port}: {reason}; choose another port or host."
        ) from None
    bound.set_inheritable(True)
    return bound


def prepare_process() -> None:
    """Set up a process that answers: quick switches between threads, enough sockets, a log."""
    # Scoring must not wait 5 ms for the event loop to pause, nor it for scoring.
    sys.setswitchinterval(0.0001)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65_536) if hard > 0 else 65_536, hard))
    if not log.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        log.addHandler(handler)
    level = os.environ.get("INFREC_LOG") or "INFO"
    try:
        log.setLevel(level.upper())
    except ValueError:
        raise ConfigError(
            f"INFREC_LOG is {level!r}; expected DEBUG, INFO, WARNING, ERROR or CRITICAL."
        ) from None
    log.propagate = False
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
