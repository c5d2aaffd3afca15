"""The exact ridge after a few rows came and went, from the inverse before: block elimination.

With P = (K + s I)⁻¹ and α = P X, and s as it was:

    rows T leave    P⁰ = P − W Wᵀ,   α⁰ = α − W L⁻¹ α_T          L Lᵀ = P_TT,  W = P_T L⁻ᵀ
    rows I come     P⁰ + V Vᵀ,       α⁰ − V M⁻¹ (X_I − Bᵀ α⁰)    M Mᵀ = K_II + s I − Bᵀ P⁰ B

with B = K(X, X_I) and V = [P⁰ B; −I] M⁻ᵀ. A row that changes leaves and comes. What is costly are products of
few rows with P and with α; P is symmetric, and half of it is computed. Bᵀ α⁰ = (P⁰ B)ᵀ X is a sparse product.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg.blas as blas
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.kernels import gram

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True, eq=False)
class Solution:
    """An exact ridge solution, with what it takes to go on from it.

    Args:
        inverse: (K + shift · I)⁻¹, in Fortran order; only its upper triangle is read.
        alpha: The inverse times the targets, which are the rows themselves.
        shift: What is added to the diagonal of K.
    """

    inverse: Float[np.ndarray, "n n"]
    alpha: Float[np.ndarray, "n items"]
    shift: float

    def exchange(
        self, kernel: gram.Kernel, x: sp.csr_array, leave: NDArray[np.integer], come: NDArray[np.integer]
    ) -> Solution:
        """The solution after some rows left and others came; both are new arrays.

        Args:
            kernel: The kernel.
            x: All rows as they are afterwards, at least as many as before; of those that left and did not
                come again, anything.
            leave: Which of the rows before leave.
            come: Which rows come: in the places of such that left, or last.
        """
        n, before, dtype = x.shape[0], len(self.alpha), self.alpha.dtype
        inverse = np.zeros((n, n), dtype, order="F")
        inverse[:before, :before] = self.inverse
        left, right = [], []
        if len(leave):
            columns = _columns(inverse, leave)
            whiten = _inverse_factor(columns[leave])
            left.append(columns @ whiten.T)
            right.append(-whiten @ self.alpha[leave])
            inverse = _add_square(inverse, left[-1], -1.0)
            inverse[leave] = inverse[:, leave] = 0
        if len(come):
            rows = sp.csr_array(x[come])
            between = gram.kernel_matrix(kernel, rows, x, dtype=dtype)  # Bᵀ
            between[:, leave] = between[:, come] = 0
            (symm,) = blas.get_blas_funcs(("symm",), (inverse,))
            columns = symm(1.0, inverse, between.T, lower=False)  # P⁰ B
            columns[leave] = columns[come] = 0
            system = gram.kernel_matrix(kernel, rows, dtype=dtype).astype(np.float64)
            system -= between.astype(np.float64) @ columns
            system.ravel()[:: len(system) + 1] += self.shift
            whiten = _inverse_factor(system).astype(dtype)
            missing = rows.toarray().astype(dtype) - gram.times_sparse(columns.T, x)
            columns[come, np.arange(len(come))] = -1
            left.append(columns @ whiten.T)
            right.append(-whiten @ missing)
            inverse = _add_square(inverse, left[-1], 1.0)
        alpha = np.zeros((n, x.shape[1]), dtype)
        alpha[:before] = self.alpha
        if left:
            (gemm,) = blas.get_blas_funcs(("gemm",), (alpha,))
            few, many = np.concatenate(right), np.concatenate([part.T for part in left])
            gemm(1.0, few.T, many, beta=1.0, c=alpha.T, overwrite_c=True)
        return Solution(inverse, alpha, self.shift)

    def keep(self, rows: NDArray[np.integer]) -> Solution:
        """The solution of these rows alone, after the others left."""
        if len(rows) == len(self.alpha):
            return self
        inverse = np.asfortranarray(self.inverse[:, rows][rows])
        return Solution(inverse, self.alpha[rows], self.shift)

    def error(self, kernel: gram.Kernel, x: sp.csr_array, rows: NDArray[np.integer]) -> float:
        """The largest entry of X − K α − shift · α in these rows: 0 but for rounding."""
        between = gram.kernel_matrix(kernel, sp.csr_array(x[rows]), x, dtype=self.alpha.dtype)
        norms = gram.squared_norms(sp.csr_array(x[rows]), self.alpha.dtype)
        between[np.arange(len(rows)), rows] = kernel.diagonal(norms, d=x.shape[1])
        found = between @ self.alpha + self.alpha.dtype.type(self.shift) * self.alpha[rows]
        return float(np.abs(x[rows].toarray() - found).max(initial=0.0))


def _columns(inverse: NDArray[Any], at: NDArray[np.integer]) -> NDArray[Any]:
    """Whole columns of a symmetric matrix whose upper triangle is known."""
    below = np.arange(len(inverse))[:, None] > at[None, :]
    return np.where(below, inverse[at].T, inverse[:, at])


def _inverse_factor(system: NDArray[Any]) -> NDArray[Any]:
    """L⁻¹ of a positive definite matrix L Lᵀ of few rows, through float64, in its own type."""
    wide = system.astype(np.float64)
    factor = np.linalg.cholesky((wide + wide.T) / 2)
    return np.linalg.inv(factor).astype(system.dtype)


def _add_square(inverse: NDArray[Any], factor: NDArray[Any], sign: float) -> NDArray[Any]:
    """inverse + sign · factor factorᵀ, the upper triangle, in place."""
    (syrk,) = blas.get_blas_funcs(("syrk",), (inverse,))
    return syrk(sign, factor.T, trans=True, beta=1.0, c=inverse, lower=False, overwrite_c=True)
