"""Records on disk: one JSON line for each finished cell, appended; and who is at work on which cell.

A process that dies while appending leaves a line that is no JSON: it counts as not written. A claim is a file
locked with flock, so it goes with its process however that ends, and two runners never do the same cell.

A record keeps its makers: device, libraries, and the code, with a hash of every room that can change a
number. Later it can be said which records other code has made than there is now, and in which rooms it
differs. What only shows numbers (`report`, `serve`, `cli`, pages of experiments) has no part.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from infrec import __version__, drafts, machine
from infrec.errors import ArtifactError
from infrec.randomness import generator

if TYPE_CHECKING:
    from infrec.evaluation import Evaluation

Record = dict[str, Any]
FILE = "records.jsonl"
LOOK = "look"  # marks what only a quick look has asked for so far
REQUIRED = ("cell", "configuration", "seed", "measured", "seconds", "device", "versions")
SPLIT_SEED = 42  # the split and the negatives are the same for every seed: what varies is what is studied
METRICS = ("HR@10", "HR@100", "NDCG@10", "NDCG@100", "PSP@10", "AUC", "coverage@10", "novelty@10")
GROUPS = 50  # of users, the same for everything that is measured on a dataset: what pairs are compared by
PAIRED = METRICS[:6]


class Records:
    """The records of one experiment in its directory."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)
        self.damaged = 0  # lines that were no records, at the last reading

    @property
    def path(self) -> Path:
        return self.directory / FILE

    def read(self) -> dict[str, Record]:
        """Every whole record by the hash of its cell; the last one where a cell was written twice."""
        self.damaged, records = 0, {}
        with _explained("read", self.path):
            try:
                lines = self.path.read_bytes().split(b"\n")
            except FileNotFoundError:
                return {}
        for line in lines:
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                whole = isinstance(record, dict) and all(name in record for name in REQUIRED)
            except ValueError:
                whole = False
            if whole:
                records[record["cell"]] = record
            else:
                self.damaged += 1
        return records

    def elsewhere(self) -> dict[str, Record]:
        """Records of the experiments beside this one, by cell: these cells need not be measured again."""
        records: dict[str, Record] = {}
        for path in sorted(self.directory.parent.glob(f"*/{FILE}")):
            if path.parent.resolve() != self.directory.resolve():
                records |= Records(path.parent).read()
        return records

    def append(self, record: Mapping[str, Any]) -> None:
        """Add one record, synced. It begins a new line even after one that was cut off."""
        line = json.dumps(plain(record), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        with _explained("write", self.path):
            self.directory.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                end = os.lseek(handle, 0, os.SEEK_END)
                cut = end > 0 and os.pread(handle, 1, end - 1) != b"\n"
                _write(handle, b"\n" * cut + line + b"\n", end)
                os.fsync(handle)
            finally:
                os.close(handle)

    @contextmanager
    def claim(self, cell: str) -> Iterator[bool]:
        """Whether the cell is ours to run: False when another process has it. Ours until the block ends."""
        folder = self.directory / ".claims"
        with _explained("write", folder):
            folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(folder / cell, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True
            # A process that is about to lock the same file will look for the record next, and find it.
            # Without one the file must stay: two processes could each lock a file of that name.
            if cell in self.read():
                (folder / cell).unlink(missing_ok=True)
        finally:
            os.close(handle)


@contextmanager
def _explained(verb: str, path: Path) -> Iterator[None]:
    """A failure of the system as a sentence."""
    try:
        yield
    except OSError as failure:
        raise ArtifactError(
            f"cannot {verb} {path}: {failure.strerror}; choose another place with --records."
        ) from None


def _write(handle: int, data: bytes, end: int) -> None:
    """All of it or nothing: a disk that fills up takes a part of a line without complaint at first."""
    try:
        while data:
            data = data[os.write(handle, data) :]
    except OSError:
        os.ftruncate(handle, end)
        raise


def plain(value: Any) -> Any:
    """Only what JSON has, numbers to six significant digits; one that is not finite becomes null."""
    return drafts.plain(value, digits=6)


def figures(evaluation: Evaluation) -> dict[str, Any]:
    """The metrics that are recorded, and their intervals."""
    metrics, intervals = evaluation.metrics, evaluation.intervals
    return {
        "metrics": {name: metrics[name] for name in METRICS if name in metrics},
        "intervals": {name: list(intervals[name]) for name in METRICS if name in intervals},
    }


def groups(evaluation: Evaluation) -> dict[str, list[float]]:
    """The mean of each metric in each of a number of fixed groups of users, equal in size to within one.

    Everything that is measured on a dataset has the same users in the same groups, so that two records can be
    compared user by user, nearly, without a number for each user.
    """
    n = evaluation.n_users
    count = min(GROUPS, n)
    place = generator(SPLIT_SEED, "groups of users").permutation(n) % count
    sizes = np.bincount(place, minlength=count)
    values = {name: own for name, own in evaluation.contributions.items() if name in PAIRED}
    return {name: (np.bincount(place, own, minlength=count) / sizes).tolist() for name, own in values.items()}


# ---- the makers of records --------------------------------------------------------------------------------
LIBRARIES = ("infrec", "jax", "jaxlib", "optax", "numpy", "scipy")
SOURCE = Path(__file__).parents[1]
GROUND = "ground floor"
ROOMS = ("data", "splits", "metrics", "kernels", "search", "models", "samplers", "distillation", "evaluation",
         "privacy")  # fmt: skip
# The files of `paper` that measure; the others only name cells or show what was measured.
MEASURING = (
    "measure.py",
    "weighted.py",
    "noise.py",
    "deanonymise.py",
    "continual_strategies.py",
    "ader.py",
)


# ---- the makers of records ---------------------------------------------------------------------------------
def stamp() -> dict[str, Any]:
    """For a record: the device of the arithmetic, the libraries that decide a result, and the code."""
    installed = {name: one for name, one in machine.versions(LIBRARIES).items() if one is not None}
    installed |= {"infrec": installed.get("infrec", __version__)}  # also from the source tree
    device = f"cpu ({machine.cores()} cores)"
    if "jax" in sys.modules:
        import jax

        first = jax.devices()[0]
        device = device if first.platform == "cpu" else str(first.device_kind)
    return {"device": device, "versions": installed, "code": _code()}


@lru_cache(maxsize=1)
def _code() -> dict[str, Any]:
    """The commit (None outside a checkout) and the hash of each room: for the records of this process."""
    return {"commit": _commit(), "source": fingerprints(SOURCE)}


def fingerprints(source: Path) -> dict[str, str]:
    """A hash of each room.

    Args:
        source: The folder of the package.
    """
    files = {GROUND: sorted(source.glob("*.py")), "paper": [source / "paper" / name for name in MEASURING]}
    files |= {room: sorted((source / room).rglob("*.py")) for room in ROOMS}
    return {room: _hash(source, paths) for room, paths in files.items()}


def _hash(source: Path, paths: Sequence[Path]) -> str:
    total = hashlib.sha256()
    for path in paths:
        total.update(f"{path.relative_to(source).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return total.hexdigest()[:12]


def _commit() -> str | None:
    """The commit that is checked out where the package lies, with a `+` where its files differ from it."""
    try:
        commit = _git("rev-parse", "HEAD")
        return commit + "+" * bool(_git("status", "--porcelain", "--", "."))
    except (OSError, subprocess.SubprocessError):
        return None


def _git(*words: str) -> str:
    command = ["git", "-C", str(SOURCE), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=20).stdout.strip()


def makers(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """The code that made records, the most frequent first: `9f31c02a (12 records)`.

    Args:
        records: The records of a page.
    """
    counts = Counter(map(_maker, records))
    return [f"{maker} ({count:,} record{'s' * (count != 1)})" for maker, count in counts.most_common()]


def _maker(record: Mapping[str, Any]) -> str:
    if "code" not in record:
        return f"infrec {record['versions'].get('infrec', 'of an unknown version')}, commit not noted"
    return f"commit {(record['code']['commit'] or 'unknown')[:8]}"


class Outdated(NamedTuple):
    """Records that are older than the code, and in which rooms it differs.

    Args:
        records: How many there are in all.
        unknown: How many do not say which code made them: they are older than infrec 0.2.
        changed: How many were made by other code.
        rooms: The rooms in which it differs, those of most records first.
    """

    records: int
    unknown: int
    changed: int
    rooms: tuple[str, ...]

    @classmethod
    def of(cls, records: Sequence[Mapping[str, Any]], now: Mapping[str, str]) -> Outdated:
        """Those of these records.

        Args:
            records: The records of an experiment.
            now: The hash of each room today, as `fingerprints` gives them.
        """
        changed, others = Counter[str](), 0
        for record in records:
            source = record.get("code", {}).get("source", {})
            rooms = [room for room, own in source.items() if now.get(room) != own]
            others += bool(rooms)
            changed.update(rooms)
        unknown = sum("code" not in record for record in records)
        return cls(len(records), unknown, others, tuple(room for room, _ in changed.most_common()))

    def __str__(self) -> str:
        parts = []
        if self.unknown:
            parts.append(f"{self.unknown:,} do not say which code made them (before infrec 0.2)")
        if self.changed:
            parts.append(
                f"{self.changed:,} were made by code that has changed since in {', '.join(self.rooms)}"
            )
        if not parts:
            return ""
        return f"of {self.records:,} records, {' and '.join(parts)}: they may differ from a new measurement"
