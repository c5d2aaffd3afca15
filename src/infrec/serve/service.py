"""The models that answer now, by name, each with its queue; replaced one by one while requests run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from infrec.serve.answering import Wish, recommend
from infrec.serve.batching import Aside, Batcher
from infrec.serve.counters import Counters, resident_bytes
from infrec.serve.problems import Problem
from infrec.serve.served import Served
from infrec.serve.settings import Settings


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
                lambda wishes, name=name: self._score(name, wishes),  # type: ignore[misc]
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
        self.counters.set("resident", resident_bytes())

    def get(self, name: str | None) -> Served:
        """The model of a name; the first one without."""
        try:
            return self._served[self.names[0] if name is None else name]
        except KeyError:
            known = ", ".join(self.names)
            raise Problem(
                404, "unknown_model", f"there is no model {name!r:.200}; there is: {known}."
            ) from None

    def recommend(self, name: str, wish: Wish) -> asyncio.Future[tuple[bytes, Served]]:
        """The answer of the next batch, and the model that gave it."""
        queue = self._queues[name]
        if queue.full:
            self.counters.add("refused")
        return queue.submit(wish)

    def original_of(self, summary: Served) -> Served | None:
        """A served model of real users that has the summary's items: what its popularity is compared with."""
        for other in self.models():
            if other.kind == "log" and other.log.items == summary.log.items:
                return other
        return None

    def _score(self, name: str, wishes: list[Wish]) -> list[tuple[bytes, Served] | Exception]:
        served = self._served[name]
        self.counters.set("waiting", self.waiting)
        self.counters.add("batches")
        self.counters.add("batched", len(wishes))
        answers = recommend(served, wishes)
        return [each if isinstance(each, Exception) else (each, served) for each in answers]

    def close(self) -> None:
        self.aside.close()
        for queue in self._queues.values():
            queue.close()
