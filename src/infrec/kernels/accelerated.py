"""Where the kernel is solved: LAPACK on the CPU, JAX on an accelerator; the caller does not see which."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from infrec.errors import SolveError
from infrec.kernels import gram, memory, ntk, ridge

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PLUGINS = ("jax_cuda12_plugin", "jax_cuda13_plugin", "jax_rocm7_plugin", "jax_rocm60_plugin", "libtpu")
_WORTH_IT = 2048  # rows; below, starting an accelerator takes longer than the solve on the CPU


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
    """Compute the kernel of `x` once; the answer solves for any reg: `solve_for(reg, solve=True) → α`.

    With `solve=False` only the factorisation is done, to learn whether there is one. float64 stays on the
    CPU: JAX would need its global x64 switch.
    """
    if dtype == "float32" and x.shape[0] >= _WORTH_IT and device() is not None:
        return _on_accelerator(x, depth)
    return _on_cpu(x, depth, dtype)


def _on_cpu(x: sp.csr_array, depth: int, dtype: str) -> Callable[..., NDArray[Any] | None]:
    k = gram.kernel(x, depth=depth, dtype=dtype)
    work = np.empty_like(k)

    def solve_for(reg: float, *, solve: bool = True) -> NDArray[Any] | None:
        factor = ridge.factorise(k, reg=reg, scale="mean_diagonal", work=work)
        return factor.solve(x, consume=True) if solve else None

    return solve_for


def _on_accelerator(x: sp.csr_array, depth: int) -> Callable[..., NDArray[Any] | None]:
    import jax
    import jax.numpy as jnp

    n, d = x.shape
    stats = jax.devices()[0].memory_stats() or {}
    if "bytes_limit" in stats:
        memory.require(
            memory.exact_fit(n, d, alphas=4),
            f"an exact fit of {n:,} users on {device()}",
            "use fewer users, or set JAX_PLATFORMS=cpu to fit in the machine's main memory",
            free=stats["bytes_limit"] - stats.get("bytes_in_use", 0),
        )
    dense = jnp.asarray(x.toarray())
    k = ntk.kernel(dense, depth=depth)

    def solve_for(reg: float, *, solve: bool = True) -> NDArray[Any] | None:
        added = ridge.shift(np.asarray(jnp.diagonal(k)), reg=reg, scale="mean_diagonal")
        alpha, pivots = _ridge_on_accelerator()(k, dense, jnp.float32(added))
        ridge.check_pivots(0, np.asarray(pivots), np.asarray(jnp.diagonal(k)) + np.float32(added), reg)
        if not solve:
            return None
        if not bool(jnp.isfinite(alpha).all()):
            raise SolveError(f"the solve of {n} rows overflowed in float32; use a larger reg or float64.")
        return np.asarray(alpha)

    return solve_for


@cache
def _ridge_on_accelerator() -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp
    from jax.scipy.linalg import cho_solve

    def solve(k: Any, y: Any, added: Any) -> Any:
        lower = jnp.linalg.cholesky(k + added * jnp.eye(len(k), dtype=k.dtype), symmetrize_input=False)
        return cho_solve((lower, True), y), jnp.diagonal(lower)

    return jax.jit(solve)


def _keep_compiled() -> None:
    """Keep compiled functions between processes, unless the user has said where to keep them."""
    import jax

    if getattr(jax.config, "jax_compilation_cache_dir", None) is None:
        jax.config.update("jax_compilation_cache_dir", str(compile_cache()))


def compile_cache() -> Path:
    """Where compiled functions are kept: where the user's environment says, or in the user's cache."""
    given = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(given) if given else home / "infrec" / "xla"
