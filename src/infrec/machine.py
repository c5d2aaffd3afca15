"""The machine of this process: cores, memory, devices, versions; and whether a job fits, asked before it
allocates.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from infrec.errors import MemoryBudgetError

PACKAGES = (
    *("infrec", "jax", "jaxlib", "numpy", "scipy"),
    *("pyarrow", "safetensors", "typer", "rich", "matplotlib"),
)
GIB = 2**30


def cores() -> int:
    """How many cores this process may run on (a container may allow fewer than the machine has)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_parallel(work: Callable[[int], None], blocks: Iterable[int]) -> None:
    """Call `work` for each block. numpy and scipy release the interpreter in the loops that matter here."""
    todo = list(blocks)
    if len(todo) <= 1 or cores() == 1:
        for block in todo:
            work(block)
        return
    with ThreadPoolExecutor(min(cores(), len(todo))) as pool:
        for _ in pool.map(work, todo):
            pass


def versions(packages: Iterable[str] = PACKAGES) -> dict[str, str | None]:
    """Python's version and those of the packages; None where one is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # takes longer than all of this file

    by_name: dict[str, str | None] = {"python": sys.version.split()[0]}
    for name in packages:
        try:
            by_name[name] = version(name)
        except PackageNotFoundError:
            by_name[name] = None
    return by_name


def device() -> str:
    """Where the arithmetic ran: the kind of JAX's device when JAX was used, else the CPU."""
    if "jax" not in sys.modules:
        return "cpu"
    import jax

    first = jax.devices()[0]
    return "cpu" if first.platform == "cpu" else f"{first.platform} ({first.device_kind})"


def devices() -> list[str]:
    """Every device that JAX sees."""
    import jax

    return [
        f"{d.platform}:{d.id}" + ("" if d.platform == "cpu" else f" ({d.device_kind})") for d in jax.devices()
    ]


def peak_rss_mb() -> float:
    """The most memory this process held, in MB."""
    # ru_maxrss starts from the parent's value on Linux; VmHWM is this program's own.
    if (own := _proc("self/status", "VmHWM:")) is not None:
        return own / 1e6
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def resident_bytes() -> int:
    """The memory of this process that is in RAM now; its peak where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return round(peak_rss_mb() * 1e6)


def folder_size(folder: Path) -> tuple[int, int]:
    """Number of files in a folder and their bytes; zeros where there is none."""
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    return len(sizes), sum(sizes)


def memory_available() -> int:
    """Bytes that a new allocation may use: the machine's, or less where a control group sets a limit."""
    free = [
        _proc("meminfo", "MemAvailable:"),
        _cgroup("memory.max", "memory.current"),
        _cgroup("memory.limit_in_bytes", "memory.usage_in_bytes", "memory"),
    ]
    known = [amount for amount in free if amount is not None]
    return min(known) if known else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def require_memory(needed: int, what: str, alternatives: str, *, free: int | None = None) -> None:
    """Raise `MemoryBudgetError` when `needed` bytes are more than 95 % of what there is."""
    free = memory_available() if free is None else free
    if not memory_fits(needed, free):
        raise MemoryBudgetError(
            f"{what} needs {memory_size(needed)} of memory and {memory_size(free)} are available; "
            f"{alternatives}."
        )


def memory_fits(needed: int, free: int) -> bool:
    """Whether `needed` bytes leave 5 % of what is free."""
    return needed <= 0.95 * free


def memory_size(amount: int) -> str:
    return f"{amount / GIB:,.1f} GiB" if amount >= 0.1 * GIB else f"{amount / 2**20:,.1f} MiB"


def _proc(file: str, name: str) -> int | None:
    """Bytes from a line such as `MemAvailable: 1024 kB` of a file in /proc; None where there is none."""
    try:
        lines = (Path("/proc") / file).read_text().splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name)), None)
    except (OSError, ValueError, IndexError):
        return None


def _cgroup(limit: str, used: str, controller: str = "") -> int | None:
    """Bytes that a control group leaves, of version 2, or of version 1 with its controllers."""
    folder = Path("/sys/fs/cgroup") / controller
    try:
        return max(int((folder / limit).read_text()) - int((folder / used).read_text()), 0)
    except (OSError, ValueError):  # no such file, or the limit is the word "max"
        return None
