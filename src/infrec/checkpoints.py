"""A long piece of work that survives its process: the run directory, its lock, its last whole checkpoint.

    with CheckpointedLoop("training", work, directory) as checkpoints:   # locked, and resumed
        while not work.done:
            ...                                                          # a part of the work
            checkpoints.after_part()       # saves every 30 s; asked to end, saves and raises `Interrupted`

`lock` is held with flock, so it goes with the process however that ends. `checkpoint/` is an artifact that is
replaced in one step: after `kill -9` at any moment the run goes on from the last one, and on the CPU to the
same bits, because every random number is a function of the seed and the step.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import numpy as np

from infrec import artifacts
from infrec.contents import Artifact
from infrec.errors import ArtifactError, ConfigError

if TYPE_CHECKING:
    import scipy.sparse as sp
    from numpy.typing import NDArray

SECONDS_BETWEEN_CHECKPOINTS = 30.0

Tree = TypeVar("Tree")


class Interrupted(KeyboardInterrupt):
    """The run was asked to end (SIGTERM or SIGINT) and has saved where it was."""


class Resumable(Protocol):
    """Work in parts, whose state goes into a checkpoint and comes back from it."""

    @property
    def position(self) -> str:
        """Where it stands, such as "step 3 of 12"."""

    def identity(self) -> dict[str, Any]:
        """Data and settings, by name: a checkpoint of others is refused."""

    def checkpoint(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Facts for the manifest, and arrays."""

    def restore(self, artifact: Artifact) -> None:
        """Go on from `artifact.manifest["state"]` and `artifact.arrays`, which are untrusted input."""


class Processes(Protocol):
    """The processes that share the work; the first of them has the directory."""

    count: int
    index: int

    def all_sum(self, values: NDArray[Any]) -> NDArray[Any]: ...

    def concatenate(self, values: NDArray[Any]) -> NDArray[Any]: ...


class CheckpointedLoop:
    """Keeps the checkpoints of a loop. Inside its context the directory is locked and the work resumed.

    Entered again, it does not read again: the work goes on from memory. Without a directory it only counts
    the seconds.

    Args:
        name: The work in a word, such as "training".
        work: What is saved and restored.
        directory: Where the lock and the checkpoint lie; None for neither.
        resume: Whether a checkpoint that is there is gone on from; it is an error otherwise.
        team: The processes that share the work. The first one reads and writes, the others need not even see
            the directory, and a run may go on in another number of processes.
        signals: Whether SIGTERM and SIGINT wait for the end of a part and save; otherwise they end at once.
    """

    def __init__(
        self,
        name: str,
        work: Resumable,
        directory: str | os.PathLike[str] | None,
        *,
        resume: bool = True,
        team: Processes | None = None,
        signals: bool = True,
    ) -> None:
        self.name, self.work, self.resume = name, work, resume
        self.team = team if team is not None and team.count > 1 else None
        self.directory = None if directory is None else Path(directory)
        self._signals, self._entered, self._before = signals, False, 0.0
        self._stop: threading.Event | None = None

    @property
    def seconds(self) -> float:
        """Seconds spent inside, by this process and by those before it."""
        return self._before + time.monotonic() - self._began

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            if self.directory is not None and self._is_first:
                stack.enter_context(locked(self.directory, self.name))
            if self.directory is not None and not self._entered:
                self._restore(self.directory)
            if self.directory is not None and self._signals:
                self._stop = stack.enter_context(asked_to_stop())
            self._entered = True
            self._began = self._saved = time.monotonic()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._before = self.seconds
        self._stack.close()

    def after_part(self, *, save: bool = False) -> None:
        """Save where it is time to, or where the run is asked to end, which then raises `Interrupted`.

        Args:
            save: Whether to save in any case.
        """
        if self.directory is None:
            return
        stopped = self._stop is not None and self._anybody(self._stop.is_set())
        if save or stopped or time.monotonic() - self._saved > SECONDS_BETWEEN_CHECKPOINTS:
            if self._is_first:
                facts, arrays = self.work.checkpoint()
                manifest = {"identity": self.work.identity(), "seconds": self.seconds, "state": facts}
                artifacts.write(
                    self.directory / "checkpoint", kind=self._kind, manifest=manifest, arrays=arrays
                )
            self._saved = time.monotonic()
        if stopped:
            raise Interrupted(
                f"stopped at {self.work.position}; the checkpoint in {self.directory} resumes from there."
            )

    # ---- one process or several ----------------------------------------------------------------------------
    @property
    def _kind(self) -> str:
        return f"{self.name} checkpoint"

    @property
    def _is_first(self) -> bool:
        return self.team is None or self.team.index == 0

    def _anybody(self, says: bool) -> bool:
        """Whether it is so on any process; each asks at the same point."""
        return says if self.team is None else bool(self.team.all_sum(np.array([float(says)]))[0])

    def _restore(self, directory: Path) -> None:
        identity = self.work.identity()
        if self.team is not None:
            _agree(self.team, identity)
        artifact = self._read(directory, identity) if self._is_first else None
        if self.team is not None:
            artifact = _broadcast(self.team, artifact, directory / "checkpoint")
        if artifact is not None:
            with artifact.understood():
                self._before = float(artifact.number("seconds"))
                self.work.restore(artifact)

    def _read(self, directory: Path, identity: dict[str, Any]) -> Artifact | None:
        """The last checkpoint, or None where there is none; it must be of the same data and settings."""
        place = directory / "checkpoint"
        if not place.exists() and not (directory / ".checkpoint.previous").exists():
            return None
        if not self.resume:
            raise ConfigError(
                f"{directory} holds the checkpoint of an earlier run; resume it (resume=True, --resume) or "
                "choose another directory."
            )
        artifact = artifacts.read(place, kind=self._kind)
        with artifact.understood():
            known = dict(artifact.manifest["identity"])
        for name, value in identity.items():
            if known.get(name) != value:
                raise ConfigError(
                    f"{directory} holds a run with {name} = {known.get(name)}, this one "
                    f"has {value}; resume with the same settings and data, or choose another directory."
                )
        return artifact


def _agree(team: Processes, identity: dict[str, Any]) -> None:
    """Refuse processes that were started on different data or with different settings."""
    name = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).digest()
    names = team.concatenate(np.frombuffer(name, np.uint8)).reshape(team.count, -1)
    different = np.flatnonzero((names != names[0]).any(axis=1))
    if len(different):
        raise ConfigError(
            f"process {different[0]} has other data or settings than process 0; start all of them with the "
            "same DATA and the same options."
        )


def _broadcast(team: Processes, artifact: Artifact | None, place: Path) -> Artifact | None:
    """The checkpoint that the first process has read, on every process."""
    head = None
    if artifact is not None:
        shapes = {name: (array.dtype.str, array.shape) for name, array in artifact.arrays.items()}
        head = {"manifest": dict(artifact.manifest), "shapes": shapes}
    text = json.dumps(head).encode() if team.index == 0 else b""
    head = json.loads(team.concatenate(np.frombuffer(text, np.uint8)).tobytes())
    if head is None:
        return None
    arrays = {}
    for name, (kind, shape) in head["shapes"].items():
        part = np.zeros(shape) if artifact is None else artifact.arrays[name]
        arrays[name] = team.all_sum(part).astype(kind)  # float32 and whole numbers are exact in float64
    return Artifact(place, head["manifest"], arrays)


# ---- arrays ------------------------------------------------------------------------------------------------
def to_arrays(tree: Any) -> dict[str, NDArray[Any]]:
    """The arrays of a JAX tree, such as parameters with Adam's moments, by their path in it."""
    return {name: np.atleast_1d(np.asarray(leaf)) for name, leaf in _leaves(tree).items()}


def from_arrays(artifact: Artifact, like: Tree) -> Tree:
    """The tree that `to_arrays` took apart, of the shapes and types of `like`."""
    import jax

    leaves = []
    for name, leaf in _leaves(like).items():
        array = artifact.array(name, *(leaf.shape or (1,)), kind=leaf.dtype.kind)
        if {"nu", "count"} & set(name.split(".")) and (array < 0).any():  # as optax's Adam calls them
            raise artifact.unsound(f"{name}, a count or a mean of squares, is negative")
        leaves.append(array.reshape(leaf.shape).astype(leaf.dtype))
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def _leaves(tree: Any) -> dict[str, Any]:
    import jax

    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def fingerprint(matrix: sp.csr_array) -> str:
    """A short name for a matrix, to refuse resuming on other data."""
    digest = hashlib.sha256(repr(matrix.shape).encode())
    for array in (matrix.indptr, matrix.indices, matrix.data):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


# ---- the lock and the signals ------------------------------------------------------------------------------
@contextmanager
def locked(directory: Path, name: str) -> Iterator[None]:
    """Keep other processes out of a directory, which is made where it is missing."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        handle = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as failure:
        raise ArtifactError(
            f"cannot write {directory}: {failure.strerror}; choose a place you may write to."
        ) from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.read(handle, 32).decode(errors="replace").strip() or "unknown"
            raise ArtifactError(
                f"{directory} is in use by another {name} (process {owner}); wait for it, or choose "
                "another directory."
            ) from None
        os.ftruncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(handle)


@contextmanager
def asked_to_stop(then: Callable[[], None] = lambda: None) -> Iterator[threading.Event]:
    """An event that SIGTERM or SIGINT sets; a second SIGINT interrupts at once. Handlers are restored.

    then: what else is to be done each time.
    """
    stop = threading.Event()

    def handler(number: int, frame: FrameType | None) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.set()
        then()

    with on_signals(handler, signal.SIGTERM, signal.SIGINT):
        yield stop


@contextmanager
def on_signals(
    handler: Callable[[int, FrameType | None], object], *numbers: signal.Signals
) -> Iterator[None]:
    """Another handler of signals; in another thread than the main one, which alone may set it, none."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
