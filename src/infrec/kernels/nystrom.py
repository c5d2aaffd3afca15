"""Ridge on all rows with few centres (Nyström), from one pass: α = (K_SX K_XS + λ m K_SS)⁻¹ K_SX Y.

S are the centres, X the rows, m the mean diagonal of the kernel over the rows. With every row a centre it is
the exact ridge. The system above is hopeless in float32: K_SX K_XS grows with rows × centres, and rounding in
it drowns λ m K_SS. So rows first become features, through the Cholesky factor of the centres' own kernel,

    K_SS + jitter = L Lᵀ (float64),   Z = K_XS L⁻ᵀ,   w = (ZᵀZ + λ m I)⁻¹ ZᵀY,   α = L⁻ᵀ w,

whose ZᵀZ has the eigenvalues of the kernel itself. One pass over the rows, block by block, adds up ZᵀZ and
ZᵀY in float64; nothing grows with the number of rows, every λ is solved from the same sums, and sums of two
parts of the rows add to those of both. Rows that change later are exchanged in them. Y stays sparse. A jitter
relative to the diagonal makes repeated centres harmless.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.linalg.blas as blas
import scipy.linalg.lapack as lapack
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.errors import ConfigError, SolveError
from infrec.kernels import gram, ridge
from infrec.kernels.collectives import Team
from infrec.machine import cores, in_parallel
from infrec.progress import Progress, silent
from infrec.randomness import generator

if TYPE_CHECKING:
    from jaxtyping import Float

    Block = tuple[sp.csr_array, sp.csr_array]

# Of the mean diagonal of K_SS: above the rounding of the kernel, below what any λ can see.
JITTER = {"float32": 1e-6, "float64": 1e-11}
_COLUMNS = 2048  # of α solved at a time, in float64
_FEWEST, _MOST = 16, 64  # centres whose products with the targets are formed at a time
_BYTES = 1 << 24  # of these products, about
_STRIP = 64  # rows whose kernel is worked out at a time


def draw_centres(counts: NDArray[np.integer], count: int, *, seed: int) -> NDArray[np.integer]:
    """The rows that stand for all, in ascending order: at random among those that are not empty.

    In proportion to their entries, or those that few others resemble, they were no better
    (benchmarks/results/scale-2026-11-16.md).

    Args:
        counts: Entries of each row.
        count: How many are wanted; where there are no more, all are taken, empty ones too.
        seed: Decides which.
    """
    if count >= len(counts):
        return np.arange(len(counts))
    known = np.flatnonzero(counts)
    if len(known) <= count:
        return known
    return np.sort(generator(seed, "centres", "random").choice(known, count, replace=False))


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
        factor = cls._factorised(rows, kernel, JITTER[dtype])
        if not np.isfinite(factor[-1, -1]):  # the last pivot: whatever is not a number ends there
            raise SolveError(
                f"the kernel of the {len(factor)} centres is not positive definite; check that their weights "
                "are finite and not far apart."
            )
        return cls(rows, kernel, factor, dtype)

    @staticmethod
    def _factorised(rows: sp.csr_array, kernel: gram.Kernel, jitter: float) -> NDArray[np.float64]:
        """L of the kernel plus `jitter` of its mean diagonal; its last pivot is NaN where there is none."""
        between = gram.kernel_matrix(kernel, rows, dtype=np.float64)
        between.ravel()[:: len(between) + 1] += jitter * float(np.diagonal(between).mean())
        # The transpose of a symmetric matrix is itself, in Fortran order: LAPACK works in place.
        factor, failed = lapack.dpotrf(between.T, lower=True, overwrite_a=True, clean=True)
        if failed:
            factor[-1, -1] = np.nan
        return factor

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    @property
    def block(self) -> int:
        """How many rows are taken in at a time."""
        return block_size(len(self))

    @cached_property
    def _rounded(self) -> NDArray[Any]:
        return np.asfortranarray(self.factor, self.dtype)

    def of_rows(self, x: sp.csr_array) -> Float[np.ndarray, "centres rows"]:
        """Zᵀ in Fortran order: one row's features lie side by side."""
        return self._whitened(gram.kernel_matrix(self.kernel, x, self.rows, dtype=self.dtype))

    def of_changed(
        self, before: sp.csr_array, after: sp.csr_array
    ) -> tuple[Float[np.ndarray, "centres rows"], Float[np.ndarray, "centres rows"]]:
        """Zᵀ of rows before and after they changed: what they keep is compared with the centres once."""
        compared, was = self._compared, gram.kernel_matrix(gram.Linear(), before, self.rows, dtype=self.dtype)
        more = sp.csr_array(after - before, dtype=self.dtype) @ compared.by_item
        then = np.empty_like(was)

        def strip(start: int) -> None:  # while it is in a core's cache
            some = slice(start, start + _STRIP)
            then[some] = was[some] + more[some].toarray()
            then[some] = compared.from_products(self.kernel, then[some], after[some])
            was[some] = compared.from_products(self.kernel, was[some], before[some])

        in_parallel(strip, range(0, len(was), _STRIP))
        return self._whitened(was), self._whitened(then)

    @cached_property
    def _compared(self) -> gram.Centres:
        return gram.Centres.of(self.rows, self.dtype)

    def _whitened(self, between: NDArray[Any]) -> NDArray[Any]:
        (trsm,) = blas.get_blas_funcs(("trsm",), (self._rounded, between))
        return trsm(1.0, self._rounded, between.T, lower=True, overwrite_b=True)

    def sums(self, columns: int, team: Team | None = None) -> Sums:
        """Empty sums over these features, with so many columns of targets, of one process or of a team."""
        return Sums(self, columns, team or Team())


class Sums:
    """Sums of one pass over the rows, in float64: all that the solve needs of them.

    Every process of a team adds its own rows. Of the targets it keeps the columns that it owns, which are
    exchanged after each block; the rest is of its own rows until `over_team`.
    """

    def __init__(self, features: Features, columns: int, team: Team) -> None:
        self.features, self.columns, self.team = features, columns, team
        self._width = team.width(columns)
        self._owned = self._width // team.count  # columns of each exchange
        centres, exchanges = len(features), -(-columns // self._width)
        self.products: Float[np.ndarray, "centres centres"] = np.zeros((centres, centres))  # ZᵀZ, upper half
        self.targets: Float[np.ndarray, "centres own"] = np.zeros((centres, exchanges * self._owned))  # ZᵀY
        self.diagonal = 0.0  # Σ K(x, x)
        self.rows = 0

    def add_all(
        self,
        blocks: Iterable[Block],
        *,
        sign: int = 1,
        rounds: int = 0,
        total: int | None = None,
        progress: Progress = silent,
    ) -> None:
        """One pass over all rows of this process.

        Args:
            blocks: Pairs of kernel inputs and targets, of any sizes, in any order.
            sign: 1 to take them in, −1 to take them out again.
            rounds: The most blocks that any process of the team has.
            total: Rows of all blocks, for progress.
            progress: Told how many rows are in.
        """
        added = 0
        for x, y in self._cut(blocks):
            self.add(x, y, sign=sign)
            added += 1
            progress("one pass over the users", self.rows, total)
        nothing = sp.csr_array((0, self.columns), dtype=np.float32)
        for _ in range(added, rounds):
            self.add(nothing, nothing, sign=sign)

    def _cut(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Blocks of at most `features.block` rows; where inputs and targets are one matrix, they stay it."""
        for x, y in blocks:
            if x.shape[0] != y.shape[0] or y.shape[1] != self.columns:
                raise ConfigError(
                    f"a block has inputs {x.shape} and targets {y.shape}; expected as many rows and "
                    f"{self.columns} columns."
                )
            for start in range(0, x.shape[0], self.features.block):
                some = slice(start, start + self.features.block)
                inputs = x[some]
                yield inputs, inputs if x is y else y[some]

    def add(self, x: sp.csr_array, y: sp.csr_array, *, sign: int = 1) -> None:
        """Take in a block of rows, kernel inputs and targets; or, with −1, take it out again."""
        z = None
        if x.shape[0]:
            z = self.features.of_rows(x)
            self._add_inputs(x, z, sign)
        if self.team.count == 1:
            if z is not None:
                _add_products(self.targets, z, y, sign)
            return
        for own, columns in self._exchanges():
            share = np.zeros((len(self.features), self._width), self.features.dtype)
            if z is not None:
                some = y[:, columns]
                _add_products(share[:, : some.shape[1]], z, some, 1)
            self.targets[:, own] += sign * self.team.exchange(share)

    def exchange(self, before: sp.csr_array, after: sp.csr_array) -> None:
        """Take out rows that are their own targets, and take them in as they are now; in one process.

        Differences alone are multiplied: ΔZᵀY = (Z_after − Z_before)ᵀ Y_before + Z_afterᵀ ΔY.

        Args:
            before: The rows as they were taken in.
            after: The same rows, changed.
        """
        for start in range(0, before.shape[0], self.features.block):
            old, new = (rows[start : start + self.features.block] for rows in (before, after))
            z_old, z_new = self.features.of_changed(old, new)
            self._add_inputs(old, z_old, -1)
            self._add_inputs(new, z_new, 1)
            z, y = np.concatenate([z_new - z_old, z_new], axis=1), sp.vstack([old, new - old], format="csr")
            _add_products(self.targets, z, y, 1)

    def merge(self, other: Sums, *, sign: int = 1) -> None:
        """Add the sums of other rows with the same centres, which one process formed."""
        add = np.add if sign > 0 else np.subtract
        add(self.products, other.products, out=self.products)
        self.diagonal += sign * other.diagonal
        self.rows += sign * other.rows
        if self.team.count == 1:
            add(self.targets, other.targets, out=self.targets)
            return
        for own, columns in self._exchanges():
            part = other.targets[:, columns]
            share = np.pad(part, ((0, 0), (0, self._width - part.shape[1])))
            self.targets[:, own] += sign * self.team.exchange(share)

    def over_team(self) -> Self:
        """The sums over all processes, with this one's columns: each solves for its own."""
        total = copy(self)
        diagonal, rows = self.team.all_sum(np.array([self.diagonal, self.rows]))
        total.diagonal, total.rows = float(diagonal), round(float(rows))
        total.products = self.team.all_sum(self.products)
        return total

    def solve(self, reg: float) -> Float[np.ndarray, "centres own"]:
        """α for a λ relative to the mean diagonal; any number of λ from the same sums."""
        if not self.rows:
            raise ConfigError("there are no rows to solve on; expected at least one block.")
        features, mean = self.features, self.diagonal / self.rows
        added = ridge.shift(np.array([mean]), reg=reg, scale="mean_diagonal")
        ridge.check_rows(features.rows, added, np.full(len(features), mean, features.dtype), reg)
        alpha = self._solved(reg, added)
        if not np.isfinite(alpha.sum(dtype=np.float64)):
            raise SolveError(f"the solve with {len(alpha)} centres overflowed; use a larger reg or float64.")
        return alpha

    def _solved(self, reg: float, added: float) -> NDArray[Any]:
        """α, with `added` on the diagonal."""
        dtype, factor = self.features.dtype, self.features.factor
        system = np.array(self.products, order="F")
        system.ravel(order="F")[:: len(system) + 1] += added
        diagonal = np.diagonal(system).astype(dtype)
        upper, info = lapack.dpotrf(system, lower=False, overwrite_a=True, clean=False)
        ridge.check_pivots(info, np.diagonal(upper), diagonal, reg)
        # One matrix for all columns: a product with it costs two thirds of three solves.
        inverse, _ = lapack.dpotri(upper, lower=False, overwrite_c=True)
        gram.mirror(inverse)
        whole = blas.dtrsm(1.0, factor, inverse, lower=True, trans_a=True, overwrite_b=True)
        alpha: NDArray[Any] = np.empty(self.targets.shape, dtype)
        for start in range(0, alpha.shape[1], _COLUMNS):
            some = slice(start, start + _COLUMNS)
            alpha[:, some] = whole @ self.targets[:, some]
        return alpha

    def _exchanges(self) -> Iterator[tuple[slice, slice]]:
        """The columns of each exchange: where this process keeps its part, and which they are of all."""
        for number, start in enumerate(range(0, self.columns, self._width)):
            own = slice(number * self._owned, (number + 1) * self._owned)
            yield own, slice(start, start + self._width)

    def _add_inputs(self, x: sp.csr_array, z: NDArray[Any], sign: int) -> None:
        (syrk,) = blas.get_blas_funcs(("syrk",), (z,))
        self.products += syrk(float(sign), z, lower=False)
        self._count(x, sign)

    def _count(self, x: sp.csr_array, sign: int) -> None:
        own = self.features.kernel.diagonal(gram.squared_norms(x, np.float64), d=x.shape[1])
        self.diagonal += sign * float(own.sum())
        self.rows += sign * x.shape[0]


def _add_products(out: NDArray[Any], z: NDArray[Any], y: sp.csr_array, sign: int) -> None:
    """out += sign · ZᵀY, some centres at a time: enough for whole vector instructions on each entry of Y."""
    by_row, turned = z.T, sp.csr_array(y.T, dtype=z.dtype)
    room, share = _BYTES // (z.itemsize * y.shape[1]), len(z) // cores()
    step = int(np.clip(min(room, share), _FEWEST, _MOST))

    def some_centres(start: int) -> None:
        some = slice(start, start + step)
        out[some] += sign * (turned @ np.ascontiguousarray(by_row[:, some])).T

    in_parallel(some_centres, range(0, len(z), step))


def same(rows: sp.csr_array, block: int = 1 << 16) -> Iterator[Block]:
    """Blocks of rows that are their own targets, as in an autoencoder."""
    for start in range(0, rows.shape[0], block):
        some = rows[start : start + block]
        yield some, some


def block_size(centres: int) -> int:
    """How many rows a pass takes in at a time: 64 MB of their kernel in float32."""
    return min(16384, max(64, (1 << 24) // centres))
