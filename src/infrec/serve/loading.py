"""From a directory to a served model: one that was saved, or ∞-AE fitted here on a summary or a sample.

Nothing here may import JAX: the service scores with numpy alone.

Keeps the served models in step with their directories; a damaged new one leaves the old one serving.
"""

from __future__ import annotations

import importlib.abc
import logging
import os
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from infrec import artifacts
from infrec.contents import Artifact
from infrec.errors import ArtifactError, ConfigError, InfrecError
from infrec.serve.metrics import Counters
from infrec.serve.served_model import Served

if TYPE_CHECKING:
    from infrec.models import Recommender

log = logging.getLogger("infrec.serve")
_TRIES = 3  # a directory that is replaced while it is read does not match its checksums the first time
SECONDS_BETWEEN_CHECKS = 1.0


@dataclass(frozen=True)
class Source:
    """A model to be served: the name it answers to, and the directory it comes from."""

    name: str
    path: Path


def sources(arguments: Sequence[str]) -> tuple[Source, ...]:
    """`PATH` or `NAME=PATH`; without a name, the directory's own."""
    listed: list[Source] = []
    for text in arguments:
        name, equals, path = text.partition("=")
        if not equals or "/" in name or Path(text).exists():
            name, path = Path(text).resolve().name, text
        if not name or not path:
            raise ConfigError(f"{text!r} names no model; expected a directory, or NAME=DIRECTORY.")
        if any(one.name == name for one in listed):
            raise ConfigError(f"two models are named {name!r}; give one another name: other={path}.")
        listed.append(Source(name, Path(path)))
    return tuple(listed)


def fingerprint(path: Path) -> tuple[object, ...] | None:
    """Name, inode, time and size of each file of a directory; None when there is no model in it.

    It changes when the directory is replaced, or when a file that was still being copied arrives."""
    try:
        files = {entry.name: entry.stat() for entry in os.scandir(path)}
    except OSError:
        return None
    if artifacts.MANIFEST not in files:
        return None
    return tuple(sorted((name, one.st_ino, one.st_mtime_ns, one.st_size) for name, one in files.items()))


def load(source: Source) -> Served:
    """Read, check, fit where needed, and try the model once."""
    for left in reversed(range(_TRIES)):
        before = fingerprint(source.path)
        try:
            artifact = artifacts.read(source.path)
            break
        except ArtifactError:
            if not left or fingerprint(source.path) == before:
                raise
    model = _model(artifact)
    kind = "log" if artifact.kind == "model" else artifact.kind
    served = Served(source.name, artifacts.seal(artifact.manifest)[:16], model, kind)
    _try_out(model)
    return served


def _model(artifact: Artifact) -> Recommender:
    from infrec import models

    try:
        if artifact.kind == "model":
            return models.from_artifact(artifact)
        from infrec.data import Summary
        from infrec.models import InfiniteAE

        summary = Summary.from_artifact(artifact)
        # The λ that was best on validation when it was made; a sample has none and chooses on itself.
        return InfiniteAE(reg="auto" if summary.reg is None else summary.reg).fit(summary)
    except ImportError as failure:
        what = artifact.manifest.get("model", artifact.kind)
        raise InfrecError(
            f"{artifact.path} holds a model of the type {what}, which needs JAX, and the service scores with "
            "numpy alone; serve one that does not, such as infinite-ae or ease."
        ) from failure


def _try_out(model: Recommender) -> None:
    """One score: it shows whether the model needs JAX, and fills what it keeps between requests."""
    item = int(np.argmax(model.log.item_counts))
    row = sp.csr_array(([1.0], ([0], [item])), shape=(1, model.log.n_items), dtype=np.float32)
    try:
        scores = model.score(row)
    except ImportError as failure:
        raise InfrecError(
            f"the model {model.name} needs JAX to score, and the service scores with numpy alone; "
            "serve one that does not, such as infinite-ae or ease."
        ) from failure
    if not np.isfinite(scores).all():
        raise ArtifactError("the model gives scores that are not finite; fit it again with a larger reg.")


class _NoJax(importlib.abc.MetaPathFinder):
    """Refuses to find JAX, whoever asks."""

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> None:
        if name.partition(".")[0] in ("jax", "jaxlib"):
            raise ImportError(f"the service does not import {name}.")


def forbid_jax() -> None:
    """From here on this process cannot import JAX, and solves on the CPU."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    if not any(isinstance(finder, _NoJax) for finder in sys.meta_path):
        sys.meta_path.insert(0, _NoJax())


class Reloader:
    """Looks once a second at the directories and at what was refused; at the directories also when asked."""

    def __init__(self, sources: Sequence[Source], put: Callable[[Served], None], counters: Counters) -> None:
        self._sources, self._put, self._counters = tuple(sources), put, counters
        self._seen: dict[str, object] = {}
        self._hashes: dict[str, str] = {}
        self._refused = 0.0
        self._all = self._stopped = False
        self._wake = threading.Event()

    def load_all(self) -> list[Served]:
        """The first time: what cannot be loaded is raised."""
        return [self._load(source, fingerprint(source.path)) for source in self._sources]

    def _load(self, source: Source, now: object) -> Served:
        self._seen[source.name] = now
        served = load(source)
        self._put(served)
        self._hashes[source.name] = served.hash
        return served

    def check(self, *, everything: bool = False) -> None:
        """Load what has changed, or everything; a failure is logged and leaves the old one serving."""
        for source in self._sources:
            now, old = fingerprint(source.path), self._hashes[source.name]
            # While a directory is being replaced by hand there may be none for a moment.
            if not everything and (now is None or now == self._seen[source.name]):
                continue
            try:
                self._load(source, now)
            except Exception as failure:  # whatever it is, the old one answers
                self._counters.add("failed_reloads")
                why = " ".join(str(failure).split())
                log.error("model %s stays as it is (%s): %s", source.name, old, why)
            else:
                self._counters.add("reloads")
                log.info("model %s reloaded: %s → %s", source.name, old, self._hashes[source.name])

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
            self._wake.wait(SECONDS_BETWEEN_CHECKS)
            self._wake.clear()
            everything, self._all = self._all, False
            if not self._stopped:
                self.check(everything=everything)
                self._tell_refusals()
                each_second()

    def _tell_refusals(self) -> None:
        """One line a second instead of one for each request, when many are refused."""
        before, self._refused = self._refused, self._counters.total("refused")
        if self._refused > before:
            more = self._refused - before
            log.warning("refused %d requests: more came than can be answered in time", more)
