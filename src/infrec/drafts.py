"""Files and directories that appear whole or not at all; values as JSON can hold them.

Everything is written under a hidden name beside the target, named after this machine and process, and synced.
It then takes the target's place: by a rename where there is nothing yet or a file, and by exchanging the two
names in one step where there is an older directory (Linux; elsewhere the old one is renamed aside first).
A process killed at any moment leaves the target as it was, or the new one complete; what it leaves under a
hidden name the next writer of the same target removes.
"""

from __future__ import annotations

import ctypes
import math
import os
import shutil
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """A file to write into that takes its name when it is complete and on the disk; else nothing changes."""
    draft = beside(path)
    try:
        with draft.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        remove(draft)


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all, in a folder that is made."""
    with writing(path) as file:
        file.write(text.encode())


def plain(value: Any, digits: int | None = None) -> Any:
    """A value for JSON: numpy's numbers as Python's, null where a number is not finite.

    digits: significant ones that a number is rounded to; None: all.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(inner, digits) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner, digits) for inner in value]
    if hasattr(value, "item") and not isinstance(value, str | bytes):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, float) and digits is not None:
        return float(f"{value:.{digits}g}")
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def beside(target: Path) -> Path:
    """A hidden name beside the target for what is being written; what dead processes left is removed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(target)
    owner = f"{socket.gethostname()}-{os.getpid()}"
    return target.with_name(f".{target.name}.{owner}.{os.urandom(4).hex()}.partial")


def take_place(draft: Path, target: Path) -> None:
    """Put the directory `draft` where `target` is, or is to be; what was there is removed."""
    if not target.exists() or not any(target.iterdir()):
        draft.rename(target)
    elif _exchange(draft, target):
        shutil.rmtree(draft, ignore_errors=True)
    else:
        remove(aside(target))
        target.rename(aside(target))
        draft.rename(target)
    remove(aside(target))  # also where a process died between two renames
    sync(target.parent)


def aside(target: Path) -> Path:
    """Where an older directory lies for a moment, on systems that cannot exchange two names."""
    return target.with_name(f".{target.name}.previous")


def sync(path: Path) -> None:
    """Return when a file, or a directory's list of names, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two names in one step (renameat2 with RENAME_EXCHANGE); False where the system cannot."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(renameat2(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0)


def _remove_leftovers(target: Path) -> None:
    """Remove what a killed process of this machine left behind; another machine's may still be at work."""
    prefix = f".{target.name}.{socket.gethostname()}-"
    for left in target.parent.iterdir():
        if left.name.startswith(prefix) and left.name.endswith(".partial"):
            pid = left.name.removeprefix(prefix).split(".")[0]
            if pid.isdigit() and not _alive(int(pid)):
                remove(left)


def remove(path: Path) -> None:
    """Remove a file or a directory, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True
