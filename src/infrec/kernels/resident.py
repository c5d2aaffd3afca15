"""Kernels that stay on the accelerator with everything that is solved from them.

For a search, which solves again and again and looks at little of each solution: main memory would take longer
to receive it than the accelerator to compute it. `Rows` is kernel ridge between rows, as in
`devices.solver`; `Columns` predicts each column from the others.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from infrec.kernels import devices, ntk, ridge, ridge_gpu

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Float
    from numpy.typing import NDArray


class Rows:
    """Θ between the rows of `x`; called with λ, it solves for α, with targets `x`, padded with rows of 0."""

    def __init__(self, x: sp.csr_array, depth: int) -> None:
        self._held = ridge_gpu.TiledRidge(x, depth=depth, columns=x.shape[1])

    def __call__(self, reg: float, *, rows: NDArray[Any] | None = None) -> Float[Any, "padded items"]:
        """α; the rows of the targets are first multiplied by `rows`."""
        ridge_gpu.factorise(self._held, reg)
        alpha = self._held.solve_block(rows=rows)
        ridge_gpu.require_finite(_total()(alpha), self._held.n)
        return alpha

    def predict(self, x: sp.csr_array, alpha: Float[Any, "padded items"]) -> Float[Any, "k items"]:
        """Θ(x, X) α of other rows."""
        return self._held.predict(x, alpha)

    @staticmethod
    def needs(n: int, d: int) -> int:
        """Bytes of one, while it solves."""
        return ridge_gpu.exact_on_device(n, d, tile=ridge_gpu.tile_for(n), columns=d, width=4)


class Columns:
    """Θ between the columns of `x`, for any depth: their products are formed once."""

    def __init__(self, x: sp.csr_array) -> None:
        import jax.numpy as jnp

        self._x, (self._d, items) = x, x.shape
        tile = ridge_gpu.tile_for(self._d)
        self._products = jnp.zeros((items, items), jnp.float32)
        add = _adder(tile)
        for stored in ridge_gpu.stored_tiles(x, tile, -(-self._d // tile)):
            self._products = add(self._products, *stored)
        squares = np.bincount(x.indices, x.data.astype(np.float64) ** 2, minlength=items)
        self._norms = squares.astype(np.float32)

    def weights(self, depth: int, reg: float) -> Float[Any, "items items"]:
        """B_ij = −P_ij / P_jj off the diagonal, P = (K + reg · s · I)⁻¹: ridge of column j on the others."""
        diagonal = ntk.diagonal(self._norms, d=self._d, depth=depth)
        added = ridge.shift(diagonal, reg=reg, scale="mean_diagonal")
        ridge.check_rows(sp.csr_array(self._x.T), added, diagonal, reg)
        out, pivots = _weights()(_kernel(self._d, depth)(self._products, self._norms), np.float32(added))
        ridge.check_pivots(0, np.asarray(pivots), diagonal + np.float32(added), reg)
        return out

    @classmethod
    def fits(cls, n: int, items: int) -> bool:
        """Whether an accelerator is worth it for n rows and so many columns, and has the room."""
        return devices.use_accelerator(items, "float32") and devices.has_room(cls.needs(n, items))

    @staticmethod
    def needs(n: int, items: int) -> int:
        """Bytes of the products, the kernel, its factor, half and whole inverse, the weights, and a tile."""
        return 4 * (6 * items * items + ridge_gpu.tile_for(n) * items)


@cache
def _total() -> Callable[..., Any]:
    import jax.numpy as jnp

    return ridge_gpu.compiled(jnp.sum, tuned=False)


@cache
def _adder(tile: int) -> Callable[..., Any]:
    import jax.numpy as jnp
    from jax import lax

    def add(products: Any, rows: Any, columns: Any, values: Any) -> Any:
        x = jnp.zeros((tile, len(products)), jnp.float32).at[rows, columns].set(values, mode="drop")
        return products + jnp.matmul(x.T, x, precision=lax.Precision.HIGHEST)

    return ridge_gpu.compiled(add, tuned=False, donate_argnums=0)


@cache
def _kernel(d: int, depth: int) -> Callable[..., Any]:
    import jax.numpy as jnp

    def kernel(products: Any, norms: Any) -> Any:
        theta = ntk.from_gram(products, norms, norms, d=d, depth=depth, xp=jnp)
        exact = ntk.diagonal(norms, d=d, depth=depth)
        return jnp.where(jnp.eye(len(norms), dtype=bool), exact[:, None], theta)

    return ridge_gpu.compiled(kernel, tuned=False)


@cache
def _weights() -> Callable[..., Any]:
    import jax.numpy as jnp
    from jax import lax
    from jax.scipy.linalg import solve_triangular

    def weights(k: Any, added: Any) -> Any:
        one = jnp.eye(len(k), dtype=k.dtype)
        lower = jnp.linalg.cholesky(k + added * one, symmetrize_input=False)
        half = solve_triangular(lower, one, lower=True)
        inverse = jnp.matmul(half.T, half, precision=lax.Precision.HIGHEST)
        off = -inverse / jnp.diagonal(inverse)[None, :]
        return off * (1 - one), jnp.diagonal(lower)

    return ridge_gpu.compiled(weights, tuned=False)
