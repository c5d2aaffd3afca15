"""The exact ridge solve: α = (K + reg · s · I)⁻¹ Y, in place through LAPACK.

The scale s is part of the call. `scale="mean_diagonal"` is what the published numbers use (s = tr K / n, so
that the same `reg` means the same on data of any size); `scale="absolute"` is s = 1, as the paper's formula
reads. One factorisation serves every use of a `reg`. A matrix that is not positive definite in the arithmetic
at hand raises `SolveError`; NaN is never returned. Where rows are the same and `reg` is 0, K is singular: the
rows say so, not a pivot, whose rounding differs between CPUs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

import numpy as np
import scipy.linalg.blas as blas
import scipy.linalg.lapack as lapack
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.errors import ConfigError, SolveError
from infrec.kernels.gram import (
    Kernel,
    kernel_matrix,
    mirror,
    scaled,
    sparse_times,
    squared_norms,
    times_sparse,
)
from infrec.randomness import generator

if TYPE_CHECKING:
    from jaxtyping import Float

Scale = Literal["mean_diagonal", "absolute"]

# What a sparse product costs beside a dense one, per multiplication (2 cores: 11 against 100 G/s).
_SPARSE_COST = 9.0


def shift(diagonal: Float[np.ndarray, " n"], *, reg: float, scale: Scale) -> float:
    """The number reg · s that is added to the diagonal of K."""
    if scale not in ("mean_diagonal", "absolute"):
        raise ConfigError(f"scale is {scale!r}; expected 'mean_diagonal' or 'absolute'.")
    if not reg >= 0 or not np.isfinite(reg):
        raise ConfigError(f"reg is {reg}; expected a finite number of 0 or more.")
    return float(reg) * (float(np.mean(diagonal, dtype=np.float64)) if scale == "mean_diagonal" else 1.0)


def factorise(
    k: Float[np.ndarray, "n n"],
    *,
    reg: float,
    scale: Scale = "mean_diagonal",
    work: Float[np.ndarray, "n n"] | None = None,
    rows: sp.csr_array | None = None,
) -> Factor:
    """Cholesky of K + reg · s · I, in `work` where one is lent (C order), so that a path needs one copy.

    rows: whose kernel K is, for `check_rows`.
    """
    if k.dtype not in (np.float32, np.float64):
        raise ConfigError(f"the kernel is {k.dtype}; expected float32 or float64.")
    added = shift(np.diagonal(k), reg=reg, scale=scale)
    a = np.empty(k.shape, k.dtype) if work is None else work
    np.copyto(a, k)
    a.ravel()[:: len(a) + 1] += k.dtype.type(added)
    diagonal = np.diagonal(a).copy()
    if rows is not None:
        check_rows(rows, added, np.diagonal(k), reg)
    (potrf,) = lapack.get_lapack_funcs(("potrf",), (a,))
    # a.T is the same symmetric matrix in Fortran order: LAPACK works in place, without a copy.
    upper, info = potrf(a.T, lower=False, overwrite_a=True, clean=False)
    check_pivots(info, np.diagonal(upper), diagonal, reg)
    return Factor(upper, added)


def check_rows(rows: sp.csr_array, added: float, diagonal: Float[np.ndarray, " n"], reg: float) -> None:
    """Refuse a kernel of rows some of which are the same, where what `reg` adds is lost in rounding.

    Two equal rows leave a pivot of twice what was added. Below half of what `check_pivots` asks for, rounding
    would decide.
    """
    if added > lost_in_rounding(len(diagonal), diagonal.dtype) * float(diagonal.max(initial=0.0)):
        return
    same = repeated_rows(rows)
    if same:
        raise SolveError(
            f"the kernel plus reg={reg:g} is not positive definite in {diagonal.dtype} ({same} of "
            f"{rows.shape[0]} rows are the same as another one); use a larger reg."
        )


def repeated_rows(rows: sp.csr_array) -> int:
    """How many rows are the same as an earlier one: equal sums of random marks of their entries, in order."""
    marks = rows.astype(np.float64) @ generator(0, "marks of rows").standard_normal(rows.shape[1])
    return int(rows.shape[0] - len(np.unique(marks)))


def lost_in_rounding(n: int, dtype: np.dtype[Any]) -> float:
    """Rounding error of a sum of n terms, as a share of the largest: four times the usual √n roundings."""
    return float(4 * np.sqrt(n) * np.finfo(dtype).eps)


def check_pivots(
    info: int, pivots: Float[np.ndarray, " n"], diagonal: Float[np.ndarray, " n"], reg: float
) -> None:
    """Refuse a pivot that is only rounding error: its solution would be finite, and meaningless."""
    n = len(diagonal)
    least = lost_in_rounding(n, diagonal.dtype)
    # nan_to_num: JAX marks a failed factorisation with NaN where LAPACK says which row it was.
    dubious = info - 1 if info > 0 else int(np.argmin(np.nan_to_num(pivots) ** 2 / diagonal)) if n else 0
    if info > 0 or (n and not pivots[dubious] ** 2 > least * diagonal[dubious]):
        raise SolveError(
            f"the kernel plus reg={reg:g} is not positive definite in {diagonal.dtype} (row {dubious} of {n} "
            "depends on the rows before it); use a larger reg, or float64 if no two rows are the same."
        )


class KernelRidge(Protocol):
    """Kernel ridge on rows that are their own targets: the kernel K once, then a solution for each λ."""

    def factorise(self, reg: float) -> None:
        """Factorise K + reg · m · I, m the mean diagonal; `SolveError` where that cannot be."""

    def solve(self, row_scale: NDArray[Any] | None = None) -> Float[Any, "n items"]:
        """α of the last `factorise`, which it may use up.

        Args:
            row_scale: Numbers that the rows of the targets are first multiplied by.
        """

    def smoother(self, rows: NDArray[np.integer], others: sp.csr_array | None = None) -> Float[Any, "k n"]:
        """Rows of H = K (K + reg · m · I)⁻¹, whose product with any targets is what is expected of a row.

        A search looks at few rows of many users: H costs n² for each of them, α costs n² for each item. Like
        `solve`, it may use the factor up.

        Args:
            rows: Training rows, which come last.
            others: Histories that are no training rows; they come first.
        """

    def expected(self, smoother: Float[Any, "k n"], row_scale: NDArray[Any]) -> Float[Any, "k items"]:
        """H D X.

        Args:
            smoother: Rows of H.
            row_scale: D, numbers that the rows of the targets are first multiplied by.
        """


class LapackRidge:
    """`KernelRidge` in main memory: the kernel, and one copy of it that every λ is factorised in."""

    def __init__(self, x: sp.csr_array, kernel: Kernel, dtype: str) -> None:
        self._x, self._kernel = x, kernel
        self._k = kernel_matrix(kernel, x, dtype=dtype)
        self._work: NDArray[Any] | None = None
        self._factor: Factor | None = None
        self._spent: Factor | None = None

    def factorise(self, reg: float) -> None:
        self._spent = None
        self._work = np.empty_like(self._k) if self._work is None else self._work
        self._factor = factorise(self._k, reg=reg, work=self._work, rows=self._x)

    def _use_up(self) -> Factor:
        assert self._factor is not None, "a solution uses the factor up: factorise before each"
        factor, self._factor, self._spent = self._factor, None, self._factor
        return factor

    def solve(self, row_scale: NDArray[Any] | None = None) -> NDArray[Any]:
        targets = self._x if row_scale is None else scaled(self._x, row_scale)
        return self._use_up().solve(targets)

    def inverse(self) -> Float[np.ndarray, "n n"]:
        """(K + reg · m · I)⁻¹ of the last `factorise`, for whoever multiplies it with the targets later."""
        self._work = None  # it is in there, and stays
        inverse = self._use_up().inverse().T  # the same symmetric matrix, in C order
        require_finite(inverse.sum(dtype=np.float64), len(inverse), str(inverse.dtype))
        return inverse

    def smoother(self, rows: NDArray[np.integer], others: sp.csr_array | None = None) -> NDArray[Any]:
        factor, n, kind = self._use_up(), len(self._k), self._k.dtype
        between = (
            np.empty((0, n), kind)
            if others is None
            else kernel_matrix(self._kernel, others, self._x, dtype=kind)
        )
        own = np.arange(len(between), len(between) + len(rows)), rows
        if 3 * (len(between) + len(rows)) > n:  # 2/3 n³ for the inverse, or 2 n² for each row
            inverse = factor.inverse()
            out = np.concatenate([between @ inverse, inverse[rows]])
        else:
            right = np.concatenate([between, np.zeros((len(rows), n), kind)])
            right[own] = 1
            out = factor.divide(right)
        out[len(between) :] *= -factor.shift
        out[own] += 1
        require_finite(out.sum(dtype=np.float64), n, str(kind))
        return out

    def expected(self, smoother: NDArray[Any], row_scale: NDArray[Any]) -> NDArray[Any]:
        return times_sparse(smoother, scaled(self._x, row_scale))

    def spent(self) -> Factor | None:
        """The factor of the last solution, until the next `factorise` overwrites it: what rows that come and
        go later start from (`ridge_update`)."""
        return self._spent


class ItemRidge:
    """Ridge of each column of a matrix on its other columns, in main memory: any kernel, any λ.

    With P = (K + reg · s · I)⁻¹, K the kernel between columns, the weights are B_ij = −P_ij / P_jj off the
    diagonal and 0 on it: a column is predicted from the others, never from itself. With the linear kernel
    this is EASE.
    """

    def __init__(self, x: sp.csr_array, *, scale: Scale = "mean_diagonal") -> None:
        self._items, self._scale = sp.csr_array(x.T), scale
        self._between: tuple[Kernel, NDArray[Any]] | None = None  # the last kernel asked for

    def weights(self, kernel: Kernel, reg: float) -> Float[np.ndarray, "items items"]:
        """B, items × items."""
        weights = self.inverse(kernel, reg)
        weights /= -np.diagonal(weights).copy()[None, :]
        np.fill_diagonal(weights, 0.0)
        return weights

    def inverse(self, kernel: Kernel, reg: float) -> Float[np.ndarray, "items items"]:
        """P, items × items."""
        if self._between is None or self._between[0] != kernel:
            self._between = None  # frees the old one first
            self._between = kernel, kernel_matrix(kernel, self._items)
        factor = factorise(self._between[1], reg=reg, scale=self._scale, rows=self._items)
        return factor.inverse().T  # the same symmetric matrix, in C order

    @staticmethod
    def needs(items: int) -> int:
        """Bytes of the kernel, its factor and two sets of weights."""
        return 4 * 4 * items * items


@dataclass(eq=False)
class Factor:
    """A Cholesky factor (the upper triangle of `upper`, Fortran order) and what was added to the diagonal.

    Once the inverse is asked for, it takes the factor's place.
    """

    upper: Float[np.ndarray, "n n"]
    shift: float
    _inverse: Float[np.ndarray, "n n"] | None = None

    @classmethod
    def inverted(cls, inverse: Float[np.ndarray, "n n"], shift: float) -> Self:
        """From (K + shift · I)⁻¹, which has both triangles."""
        return cls(inverse, shift, inverse)

    def solve(self, y: sp.csr_array) -> Float[np.ndarray, "n m"]:
        """(K + shift · I)⁻¹ Y in C order.

        Y with many columns is cheaper through the explicit inverse: 2/3 n³ for the inverse and one sparse
        product, instead of 2 n² m.
        """
        n, m = y.shape
        if self._inverse is not None or n * n / 3 + _SPARSE_COST * y.nnz < n * m:
            result = times_sparse(self.inverse(), y)
        else:
            (potrs,) = lapack.get_lapack_funcs(("potrs",), (self.upper,))
            right = np.asfortranarray(y.toarray(), self.upper.dtype)
            result = np.ascontiguousarray(potrs(self.upper, right, lower=False, overwrite_b=True)[0])
        require_finite(result.sum(dtype=np.float64), n, str(self.upper.dtype))
        return result

    def divide(self, right: Float[np.ndarray, "k n"]) -> Float[np.ndarray, "k n"]:
        """R (K + shift · I)⁻¹, in the place of R."""
        (potrs,) = lapack.get_lapack_funcs(("potrs",), (self.upper,))
        return potrs(self.upper, right.T, lower=False, overwrite_b=True)[0].T

    def inverse(self) -> Float[np.ndarray, "n n"]:
        """(K + shift · I)⁻¹, both triangles, in the place of the factor, which is used up."""
        if self._inverse is None:
            (potri,) = lapack.get_lapack_funcs(("potri",), (self.upper,))
            self._inverse, _ = potri(self.upper, lower=False, overwrite_c=True)
            mirror(self._inverse)
        return self._inverse


def with_rows(
    inverse: Float[np.ndarray, "items items"], rows: sp.csr_array, sign: int
) -> Float[np.ndarray, "items items"]:
    """(XᵀX + λ I ± UᵀU)⁻¹ from P = (XᵀX + λ I)⁻¹ and rows U, in its place: P ∓ P Uᵀ (I ± U P Uᵀ)⁻¹ U P.

    `LinAlgError` where rounding leaves nothing positive definite.
    """
    if not rows.shape[0]:
        return inverse
    seen = sparse_times(rows, inverse)  # U P
    system = sign * sparse_times(rows, np.ascontiguousarray(seen.T)).astype(np.float64)
    factor = np.linalg.cholesky(np.eye(len(system)) + (system + system.T) / 2)
    square = np.linalg.inv(factor).astype(inverse.dtype) @ seen
    (syrk,) = blas.get_blas_funcs(("syrk",), (inverse,))
    # In Fortran order the transposes are the same symmetric matrices.
    result = syrk(-float(sign), square.T, beta=1.0, c=inverse.T, lower=False, overwrite_c=True)
    mirror(result)
    return result.T


def require_finite(total: float, n: int, dtype: str) -> None:
    """Raise `SolveError` when the sum of a solution of n rows is not a number."""
    if not np.isfinite(total):
        raise SolveError(f"the solve of {n} rows overflowed in {dtype}; use a larger reg or float64.")


def with_cause(failure: SolveError, kernel: Kernel, x: sp.csr_array, reg: float, dtype: str) -> SolveError:
    """The failure of a kernel of `x`, with what is usually behind it: rows that are the same."""
    if kernel.overflows(squared_norms(x, np.float64), d=x.shape[1], dtype=dtype):
        weights = f"weights of up to {x.data.max():g} overflow; use smaller ones"
        cause: object = f"{weights} or float64." if dtype == "float32" else f"{weights}."
    else:
        same = repeated_rows(x)
        cause = f"{same} users have the history of another one; use a larger reg." if same else failure
    return SolveError(f"the kernel solve failed (n={x.shape[0]}, reg={reg:g}, {dtype}): {cause}")
