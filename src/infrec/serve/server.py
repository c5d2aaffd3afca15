"""Starts and stops the service: one process, or several behind one socket, with models that are loaded once.

Workers are started fresh (spawned, not forked: BLAS and Arrow keep threads). The supervisor loads and fits,
puts the arrays into a file that the workers map, replaces a worker that dies, and passes signals on.

Weights in memory once, whatever the number of processes: their bytes lie in a file that all of them map.

A model is taken apart by pickle's protocol 5, which hands out the buffers of arrays (numpy's and Arrow's)
instead of copying them. The buffers go into the file, the small rest through a pipe to our own workers; each
puts the model together again around the mapped bytes. Nothing of it outlives the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import mmap
import multiprocessing
import os
import pickle
import resource
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import uvicorn

from infrec.errors import ConfigError, InfrecError
from infrec.serve import app
from infrec.serve.batching import Service
from infrec.serve.http_protocol import FewAtOnce, Guarded
from infrec.serve.loading import Reloader, Source, forbid_jax
from infrec.serve.metrics import Counters
from infrec.serve.served_model import Served
from infrec.serve.settings import Settings

log = logging.getLogger("infrec.serve")
GRACE = 4  # seconds for requests in flight when stopping; the whole takes less than 5
_ALIGN = 64
_spawn = multiprocessing.get_context("spawn")
Started = Callable[[Settings, list[Served]], None]


def run(sources: Sequence[Source], settings: Settings, started: Started | None = None) -> None:
    """Serve until SIGTERM or SIGINT.

    Args:
        sources: The models.
        settings: The port, the number of processes and all else.
        started: Called once, when the first request can be answered.
    """
    forbid_jax()
    prepare_process()
    bound = bind(settings)
    settings = replace(settings, port=bound.getsockname()[1])
    started = started or (lambda *_: None)
    if settings.workers == 1:
        _alone(sources, settings, bound, started)
    else:
        with tempfile.TemporaryDirectory(prefix="infrec-serve-", ignore_cleanup_errors=True) as folder:
            supervisor = Supervisor(sources, settings, bound, Path(folder))
            _on_signals(supervisor.stop, supervisor.reloader.ask)
            supervisor.run(started)
    log.info("stopped")


def _alone(sources: Sequence[Source], settings: Settings, bound: socket.socket, started: Started) -> None:
    """Serve in this process."""
    service = Service(settings, [source.name for source in sources])
    reloader = Reloader(sources, service.put, service.counters)
    served = reloader.load_all()
    running = Server(service, bound)
    _on_signals(running.stop, reloader.ask)
    threading.Thread(target=reloader.run, name="reloading", daemon=True).start()
    started(settings, served)
    del served  # a model that is replaced leaves the memory
    running.run()
    reloader.stop()
    service.close()


def _on_signals(stop: Callable[[], None], reload: Callable[[], None]) -> None:
    signal.signal(signal.SIGHUP, lambda *_: reload())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop())


# ---- one process that answers -----------------------------------------------------------------------------
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
        return contextlib.nullcontext()

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


# ---- several behind one socket ----------------------------------------------------------------------------
class Supervisor:
    """Owns the models' files and the workers."""

    def __init__(self, sources: Sequence[Source], settings: Settings, bound: socket.socket, folder: Path):
        self._names = [source.name for source in sources]
        self._settings, self._bound, self._folder = settings, bound, folder
        self._counts = folder / "counters"
        Counters.create(self._counts, settings.workers + 1)
        self._current: dict[str, Shared] = {}
        self._old: list[Path] = []
        self._number = 0
        self._workers: list[tuple[BaseProcess, Connection]] = []
        self._stopping = False
        own = Counters(self._counts, settings.workers, settings.workers + 1)
        self.reloader = Reloader(sources, self._put, own)

    def run(self, started: Started) -> None:
        self._workers = [self._start(row) for row in range(self._settings.workers)]
        try:
            served = self.reloader.load_all()
            if not self._wait_until_ready():
                raise InfrecError("a worker could not start; its reason is above.")
            if not self._stopping:
                started(self._settings, served)
            del served  # the workers have them mapped; here they would be a second copy
            threading.Thread(target=self.reloader.run, args=(self._each_second,), daemon=True).start()
            while not self._stopping:
                time.sleep(0.1)
            self.reloader.stop()
        finally:
            self._stop_workers()

    def stop(self) -> None:
        """Soon; safe in a signal handler."""
        self._stopping = True

    def _put(self, served: Served) -> None:
        """Publish a model and tell every worker; files two generations old are in nobody's hands."""
        self._number += 1
        shared = publish(served, self._folder / f"model-{self._number}")
        before = self._current.get(served.name)
        self._current[served.name] = shared
        for _, pipe in self._workers:
            with contextlib.suppress(OSError):
                pipe.send(shared)
        for file in self._old:
            file.unlink(missing_ok=True)
        self._old = [] if before is None else [before.file]

    def _start(self, row: int) -> tuple[BaseProcess, Connection]:
        ours, theirs = _spawn.Pipe()
        process = _spawn.Process(
            target=_work,
            args=(self._settings, self._names, self._bound, theirs, self._counts, row),
            name=f"infrec-worker-{row}",
            daemon=True,
        )
        process.start()
        theirs.close()
        for shared in self._current.values():
            with contextlib.suppress(OSError):  # it has died already; the next look starts another
                ours.send(shared)
        return process, ours

    def _wait_until_ready(self) -> bool:
        for process, pipe in self._workers:
            while not pipe.poll(0.1):
                if not process.is_alive() or self._stopping:
                    return self._stopping
            try:
                pipe.recv()
            except EOFError:
                return False
        return True

    def _each_second(self) -> None:
        for row, (process, pipe) in enumerate(self._workers):
            if not process.is_alive() and not self._stopping:
                log.error("worker %d ended with code %s; starting another", row, process.exitcode)
                pipe.close()
                self._workers[row] = self._start(row)

    def _stop_workers(self) -> None:
        for process, _ in self._workers:
            process.terminate()
        end = time.monotonic() + 4.7
        for process, _ in self._workers:
            process.join(max(0.0, end - time.monotonic()))
            if process.is_alive():
                process.kill()


def _work(
    settings: Settings,
    names: Sequence[str],
    bound: socket.socket,
    pipe: Connection,
    counts: Path,
    row: int,
) -> None:
    """A worker's whole life."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches everybody; the supervisor says when
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    forbid_jax()
    prepare_process()
    service = Service(settings, names, Counters(counts, row, settings.workers + 1))
    while not service.ready:
        service.put(attach(pipe.recv()))
    running = Server(service, bound)
    signal.signal(signal.SIGTERM, lambda *_: running.stop())
    threading.Thread(target=_listen, args=(pipe, service, running), name="reloading", daemon=True).start()
    pipe.send("ready")
    running.run()
    service.close()
    leave_soon()


def _listen(pipe: Connection, service: Service, running: Server) -> None:
    """Take over the models that the supervisor sends; stop when it is gone."""
    while True:
        try:
            shared = pipe.recv()
        except (EOFError, OSError):
            running.stop()
            return
        try:
            service.put(attach(shared))
        except OSError as failure:  # a newer one follows
            log.warning("model %s was replaced before it was taken over: %s", shared.name, failure)


@dataclass(frozen=True)
class Shared:
    """A model apart from its arrays, and where these lie."""

    name: str
    frame: bytes
    file: Path
    spans: tuple[tuple[int, int], ...]


def publish(served: Served, file: Path) -> Shared:
    """Write the arrays to a new file; the rest is returned."""
    buffers: list[pickle.PickleBuffer] = []
    frame = pickle.dumps(served, protocol=5, buffer_callback=buffers.append)
    spans, at = [], 0
    with file.open("wb") as out:
        for buffer in buffers:
            raw = buffer.raw()
            out.write(bytes(-at % _ALIGN))
            at += -at % _ALIGN
            spans.append((at, raw.nbytes))
            out.write(raw)
            at += raw.nbytes
    return Shared(served.name, frame, file, tuple(spans))


def attach(shared: Shared) -> Served:
    """The model around the mapped arrays, which cannot be written to."""
    whole = memoryview(b"")
    if any(size for _, size in shared.spans):
        with shared.file.open("rb") as handle:
            whole = memoryview(mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ))
    views = [whole[start : start + size] for start, size in shared.spans]
    served = pickle.loads(shared.frame, buffers=views)
    assert isinstance(served, Served)
    return served
