"""Large matrices in main memory, on an accelerator, or both: they are brought to where they are asked for.

A matrix that is far wider than it has rows may be kept as two factors (`FactoredMatrix`).
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.linalg.blas as blas
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.kernels import devices, gram
from infrec.kernels.device_arrays import compiled, matmul

_ROWS, _ROWS_THERE = 1024, 16384  # of a product at a time, in main memory and on an accelerator
_ROWS_WORTH_IT = 256  # of a product with a matrix that is already there
_SLAB = 1 << 20  # bytes of a matrix at a time: a core's own cache holds them, and BLAS needs no other core


class ResidentMatrix:
    """A large matrix, which many blocks of rows are multiplied with.

    Args:
        matrix: In main memory, or on the accelerator: there it stays until somebody needs it here.
    """

    def __init__(self, matrix: Any) -> None:
        self._here: NDArray[Any] | None = matrix if isinstance(matrix, np.ndarray) else None
        self._there = None if isinstance(matrix, np.ndarray) else matrix
        self.shape: tuple[int, int] = matrix.shape
        self.dtype = np.dtype(matrix.dtype)

    @property
    def nbytes(self) -> int:
        """Of one copy."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    @property
    def here(self) -> NDArray[Any]:
        """The matrix in main memory."""
        if self._here is None:
            self._here = np.array(self._there)
        return self._here

    @property
    def there(self) -> Any:
        """The matrix on the accelerator."""
        if self._there is None:
            self._there = devices.put(self.here)
        return self._there

    def goes_there(self) -> bool:
        """Whether it is there, or that is worth it and there is room."""
        worth_it = devices.use_accelerator(len(self), str(self.dtype))
        return self._there is not None or (worth_it and devices.has_room(2 * self.nbytes))

    def __len__(self) -> int:
        return self.shape[0]

    def rows(self, some: NDArray[np.integer] | slice) -> NDArray[Any]:
        """A copy of some rows in main memory."""
        return np.array(self.there[some] if self._here is None else self._here[some])

    def columns(self, some: NDArray[np.integer]) -> NDArray[Any]:
        """A copy of some columns in main memory."""
        return self.here[:, some]

    def left_multiply(self, rows: NDArray[Any]) -> NDArray[Any]:
        """rows @ matrix; a few rows stay here, where their number is nothing to compile for."""
        if len(rows) <= gram.FEW:
            return few_rows_times(rows, self.here)
        if self._here is not None and (len(rows) < _ROWS_WORTH_IT or not self.goes_there()):
            return rows @ self._here
        # A copy: what JAX hands out is read-only, and scores are added to in place.
        return np.array(_do().product(rows, self.there))

    def times_histories(self, rows: sp.csr_array) -> NDArray[Any]:
        """rows @ matrix of sparse rows: where the matrix is."""
        if self._here is None and rows.shape[0] > gram.FEW:
            return self.left_multiply(rows.toarray())
        return gram.sparse_times(rows, self.here)

    def scale_columns(self, columns: NDArray[Any]) -> None:
        """Multiply each column by a number, in place."""
        columns = columns.astype(self.dtype)
        if self._here is None:
            self._there = _do().scaled(self._there, columns)
        else:
            self._here, self._there = np.multiply(self._here, columns, out=self._here), None

    def add_product(self, right: ResidentMatrix, factor: float, columns: NDArray[np.integer]) -> None:
        """Add factor · (some columns) @ right to these columns in place, a block of rows at a time.

        Args:
            right: Columns × columns.
            factor: Its factor.
            columns: Which of this matrix, in order; all of them where there are so many.
        """
        whole = len(columns) == self.shape[1]
        if self._here is None:
            at = None if whole else columns.astype(np.int32)
            for start in range(0, len(self), _ROWS_THERE):
                rows = min(_ROWS_THERE, len(self) - start)
                self._there = _do().add(self._there, right.there, np.float32(factor), at, start, rows)
            return
        some: Any = slice(None) if whole else columns
        for start in range(0, len(self), _ROWS):
            block = self._here[start : start + _ROWS]
            block[:, some] += self.dtype.type(factor) * right.left_multiply(block[:, some])
        self._there = None

    @property
    def is_finite(self) -> bool:
        """Whether no number of it is NaN or infinite."""
        if self._here is None:
            return bool(_do().finite(self._there))
        return bool(np.isfinite(self._here.sum(dtype=np.float64)))


class FactoredMatrix(ResidentMatrix):
    """A square matrix times a far wider sparse one: both are kept, in main memory, and not their product.

    Args:
        left: The square matrix.
        right: The sparse one.
    """

    def __init__(self, left: NDArray[Any], right: sp.csr_array) -> None:
        self.left, self._right = ResidentMatrix(left), right
        self.shape, self.dtype = (len(left), right.shape[1]), left.dtype

    @property
    def here(self) -> NDArray[Any]:
        return self.rows(slice(None))

    def goes_there(self) -> bool:
        return False

    def rows(self, some: NDArray[np.integer] | slice) -> NDArray[Any]:
        return gram.times_sparse(self.left.here[some], self._right)

    def columns(self, some: NDArray[np.integer]) -> NDArray[Any]:
        return self.left.here @ self._right[:, some].toarray().astype(self.dtype)

    def left_multiply(self, rows: NDArray[Any]) -> NDArray[Any]:
        return gram.times_sparse(self.left.left_multiply(rows), self._right)


def few_rows_times(rows: NDArray[Any], matrix: NDArray[Any]) -> NDArray[Any]:
    """rows @ matrix of at most `gram.FEW` rows: each row's result is the same to the last bit in any company.

    In what order BLAS adds up depends on the shape of a product. So each row is multiplied alone, and added
    up in place over slabs of the matrix, which are in the cache when the second row comes to them.
    """
    out = np.zeros((len(rows), matrix.shape[1]), matrix.dtype)
    if not out.size:
        return out
    (gemv,) = blas.get_blas_funcs(("gemv",), (matrix,))
    height = max(1, _SLAB // out[0].nbytes)
    for start in range(0, len(matrix), height):
        slab = matrix[start : start + height].T
        for row, total in zip(rows[:, start : start + height], out, strict=True):
            gemv(1.0, slab, row, 1.0, total, overwrite_y=True)
    return out


@cache
def _do() -> SimpleNamespace:
    """The compiled functions, once for a shape."""
    import jax.numpy as jnp
    from jax import lax

    def scaled(a: Any, columns: Any) -> Any:
        return a * columns

    def add(a: Any, right: Any, factor: Any, columns: Any, start: Any, rows: int) -> Any:
        block = lax.dynamic_slice_in_dim(a, start, rows)
        if columns is None:
            block += factor * matmul(block, right)
        else:
            block = block.at[:, columns].add(factor * matmul(block[:, columns], right))
        return lax.dynamic_update_slice_in_dim(a, block, start, 0)

    def finite(a: Any) -> Any:
        return jnp.isfinite(a).all()

    return SimpleNamespace(
        product=compiled(matmul),
        scaled=compiled(scaled, donate_argnums=0),
        add=compiled(add, donate_argnums=0, static_argnums=5),
        finite=compiled(finite),
    )
