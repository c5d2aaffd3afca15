"""Where the kernel is solved: LAPACK on the CPU, JAX on an accelerator; the caller does not see which.

How many bytes each large job needs there is asked before anything is allocated.
"""

from __future__ import annotations

import importlib.util
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec import machine
from infrec.kernels import gram, nystrom, nystrom_gpu, ridge, ridge_gpu

_PLUGINS = ("jax_cuda12_plugin", "jax_cuda13_plugin", "jax_rocm7_plugin", "jax_rocm60_plugin", "libtpu")
_WORTH_IT = 2048  # rows; below, starting an accelerator takes longer than the solve on the CPU
_FAR_MORE = 3  # times as many items as users, and factors of a dual solution are kept
_BLOCK = 512  # users whose scores exist at a time while settings are chosen
_RUNTIME = 40_000_000  # bytes that JAX compiles and keeps for exchanging arrays between processes

# Seconds of compiling from which the result is kept: ours take tenths of one, and there are dozens of them.
_KEPT_FROM = "jax_persistent_cache_min_compile_time_secs"
_JAX_KEEPS_FROM, _WE_KEEP_FROM = 1.0, 0.05


@cache
def device() -> str | None:
    """The accelerator's name, or None. JAX is only imported where a plugin for one is installed."""
    if os.environ.get("JAX_PLATFORMS", "").strip().lower() == "cpu":
        return None
    if not any(importlib.util.find_spec(plugin) for plugin in _PLUGINS):
        return None
    import jax

    if jax.default_backend() == "cpu":
        return None
    _keep_compiled()
    return str(jax.devices()[0].device_kind)


def kernel_ridge(x: sp.csr_array, kernel: gram.Kernel, dtype: str) -> ridge.KernelRidge:
    """Kernel ridge on rows that are their own targets, on the CPU or on an accelerator.

    Args:
        x: The rows.
        kernel: The kernel between them.
        dtype: `float32`, or `float64`, which stays on the CPU: JAX would need its global x64 switch.
    """
    if not use_accelerator(x.shape[0], dtype):
        return ridge.LapackRidge(x, kernel, dtype)
    n, d = x.shape
    free = device_memory()
    if free is not None:
        machine.require_memory(
            ridge_gpu.TiledRidge.needs(n, d),
            f"an exact fit of {n:,} users on {device()}",
            "let a few users stand for all (solver='nystrom'), use fewer users, or set JAX_PLATFORMS=cpu to "
            "fit in the machine's main memory",
            free=free,
        )
    stays = has_room(ridge_gpu.TiledRidge.needs(n, d) + 3 * 4 * n * d)  # α, the best one, and one in parts
    if not stays:
        machine.require_memory(
            8 * n * d, f"the result for {n:,} users and {d:,} items", "use fewer users"
        )  # α, twice
    return ridge_gpu.TiledRidge(x, kernel, stays=stays)


def item_ridge(
    x: sp.csr_array, *, scale: ridge.Scale = "mean_diagonal"
) -> ridge.ItemRidge | ridge_gpu.TiledItemRidge:
    """Ridge of each column of a matrix on the others; on an accelerator where that is worth it and has room.

    Args:
        x: The matrix.
        scale: Of λ.
    """
    kind = ridge_gpu.TiledItemRidge if items_compared_there(*x.shape) else ridge.ItemRidge
    return kind(x, scale=scale)


def items_compared_there(n: int, items: int) -> bool:
    """Whether an `item_ridge` would be on an accelerator."""
    return use_accelerator(items, "float32") and has_room(ridge_gpu.TiledItemRidge.needs(n, items))


def nystrom_features(rows: sp.csr_array, kernel: gram.Kernel, dtype: str) -> nystrom.Features:
    """Nyström features; where there is an accelerator, their sums are formed and solved on it.

    Args:
        rows: The centres.
        kernel: The kernel between them and all rows.
        dtype: Of features and α; `float64` stays on the CPU.
    """
    there = dtype == "float32" and device() is not None
    return (nystrom_gpu.DeviceFeatures if there else nystrom.Features).of(rows, kernel, dtype=dtype)


def put(array: NDArray[Any]) -> Any:
    """The array on the accelerator."""
    import jax

    return jax.device_put(array)


def has_room(needed: int) -> bool:
    """Whether the accelerator has so many bytes free, or does not tell."""
    free = device_memory()
    return free is None or machine.memory_fits(needed, free)


def device_memory() -> int | None:
    """Bytes of the accelerator that are free; None where it does not tell."""
    import jax

    stats = jax.devices()[0].memory_stats() or {}
    return stats["bytes_limit"] - stats.get("bytes_in_use", 0) if "bytes_limit" in stats else None


def exact_fit_budget(n: int, items: int, dtype: str) -> tuple[int, int, str]:
    """Bytes of an exact fit of n rows, the bytes free where it would run, and what that is called."""
    if use_accelerator(n, dtype) and (free := device_memory()) is not None:
        return ridge_gpu.TiledRidge.needs(n, items), free, f"the {device()}"
    itemsize = np.dtype(dtype).itemsize
    needed = (exact_fit_in_factors if keeps_factors(n, items) else exact_fit)(n, items, itemsize=itemsize)
    return needed, machine.memory_available(), "this machine"


def require_nystrom(centres: int, items: int, dtype: str, *, rows: int, kept: int = 0) -> None:
    """Raise `MemoryBudgetError` when a pass with so many centres would not fit where it would run."""
    what = f"a Nyström fit with {centres:,} centres and {items:,} items"
    machine.require_memory(
        nystrom_fit(centres, items, rows=rows, itemsize=np.dtype(dtype).itemsize, kept=kept),
        what,
        "use fewer centres",
    )
    if dtype == "float32" and device() is not None and (free := device_memory()) is not None:
        block = nystrom.block_size(centres)
        needed = nystrom_on_device(centres, items, block=block)
        machine.require_memory(needed, f"{what} on {device()}", "use fewer centres", free=free)


def use_accelerator(n: int, dtype: str) -> bool:
    """Whether there is an accelerator, and n rows of that type are worth the way to it."""
    return dtype == "float32" and n >= _WORTH_IT and device() is not None


def _keep_compiled() -> None:
    """Keep compiled functions between processes, unless the user has said where to keep them."""
    import jax

    if getattr(jax.config, "jax_compilation_cache_dir", None) is None:
        jax.config.update("jax_compilation_cache_dir", str(compile_cache()))
    if getattr(jax.config, _KEPT_FROM, None) == _JAX_KEEPS_FROM:
        jax.config.update(_KEPT_FROM, _WE_KEEP_FROM)


def compile_cache() -> Path:
    """Where compiled functions are kept: where the user's environment says, or in the user's cache."""
    given = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(given) if given else home / "infrec" / "xla"


def exact_fit(n: int, items: int, *, itemsize: int = 4) -> int:
    """Bytes of an exact ridge fit: the kernel, the copy that is factorised, and three dual matrices."""
    return itemsize * n * (2 * n + 3 * items)


def exact_fit_in_factors(n: int, items: int, *, itemsize: int = 4) -> int:
    """Bytes of an exact ridge fit that keeps factors: the kernel, the best, the current and the next inverse,
    and three sets of a block of users' scores."""
    return itemsize * (4 * n * n + 3 * min(n, _BLOCK) * items)


def keeps_factors(n: int, items: int) -> bool:
    """Whether a dual solution is kept as the inverse and the rows: with far more items than users, that is
    smaller than their product, and multiplying with one after the other is quicker.

    Args:
        n: Users.
        items: Items.
    """
    return _FAR_MORE * n <= items


def nystrom_fit(
    centres: int,
    items: int,
    *,
    rows: int | None = None,
    itemsize: int = 4,
    alphas: int = 2,
    kept: int = 0,
    processes: int = 1,
    stored: int = 0,
) -> int:
    """Bytes of a Nyström fit in one of several processes, the same however many rows pass by.

    Always: the centres' factor and the two sums in float64, of this process's share of the items, the factor
    again in the fit's own precision. In the pass: a block's kernel and its product, what is exchanged at a
    time, and `stored` interactions as they are read. In the solve: the system and a block of columns in
    float64, `alphas` dual matrices, and the `kept` kernel rows of validation users. In the end, with several
    processes: α of all items.
    """
    several, square = processes > 1, centres * centres
    own, block = centres * (-(-items // processes)), nystrom.block_size(centres)
    block = min(block, rows or block)
    one_pass = itemsize * (square + block * centres) + 40 * stored
    one_pass += several * 4 * itemsize * centres * min(items, 1024)
    solve = 8 * ((1 + several) * square + min(own, 2048 * centres))
    solve += itemsize * (alphas * own + kept * centres)
    last = several * itemsize * (own + centres * items)
    return 8 * (2 * square + own) + itemsize * square + max(one_pass, solve, last) + several * _RUNTIME


def nystrom_on_device(centres: int, items: int, *, block: int) -> int:
    """Bytes of a Nyström fit on an accelerator. In the pass: the sums as pairs of float32 and a block's share
    of them, the whitening matrix, the centres' rows, and a block of rows with its kernel and features. In the
    solve: five squares in float64 (the system, its halves, both factors) and a block of columns."""
    square, wide = centres * centres, centres * items
    one_pass = 4 * (4 * square + 3 * wide + 4 * block * centres) + 2 * (wide + block * items)
    return max(one_pass, 8 * (5 * square + centres * min(items, 4096)))


def users_that_fit(items: int, *, itemsize: int = 4, free: int | None = None) -> int:
    """The largest n (rounded down to hundreds) whose exact fit the memory holds."""
    room = 0.9 * (machine.memory_available() if free is None else free) / itemsize
    width = 3 * items
    n = ((width * width + 8 * room) ** 0.5 - width) / 4  # the positive root of 2 n² + width n = room
    width = 3 * _BLOCK * items
    in_factors = min(items / _FAR_MORE, max(0.0, room - width) ** 0.5 / 2)
    return max(100, int(max(n, in_factors)) // 100 * 100)
