"""Inner products and kernels between rows, in blocks that stay in a core's cache, on the CPU.

Histories are sparse: a sparse × dense product touches 3.5 % of what a dense product would on ML-1M. It is
only fast when the dense side fits in a cache, so rows are made dense a hundred at a time, and every core
takes its own blocks. The elementwise kernel follows while the block is still warm. Rows that are mostly full
(a soft summary) go through BLAS instead. For binary rows both ways are exact: sums of ones below 2²⁴. For
others BLAS adds up in an order that depends on how many rows there are, and sparse products in that of the
items: up to `FEW` rows never go through BLAS.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from infrec.machine import cores, in_parallel

if TYPE_CHECKING:
    from jaxtyping import Float

_FAR_BELOW = 0.01  # of what a column would weigh at the usual weight: its weights are no measure of it
_LOOK_UP = 4  # a sum that is looked up costs as much as so many of a sparse × dense product (measured)
DENSE = 0.1  # share of stored values above which BLAS beats a sparse product (measured: both rates, 2 cores)
FEW = 32  # rows up to which a row's result does not depend on the others, to the last bit
_CACHE_BYTES = 2 * 2**20


class Kernel(ABC):
    """A kernel that is a function of inner products alone, on numpy's arrays and on JAX's.

    `d` is the number of entries of a row. A kernel is a frozen dataclass of its parameters: equal ones share
    what was compiled for them.
    """

    @abstractmethod
    def from_gram(
        self, xy: Float[Any, "n m"], xx: Float[Any, " n"], yy: Float[Any, " m"], *, d: int
    ) -> Float[Any, "n m"]:
        """K(x, y) from ⟨x, y⟩, ⟨x, x⟩ and ⟨y, y⟩."""

    @abstractmethod
    def diagonal(self, xx: Float[Any, " n"], *, d: int) -> Float[Any, " n"]:
        """K(x, x) from ⟨x, x⟩."""

    @abstractmethod
    def slopes(
        self, xy: Float[np.ndarray, " m"], xx: float, yy: Float[np.ndarray, " m"], *, d: int
    ) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """∂K/∂⟨x, y⟩ and ∂K/∂⟨x, x⟩ for one x and many y (numpy): what an explanation integrates."""

    def overflows(self, xx: Float[np.ndarray, " n"], *, d: int, dtype: DTypeLike) -> bool:
        """Whether rows are so large that the kernel's own arithmetic has no number of that type for them."""
        return False

    def matrix(self, products: Float[Any, "n n"], norms: Float[Any, " n"], *, d: int) -> Float[Any, "n n"]:
        """K between rows and themselves, from ⟨x_i, x_j⟩ and ⟨x_i, x_i⟩, with the exact diagonal."""
        xp = array_module(products)
        between = self.from_gram(products, norms, norms, d=d)
        return xp.where(xp.eye(len(norms), dtype=bool), self.diagonal(norms, d=d)[:, None], between)


@dataclass(frozen=True)
class Linear(Kernel):
    """⟨x, y⟩ itself."""

    def from_gram(self, xy: Any, xx: Any, yy: Any, *, d: int) -> Any:
        return xy

    def diagonal(self, xx: Any, *, d: int) -> Any:
        return xx

    def slopes(self, xy: Any, xx: float, yy: Any, *, d: int) -> Any:
        return np.ones_like(xy), np.zeros_like(xy)


def array_module(array: Any) -> Any:
    """`numpy` or `jax.numpy`, whichever the array (or what stands for it while JAX compiles) belongs to."""
    if isinstance(array, np.ndarray):
        return np
    import jax.numpy as jnp

    return jnp


def kernel_matrix(
    kernel: Kernel, x: sp.csr_array, y: sp.csr_array | None = None, *, dtype: DTypeLike = np.float32
) -> Float[np.ndarray, "n m"]:
    """K(x_i, y_j) for all rows.

    Args:
        kernel: The kernel.
        x: Rows.
        y: Other rows; without them the result is between the rows of `x`: symmetric, with the exact diagonal.
        dtype: Of the products and of the result.
    """
    dtype, symmetric, d = np.dtype(dtype), y is None, x.shape[1]
    xx = squared_norms(x, dtype)
    yy = xx if y is None else squared_norms(y, dtype)
    x = sp.csr_array(x, dtype=dtype)
    y = x if y is None else sp.csr_array(y, dtype=dtype)
    out = np.empty((x.shape[0], y.shape[0]), dtype)
    everything = slice(0, out.shape[1])
    full_x, full_y = (part.nnz > DENSE * part.shape[0] * part.shape[1] for part in (x, y))
    by_blas = full_x and full_y and x.shape[0] > FEW

    def elementwise(products: NDArray[Any], rows: slice, columns: slice) -> NDArray[Any]:
        return kernel.from_gram(products, xx[rows], yy[columns], d=d)

    def strip(start: int) -> None:
        some = slice(start, min(start + step, out.shape[0]))
        out[some] = elementwise(out[some], some, everything)

    def columns(start: int) -> None:  # the sparse side is x: blocks of y's rows are made dense
        some = slice(start, min(start + step, out.shape[1]))
        products = x @ np.ascontiguousarray(y[some].toarray().T)
        out[:, some] = elementwise(products, slice(0, out.shape[0]), some)

    def rows(start: int) -> None:  # without another matrix, half of the products are computed
        some = slice(start, start + step)
        stop = min(some.stop, out.shape[1]) if symmetric else out.shape[1]
        end = y.indptr[stop]  # y[:stop], without copying it
        before = sp.csr_array((y.data[:end], y.indices[:end], y.indptr[: stop + 1]), shape=(stop, d))
        products = (before @ np.ascontiguousarray(x[some].toarray().T)).T
        out[some, :stop] = elementwise(products, some, slice(0, stop))

    if by_blas:
        np.matmul(x.toarray(), y.toarray().T, out=out)
        step = max(1, _CACHE_BYTES // (out.itemsize * max(1, out.shape[1])))
    else:
        step = block_width(d, dtype, out.shape[1] if full_y else out.shape[0])
    block = strip if by_blas else columns if full_y else rows
    in_parallel(block, range(0, out.shape[1] if block is columns else out.shape[0], step))
    if symmetric:
        if block is rows:
            mirror(out.T)
        np.fill_diagonal(out, kernel.diagonal(xx, d=d))
    return out


def degrees(x: sp.csr_array) -> NDArray[Any]:
    """The sum of each column's weights, of which roots and powers are divided by.

    A column of tiny weights (an old item, faded to 1e-5) would get an enormous factor: where the sum is less
    than a hundredth of the column's entries at the usual weight, these stand for it.
    """
    total = np.asarray(x.sum(axis=0)).ravel()
    if (x.data == 1).all():
        return total
    usual = np.bincount(x.indices, minlength=x.shape[1]) * float(np.median(x.data))
    return np.where(total < _FAR_BELOW * usual, usual, total).astype(total.dtype)


def squared_norms(x: sp.csr_array, dtype: DTypeLike = np.float32) -> Float[np.ndarray, " n"]:
    """⟨x_i, x_i⟩ of each row, summed in the wider of x's precision and the one asked for.

    Less would not do: the kernel of rows that are alike is made of the difference between this and ⟨x, y⟩. It
    is added up item by item, as sparse products are: where x = y, the difference is exactly 0.
    """
    squares = np.square(x.data, dtype=np.result_type(x.dtype, dtype))
    ones = np.ones(x.shape[1], squares.dtype)
    return np.asarray(sp.csr_array((squares, x.indices, x.indptr), shape=x.shape) @ ones, dtype=dtype)


def scaled(
    x: sp.csr_array, rows: NDArray[Any] | None = None, columns: NDArray[Any] | None = None
) -> sp.csr_array:
    """x with each entry times a number for its row and one for its column, in x's own dtype."""
    data = x.data.astype(np.float64)
    if rows is not None:
        data *= np.repeat(rows, np.diff(x.indptr))
    if columns is not None:
        data *= columns[x.indices]
    return sp.csr_array((data.astype(x.dtype), x.indices, x.indptr), shape=x.shape)


@dataclass(frozen=True, eq=False)
class Centres:
    """Rows that are compared with others again and again: what each comparison needs, worked out once.

    A short history shares items with few of them, so its products are looked up, item by item, instead of
    computed row by row.
    """

    rows: sp.csr_array
    by_item: sp.csr_array
    norms: Float[np.ndarray, " n"]

    @classmethod
    def of(cls, rows: sp.csr_array, dtype: DTypeLike = np.float32) -> Self:
        return cls(rows, sp.csr_array(rows.T, dtype=dtype), squared_norms(rows, dtype))

    def kernel_rows(self, kernel: Kernel, x: sp.csr_array) -> Float[np.ndarray, "m n"]:
        """K between the rows of `x` and these."""
        dtype, n = self.by_item.dtype, self.rows.shape[0]
        shared = int(np.diff(self.by_item.indptr)[x.indices].sum())
        if _LOOK_UP * shared > x.shape[0] * self.rows.nnz:
            return kernel_matrix(kernel, x, self.rows, dtype=dtype)
        x = x if x.dtype == dtype else x.astype(dtype)
        return self.from_products(kernel, (x @ self.by_item).toarray().reshape(-1, n), x)

    def from_products(
        self, kernel: Kernel, products: Float[np.ndarray, "m n"], x: sp.csr_array
    ) -> Float[np.ndarray, "m n"]:
        """K between the rows of `x` and these, from their inner products."""
        return kernel.from_gram(products, squared_norms(x, products.dtype), self.norms, d=x.shape[1])


def times_sparse(dense: Float[np.ndarray, "n m"], sparse: sp.csr_array) -> Float[np.ndarray, "n k"]:
    """dense @ sparse, in blocks of rows."""
    # Turned and by columns: the dense side streams by once, and what is added to at random (a row for each
    # column of `sparse`) stays in the cache.
    turned = sp.csc_array(sparse.T, dtype=dense.dtype)
    result = np.empty((dense.shape[0], sparse.shape[1]), dense.dtype)
    step = block_width(sparse.shape[1], dense.dtype, dense.shape[0])

    def block(start: int) -> None:
        rows = slice(start, start + step)
        result[rows] = (turned @ np.ascontiguousarray(dense[rows].T)).T

    in_parallel(block, range(0, dense.shape[0], step))
    return result


def sparse_times(sparse: sp.csr_array, dense: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "k m"]:
    """sparse @ dense, in blocks of columns."""
    left = sp.csr_array(sparse, dtype=dense.dtype)
    result = np.empty((sparse.shape[0], dense.shape[1]), dense.dtype)
    step = block_width(sparse.shape[1], dense.dtype, dense.shape[1])

    def block(start: int) -> None:
        columns = slice(start, start + step)
        result[:, columns] = left @ np.ascontiguousarray(dense[:, columns])

    in_parallel(block, range(0, dense.shape[1], step))
    return result


def rows_of(matrix: sp.csr_array) -> NDArray[np.int32]:
    """The row of each stored entry."""
    return np.repeat(np.arange(matrix.shape[0], dtype=np.int32), np.diff(matrix.indptr))


def are_rows(some: sp.csr_array, matrix: sp.csr_array, rows: NDArray[np.integer]) -> bool:
    """Whether `some` are these rows of a matrix, both in canonical format; a row of −1 is none."""
    if len(rows) and rows.min() < 0:
        return False
    other = matrix[rows]
    return all(
        np.array_equal(getattr(some, name), getattr(other, name)) for name in ("indptr", "indices", "data")
    )


def mirror(a: Float[np.ndarray, "n n"]) -> None:
    """Copy what lies above the diagonal below it, in place."""
    n, step = len(a), 512

    def block(start: int) -> None:
        stop = min(n, start + step)
        corner = a[start:stop, start:stop]
        corner[...] = np.triu(corner) + np.triu(corner, 1).T
        a[stop:, start:stop] = a[start:stop, stop:].T

    in_parallel(block, range(0, n, step))


def block_width(d: int, dtype: np.dtype[Any], rows: int) -> int:
    """How many dense rows of length d fit in the cache; a few at least, or the inner loop is too short.

    Many cores together hold an eighth of all rows: what they work on is small beside the result.
    """
    fit = _CACHE_BYTES // (dtype.itemsize * max(d, 1))
    return int(np.clip(fit if rows <= 256 else min(fit, rows // (8 * cores())), 16, 256))
