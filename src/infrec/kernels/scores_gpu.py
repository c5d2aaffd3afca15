"""Scores of many users that stay on the accelerator; what leaves it are lists, ranks and single scores.

A block of histories goes there as coordinates and is compared with rows that are there already. Blocks are
padded to one size and coordinates to a power of two, so that all blocks share few compilations.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from infrec.errors import SolveError
from infrec.kernels import gram
from infrec.kernels.device_arrays import compiled, coordinates, dense_rows, matmul, power_of_two, products

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PAIRS = 1024  # that are ranked at a time
_NOWHERE = np.iinfo(np.int32).max  # the place of what is in no list


class KernelScorer:
    """Θ(histories, X) α, with X and α on the device.

    Args:
        x: X, the rows that histories are compared with.
        kernel: Θ.
        alpha: α on the device, one row for each of X.
    """

    def __init__(self, x: sp.csr_array, kernel: gram.Kernel, alpha: Any) -> None:
        import jax

        self._x, self._alpha = dense_rows(x, x.shape[0], 1), alpha
        self._norms = jax.device_put(gram.squared_norms(x))
        self._score = _kernel_scores(kernel)

    def scores(self, histories: sp.csr_array, size: int) -> Any:
        """The scores of up to `size` histories, padded to so many rows.

        Args:
            histories: CSR rows, weighted as those of X are.
            size: Rows of the block.
        """
        norms = np.pad(gram.squared_norms(histories), (0, size - histories.shape[0]))
        return self._score(dense_rows(histories, size, 1), norms, self._x, self._norms, self._alpha)

    @staticmethod
    def needs(n: int, items: int, size: int) -> int:
        """Bytes of X and α, and of a block: its kernel, and four times its scores."""
        return 8 * n * items + 4 * size * (n + 4 * items)


class ScoresThere:
    """The scores of a block of users, and the questions an evaluation has about them.

    Args:
        scores: The block on the device, perhaps padded with more rows.
        count: How many users it is of.
    """

    def __init__(self, scores: Any, count: int) -> None:
        self._scores, self.shape = scores, (count, scores.shape[1])
        if not bool(_questions().finite(scores, np.int32(count))):
            raise SolveError(
                "the scores of some users are NaN or infinite; expected finite numbers: the fit has failed, "
                "so use a larger reg or dtype float64."
            )

    def top_k(self, k: int, exclude: sp.csr_array | None) -> NDArray[np.int64]:
        """`metrics.top_k`: equal scores in the order of the items, −1 where a row has fewer left.

        Args:
            k: Length of the lists.
            exclude: Stored entries never appear.
        """
        exclude = sp.csr_array(self.shape) if exclude is None else exclude
        best = np.full((self.shape[0], k), -1, np.int64)
        some = _questions().best(self._scores, *_coordinates(exclude), min(k, self.shape[1]))
        best[:, : some.shape[1]] = np.asarray(some)[: self.shape[0]]
        return best

    def hits(self, k: int, held_out: sp.csr_array, exclude: sp.csr_array) -> NDArray[np.bool_]:
        """Whether each place of each row's list of k holds a held-out item: `metrics.hits` of `top_k`.

        Args:
            k: Length of the lists.
            held_out: The items looked for.
            exclude: Stored entries never appear.
        """
        row, pairs = self._pairs(held_out)
        rank = np.asarray(_questions().places(self._scores, *pairs, *_coordinates(exclude)))
        rank = rank.ravel()[: len(row)]
        listed, out = rank < k, np.zeros((self.shape[0], k), bool)
        out[row[listed], rank[listed]] = True
        return out

    def at(self, rows: NDArray[np.integer], columns: NDArray[np.integer]) -> NDArray[np.float32]:
        """Single scores.

        Args:
            rows, columns: Where they stand.
        """
        more = (0, power_of_two(len(rows)) - len(rows))
        places = (np.pad(each.astype(np.int32), more) for each in (rows, columns))
        return np.asarray(_questions().at(self._scores, *places))[: len(rows)]

    def user_auc(self, held_out: sp.csr_array, exclude: sp.csr_array) -> NDArray[np.float64]:
        """`metrics.user_auc`: each user's own, against all items that are neither held out nor excluded.

        Args:
            held_out: The items of T.
            exclude: The context.
        """
        row, pairs = self._pairs(held_out)
        taken = *_coordinates(held_out), *_coordinates(exclude)
        twice, negatives = _questions().ranks(self._scores, *pairs, *taken)
        total = np.bincount(row, 0.5 * np.asarray(twice).ravel()[: len(row)], minlength=self.shape[0])
        pairs_of = np.diff(held_out.indptr) * np.asarray(negatives)[: self.shape[0]].astype(np.int64)
        out = np.full(self.shape[0], 0.5)
        np.divide(total, pairs_of, out=out, where=pairs_of > 0)
        return out

    @staticmethod
    def _pairs(held_out: sp.csr_array) -> tuple[NDArray[np.int32], tuple[Any, ...]]:
        """The row of each stored entry; rows and columns filled up, in blocks that are ranked at a time."""
        row, column = gram.rows_of(held_out), held_out.indices.astype(np.int32, copy=False)
        more = (0, max(_PAIRS, power_of_two(len(row))) - len(row))
        return row, tuple(np.pad(each, more).reshape(-1, _PAIRS) for each in (row, column))


def fitted(histories: sp.csr_array, alpha: Any, rows: NDArray[np.integer], shift: float, size: int) -> Any:
    """X − shift · α of some rows: a block on the device, padded to `size` rows.

    Args:
        histories: These rows of X.
        alpha: α on the device.
        rows: Which.
        shift: λ m.
        size: Rows of the block.
    """
    at = np.pad(rows, (0, size - len(rows)), mode="edge").astype(np.int32)
    return _questions().fitted(dense_rows(histories, size, 1), alpha, at, np.float32(shift))


def add_through(scores: Any, rows: sp.csr_array, into: Any, back: Any) -> Any:
    """scores + rows · into · back.

    Args:
        scores: A block on the device.
        rows: The histories of its users.
        into, back: Factors on the device.
    """
    return _questions().through(scores, dense_rows(rows, scores.shape[0], 1), into, back)


def add_between(scores: Any, rows: sp.csr_array, columns: Any, weights: Any) -> Any:
    """scores + rows · weights, which are 0 but between some columns.

    Args:
        scores: A block on the device.
        rows: The histories of its users.
        columns, weights: The columns and the weights between them, on the device.
    """
    return _questions().between(scores, dense_rows(rows, scores.shape[0], 1), columns, weights)


def _coordinates(matrix: sp.csr_array) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Row and column of each stored entry, filled up with those of a row that is nowhere."""
    rows, columns, _ = coordinates(matrix, power_of_two(matrix.nnz), outside=np.iinfo(np.int32).max)
    return rows, columns


def places(scores: Any, row: Any, column: Any) -> Any:
    """The place of each pair in its row's list, from 0; `_NOWHERE` where its score is −∞. To be compiled.

    No list is needed for it: an item stands behind those with a higher score and, among equals, behind those
    before it, which is the order of `metrics.top_k`.
    """
    import jax
    import jax.numpy as jnp
    from jax import lax

    place = jnp.arange(scores.shape[1])

    def one(user: Any, item: Any) -> Any:
        line, own = scores[user], scores[user, item]
        before = (line > own) | ((line == own) & (place < item))
        return jnp.where(own == -jnp.inf, _NOWHERE, jnp.sum(before))

    return lax.map(lambda pairs: jax.vmap(one)(*pairs), (row, column))


@cache
def _kernel_scores(kernel: gram.Kernel) -> Any:
    def scores(rows: Any, own: Any, x: Any, norms: Any, alpha: Any) -> Any:
        between = kernel.from_gram(products(rows, x), own, norms, d=x.shape[1])
        return matmul(between, alpha)

    return compiled(scores)


@cache
def _questions() -> SimpleNamespace:
    """The compiled functions, once for a shape."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    def through(scores: Any, rows: Any, into: Any, back: Any) -> Any:
        return scores + matmul(matmul(rows, into), back)

    def between(scores: Any, rows: Any, columns: Any, weights: Any) -> Any:
        return scores.at[:, columns].add(matmul(rows[:, columns], weights))

    def finite(scores: Any, count: Any) -> Any:
        return (jnp.isfinite(scores).all(1) | (jnp.arange(len(scores)) >= count)).all()

    def best(scores: Any, rows: Any, columns: Any, k: int) -> Any:
        scores = jnp.where(scores == 0, 0.0, scores)  # −0.0 too, which is equal
        values, items = lax.top_k(scores.at[rows, columns].set(-jnp.inf, mode="drop"), k)
        return jnp.where(values == -jnp.inf, -1, items)

    def at(scores: Any, rows: Any, columns: Any) -> Any:
        return scores[rows, columns]

    def fitted(histories: Any, alpha: Any, rows: Any, shift: Any) -> Any:
        return histories.astype(jnp.float32) - shift * alpha[rows]

    def places_without(scores: Any, row: Any, column: Any, rows: Any, columns: Any) -> Any:
        return places(scores.at[rows, columns].set(-jnp.inf, mode="drop"), row, column)

    def ranks(scores: Any, row: Any, column: Any, *taken: Any) -> Any:
        """Twice the number of negatives below each pair, equal ones once; and the negatives of each row."""
        others = jnp.ones(scores.shape, bool)
        for rows, columns in (taken[:2], taken[2:]):
            others = others.at[rows, columns].set(False, mode="drop")

        def one(user: Any, item: Any) -> Any:
            line, own = scores[user], scores[user, item]
            return jnp.sum(others[user] * (2 * (line < own) + (line == own)), dtype=jnp.int32)

        return lax.map(lambda pairs: jax.vmap(one)(*pairs), (row, column)), others.sum(1)

    return SimpleNamespace(
        through=compiled(through, donate_argnums=0),
        between=compiled(between, donate_argnums=0),
        finite=compiled(finite),
        best=compiled(best, static_argnums=3),
        fitted=compiled(fitted),
        places=compiled(places_without),
        at=compiled(at),
        ranks=compiled(ranks),
    )
