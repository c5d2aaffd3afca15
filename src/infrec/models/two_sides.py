"""The parts of ∞-AE-plus: weighted histories, a kernel between users, one between items, and a low-pass.

Weighted histories. A long history says less about each of its items, and a popular item less about its user:

    x̃_u = (‖x_u‖ / ‖x‖)^−r · x_u · (pop / mean pop)^−p          ‖x_u‖² is the size of the history

Between users: ∞-AE on x̃, with targets whose rows are weighted in the same way (by the power t).

    α = (Θ(X̃, X̃) + λ m I)⁻¹ D_t X

Between items: the same kernel over the columns of X, of its most popular items. The weights are, with
P = (Θ(X̂ᵀ, X̂ᵀ) + μ m I)⁻¹,

    B_ij = −P_ij / P_jj,   B_jj = 0

which is EASE where the kernel is linear: each item is predicted from the others, never from itself. The item
side reads the history, and with half the weight what the user side expects of it (a history of one item says
little by itself).

Low-pass: the part of the history that lies in the leading singular vectors V of the log (those above what
chance explains, `kernels.spectral`), which is what sparse logs are best described by; b = 0.4.

    x pop^−b V Vᵀ pop^b
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp

from infrec.kernels import devices, gram, kernel_of, ridge, ridge_gpu, scores_gpu, spectral
from infrec.kernels.resident import ResidentMatrix

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

# Of the item kernel: half-way between no weighting of users and full; quality hardly depends on it.
ITEM_SIDE_USER_POWER = 0.5
COMPLETED = 0.5  # the weight of what the user side expects, beside the history itself
MOST_COMPARED = 16_384  # items on the item side, whose cost grows with their cube: the others have few users
MOST_THERE = 32_768  # … on an accelerator with room
LOW_PASS_POWER = 0.4  # b; ChebyCF has the same on this kind of log
KERNEL = kernel_of(1)  # on both sides: deeper ones were never chosen


@dataclass(frozen=True, eq=False)
class Scales:
    """The size of histories and the popularity of items, relative to the means of a log."""

    mean_size: float
    popularity: NDArray[np.float64]

    @classmethod
    def of(cls, matrix: sp.csr_array) -> Self:
        count = gram.degrees(matrix).astype(np.float64)
        # An item that nobody has stands with the rarest that somebody has.
        floor = count[count > 0].min(initial=np.inf)
        total = float(np.asarray(matrix.sum(axis=0), dtype=np.float64).sum())
        return cls(
            total / max(1, matrix.shape[0]),
            np.maximum(count, floor) / max(count.mean(), np.finfo(float).tiny),
        )

    def of_rows(self, rows: sp.csr_array, power: float) -> NDArray[np.float64]:
        """(norm / mean norm)^−power of each row; 1 for an empty one."""
        size = np.asarray(rows.sum(axis=1), dtype=np.float64).ravel() / self.mean_size
        return np.where(size > 0, size, 1.0) ** (-power / 2)

    def of_items(self, power: float) -> NDArray[np.float64]:
        """(popularity / mean popularity)^−power of each item."""
        return self.popularity**-power

    def weigh(self, rows: sp.csr_array, user_power: float, item_power: float) -> sp.csr_array:
        """x̃ of each row."""
        return gram.scaled(rows, self.of_rows(rows, user_power), self.of_items(item_power))


class UserSide:
    """The kernel between the users of a log, for one weighting; for any λ and target power."""

    def __init__(
        self,
        matrix: sp.csr_array,
        scales: Scales,
        user_power: float,
        item_power: float,
        dtype: str,
        solver: Callable[[sp.csr_array, gram.Kernel, str], ridge.KernelRidge] = devices.kernel_ridge,
    ) -> None:
        """solver: what solves the weighted histories' kernel."""
        self.matrix, self.scales = matrix, scales
        self.user_power, self.item_power = user_power, item_power
        self.inputs = scales.weigh(matrix, user_power, item_power)
        self._own = scales.of_rows(matrix, user_power)
        norms = gram.squared_norms(self.inputs, dtype).astype(np.float64)  # as the solver has them
        self.mean_diagonal = float(np.mean(KERNEL.diagonal(norms, d=matrix.shape[1])))
        self.solver = solver(self.inputs, KERNEL, dtype)

    def solve(self, reg: float, target_power: float) -> ResidentMatrix:
        """α, whose columns carry the items' weights: scores are K α · popularity^item_power."""
        self.solver.factorise(reg)
        return ResidentMatrix(self.solver.solve(self._of_targets(target_power)))

    def smoother(self, reg: float, rows: NDArray[np.integer], others: sp.csr_array | None = None) -> Any:
        """The map from targets to scores of a few rows (`KernelRidge.smoother`). others: not weighted yet."""
        self.solver.factorise(reg)
        weighted = None if others is None else self.scales.weigh(others, self.user_power, self.item_power)
        return self.solver.smoother(rows, weighted)

    def expected(self, smoother: Any, target_power: float) -> Any:
        """The scores of the smoother's rows, without the items' weights."""
        scores = self.solver.expected(smoother, self._of_targets(target_power))
        return scores * self.scales.of_items(-self.item_power).astype(scores.dtype)

    def _of_targets(self, target_power: float) -> NDArray[np.float64]:
        return self.scales.of_rows(self.matrix, target_power) / self._own

    def fitted(
        self, alpha: ResidentMatrix, reg: float, target_power: float, rows: NDArray[np.integer]
    ) -> NDArray[Any]:
        """(K α) of training rows, without K: targets − λ m α; still with the items' weights."""
        mine = self.matrix[rows]
        targets = gram.scaled(
            mine, self.scales.of_rows(mine, target_power), self.scales.of_items(self.item_power)
        )
        out = alpha.rows(rows)
        out *= out.dtype.type(-reg * self.mean_diagonal)
        out[gram.rows_of(targets), targets.indices] += targets.data
        return out


class ItemSide:
    """The kernel between the most popular items of a log; weights for any μ."""

    def __init__(self, matrix: sp.csr_array, scales: Scales) -> None:
        self.columns = compared(matrix)
        self._ridge = devices.item_ridge(self.inputs(matrix, scales, self.columns))

    def weights(self, reg: float) -> ItemWeights:
        """B for one μ."""
        return ItemWeights(self.columns, ResidentMatrix(self._ridge.weights(KERNEL, reg)))

    @staticmethod
    def inputs(matrix: sp.csr_array, scales: Scales, columns: NDArray[np.integer]) -> sp.csr_array:
        """X̂, whose columns the kernel compares."""
        return _columns_of(gram.scaled(matrix, scales.of_rows(matrix, ITEM_SIDE_USER_POWER)), columns)

    @staticmethod
    def needs(n: int, n_items: int) -> int:
        """Bytes of weights for a log of so many users and items."""
        return ridge.ItemRidge.needs(count_compared(n, n_items))


def compared(matrix: sp.csr_array) -> NDArray[np.integer]:
    """The items between which there is an item side: the most popular ones, in order."""
    counts = np.bincount(matrix.indices, minlength=matrix.shape[1])
    return np.sort(np.argsort(-counts, kind="stable")[: count_compared(*matrix.shape)])


def count_compared(n: int, items: int) -> int:
    """How many items of a log are compared: more where an accelerator has ample room."""
    more = min(items, MOST_THERE)
    there = devices.use_accelerator(more, "float32")
    ample = there and devices.has_room(2 * ridge_gpu.TiledItemRidge.needs(n, more))
    return more if ample else min(items, MOST_COMPARED)


def _columns_of(rows: sp.csr_array, columns: NDArray[np.integer]) -> sp.csr_array:
    return rows if len(columns) == rows.shape[1] else sp.csr_array(rows[:, columns])


@dataclass(frozen=True, eq=False)
class ItemWeights:
    """A product with B, which is 0 but between the items that are compared.

    Args:
        columns: Those items, in order.
        matrix: B between them.
    """

    columns: NDArray[np.integer]
    matrix: ResidentMatrix

    @property
    def nbytes(self) -> int:
        """Of B."""
        return self.matrix.nbytes

    def times(self, rows: sp.csr_array) -> NDArray[np.float32]:
        """The scores of histories."""
        return self._spread(self.matrix.times_histories(_columns_of(rows, self.columns)), rows.shape[1])

    def add_there(self, scores: Any, rows: sp.csr_array) -> Any:
        """A block of scores on the device with those of its histories added."""
        return scores_gpu.add_between(scores, rows, self._columns_there, self.matrix.there)

    @cached_property
    def _columns_there(self) -> Any:
        return devices.put(self.columns)

    def times_expected(self, scores: NDArray[Any]) -> NDArray[np.float32]:
        """The scores of what is expected of people."""
        some = scores if self._whole(scores.shape[1]) else scores[:, self.columns]
        return self._spread(self.matrix.left_multiply(some), scores.shape[1])

    def add_expected(self, scores: ResidentMatrix, factor: float) -> None:
        """Add a multiple of `times_expected` in place."""
        scores.add_product(self.matrix, factor, self.columns)

    def between(self, items: NDArray[np.integer], others: NDArray[np.integer]) -> NDArray[np.float32]:
        """Each of `items` in a history adds so much to the score of each of `others`."""
        out = np.zeros((len(items), len(others)), np.float32)
        (a, of_items), (b, of_others) = self._places(items), self._places(others)
        out[np.ix_(a, b)] = self.matrix.here[np.ix_(of_items, of_others)]
        return out

    def _places(self, items: NDArray[np.integer]) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        """Which of the items are compared, and as which."""
        place = np.minimum(np.searchsorted(self.columns, items), len(self.columns) - 1)
        there = np.flatnonzero(self.columns[place] == items)
        return there, place[there]

    def scale_columns(self, columns: NDArray[Any]) -> None:
        """Multiply each column of the result by a number, in place."""
        self.matrix.scale_columns(columns[self.columns])

    def _whole(self, items: int) -> bool:
        return len(self.columns) == items

    def _spread(self, scores: NDArray[Any], items: int) -> NDArray[np.float32]:
        if self._whole(items):
            return scores
        out = np.zeros((len(scores), items), np.float32)
        out[:, self.columns] = scores
        return out


@dataclass(frozen=True, eq=False)
class LowPass:
    """A product with pop^−b V Vᵀ pop^b, as its two factors.

    Args:
        into: pop^−b V, items × k.
        back: Vᵀ pop^b, k × items.
    """

    into: NDArray[np.float32]
    back: NDArray[np.float32]

    @property
    def nbytes(self) -> int:
        """Of both."""
        return self.into.nbytes + self.back.nbytes

    @classmethod
    def of(cls, matrix: sp.csr_array, scales: Scales) -> Self:
        vectors = spectral.leading_vectors(matrix)
        power = scales.of_items(LOW_PASS_POWER).astype(np.float32)[:, None]
        return cls(vectors * power, np.ascontiguousarray((vectors / power).T))

    @cached_property
    def _resident(self) -> tuple[ResidentMatrix, ResidentMatrix]:
        return ResidentMatrix(self.into), ResidentMatrix(self.back)

    def add_there(self, scores: Any, rows: sp.csr_array) -> Any:
        """A block of scores on the device with those of its histories added."""
        return scores_gpu.add_through(scores, rows, *(factor.there for factor in self._resident))

    def times(self, rows: sp.csr_array) -> NDArray[np.float32]:
        """The filtered rows."""
        return self._resident[1].left_multiply(gram.sparse_times(rows, self.into))

    def between(self, items: NDArray[np.integer], others: NDArray[np.integer]) -> NDArray[np.float32]:
        """Each of `items` in a history adds so much to the score of each of `others`."""
        return self.into[items] @ self.back[:, others]

    def times_columns(self, columns: NDArray[Any]) -> Self:
        """With each column of the result times a number."""
        return type(self)(self.into, self.back * columns.astype(np.float32))
