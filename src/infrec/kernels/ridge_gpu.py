"""The exact ridge on an accelerator with the kernel held once: built, factorised and solved in tiles, in
place.

A library's Cholesky needs room for several copies of K. Here K is one square of tiles. Above the diagonal it
stays what it is; below, and on the diagonal (whose tiles are kept beside it), each λ writes its factor:

    for each column of tiles k:   L_kk = chol(A_kk),  L_ik = A_ik L_kk⁻ᵀ,  A_ij −= L_ik L_jkᵀ  (i ≥ j > k)

so the next λ begins with the transposed upper half again. The right-hand side X is taken a block of items
at a time: forward and backward substitution overwrite it with α, which stays, or goes to main memory while
the next block is solved. Of a tile on the diagonal, L_kk⁻¹ is kept: substitution is products alone. Rows
whose values bfloat16 holds exactly (0 and 1) are multiplied in it; sums are float32 either way. Every step is
one compiled function with tile numbers as arguments, and its large argument is donated.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.kernels import gram, ridge
from infrec.kernels.device_arrays import compiled, dense_rows, matmul, products

if TYPE_CHECKING:
    from jaxtyping import Float

TILE = 4096
COLUMNS = 4096


def tile_for(n: int) -> int:
    """A tile that divides n rows into as few equal parts as it may, with little padding."""
    parts = max(1, -(-n // TILE))
    rows = -(-n // parts)
    return (rows + 31) // 32 * 32


class TiledRidge:
    """`ridge.KernelRidge` on the default device, in float32."""

    def __init__(
        self,
        x: sp.csr_array,
        kernel: gram.Kernel,
        *,
        tile: int | None = None,
        columns: int = COLUMNS,
        stays: bool = False,
    ) -> None:
        """Compute the kernel.

        Args:
            x: The rows, which are their own targets.
            kernel: The kernel between them.
            tile: Rows and columns of a tile.
            columns: Items that are solved at a time.
            stays: Whether α stays on the device.
        """
        import jax
        import jax.numpy as jnp

        n, d = x.shape
        self._stays = stays
        self.rows, self.n, self.d, self.tile = x, n, d, tile or tile_for(n)
        self.columns = min(columns, d)
        self.tiles = -(-n // self.tile)
        self._kernel = kernel
        self._factor, self._do = _factor(self.tile), _substitute(self.tile)
        compute = _kernel_step(self.tile, kernel)
        rows = gram.squared_norms(x)
        self.diagonal = kernel.diagonal(rows, d=d)
        self._x = dense_rows(x, self.tile, self.tiles)
        size = self.tiles * self.tile
        self._norms = jax.device_put(np.pad(rows, (0, size - n)))
        self._k = jnp.zeros((size, size), jnp.float32)
        self._diagonal = jnp.zeros((self.tiles, self.tile, self.tile), jnp.float32)
        for i in range(self.tiles):
            self._k, self._diagonal = compute(self._k, self._diagonal, self._x, self._norms, i, self.tiles, n)
        # Pairs of tiles below the diagonal, those of the last columns first: what is left after column k
        # is a beginning of this list.
        pairs = [(i, j) for j in reversed(range(self.tiles)) for i in range(j, self.tiles)]
        self._pairs = jax.device_put(np.array(pairs, np.int32))

    def factorise(self, reg: float, scale: ridge.Scale = "mean_diagonal") -> None:
        """Cholesky of K + reg · m · I in place, or `SolveError` where there is none."""
        self._added = added = ridge.shift(self.diagonal, reg=reg, scale=scale)
        ridge.check_rows(self.rows, added, self.diagonal, reg)
        self._k = self._factor.begin(self._k, self._diagonal, self._pairs, np.float32(added), self.n)
        tiles = []
        for k in range(self.tiles):
            self._k, pivots = self._factor.column(self._k, k, self.tiles)
            left = self.tiles - k - 1
            self._k = self._factor.trailing(self._k, self._pairs, k, left * (left + 1) // 2)
            tiles.append(pivots)
        every = np.concatenate([np.asarray(pivots) for pivots in tiles])[: self.n]
        ridge.check_pivots(0, every, self.diagonal + np.float32(added), reg)

    def solve(self, row_scale: NDArray[Any] | None = None) -> Float[Any, "n items"]:
        """α = (L Lᵀ)⁻¹ D X, a block of items at a time, in main memory unless it stays."""
        firsts = [min(start, self.d - self.columns) for start in range(0, self.d, self.columns)]
        blocks = ((first, self._solve_block(first, row_scale)) for first in firsts)  # the last one overlaps
        if self._stays:
            return self._left_there(blocks)
        alpha = np.empty((self.n, self.d), np.float32)
        waiting: tuple[int, Any] | None = None
        for first, block in itertools.chain(blocks, [(0, None)]):
            if block is not None:
                block.copy_to_host_async()
            if waiting is not None:
                alpha[:, waiting[0] : waiting[0] + self.columns] = np.asarray(waiting[1])[: self.n]
            waiting = first, block
        ridge.require_finite(alpha.sum(dtype=np.float64), self.n, "float32")
        return alpha

    def _left_there(self, blocks: Iterable[tuple[int, Any]]) -> Float[Any, "n items"]:
        import jax.numpy as jnp

        alpha = jnp.zeros((self.n, self.d), jnp.float32)
        for first, block in blocks:
            alpha = self._do.beside(alpha, block, first)
        ridge.require_finite(float(self._do.checked(alpha)), self.n, "float32")
        return alpha

    def _solve_block(self, first: int, row_scale: NDArray[Any] | None) -> Float[Any, "padded columns"]:
        """α of the block of items from `first` on, left on the device; rows past n are 0."""
        scale = self._padded(1.0 if row_scale is None else row_scale)
        return self._divide(self._do.right_side(self._x, scale, first, self.columns))

    def _divide(self, block: Float[Any, "padded columns"], first: int = 0) -> Float[Any, "padded columns"]:
        """(L Lᵀ)⁻¹ of a block, in its place; of one that is 0 before the tile `first`, from there on."""
        for k in range(first, self.tiles):
            block = self._do.forward(self._k, block, k, self.tiles)
        for k in reversed(range(first, self.tiles)):
            block = self._do.backward(self._k, block, k, first)
        return block

    def inverse(self) -> Float[Any, "padded padded"]:
        """(K + reg · m · I)⁻¹, left on the device: a column of tiles at a time, from the diagonal on."""
        import jax.numpy as jnp

        size = self.tiles * self.tile
        out = jnp.zeros((size, size), jnp.float32)
        for i in range(self.tiles):
            units = _smoothing().units(np.arange(self.tile, dtype=np.int32) + i * self.tile, size)
            out = self._do.beside(out, self._divide(units, i), i * self.tile)
        return self._do.mirrored(out)

    def _padded(self, row_scale: NDArray[Any] | float) -> NDArray[np.float32]:
        scale = np.zeros(self.tiles * self.tile, np.float32)
        scale[: self.n] = row_scale
        return scale

    def smoother(
        self, rows: NDArray[np.integer], others: sp.csr_array | None = None
    ) -> Float[Any, "k padded"]:
        """Rows of H, left on the device."""
        import jax.numpy as jnp

        do, size = _smoothing(), self.tiles * self.tile
        own = do.units(jnp.asarray(rows, jnp.int32), size)
        between = jnp.zeros((size, 0), jnp.float32)
        if others is not None:
            kernel = _between_step(self._kernel)
            dense = dense_rows(others, others.shape[0], 1)
            between = kernel(self._x, self._norms, dense, gram.squared_norms(others))
        return do.smooth(self._divide(do.beside(between, own)), own, np.float32(self._added))

    def expected(self, smoother: Float[Any, "k padded"], row_scale: NDArray[Any]) -> Float[Any, "k items"]:
        """H D X, left on the device."""
        return _smoothing().expected(smoother, self._x, self._padded(row_scale))

    @staticmethod
    def needs(n: int, items: int) -> int:
        """Bytes: the kernel once, its diagonal tiles, the rows, and three blocks of right-hand sides."""
        tile, columns = tile_for(n), min(COLUMNS, items)
        padded = -(-n // tile) * tile
        return 4 * (padded * padded + padded * tile + 3 * padded * columns) + 2 * padded * items

    @staticmethod
    def needs_to_search(n: int, items: int, rows: int) -> int:
        """Bytes where α is never formed: weighted rows in float32, and four blocks of that many rows of H."""
        return TiledRidge.needs(n, items) + 2 * n * items + 4 * 4 * n * rows


class TiledItemRidge:
    """`ridge.ItemRidge` on the default device: a `TiledRidge` between columns."""

    def __init__(self, x: sp.csr_array, *, scale: ridge.Scale = "mean_diagonal") -> None:
        self._items, self._scale = sp.csr_array(x.T), scale
        self._between: tuple[gram.Kernel, TiledRidge] | None = None  # the last kernel asked for

    def weights(self, kernel: gram.Kernel, reg: float) -> Float[Any, "items items"]:
        """B, left on the device."""
        return _weights()(self.inverse(kernel, reg))

    def inverse(self, kernel: gram.Kernel, reg: float) -> Float[Any, "items items"]:
        """P, left on the device."""
        if self._between is None or self._between[0] != kernel:
            self._between = None  # frees the old one first
            self._between = kernel, TiledRidge(self._items, kernel)
        solver = self._between[1]
        solver.factorise(reg, self._scale)
        return solver.inverse()[: solver.n, : solver.n]

    @staticmethod
    def needs(n: int, items: int) -> int:
        """Bytes of a `TiledRidge` between items, of the inverse as it is mirrored, and of the weights."""
        return TiledRidge.needs(items, n) + 2 * n * items + 4 * 3 * items * items


@cache
def _kernel_step(t: int, kernel: gram.Kernel) -> Callable[..., Any]:
    """One row of tiles of the kernel."""
    import jax.numpy as jnp
    from jax import lax

    def strip(a: Any, i: Any) -> Any:
        return lax.dynamic_slice_in_dim(a, i * t, t, 0)

    def compute(k: Any, diagonal: Any, x: Any, norms: Any, i: Any, tiles: Any, n: Any) -> Any:
        """Tile (i, i), kept beside the others, and the tiles (i, j > i). Rows past n are padding: zeros."""
        d, mine, own, real = x.shape[1], strip(x, i), strip(norms, i), i * t + jnp.arange(t) < n

        def between(j: Any) -> Any:
            value = kernel.from_gram(products(mine, strip(x, j)), own, strip(norms, j), d=d)
            return jnp.where(real[:, None] & (j * t + jnp.arange(t) < n)[None, :], value, 0.0)

        on_it = kernel.matrix(products(mine, mine), own, d=d)
        on_it = jnp.where(real[:, None] & real[None, :], on_it, jnp.eye(t))
        diagonal = lax.dynamic_update_index_in_dim(diagonal, on_it, i, 0)
        return lax.fori_loop(
            i + 1, tiles, lambda j, k: lax.dynamic_update_slice(k, between(j), (i * t, j * t)), k
        ), diagonal

    return compiled(compute, donate_argnums=(0, 1))


@cache
def _between_step(kernel: gram.Kernel) -> Callable[..., Any]:
    def between(x: Any, norms: Any, others: Any, own: Any) -> Any:
        return kernel.from_gram(products(x, others), norms, own, d=x.shape[1])

    return compiled(between)


def _tiles(t: int) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """Reading a tile of t × t, writing one, and reading a strip of t rows."""
    from jax import lax

    def get(a: Any, i: Any, j: Any) -> Any:
        return lax.dynamic_slice(a, (i * t, j * t), (t, t))

    def put(a: Any, value: Any, i: Any, j: Any) -> Any:
        return lax.dynamic_update_slice(a, value, (i * t, j * t))

    def strip(a: Any, i: Any) -> Any:
        return lax.dynamic_slice_in_dim(a, i * t, t, 0)

    return get, put, strip


@cache
def _factor(t: int) -> SimpleNamespace:
    """The steps to a factor in tiles of t × t. Data and tile numbers are arguments: each compiles once for a
    shape."""
    import jax.numpy as jnp
    from jax import lax
    from jax.scipy.linalg import solve_triangular

    get, put, _ = _tiles(t)

    def begin(k: Any, diagonal: Any, pairs: Any, added: Any, n: Any) -> Any:
        """K + added · I below and on the diagonal, from what is kept above it and beside."""

        def copy(p: Any, k: Any) -> Any:
            i, j = pairs[p, 0], pairs[p, 1]
            own = lax.dynamic_index_in_dim(diagonal, i, keepdims=False)
            shifted = own + jnp.diag(jnp.where(i * t + jnp.arange(t) < n, added, 0.0))
            return put(k, jnp.where(i == j, shifted, get(k, j, i).T), i, j)

        return lax.fori_loop(0, len(pairs), copy, k)

    def column(k: Any, at: Any, tiles: Any) -> Any:
        """The factor's tiles in one column; in place of the one on the diagonal, its inverse."""
        lower = jnp.linalg.cholesky(get(k, at, at), symmetrize_input=False)
        inverse = solve_triangular(lower, jnp.eye(t), lower=True)

        def below(i: Any, k: Any) -> Any:
            return put(k, matmul(get(k, i, at), inverse.T), i, at)

        return lax.fori_loop(at + 1, tiles, below, put(k, inverse, at, at)), jnp.diagonal(lower)

    def trailing(k: Any, pairs: Any, at: Any, count: Any) -> Any:
        def update(p: Any, k: Any) -> Any:
            i, j = pairs[p, 0], pairs[p, 1]
            return put(k, get(k, i, j) - matmul(get(k, i, at), get(k, j, at).T), i, j)

        return lax.fori_loop(0, count, update, k)

    return SimpleNamespace(
        begin=compiled(begin, donate_argnums=0),
        column=compiled(column, donate_argnums=0),
        trailing=compiled(trailing, donate_argnums=0),
    )


@cache
def _substitute(t: int) -> SimpleNamespace:
    """The steps from a factor in tiles to solutions and inverses."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    get, _, strip = _tiles(t)

    def right_side(x: Any, scale: Any, first: Any, columns: int) -> Any:
        return lax.dynamic_slice_in_dim(x, first, columns, 1).astype(jnp.float32) * scale[:, None]

    def put_strip(b: Any, value: Any, i: Any) -> Any:
        return lax.dynamic_update_slice_in_dim(b, value, i * t, 0)

    def forward(k: Any, b: Any, at: Any, tiles: Any) -> Any:
        solved = matmul(get(k, at, at), strip(b, at))

        def below(i: Any, b: Any) -> Any:
            return put_strip(b, strip(b, i) - matmul(get(k, i, at), solved), i)

        return lax.fori_loop(at + 1, tiles, below, put_strip(b, solved, at))

    def backward(k: Any, b: Any, at: Any, first: Any) -> Any:
        solved = matmul(get(k, at, at).T, strip(b, at))

        def above(i: Any, b: Any) -> Any:
            return put_strip(b, strip(b, i) - matmul(get(k, at, i).T, solved), i)

        return lax.fori_loop(first, at, above, put_strip(b, solved, at))

    def beside(alpha: Any, block: Any, first: Any) -> Any:
        return lax.dynamic_update_slice(alpha, block[: len(alpha)], (0, first))

    def mirrored(lower: Any) -> Any:
        """A symmetric matrix from its tiles below and on the diagonal."""
        tile = jnp.arange(len(lower)) // t
        return jnp.where(tile[:, None] >= tile[None, :], lower, lower.T)

    def checked(alpha: Any) -> Any:
        """0, or NaN where a number is not finite."""
        return jnp.where(jnp.isfinite(alpha).all(), 0.0, jnp.nan)

    return SimpleNamespace(
        right_side=jax.jit(right_side, static_argnums=3),
        forward=compiled(forward, donate_argnums=1),
        backward=compiled(backward, donate_argnums=1),
        beside=compiled(beside, donate_argnums=0),
        mirrored=compiled(mirrored),
        checked=compiled(checked),
    )


@cache
def _smoothing() -> SimpleNamespace:
    """The steps of rows of H."""
    import jax
    import jax.numpy as jnp

    def units(rows: Any, size: int) -> Any:
        return jnp.zeros((size, len(rows)), jnp.float32).at[rows, jnp.arange(len(rows))].set(1.0)

    def beside(between: Any, own: Any) -> Any:
        return jnp.concatenate([between, own], 1)

    def smooth(solved: Any, own: Any, added: Any) -> Any:
        """Hᵀ of training rows is 1 − λ m (K + λ m)⁻¹."""
        others = solved.shape[1] - own.shape[1]
        return jnp.concatenate([solved[:, :others], own - added * solved[:, others:]], 1).T

    def expected(smoother: Any, x: Any, scale: Any) -> Any:
        return matmul(smoother * scale[None, :], x)

    return SimpleNamespace(
        units=jax.jit(units, static_argnums=1),
        beside=jax.jit(beside),
        smooth=jax.jit(smooth),
        expected=compiled(expected),
    )


@cache
def _weights() -> Callable[..., Any]:
    import jax.numpy as jnp

    def weights(inverse: Any) -> Any:
        off = -inverse / jnp.diagonal(inverse)[None, :]
        return jnp.where(jnp.eye(len(inverse), dtype=bool), 0.0, off)

    return compiled(weights)
