"""Ridge on all rows with few centres (Nyström): α = (K_SX K_XS + λ m K_SS)⁻¹ K_SX Y.

S are the centres, X the rows, m the mean diagonal of the kernel over the rows. One pass over the rows, block
by block, adds up a centres × centres and a centres × columns matrix; nothing else grows with the number of
rows. With every row a centre it is the exact ridge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from infrec.errors import ConfigError, SolveError

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass
class Sums:
    """What one pass over the rows adds up. Sums of two parts of the rows add to those of both."""

    products: Float[np.ndarray, "centres centres"]  # K_SX K_XS, float64
    targets: Float[np.ndarray, "centres columns"]  # K_SX Y
    diagonal: float = 0.0  # Σ Θ(x, x)
    rows: int = 0

    @classmethod
    def empty(cls, centres: int, columns: int) -> Sums:
        return cls(np.zeros((centres, centres)), np.zeros((centres, columns)))

    def add(
        self,
        kernel: Float[np.ndarray, "rows centres"],
        y: sp.csr_array | Float[np.ndarray, "rows columns"],
        diagonal: Float[np.ndarray, " rows"],
    ) -> None:
        """Take in a block of rows: its kernel with the centres, its targets, and Θ(x, x) of its rows."""
        self.products += kernel.T @ kernel
        self.targets += (y.T @ kernel).T if sp.issparse(y) else kernel.T @ y
        self.diagonal += float(np.sum(diagonal, dtype=np.float64))
        self.rows += len(kernel)

    def solve(
        self, centres: Float[np.ndarray, "centres centres"], *, reg: float
    ) -> Float[np.ndarray, "centres columns"]:
        """α for a λ relative to the mean diagonal, in float64."""
        if not reg > 0 or not np.isfinite(reg):
            raise ConfigError(f"reg is {reg}; expected a finite number above 0.")
        if not self.rows:
            raise ConfigError("there are no rows to solve on; expected at least one block.")
        system: Any = self.products + reg * self.diagonal / self.rows * centres.astype(np.float64)
        try:
            factor = scipy.linalg.cho_factor(system, lower=True, overwrite_a=True, check_finite=True)
        except (scipy.linalg.LinAlgError, ValueError):
            raise SolveError(
                f"the Nyström system of {len(centres)} centres is not positive definite (reg={reg:g}): some "
                "centres are the same; use a larger reg or fewer centres."
            ) from None
        return scipy.linalg.cho_solve(factor, self.targets)
