"""The exact ridge on an accelerator with the kernel held once: built, factorised and solved in tiles, in
place.

A library's Cholesky needs room for several copies of K. Here K is one square of tiles. Above the diagonal it
stays what it is; below, and on the diagonal (whose tiles are kept beside it), each λ writes its factor:

    for each column of tiles k:   L_kk = chol(A_kk),  L_ik = A_ik L_kk⁻ᵀ,  A_ij −= L_ik L_jkᵀ  (i ≥ j > k)

so the next λ begins with the transposed upper half again. The right-hand side X is taken a block of items
at a time: forward and backward substitution overwrite it with α, which goes to main memory while the next
block is solved (or stays, as one block). Rows whose values bfloat16 holds exactly (0 and 1) are multiplied in
it; sums are float32 either way. Every step is one compiled function with tile numbers as arguments, and its
large argument is donated.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from infrec.errors import SolveError
from infrec.kernels import gram, ntk, ridge
from infrec.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import SimpleNamespace

    from jaxtyping import Float
    from numpy.typing import NDArray

TILE = 4096
COLUMNS = 4096
QUICK = 20_000  # rows; up to there, compiling takes longer than solving


def tile_for(n: int, largest: int = TILE) -> int:
    """A tile that divides n rows into as few equal parts as it may, with little padding."""
    parts = max(1, -(-n // largest))
    rows = -(-n // parts)
    return (rows + 31) // 32 * 32


def is_exact_in_bfloat16(values: NDArray[np.floating[Any]]) -> bool:
    """Whether the lower half of every value's bits is empty: true of 0, 1 and small whole numbers."""
    return not (np.ascontiguousarray(values, np.float32).view(np.uint32) & 0xFFFF).any()


class TiledRidge:
    """K of some rows on the default device, and its ridge solution for any λ."""

    def __init__(
        self,
        x: sp.csr_array,
        *,
        depth: int = 1,
        tile: int | None = None,
        columns: int = COLUMNS,
        progress: Progress = silent,
    ) -> None:
        import jax
        import jax.numpy as jnp

        n, d = x.shape
        self.rows, self.n, self.d, self.tile = x, n, d, tile or tile_for(n)
        self.columns = min(columns, d)
        self.tiles = -(-n // self.tile)
        tuned = n > QUICK
        self._depth, self._tuned = depth, tuned
        self._do, kernel = _steps(self.tile, tuned), _kernel_step(self.tile, depth, tuned)
        rows = gram.squared_norms(x)
        self.diagonal = ntk.diagonal(rows, d=d, depth=depth)
        self._x = dense_rows(x, self.tile, self.tiles)
        size = self.tiles * self.tile
        self._norms = jax.device_put(np.pad(rows, (0, size - n)))
        self._k = jnp.zeros((size, size), jnp.float32)
        self._diagonal = jnp.zeros((self.tiles, self.tile, self.tile), jnp.float32)
        for i in range(self.tiles):
            self._k, self._diagonal = kernel(self._k, self._diagonal, self._x, self._norms, i, self.tiles, n)
            progress("kernel", i + 1, self.tiles)
        # Pairs of tiles below the diagonal, those of the last columns first: what is left after column k
        # is a beginning of this list.
        pairs = [(i, j) for j in reversed(range(self.tiles)) for i in range(j, self.tiles)]
        self._pairs = jax.device_put(np.array(pairs, np.int32))

    def factorise(self, added: float) -> Float[np.ndarray, " n"]:
        """Cholesky of K + added · I in place; its pivots (NaN where there is none)."""
        self._k = self._do.begin(self._k, self._diagonal, self._pairs, np.float32(added), self.n)
        pivots = []
        for k in range(self.tiles):
            self._k, on_it = self._do.column(self._k, k, self.tiles)
            left = self.tiles - k - 1
            self._k = self._do.trailing(self._k, self._pairs, k, left * (left + 1) // 2)
            pivots.append(on_it)
        return np.concatenate([np.asarray(each) for each in pivots])[: self.n]

    def solve(self, rows: NDArray[Any] | None = None) -> Float[np.ndarray, "n items"]:
        """(L Lᵀ)⁻¹ X, a block of items at a time; with `rows`, the rows of X are first multiplied by them."""
        alpha = np.empty((self.n, self.d), np.float32)
        waiting: tuple[slice, Any] | None = None
        for start in range(0, self.d, self.columns):
            first = min(start, self.d - self.columns)  # the last block overlaps the one before
            block = self.solve_block(first, rows)
            block.copy_to_host_async()
            if waiting is not None:
                alpha[:, waiting[0]] = np.asarray(waiting[1])[: self.n]
            waiting = (slice(first, first + self.columns), block)
        assert waiting is not None
        alpha[:, waiting[0]] = np.asarray(waiting[1])[: self.n]
        return alpha

    def solve_block(self, first: int = 0, rows: NDArray[Any] | None = None) -> Float[Any, "padded columns"]:
        """(L Lᵀ)⁻¹ X of the block of items from `first` on, left on the device; rows past n are 0."""
        scale = np.zeros(self.tiles * self.tile, np.float32)
        scale[: self.n] = 1.0 if rows is None else rows
        block = self._do.right_side(self._x, scale, first, self.columns)
        for k in range(self.tiles):
            block = self._do.forward(self._k, block, k, self.tiles)
        for k in reversed(range(self.tiles)):
            block = self._do.backward(self._k, block, k)
        return block

    def predict(self, x: sp.csr_array, alpha: Float[Any, "padded m"]) -> Float[Any, "k m"]:
        """Θ(x, X) α of other rows, on the device."""
        step = _predict_step(self._depth, self._tuned)
        return step(dense_rows(x, x.shape[0], 1), gram.squared_norms(x), self._x, self._norms, alpha)


def compiled(function: Any, *, tuned: bool, **options: Any) -> Any:
    """A compiled step. Timing all ways to multiply takes 25 s on an H200: only large kernels win it back."""
    import jax

    quick = not tuned and jax.default_backend() == "gpu"
    return jax.jit(function, **options, compiler_options={"xla_gpu_autotune_level": 0} if quick else None)


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
    room = max(1, int(stored.max(initial=1)))
    for i in range(tiles):
        yield coordinates(x[i * tile : (i + 1) * tile], room, outside=tiles * tile)


def coordinates(
    x: sp.csr_array, room: int, *, outside: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]:
    """Row, column and value of every stored entry, filled up to `room` with entries of a row outside."""
    more = room - x.nnz
    owner = np.repeat(np.arange(x.shape[0], dtype=np.int32), np.diff(x.indptr))
    return (
        np.pad(owner, (0, more), constant_values=outside),
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


@cache
def _kernel_step(t: int, depth: int, tuned: bool) -> Callable[..., Any]:
    """One row of tiles of the kernel."""
    import jax.numpy as jnp
    from jax import lax

    def strip(a: Any, i: Any) -> Any:
        return lax.dynamic_slice_in_dim(a, i * t, t, 0)

    def kernel(k: Any, diagonal: Any, x: Any, norms: Any, i: Any, tiles: Any, n: Any) -> Any:
        """Tile (i, i), kept beside the others, and the tiles (i, j > i). Rows past n are nobody: zeros."""
        d, mine, at = x.shape[1], strip(x, i), i * t + jnp.arange(t)
        own = strip(norms, i)

        def theta(j: Any) -> Any:
            other, there = strip(norms, j), j * t + jnp.arange(t)
            value = ntk.from_gram(_products(mine, strip(x, j)), own, other, d=d, depth=depth, xp=jnp)
            return jnp.where((at < n)[:, None] & (there < n)[None, :], value, 0.0)

        exact = ntk.diagonal(own, d=d, depth=depth)
        on_it = jnp.where(jnp.eye(t, dtype=bool), jnp.where(at < n, exact, 1.0)[:, None], theta(i))
        diagonal = lax.dynamic_update_index_in_dim(diagonal, on_it, i, 0)
        return lax.fori_loop(
            i + 1, tiles, lambda j, k: lax.dynamic_update_slice(k, theta(j), (i * t, j * t)), k
        ), diagonal

    return compiled(kernel, tuned=tuned, donate_argnums=(0, 1))


@cache
def _predict_step(depth: int, tuned: bool) -> Callable[..., Any]:
    import jax.numpy as jnp
    from jax import lax

    def predict(x: Any, own: Any, others: Any, norms: Any, alpha: Any) -> Any:
        theta = ntk.from_gram(_products(x, others), own, norms, d=x.shape[1], depth=depth, xp=jnp)
        return jnp.matmul(theta, alpha, precision=lax.Precision.HIGHEST)

    return compiled(predict, tuned=tuned)


def _products(a: Any, b: Any) -> Any:
    """⟨a_i, b_j⟩ in float32; rows that bfloat16 holds exactly are multiplied in it."""
    import jax.numpy as jnp
    from jax import lax

    if a.dtype == b.dtype == jnp.bfloat16:
        return jnp.matmul(a, b.T, preferred_element_type=jnp.float32)
    a, b = a.astype(jnp.float32), b.astype(jnp.float32)
    return jnp.matmul(a, b.T, precision=lax.Precision.HIGHEST)


@cache
def _steps(t: int, tuned: bool) -> SimpleNamespace:
    """The steps for tiles of t × t. Data and tile numbers are arguments: each compiles once for a shape."""
    from types import SimpleNamespace

    import jax
    import jax.numpy as jnp
    from jax import lax
    from jax.scipy.linalg import solve_triangular

    highest = lax.Precision.HIGHEST

    def get(a: Any, i: Any, j: Any) -> Any:
        return lax.dynamic_slice(a, (i * t, j * t), (t, t))

    def put(a: Any, value: Any, i: Any, j: Any) -> Any:
        return lax.dynamic_update_slice(a, value, (i * t, j * t))

    def strip(a: Any, i: Any) -> Any:
        return lax.dynamic_slice_in_dim(a, i * t, t, 0)

    def dot(a: Any, b: Any) -> Any:
        return jnp.matmul(a, b, precision=highest)

    def begin(k: Any, diagonal: Any, pairs: Any, added: Any, n: Any) -> Any:
        """K + added · I below and on the diagonal, from what is kept above it and beside."""

        def copy(p: Any, k: Any) -> Any:
            i, j = pairs[p, 0], pairs[p, 1]
            own = lax.dynamic_index_in_dim(diagonal, i, keepdims=False)
            shifted = own + jnp.diag(jnp.where(i * t + jnp.arange(t) < n, added, 0.0))
            return put(k, jnp.where(i == j, shifted, get(k, j, i).T), i, j)

        return lax.fori_loop(0, len(pairs), copy, k)

    def column(k: Any, at: Any, tiles: Any) -> Any:
        lower = jnp.linalg.cholesky(get(k, at, at), symmetrize_input=False)

        def below(i: Any, k: Any) -> Any:
            return put(k, solve_triangular(lower, get(k, i, at).T, lower=True).T, i, at)

        return lax.fori_loop(at + 1, tiles, below, put(k, lower, at, at)), jnp.diagonal(lower)

    def trailing(k: Any, pairs: Any, at: Any, count: Any) -> Any:
        def update(p: Any, k: Any) -> Any:
            i, j = pairs[p, 0], pairs[p, 1]
            return put(k, get(k, i, j) - dot(get(k, i, at), get(k, j, at).T), i, j)

        return lax.fori_loop(0, count, update, k)

    def right_side(x: Any, scale: Any, first: Any, columns: int) -> Any:
        return lax.dynamic_slice_in_dim(x, first, columns, 1).astype(jnp.float32) * scale[:, None]

    def put_strip(b: Any, value: Any, i: Any) -> Any:
        return lax.dynamic_update_slice_in_dim(b, value, i * t, 0)

    def forward(k: Any, b: Any, at: Any, tiles: Any) -> Any:
        solved = solve_triangular(get(k, at, at), strip(b, at), lower=True)

        def below(i: Any, b: Any) -> Any:
            return put_strip(b, strip(b, i) - dot(get(k, i, at), solved), i)

        return lax.fori_loop(at + 1, tiles, below, put_strip(b, solved, at))

    def backward(k: Any, b: Any, at: Any) -> Any:
        solved = solve_triangular(get(k, at, at), strip(b, at), lower=True, trans=1)

        def above(i: Any, b: Any) -> Any:
            return put_strip(b, strip(b, i) - dot(get(k, at, i).T, solved), i)

        return lax.fori_loop(0, at, above, put_strip(b, solved, at))

    return SimpleNamespace(
        begin=compiled(begin, tuned=tuned, donate_argnums=0),
        column=compiled(column, tuned=tuned, donate_argnums=0),
        trailing=compiled(trailing, tuned=tuned, donate_argnums=0),
        right_side=jax.jit(right_side, static_argnums=3),
        forward=compiled(forward, tuned=tuned, donate_argnums=1),
        backward=compiled(backward, tuned=tuned, donate_argnums=1),
    )


def factorise(held: TiledRidge, reg: float) -> None:
    """Cholesky of the held kernel plus reg · s · I, or `SolveError` where there is none."""
    added = ridge.shift(held.diagonal, reg=reg, scale="mean_diagonal")
    ridge.check_rows(held.rows, added, held.diagonal, reg)
    pivots = held.factorise(added)
    ridge.check_pivots(0, pivots, held.diagonal + np.float32(added), reg)


def require_finite(total: Any, n: int) -> None:
    """Raise `SolveError` when the sum of a solution of n rows is not a number."""
    if not np.isfinite(total):
        raise SolveError(f"the solve of {n} rows overflowed in float32; use a larger reg or float64.")


def exact_on_device(n: int, items: int, *, tile: int, columns: int, width: int = 2) -> int:
    """Bytes of an exact fit on an accelerator: the kernel once, its diagonal tiles, the rows (`width` bytes a
    value), and three blocks of right-hand sides."""
    padded = -(-n // tile) * tile
    return 4 * (padded * padded + padded * tile + 3 * padded * columns) + width * padded * items
