"""Functions compiled for a device, and sparse rows as dense arrays there: only stored values travel."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.kernels.gram import rows_of


def on_gpu() -> bool:
    """Whether JAX computes on a GPU."""
    import jax

    return jax.default_backend() == "gpu"


def is_exact_in_bfloat16(values: NDArray[np.floating[Any]]) -> bool:
    """Whether the lower half of every value's bits is empty: true of 0, 1 and small whole numbers."""
    return not (np.ascontiguousarray(values, np.float32).view(np.uint32) & 0xFFFF).any()


def compiled(function: Any, **options: Any) -> Any:
    """A compiled step, whose products go through cuBLAS on a GPU.

    Timing all ways to multiply takes XLA 25 s on an H200; without timing its own kernels reach 4 TFLOP/s in
    float32, where cuBLAS chooses well by itself (37).
    """
    import jax

    plain = {"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False}
    return jax.jit(function, **options, compiler_options=plain if on_gpu() else None)


def dense_rows(x: sp.csr_array, tile: int, tiles: int) -> Any:
    """The rows as one dense matrix on the device, padded with empty ones; only stored values travel."""
    import jax.numpy as jnp

    kind = jnp.bfloat16 if is_exact_in_bfloat16(x.data) else jnp.float32
    out = jnp.zeros((tiles * tile, x.shape[1]), kind)
    fill = filler()
    for i, (rows, columns, values) in enumerate(stored_tiles(x, tile, tiles)):
        out = fill(out, rows, columns, values, np.int32(i * tile))
    return out


def stored_tiles(
    x: sp.csr_array, tile: int, tiles: int
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]]:
    """`coordinates` of each tile of rows, all of one length, so that one function is compiled for them."""
    stored = np.diff(x.indptr[np.minimum(np.arange(tiles + 1) * tile, x.shape[0])])
    room = power_of_two(int(stored.max(initial=1)))
    for i in range(tiles):
        yield coordinates(x[i * tile : (i + 1) * tile], room, outside=tiles * tile)


def coordinates(
    x: sp.csr_array, room: int, *, outside: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]:
    """Row, column and value of every stored entry, filled up to `room` with entries of a row outside."""
    more = room - x.nnz
    return (
        np.pad(rows_of(x), (0, more), constant_values=outside),
        np.pad(x.indices.astype(np.int32, copy=False), (0, more)),
        np.pad(x.data.astype(np.float32, copy=False), (0, more)),
    )


@cache
def filler() -> Any:
    """Writes coordinates, rows counted from `first`, into a dense array that is donated."""
    import jax

    def fill(out: Any, rows: Any, columns: Any, values: Any, first: Any) -> Any:
        return out.at[rows + first, columns].set(values.astype(out.dtype), mode="drop")

    return jax.jit(fill, donate_argnums=0)


def products(a: Any, b: Any) -> Any:
    """⟨a_i, b_j⟩ in float32; rows that bfloat16 holds exactly are multiplied in it."""
    import jax.numpy as jnp

    if a.dtype == b.dtype == jnp.bfloat16:
        return jnp.matmul(a, b.T, preferred_element_type=jnp.float32)
    return matmul(a, b.T)


def matmul(a: Any, b: Any) -> Any:
    """a @ b in float32. Matrix units that cut numbers to 11 bits (tf32) add up less exactly too: in three
    parts they are no more than 1.3 times as fast on an H200, and twenty times as far off."""
    import jax.numpy as jnp
    from jax import lax

    return jnp.matmul(a.astype(jnp.float32), b.astype(jnp.float32), precision=lax.Precision.HIGHEST)


def power_of_two(count: int) -> int:
    """The next power of two: lengths that vary are filled up to it, so that few functions are compiled."""
    return 1 << max(0, count - 1).bit_length()
