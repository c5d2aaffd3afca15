"""Records on disk: one JSON line for each finished cell, appended; and who is at work on which cell.

A process that dies while appending leaves a line that is no JSON: it counts as not written. A claim is a file
locked with flock, so it goes with its process however that ends, and two runners never do the same cell.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from infrec import drafts
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
