"""Leave-one-out targets: each user's scores by a model fitted on all other users, never on the user's items.

A summary that is trained to predict a user's own items learns that user by heart. So the targets come from an
item model (EASE: a ridge regression in which no item explains itself) that was fitted without the user:

    P = (XᵀX + λ I)⁻¹     v = P x_u     h = x_uᵀ P x_u
    s_ui = x_ui − v_i / ((1 − h) P_ii + v_i²)           the score of item i for u by the model without u

This is exact (Sherman–Morrison takes u out of P), so one inverse serves everybody. The targets are
softmax(β z), z the standardised scores; λ and β are those under which people's own items are most likely by
what all others say, which needs no validation data; β at most the loss's own, whose softmax could not follow.
Where the loss is a correlation (of sparse logs), the targets are max(z, 0)^1.5 instead, scaled alike.

On a sparse log two models know more than one, so there z is the mean of its scores and those of a model of
users (∞-AE: a ridge regression between users, under the kernel Θ), each standardised, and then standardised
again. Leaving a user out of it is exact too, and one inverse serves everybody here as well:

    P = (Θ(X, X) + λ m I)⁻¹     s_u = x_u − (P X)_u / P_uu
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp

from infrec import machine
from infrec.errors import SolveError
from infrec.kernels import Kernel, devices, gram, ridge
from infrec.progress import Progress, silent
from infrec.randomness import generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

GRID = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 3e3, 1e4)  # λ, of interactions of weight 1
FLATTER = (1.0, 1.5, 2.0, 3.0, 4.0)  # β is the loss's own sharpness over one of these: more it cannot follow
MOST_ITEMS = 20_000  # the most popular ones have a model; the others, of which little is known, a score of 0
MOST_USERS = 50_000  # of whom the model is fitted
TRIED_ITEMS, TRIED_USERS = 4_096, 1_000  # on which λ is chosen
COLUMNS = 2_048
EXPONENT = 1.5  # of z where the loss is the correlation: 1 asks too little of the top of the list, 2 too much
USER_REG = 0.05  # λ of the model of users, of the mean of the kernel's diagonal
MOST_CENTRES = 4_096  # users that are in it; it scores the others as it finds them


@dataclass(frozen=True, eq=False)
class UserModel:
    """∞-AE on all users, each of whom can be left out of it."""

    kernel: Kernel
    centres: gram.Centres
    inverse: NDArray[np.float32]  # P
    place: NDArray[np.int64]  # of each user among the centres; −1 where the user is none

    @classmethod
    def fit(
        cls, train: sp.csr_array, kernel: Kernel, weight: NDArray[np.float32], rng: np.random.Generator
    ) -> Self:
        """The model of these users, or of `MOST_CENTRES` of them; one of weight w counts w times."""
        chosen = np.flatnonzero(weight > 0)
        chosen = np.sort(rng.permutation(chosen)[:MOST_CENTRES])
        rows = sp.csr_array(train[chosen], dtype=np.float32)
        k = gram.kernel_matrix(kernel, rows)
        diagonal = np.diagonal(k).copy()
        added = USER_REG * float(diagonal.mean(dtype=np.float64))
        np.fill_diagonal(k, diagonal + np.float32(added) * (1 / weight[chosen] - 1))
        place = np.full(train.shape[0], -1)
        place[chosen] = np.arange(len(chosen))
        inverse = ridge.factorise(k, reg=added, scale="absolute", work=k).inverse()
        return cls(kernel, gram.Centres.of(rows), inverse, place)

    def coefficients(
        self, train: sp.csr_array, users: NDArray[np.integer]
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """[users, centres]: what each user's scores take of each centre's row, and who is a centre."""
        at = self.place[users]
        inside = at >= 0
        left = np.empty((len(users), len(self.inverse)), np.float32)
        left[inside] = self.inverse[at[inside]]
        left[inside] /= -np.diagonal(self.inverse)[at[inside], None]
        if not inside.all():
            mine = sp.csr_array(train[users[~inside]], dtype=np.float32)
            left[~inside] = self.centres.kernel_rows(self.kernel, mine) @ self.inverse
        return left, inside

    def scores(self, train: sp.csr_array, users: NDArray[np.integer]) -> NDArray[np.float32]:
        """[users, items]: scores by the model without the user, standardised within each user."""
        left, inside = self.coefficients(train, users)
        scores = gram.times_sparse(left, self.centres.rows)
        scores[inside] += train[users[inside]].toarray()
        return _standardised(scores)


@dataclass(frozen=True, eq=False)
class LeaveOneOutTargets:
    """The item model of all users, and how to leave one of them out of it; beside it, a model of users."""

    inverse: NDArray[np.float32]  # P over the items that have a model
    items: NDArray[np.int64]  # which they are
    weight: NDArray[np.float32]  # with which each user is in it
    reg: float
    sharpness: float = 1.0  # β
    users: UserModel | None = None
    exponent: float | None = None  # of z, where targets are a power of it

    @classmethod
    def fit(
        cls,
        train: sp.csr_array,
        *,
        sharpness: float = 1.0,
        weights: NDArray[np.float32] | None = None,
        kernel: Kernel | None = None,
        exponent: float | None = None,
        seed: int = 42,
        progress: Progress = silent,
    ) -> Self:
        """The model of these users.

        Args:
            train: Their log.
            sharpness: The largest β.
            weights: How much each user counts.
            kernel: Θ of the model of users; None: the model of items is enough.
            exponent: Targets are this power of the scores above the mean; None: exp(β z).
            seed: Seed of everything random.
            progress: Called as λ is chosen.
        """
        rng = generator(seed, "others")
        weight = np.ones(train.shape[0], np.float32) if weights is None else weights.copy()
        if train.shape[0] > MOST_USERS:
            weight[rng.permutation(train.shape[0])[MOST_USERS:]] = 0.0
        known = np.flatnonzero(weight > 0)
        counts = np.bincount(train.indices, minlength=train.shape[1])
        popular = np.argsort(-counts, kind="stable")
        width = min(MOST_ITEMS, train.shape[1])
        machine.require_memory(
            16 * width * width, f"an item model of {width:,} items", "use --set targets=own"
        )
        betas, tried = tuple(sharpness / each for each in FLATTER), np.sort(popular[:TRIED_ITEMS])
        # Of a log of counts, λ is in units of their mean square: less would be lost in float32.
        unit = max(1.0, float(np.square(train.data, dtype=np.float64).mean()))
        grid = tuple(unit * each for each in GRID)
        items = np.sort(popular[:width])
        try:
            reg, beta = cls._chosen(train[known], weight[known], tried, grid, betas, rng, progress)
            products = _products(sp.csr_array(train[known][:, items]), weight[known])
            users = None if kernel is None else UserModel.fit(train, kernel, weight, rng)
            return cls(_inverse(products, reg), items, weight, reg, beta, users, exponent)
        except SolveError as failure:
            least, most = train.data.min(), train.data.max()
            raise SolveError(
                f"what others predict has no solution in float32 (weights from {least:g} to {most:g}); use "
                "targets=own (--targets own), or weights of a smaller range."
            ) from failure

    @classmethod
    def _chosen(
        cls,
        train: sp.csr_array,
        weight: NDArray[np.float32],
        items: NDArray[np.int64],
        grid: tuple[float, ...],
        betas: tuple[float, ...],
        rng: np.random.Generator,
        progress: Progress,
    ) -> tuple[float, float]:
        """λ and β: those under which people's items are most likely by what all others say."""
        some = sp.csr_array(train[:, items])
        products = _products(some, weight)
        judges = np.sort(rng.permutation(some.shape[0])[:TRIED_USERS])
        rows = sp.csr_array(some[judges])
        likely: dict[tuple[float, float], float] = {}
        for at, reg in enumerate(grid):
            with np.errstate(all="ignore"):  # what is not finite is not taken
                z = cls(_inverse(products, reg), np.arange(len(items)), weight, reg).scores(some, judges)
            if np.isfinite(z).all():
                likely |= {(reg, beta): likelihood(rows, z, beta) for beta in betas}
            progress("what others predict", at + 1, len(grid))
        if not likely:
            raise SolveError("no λ of the grid has finite scores.")
        return max(likely, key=lambda each: likely[each])

    def scores(self, train: sp.csr_array, users: NDArray[np.integer]) -> NDArray[np.float32]:
        """[users, items]: scores by the model without the user, standardised within each user."""
        mine = sp.csr_array(train[users][:, self.items])
        v = gram.sparse_times(mine, self.inverse)
        scores = np.zeros((len(users), train.shape[1]), np.float32)
        scores[:, self.items] = _without_self(
            mine.toarray(), v, np.diagonal(self.inverse), self.weight[users]
        )
        scores = _standardised(scores)
        return scores if self.users is None else _standardised(scores + self.users.scores(train, users))

    def powers(self, train: sp.csr_array, users: NDArray[np.integer]) -> Any:
        """exp(β z) of each user's scores z, or a power of them, in half precision; each user's largest is 1.

        On an accelerator the models stay there, and so does the result.
        """
        sharpness = np.float32(self.sharpness)
        if devices.device() is None:
            return _powers(self.scores(train, users), sharpness, self.exponent)
        by_users = None if self.users is None else self.users.coefficients(train, users)
        mine = train[users].toarray().astype(np.float32)
        return self.on_device(mine, self.weight[users], sharpness, by_users)

    @cached_property
    def on_device(self) -> Callable[..., Any]:
        import jax
        import jax.numpy as jnp

        inverse, items = jnp.asarray(self.inverse), jnp.asarray(self.items)
        centres = None if self.users is None else jnp.asarray(self.users.centres.rows.toarray())
        exponent = self.exponent

        @jax.jit
        def of(p: Any, at: Any, centres: Any, x: Any, weight: Any, sharpness: Any, by_users: Any) -> Any:
            mine = x[:, at]
            v = jnp.matmul(mine, p, precision="highest")
            scores = jnp.zeros_like(x).at[:, at].set(_without_self(mine, v, jnp.diagonal(p), weight))
            scores = _standardised(scores)
            if centres is not None:
                left, inside = by_users
                second = jnp.matmul(left, centres, precision="highest") + jnp.where(inside[:, None], x, 0.0)
                scores = _standardised(scores + _standardised(second))
            return _powers(scores, sharpness, exponent, xp=jnp)

        return partial(of, inverse, items, centres)


def _without_self(x: Any, v: Any, diagonal: Any, weight: Any) -> Any:
    """x − v / ((1 − w h) P_ii + w v²), the formula above for a user of weight w."""
    leverage = weight * (x * v).sum(axis=1)
    return x - v / ((1.0 - leverage)[:, None] * diagonal[None, :] + weight[:, None] * v**2)


def _standardised(scores: Any) -> Any:
    scores = scores - scores.mean(axis=1, keepdims=True)
    return scores / (scores.std(axis=1, keepdims=True) + np.float32(1e-8))


def _powers(scores: Any, sharpness: Any, exponent: float | None = None, xp: Any = np) -> Any:
    top = scores.max(axis=1, keepdims=True)
    if exponent is not None:
        share = xp.maximum(scores, 0.0) / xp.maximum(top, np.float32(1e-8))
        return (share ** np.float32(exponent)).astype(np.float16)
    return xp.exp(sharpness * (scores - top)).astype(np.float16)


def likelihood(rows: sp.csr_array, scores: NDArray[np.float32], sharpness: float) -> float:
    """The mean over users of ln softmax(β z) at their items; many items count by the root of their number."""
    top = scores.max(axis=1)
    mass = np.log(np.exp(sharpness * (scores - top[:, None])).sum(axis=1)) + sharpness * top
    counts = np.asarray(rows.sum(axis=1), np.float64).ravel()
    own = sharpness * np.asarray(rows.multiply(scores).sum(axis=1)).ravel() - counts * mass
    return float(np.mean(own / np.sqrt(np.maximum(counts, 1.0))))


def _products(rows: sp.csr_array, weight: NDArray[np.float32]) -> NDArray[np.float32]:
    """Xᵀ W X, a block of columns at a time."""
    d = rows.shape[1]
    left = sp.csr_array(gram.scaled(rows, weight).T)
    out = np.empty((d, d), np.float32)
    for start in range(0, d, COLUMNS):
        columns = slice(start, start + COLUMNS)
        out[:, columns] = gram.sparse_times(left, rows[:, columns].toarray().astype(np.float32))
    return out


def _inverse(products: NDArray[np.float32], reg: float) -> NDArray[np.float32]:
    return np.ascontiguousarray(ridge.factorise(products, reg=reg, scale="absolute").inverse())
