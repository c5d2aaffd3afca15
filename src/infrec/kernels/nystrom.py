"""Ridge on all rows with few centres (Nyström), from one pass: α = (K_SX K_XS + λ m K_SS)⁻¹ K_SX Y.

S are the centres, X the rows, m the mean diagonal of the kernel over the rows. With every row a centre it is
the exact ridge. The system above is hopeless in float32: K_SX K_XS grows with rows × centres, and rounding in
it drowns λ m K_SS. So rows first become features, through the Cholesky factor of the centres' own kernel,

    K_SS + jitter = L Lᵀ (float64),   Z = K_XS L⁻ᵀ,   w = (ZᵀZ + λ m I)⁻¹ ZᵀY,   α = L⁻ᵀ w,

whose ZᵀZ has the eigenvalues of the kernel itself. One pass over the rows, block by block, adds up ZᵀZ and
ZᵀY in float64; nothing grows with the number of rows, every λ is solved from the same sums, and sums of two
parts of the rows add to those of both. Y stays sparse. A jitter relative to the diagonal makes repeated
centres harmless.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.linalg.blas as blas
import scipy.linalg.lapack as lapack
import scipy.sparse as sp

from infrec.errors import ConfigError, SolveError
from infrec.kernels import devices, gram, ridge
from infrec.kernels.collectives import Team
from infrec.machine import in_parallel
from infrec.progress import Progress, silent

if TYPE_CHECKING:
    from jaxtyping import Float
    from numpy.typing import NDArray

# Of the mean diagonal of K_SS: above the rounding of the kernel, below what any λ can see.
JITTER = {"float32": 1e-6, "float64": 1e-11}
_COLUMNS = 2048  # of α solved at a time, in float64


@dataclass(frozen=True, eq=False)
class Features:
    """The way from a row to its features: the centres' rows, the kernel, and the factor of theirs."""

    rows: sp.csr_array
    kernel: gram.Kernel
    factor: Float[np.ndarray, "centres centres"]  # L, float64, Fortran order
    dtype: str = "float32"

    @classmethod
    def of(cls, rows: sp.csr_array, kernel: gram.Kernel, *, dtype: str = "float32") -> Self:
        """Factorise the kernel of the centres."""
        if not rows.shape[0]:
            raise ConfigError("there are no centres; expected at least one.")
        if dtype == "float32" and devices.device() is not None:
            from infrec.kernels.nystrom_gpu import factor_of

            factor, failed = factor_of(rows, kernel, jitter=JITTER[dtype]), 0
        else:
            between = gram.kernel_matrix(kernel, rows, dtype=np.float64)
            between.ravel()[:: len(between) + 1] += JITTER[dtype] * float(np.diagonal(between).mean())
            # The transpose of a symmetric matrix is itself, in Fortran order: LAPACK works in place.
            factor, failed = lapack.dpotrf(between.T, lower=True, overwrite_a=True, clean=True)
        if failed or not np.isfinite(factor[-1, -1]):  # the last pivot: whatever is not a number ends there
            raise SolveError(
                f"the kernel of the {len(factor)} centres is not positive definite; check that their weights "
                "are finite and not far apart."
            )
        return cls(rows, kernel, factor, dtype)

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    @property
    def block(self) -> int:
        """How many rows are taken in at a time."""
        return devices.nystrom_block(len(self))

    @cached_property
    def _rounded(self) -> NDArray[Any]:
        return np.asfortranarray(self.factor, self.dtype)

    def of_rows(self, x: sp.csr_array) -> Float[np.ndarray, "centres rows"]:
        """Zᵀ in Fortran order: one row's features lie side by side."""
        kernel = gram.kernel_matrix(self.kernel, x, self.rows, dtype=self.dtype)
        (trsm,) = blas.get_blas_funcs(("trsm",), (self._rounded, kernel))
        return trsm(1.0, self._rounded, kernel.T, lower=True, overwrite_b=True)


@dataclass
class Sums:
    """Sums of one pass over the rows, in float64: all that the solve needs of them."""

    products: Float[np.ndarray, "centres centres"]  # ZᵀZ, its upper triangle
    targets: Float[np.ndarray, "centres columns"]  # ZᵀY
    diagonal: float = 0.0  # Σ Θ(x, x)
    rows: int = 0

    @classmethod
    def empty(cls, centres: int, columns: int) -> Self:
        return cls(np.zeros((centres, centres)), np.zeros((centres, columns)))

    def add(self, features: Features, x: sp.csr_array, y: sp.csr_array, *, sign: int = 1) -> None:
        """Take in a block of rows, kernel inputs and targets; or, with −1, take it out again."""
        z = features.of_rows(x)
        (syrk,) = blas.get_blas_funcs(("syrk",), (z,))
        self.products += syrk(float(sign), z, lower=False)
        by_row, turned = z.T, sp.csc_array(y.T, dtype=z.dtype)
        step = centres_at_a_time(y.shape[1])

        def some_centres(start: int) -> None:
            some = slice(start, start + step)
            self.targets[some] += sign * (turned @ np.ascontiguousarray(by_row[:, some])).T

        in_parallel(some_centres, range(0, len(z), step))
        self.note(x, features.kernel, sign=sign)

    def note(self, x: sp.csr_array, kernel: gram.Kernel, *, sign: int = 1) -> None:
        """Count rows and add their Θ(x, x)."""
        own = kernel.diagonal(gram.squared_norms(x, np.float64), d=x.shape[1])
        self.diagonal += sign * float(own.sum())
        self.rows += sign * x.shape[0]

    def merge(self, other: Sums) -> None:
        """Add the sums of other rows with the same centres."""
        self.products = self.products + other.products
        self.targets = self.targets + other.targets
        self.diagonal += other.diagonal
        self.rows += other.rows

    def solve(self, features: Features, *, reg: float) -> Float[np.ndarray, "centres columns"]:
        """α for a λ relative to the mean diagonal; any number of λ from the same sums."""
        if not reg >= 0 or not np.isfinite(reg):
            raise ConfigError(f"reg is {reg}; expected a finite number of 0 or more.")
        if not self.rows:
            raise ConfigError("there are no rows to solve on; expected at least one block.")
        mean = self.diagonal / self.rows
        ridge.check_rows(features.rows, reg * mean, np.full(len(features), mean, features.dtype), reg)
        if features.dtype == "float32" and devices.device() is not None:
            from infrec.kernels.nystrom_gpu import solve

            return checked(solve(self, features, reg))
        system = np.array(self.products, order="F")
        system.ravel(order="F")[:: len(system) + 1] += reg * mean
        diagonal = np.diagonal(system).astype(features.dtype)
        upper, info = lapack.dpotrf(system, lower=False, overwrite_a=True, clean=False)
        ridge.check_pivots(info, np.diagonal(upper), diagonal, reg)
        centres, columns = self.targets.shape
        alpha: NDArray[Any] = np.empty((centres, columns), features.dtype)
        for start in range(0, columns, _COLUMNS):
            some = slice(start, start + _COLUMNS)
            weights, _ = lapack.dpotrs(upper, np.asfortranarray(self.targets[:, some]), overwrite_b=True)
            alpha[:, some] = blas.dtrsm(
                1.0, features.factor, weights, lower=True, trans_a=True, overwrite_b=True
            )
        return checked(alpha)


def checked(alpha: Float[np.ndarray, "centres columns"]) -> Float[np.ndarray, "centres columns"]:
    """α, after checking that it is finite."""
    if not np.isfinite(alpha.sum(dtype=np.float64)):
        raise SolveError(f"the solve with {len(alpha)} centres overflowed; use a larger reg or float64.")
    return alpha


def accumulate(
    blocks: Iterable[tuple[sp.csr_array, sp.csr_array]],
    features: Features,
    *,
    columns: int,
    total: int | None = None,
    progress: Progress = silent,
) -> Sums:
    """One pass: blocks of (kernel inputs, targets), of any sizes, in any order; `total` rows for progress.

    On an accelerator the same sums are formed there.
    """
    if features.dtype == "float32" and devices.device() is not None:
        from infrec.kernels.nystrom_gpu import DeviceSums

        sums: Any = DeviceSums(features, columns)
    else:
        sums = Sums.empty(len(features), columns)
    for x, y in blocks:
        if x.shape[0] != y.shape[0] or y.shape[1] != columns:
            raise ConfigError(
                f"a block has inputs {x.shape} and targets {y.shape}; expected as many rows and "
                f"{columns} columns."
            )
        for start in range(0, x.shape[0], features.block):
            some = slice(start, start + features.block)
            sums.add(features, x[some], y[some])
            progress("one pass over the users", sums.rows, total)
    return sums if isinstance(sums, Sums) else sums.finished()


def same(rows: sp.csr_array, block: int = 1 << 16) -> Iterator[tuple[sp.csr_array, sp.csr_array]]:
    """Blocks of rows that are their own targets, as in an autoencoder."""
    for start in range(0, rows.shape[0], block):
        some = rows[start : start + block]
        yield some, some


def centres_at_a_time(columns: int) -> int:
    """How many centres' targets are added to at a time: their columns stay in a core's cache."""
    return int(np.clip((1 << 19) // max(1, columns), 16, 256))


class ShardedSums:
    """`nystrom.Sums` of all processes' rows; of the targets, this process keeps the columns it owns."""

    def __init__(self, features: Features, columns: int, team: Team) -> None:
        self.features, self.columns, self.team = features, columns, team
        self._width = team.width(columns)
        chunks = -(-columns // self._width)
        self._each = self._width // team.count
        centres = len(features)
        # Rows and Θ(x, x) are counted, and products added up, for this process's rows until `solvable`.
        self._own = Sums(np.zeros((centres, centres)), np.zeros((centres, chunks * self._each)))
        self._on_device = features.dtype == "float32" and devices.device() is not None

    @property
    def rows(self) -> int:
        """Of this process."""
        return self._own.rows

    def add(self, x: sp.csr_array, *, sign: int = 1) -> None:
        """Take in a block of rows, which are their own targets; none, where the others still have some."""
        if self.team.count == 1:
            self._own.add(self.features, x, x, sign=sign)
            return
        z = None
        if x.shape[0]:
            z = self.features.of_rows(x)
            (syrk,) = blas.get_blas_funcs(("syrk",), (z,))
            self._own.products += syrk(float(sign), z, lower=False)
            self._own.note(x, self.features.kernel, sign=sign)
        for number, start in enumerate(range(0, self.columns, self._width)):
            share = self._share(z, x, slice(start, start + self._width))
            mine = slice(number * self._each, (number + 1) * self._each)
            self._own.targets[:, mine] += sign * self.team.exchange(share)

    def _share(self, z: NDArray[Any] | None, x: sp.csr_array, columns: slice) -> NDArray[Any]:
        """This process's ZᵀY of some columns; beyond the last one, zeros."""
        share = np.zeros((len(self.features), self._width), self.features.dtype)
        if z is None:
            return share
        y = x if columns.stop >= self.columns and not columns.start else x[:, columns]
        by_row, turned = z.T, sp.csc_array(y.T, dtype=z.dtype)
        step = centres_at_a_time(y.shape[1])

        def some_centres(start: int) -> None:
            some = slice(start, start + step)
            share[some, : y.shape[1]] = (turned @ np.ascontiguousarray(by_row[:, some])).T

        in_parallel(some_centres, range(0, len(z), step))
        return share

    def take(self, rows: Iterator[sp.csr_array], rounds: int, *, sign: int = 1) -> None:
        """All of this process's blocks; `rounds` is the most blocks that any process has.

        On an accelerator the blocks are added up there, and exchanged once at the end.
        """
        if self._on_device:
            self._merge(accumulate(((x, x) for x in rows), self.features, columns=self.columns), sign)
            return
        empty = sp.csr_array((0, self.columns), dtype=np.float32)
        for _ in range(rounds):
            self.add(next(rows, empty), sign=sign)

    def _merge(self, local: Sums, sign: int) -> None:
        self._own.products += sign * local.products
        self._own.diagonal += sign * local.diagonal
        self._own.rows += sign * local.rows
        for number, start in enumerate(range(0, self.columns, self._width)):
            share = np.zeros((len(self.features), self._width))
            part = local.targets[:, start : start + self._width]
            share[:, : part.shape[1]] = part
            mine = slice(number * self._each, (number + 1) * self._each)
            self._own.targets[:, mine] += sign * self.team.exchange(share)

    def solvable(self) -> Sums:
        """The sums over all processes, with this one's columns: each solves for its own."""
        diagonal, rows = self.team.all_sum(np.array([self._own.diagonal, self._own.rows]))
        return Sums(
            self.team.all_sum(self._own.products), self._own.targets, float(diagonal), round(float(rows))
        )
