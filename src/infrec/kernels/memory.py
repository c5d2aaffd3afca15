"""How much memory a job needs and how much there is: asked before anything large is allocated."""

from __future__ import annotations

import os
from pathlib import Path

from infrec.errors import MemoryBudgetError

GIB = 2**30


def available() -> int:
    """Bytes that a new allocation may use: the machine's, or less where a control group sets a limit."""
    free = [_meminfo(), _cgroup("memory.max", "memory.current"), _cgroup_v1()]
    known = [amount for amount in free if amount is not None]
    return min(known) if known else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def exact_fit(n: int, items: int, *, itemsize: int = 4, alphas: int = 3) -> int:
    """Bytes of an exact ridge fit: the kernel, the copy that is factorised, and `alphas` dual matrices."""
    return itemsize * n * (2 * n + alphas * items)


def users_that_fit(items: int, *, itemsize: int = 4, alphas: int = 3, free: int | None = None) -> int:
    """The largest n (rounded down to hundreds) whose exact fit the memory holds."""
    room = 0.9 * (available() if free is None else free) / itemsize
    width = alphas * items
    n = ((width * width + 8 * room) ** 0.5 - width) / 4  # the positive root of 2 n² + width n = room
    return max(100, int(n) // 100 * 100)


def require(needed: int, what: str, alternatives: str, *, free: int | None = None) -> None:
    """Raise `MemoryBudgetError` when `needed` bytes are more than 95 % of what there is."""
    free = available() if free is None else free
    if needed > 0.95 * free:
        raise MemoryBudgetError(
            f"{what} needs {_size(needed)} of memory and {_size(free)} are available; {alternatives}."
        )


def _size(amount: int) -> str:
    return f"{amount / GIB:,.1f} GiB" if amount >= 0.1 * GIB else f"{amount / 2**20:,.1f} MiB"


def _meminfo() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _cgroup(limit: str, used: str, folder: str = "/sys/fs/cgroup") -> int | None:
    try:
        return max(int((Path(folder) / limit).read_text()) - int((Path(folder) / used).read_text()), 0)
    except (OSError, ValueError):  # no such file, or the limit is the word "max"
        return None


def _cgroup_v1() -> int | None:
    return _cgroup("memory.limit_in_bytes", "memory.usage_in_bytes", "/sys/fs/cgroup/memory")
