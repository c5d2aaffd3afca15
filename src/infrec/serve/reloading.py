"""Keeps the served models in step with their directories; a damaged new one leaves the old one serving."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from infrec.serve.counters import Counters
from infrec.serve.loading import Source, fingerprint, load
from infrec.serve.served import Served

log = logging.getLogger("infrec.serve")
SECONDS = 1.0  # between two looks


class Reloader:
    """Looks at the directories once a second, and at once when asked (SIGHUP)."""

    def __init__(
        self,
        sources: Sequence[Source],
        put: Callable[[Served], None],
        count: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._sources, self._put, self._count = tuple(sources), put, count
        self._seen: dict[str, object] = {}
        self._hashes: dict[str, str] = {}
        self._all = False
        self._wake = threading.Event()
        self._stopped = False

    def load_all(self) -> None:
        """The first time: what cannot be loaded is raised."""
        for source in self._sources:
            self._seen[source.name] = fingerprint(source.path)
            served = load(source)
            self._hashes[source.name] = served.hash
            self._put(served)

    def look(self, *, everything: bool = False) -> None:
        """Load what has changed, or everything; a failure is logged and leaves the old one serving."""
        for source in self._sources:
            now = fingerprint(source.path)
            # While a directory is being replaced by hand there may be none for a moment.
            if not everything and (now is None or now == self._seen[source.name]):
                continue
            self._seen[source.name] = now
            try:
                served = load(source)
                self._put(served)
            except Exception as failure:  # whatever it is, the old one answers
                self._count("failed_reloads")
                log.error(
                    "model %s stays as it is (%s): %s",
                    source.name,
                    self._hashes[source.name],
                    " ".join(str(failure).split()),
                )
                continue
            old, self._hashes[source.name] = self._hashes[source.name], served.hash
            self._count("reloads")
            log.info("model %s reloaded: %s → %s", source.name, old, served.hash)

    def ask(self) -> None:
        """Load everything again soon; safe in a signal handler."""
        self._all = True
        self._wake.set()

    def stop(self) -> None:
        self._stopped = True
        self._wake.set()

    def run(self, each_second: Callable[[], None] = lambda: None) -> None:
        """Until stopped."""
        while not self._stopped:
            self._wake.wait(SECONDS)
            self._wake.clear()
            everything, self._all = self._all, False
            if not self._stopped:
                self.look(everything=everything)
                each_second()


class Refusals:
    """One line a second instead of one for each request, when many are refused."""

    def __init__(self, counters: Counters) -> None:
        self._counters, self._last = counters, 0.0

    def tell(self) -> None:
        now = self._counters.total("refused")
        if now > self._last:
            log.warning("refused %d requests: more came than can be answered in time", now - self._last)
        self._last = now
