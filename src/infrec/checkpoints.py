"""A run directory: locked against a second process, and always holding the last whole checkpoint.

Both long works, training a model and distilling, keep theirs this way.

`lock` is held with flock, so it goes with the process however that ends. `checkpoint/` is an artifact that is
replaced in one step: after `kill -9` at any moment the run goes on from the last one, and on the CPU to the
same bits, because every random number is a function of the seed and the step.
"""

from __future__ import annotations

import hashlib
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from infrec import artifacts
from infrec.errors import ArtifactError, ConfigError

if TYPE_CHECKING:
    import scipy.sparse as sp

    from infrec.contents import Artifact


class Interrupted(KeyboardInterrupt):
    """The run was asked to end (SIGTERM or SIGINT) and has saved where it was."""


class RunDirectory:
    """Where a run keeps its checkpoint. Use as a context manager: inside it, the directory is ours."""

    kind: ClassVar[str] = "training checkpoint"
    work: ClassVar[str] = "training"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._handle: int | None = None

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint"

    def __enter__(self) -> Self:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as failure:
            raise ArtifactError(
                f"cannot write {self.path}: {failure.strerror}; choose a place you may write to."
            ) from None
        if not _locked(handle):
            owner = os.read(handle, 32).decode(errors="replace").strip() or "unknown"
            os.close(handle)
            raise ArtifactError(
                f"{self.path} is in use by another {self.work} (process {owner}); wait for it, or choose "
                "another directory."
            )
        os.ftruncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n".encode())
        self._handle = handle
        return self

    def __exit__(self, *_: object) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def save(self, facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        artifacts.write(self.checkpoint, kind=self.kind, manifest=facts, arrays=arrays)

    def load(self, *, resume: bool, identity: dict[str, Any]) -> Artifact | None:
        """The last checkpoint, or None where there is none; it must be of the same data and settings."""
        if not self.checkpoint.exists() and not self._set_aside():
            return None
        if not resume:
            raise ConfigError(
                f"{self.path} holds the checkpoint of an earlier run; resume it (resume=True, --resume) or "
                "choose another directory."
            )
        found = artifacts.read(self.checkpoint, kind=self.kind)
        with found.understood():
            known = dict(found.manifest["identity"])
        for name, value in identity.items():
            if known.get(name) != value:
                raise ConfigError(
                    f"{self.path} holds a run with {name} = {known.get(name)}, this one "
                    f"has {value}; resume with the same settings and data, or choose another directory."
                )
        return found

    def _set_aside(self) -> bool:
        return any(self.path.glob(".checkpoint.previous"))


def _locked(handle: int) -> bool:
    try:
        import fcntl
    except ImportError:  # no flock on this system: runs are then not protected from each other
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def fingerprint(matrix: sp.csr_array) -> str:
    """A short name for a matrix, to refuse resuming on other data."""
    digest = hashlib.sha256(repr(matrix.shape).encode())
    for array in (matrix.indptr, matrix.indices, matrix.data):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


@contextmanager
def asked_to_stop() -> Iterator[threading.Event]:
    """An event that SIGTERM or SIGINT sets; a second SIGINT interrupts at once. Handlers are restored."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop  # only the main thread may set handlers
        return

    def handler(number: int, frame: FrameType | None) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, handler) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, old in before.items():
            signal.signal(number, old)
