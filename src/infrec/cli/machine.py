"""What this machine is and has: devices, memory, versions, caches."""

from __future__ import annotations

import os
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = (
    "infrec",
    "jax",
    "jaxlib",
    "numpy",
    "scipy",
    "pyarrow",
    "safetensors",
    "typer",
    "rich",
    "matplotlib",
)
TYPICAL_ITEMS = 5_000


def versions() -> dict[str, str | None]:
    """Python's version and those of the packages that matter; None where one is not installed."""
    found: dict[str, str | None] = {"python": sys.version.split()[0]}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


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


def cores() -> int:
    """Processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def peak_rss_mb() -> float:
    """The most memory this process held, in MB."""
    # ru_maxrss starts from the parent's value on Linux; VmHWM is this program's own.
    if (peak := _status_mb("VmHWM")) is not None:
        return peak
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def rss_mb() -> float:
    """The memory this process holds now, in MB; its peak where the system does not tell."""
    now = _status_mb("VmRSS")
    return peak_rss_mb() if now is None else now


def _status_mb(key: str) -> float | None:
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(f"{key}:"):
                return int(line.split()[1]) * 1024 / 1e6
    except OSError:
        pass
    return None


def memory() -> dict[str, int]:
    """Bytes of memory in this machine and available now, and about how many users an exact ∞-AE takes."""
    from infrec.kernels import memory as budget

    return {
        "total": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "available": budget.available(),
        "exact_users": budget.users_that_fit(TYPICAL_ITEMS),
    }


def folder_size(folder: Path) -> tuple[int, int]:
    """Number of files in a folder and their bytes; zeros where there is none."""
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    return len(sizes), sum(sizes)
