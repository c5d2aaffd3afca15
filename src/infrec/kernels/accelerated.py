"""Where the kernel is solved: LAPACK on the CPU, JAX on an accelerator; the caller does not see which."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg.blas as blas
import scipy.sparse as sp

from infrec import machine
from infrec.errors import SolveError
from infrec.kernels import blocked, gram, memory, ridge

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PLUGINS = ("jax_cuda12_plugin", "jax_cuda13_plugin", "jax_rocm7_plugin", "jax_rocm60_plugin", "libtpu")
_ROWS, _ROWS_THERE = 1024, 16384  # of a product at a time, in main memory and on an accelerator
_WORTH_IT = 2048  # rows; below, starting an accelerator takes longer than the solve on the CPU
_ROWS_WORTH_IT = 256  # of a product with a matrix that is already there

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


def solver(x: sp.csr_array, depth: int, dtype: str) -> Callable[..., NDArray[Any] | None]:
    """Compute the kernel of `x` once; the answer solves for any reg: `solve_for(reg) → α`, with targets `x`.

    `solve_for(reg, rows=…)` multiplies the targets' rows by these numbers. With `solve=False` only the
    factorisation is done, to learn whether there is one. float64 stays on the CPU: JAX would need its global
    x64 switch.
    """
    if goes_there(x.shape[0], dtype):
        return _on_accelerator(x, depth)
    return _on_cpu(x, depth, dtype)


def _on_cpu(x: sp.csr_array, depth: int, dtype: str) -> Callable[..., NDArray[Any] | None]:
    k = gram.kernel(x, depth=depth, dtype=dtype)
    work = np.empty_like(k)

    def solve_for(reg: float, *, solve: bool = True, rows: NDArray[Any] | None = None) -> NDArray[Any] | None:
        factor = ridge.factorise(k, reg=reg, scale="mean_diagonal", work=work, rows=x)
        targets = x if rows is None else gram.scaled(x, rows)
        return factor.solve(targets, consume=True) if solve else None

    return solve_for


def _on_accelerator(x: sp.csr_array, depth: int) -> Callable[..., NDArray[Any] | None]:
    n, d = x.shape
    free = device_memory()
    if free is not None:
        machine.require_memory(
            _exact_on_device(n, d),
            f"an exact fit of {n:,} users on {device()}",
            "let a few users stand for all (solver='nystrom'), use fewer users, or set JAX_PLATFORMS=cpu to "
            "fit in the machine's main memory",
            free=free,
        )
    machine.require_memory(
        8 * n * d, f"the result for {n:,} users and {d:,} items", "use fewer users"
    )  # α, twice
    held = blocked.BlockedRidge(x, depth=depth)

    def solve_for(reg: float, *, solve: bool = True, rows: NDArray[Any] | None = None) -> NDArray[Any] | None:
        factorise(held, reg)
        if not solve:
            return None
        alpha = held.solve(rows)
        require_finite(alpha.sum(dtype=np.float64), n)
        return alpha

    return solve_for


def factorise(held: blocked.BlockedRidge, reg: float) -> None:
    """Cholesky of the held kernel plus reg · s · I, or `SolveError` where there is none."""
    added = ridge.shift(held.diagonal, reg=reg, scale="mean_diagonal")
    ridge.check_rows(held.rows, added, held.diagonal, reg)
    pivots = held.factorise(added)
    ridge.check_pivots(0, pivots, held.diagonal + np.float32(added), reg)


def require_finite(total: Any, n: int) -> None:
    """Raise `SolveError` when the sum of a solution of n rows is not a number."""
    if not np.isfinite(total):
        raise SolveError(f"the solve of {n} rows overflowed in float32; use a larger reg or float64.")


def product(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """a @ b of large float32 matrices."""
    return np.array(_product()(a, b)) if _multiplies_there(a, b) else a @ b


def add_product(a: NDArray[Any], b: NDArray[Any], factor: float) -> None:
    """a += factor · a b in place, a block of rows at a time."""
    there = _multiplies_there(a, b)
    step, by = (_ROWS_THERE, _product()) if there else (_ROWS, np.matmul)
    for start in range(0, len(a), step):
        some = slice(start, start + step)
        a[some] += a.dtype.type(factor) * np.asarray(by(a[some], b))


def _multiplies_there(a: NDArray[Any], b: NDArray[Any]) -> bool:
    return goes_there(min(len(a), len(b)), str(a.dtype)) and has_room(2 * (a.nbytes + b.nbytes))


def few_rows_times(rows: NDArray[Any], matrix: NDArray[Any]) -> NDArray[Any]:
    """rows @ matrix of at most `gram.FEW` rows: each row's result is the same to the last bit in any company.

    In what order BLAS adds up depends on the shape of a product and on a row's place in it. So there is one
    shape, filled up with zeros, and the rows are its fast dimension: they share vector registers, whose lanes
    all get the same instructions. (`tests/kernels/test_few_rows.py` checks it; `make test-cpus` for others.)
    """
    filled = np.zeros((gram.FEW, rows.shape[1]), matrix.dtype, order="F")
    filled[: len(rows)] = rows
    (gemm,) = blas.get_blas_funcs(("gemm",), (matrix,))
    turned = matrix.flags.c_contiguous  # its transpose is what Fortran reads without a copy
    out = gemm(1.0, filled, matrix.T if turned else matrix, trans_b=turned)
    return np.ascontiguousarray(out[: len(rows)])


class RightFactor:
    """A large matrix that many blocks of rows are multiplied with; an accelerator holds it meanwhile."""

    def __init__(self, matrix: NDArray[Any]) -> None:
        self.matrix = matrix
        self._there: Any = None

    def after(self, rows: NDArray[Any]) -> NDArray[Any]:
        """rows @ matrix; a few rows stay here, where their number is nothing to compile for."""
        if len(rows) <= gram.FEW:
            return few_rows_times(rows, self.matrix)
        if len(rows) < _ROWS_WORTH_IT or not goes_there(len(self.matrix), str(self.matrix.dtype)):
            return rows @ self.matrix
        if self._there is None and has_room(2 * self.matrix.nbytes):
            import jax

            self._there = jax.device_put(self.matrix)
        # A copy: what JAX hands out is read-only, and scores are added to in place.
        return rows @ self.matrix if self._there is None else np.array(_product()(rows, self._there))


@cache
def _product() -> Callable[..., Any]:
    import jax.numpy as jnp
    from jax import lax

    def of(a: Any, b: Any) -> Any:
        return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)

    return blocked.compiled(of, tuned=False)


def has_room(needed: int) -> bool:
    """Whether the accelerator has so many bytes free, or does not tell."""
    free = device_memory()
    return free is None or machine.memory_fits(needed, free)


def device_memory() -> int | None:
    """Bytes of the accelerator that are free; None where it does not tell."""
    import jax

    stats = jax.devices()[0].memory_stats() or {}
    return stats["bytes_limit"] - stats.get("bytes_in_use", 0) if "bytes_limit" in stats else None


def exact_needs(n: int, items: int, dtype: str) -> tuple[int, int, str]:
    """Bytes of an exact fit of n rows, the bytes free where it would run, and what that is called."""
    if goes_there(n, dtype) and (free := device_memory()) is not None:
        return _exact_on_device(n, items), free, f"the {device()}"
    itemsize = np.dtype(dtype).itemsize
    return memory.exact_fit(n, items, itemsize=itemsize), machine.memory_available(), "this machine"


def require_nystrom(centres: int, items: int, dtype: str, *, rows: int, kept: int = 0) -> None:
    """Raise `MemoryBudgetError` when a pass with so many centres would not fit where it would run."""
    what = f"a Nyström fit with {centres:,} centres and {items:,} items"
    machine.require_memory(
        memory.nystrom_fit(centres, items, rows=rows, itemsize=np.dtype(dtype).itemsize, kept=kept),
        what,
        "use fewer centres",
    )
    if dtype == "float32" and device() is not None and (free := device_memory()) is not None:
        block = memory.nystrom_block(centres)
        needed = memory.nystrom_on_device(centres, items, block=block)
        machine.require_memory(needed, f"{what} on {device()}", "use fewer centres", free=free)


def goes_there(n: int, dtype: str) -> bool:
    """Whether there is an accelerator, and n rows of that type are worth the way to it."""
    return dtype == "float32" and n >= _WORTH_IT and device() is not None


def _exact_on_device(n: int, items: int) -> int:
    return memory.exact_on_device(n, items, tile=blocked.tile_for(n), columns=min(blocked.COLUMNS, items))


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
