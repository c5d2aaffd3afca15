"""The makers of records: device, libraries, and the code, with a hash of every room that can change a number.

A record keeps them, and later it can be said which records other code has made than there is now, and in
which rooms it differs. What only shows numbers (`report`, `serve`, `cli`, pages of experiments) has no part.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from infrec import __version__, machine

LIBRARIES = ("infrec", "jax", "jaxlib", "optax", "numpy", "scipy")
SOURCE = Path(__file__).parents[1]
GROUND = "ground floor"
ROOMS = ("data", "splits", "metrics", "kernels", "search", "models", "samplers", "distillation", "evaluation",
         "privacy")  # fmt: skip
# The files of `paper` that measure; the others only name cells or show what was measured.
MEASURING = (
    "measure.py",
    "summaries.py",
    "peers.py",
    "noise.py",
    "deanonymise.py",
    "timeline.py",
    "continual_strategies.py",
    "ader.py",
)


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
