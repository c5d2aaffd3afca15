"""How good a summary is on held-out items, for each λ of a grid: the default of `on_validate`.

HR@k and NDCG@k need only the rank of each held-out item, and a rank is a count of larger scores: comparing
and counting, no sort and no top-k, on the device where the summary is. The numbers are those of `metrics`
(`paper-code` protocol).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from infrec.distillation import batches, objective
from infrec.distillation.batches import densify
from infrec.errors import ConfigError, DataError, SolveError
from infrec.kernels import device_arrays, ridge
from infrec.kernels.gram import Kernel
from infrec.randomness import generator

if TYPE_CHECKING:
    import scipy.sparse as sp
    from jaxtyping import Array, Float

CRITERIA = ("HR@10", "HR@100", "NDCG@10", "NDCG@100")
_CPU_ROWS, _GPU_ROWS = 128, 2048  # users of a block: what stays in a cache, or what fills a GPU


@dataclass(frozen=True)
class Verdict:
    """Result of a validation: the criterion's best value, the λ that reached it, and all metrics there."""

    value: float
    reg: float
    metrics: dict[str, float]


class _Held(NamedTuple):
    x: Array  # [blocks, rows, items]: what is known of each user
    item: Array  # [blocks, rows, slots]: held-out items, −1 in unused slots
    used: Array  # [blocks]: the largest number of slots used in the block
    weight: Array  # [blocks, rows, 4]: what a hit adds to each metric, in percent


class Validator:
    """Scores summaries on the users who have held-out items. The others count as zero, as published."""

    def __init__(
        self,
        train: sp.csr_array,
        held_out: sp.csr_array,
        kernel: Kernel,
        *,
        criterion: str = "HR@100",
        max_users: int = 20_000,
        seed: int = 42,
    ) -> None:
        if criterion not in CRITERIA:
            raise ConfigError(f"criterion is {criterion!r}; expected one of {', '.join(CRITERIA)}.")
        self.criterion, self.kernel = criterion, kernel
        held = np.diff(held_out.indptr)
        rows = np.flatnonzero(held)
        if not len(rows):
            raise DataError("no user has a validation item; expected some to choose λ and the best step on.")
        n = float(len(held))
        if len(rows) > max_users:
            n = n * max_users / len(rows)
            rows = np.sort(generator(seed, "validation users").choice(rows, max_users, replace=False))
        rows = rows[np.argsort(held[rows], kind="stable")]  # blocks of users with equally many held-out items
        # Of several processes each judges on its own users, or all on the same where there are too few.
        self._team = batches.team()
        self._parts = self._team.count if len(rows) >= self._team.count else 1
        rows = rows[self._team.index % self._parts :: self._parts]
        self._on_gpu = device_arrays.on_gpu()
        self._held = _held(train[rows], held_out[rows], n, _GPU_ROWS if self._on_gpu else _CPU_ROWS)

    def __call__(self, x_hat: Float[Array, "mu items"], grid: Sequence[float]) -> Verdict:
        """The best λ of the grid for this summary."""
        table = self.table(x_hat, grid)
        at = CRITERIA.index(self.criterion)
        best = int(np.argmax(table[:, at]))
        if table[best, at] < 0:
            raise SolveError(
                f"∞-AE on the summary has no finite solution for any λ of {tuple(grid)}; expected one large "
                "enough, so add a larger λ to the grid or start from rows that differ more."
            )
        metrics = {name: float(value) for name, value in zip(CRITERIA, table[best], strict=True)}
        return Verdict(float(table[best, at]), float(grid[best]), metrics)

    def table(self, x_hat: Float[Array, "mu items"], grid: Sequence[float]) -> np.ndarray:
        """Every metric for every λ, [λ, 4]; −1 where the solve failed."""
        regs = jnp.asarray(grid, jnp.float32)
        own = np.array(_table(jnp.asarray(x_hat), regs, self._held, self.kernel, self._on_gpu))
        lost = np.asarray(regs) <= ridge.lost_in_rounding(len(x_hat), regs.dtype)
        if lost.any() and len(np.unique(np.asarray(x_hat), axis=0)) < len(x_hat):
            own[lost] = -1.0  # equal rows: rounding alone would decide whether there is a factor
        if self._team.count == 1:
            return own
        # One answer for all, from the same sums: a λ or an end that differs would part them.
        sums, failed = self._team.all_sum(np.stack([own, own < 0]))
        return np.where(failed > 0, -1.0, sums * (self._parts / self._team.count))


def _held(train: sp.csr_array, held_out: sp.csr_array, n: float, rows: int) -> _Held:
    count = np.diff(held_out.indptr)
    # Unused slots cost nothing: rounded up, logs of about the same size share a compiled function.
    users, slots = len(count), 1 << int(count.max() - 1).bit_length()
    blocks = -(-users // rows)
    item = np.full((blocks * rows, slots), -1, np.int32)
    place = np.arange(held_out.nnz) - np.repeat(held_out.indptr[:-1], count)
    item[np.repeat(np.arange(users), count), place] = held_out.indices
    ideal = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(2, 102)))])
    weight = np.zeros((blocks * rows, 4))
    for column, k in ((0, 10), (1, 100)):
        weight[:users, column] = 100 / (n * np.minimum(count, k))
        weight[:users, column + 2] = 100 / (n * ideal[np.minimum(count, k)])
    shape = (blocks, rows, -1)
    item = item.reshape(shape)
    return _Held(
        jnp.asarray(densify(train, np.arange(users), blocks * rows).reshape(shape)),
        jnp.asarray(item),
        jnp.asarray((item >= 0).sum(axis=2).max(axis=1).astype(np.int32)),
        jnp.asarray(weight.reshape(shape), jnp.float32),
    )


@partial(jax.jit, static_argnums=(3, 4))
def _table(x_hat: Array, grid: Array, held: _Held, kernel: Kernel, at_once: bool) -> Array:
    d = x_hat.shape[1]
    squares = (x_hat * x_hat).sum(axis=1)
    alphas = jax.lax.map(lambda reg: objective.fit(x_hat, reg, kernel), grid)

    def block(sums: Array, part: _Held) -> tuple[Array, None]:
        x = part.x.astype(jnp.float32)
        gram = jnp.matmul(x, x_hat.T, precision="highest")
        between = kernel.from_gram(gram, (x * x).sum(axis=1), squares, d=d)

        def one(alpha: Array) -> Array:
            scores = jnp.matmul(between, alpha, precision="highest")
            return _gains(jnp.where(part.x > 0, -jnp.inf, scores), part)

        return sums + (jax.vmap(one)(alphas) if at_once else jax.lax.map(one, alphas)), None

    sums, _ = jax.lax.scan(block, jnp.zeros((len(grid), 4), jnp.float32), held)
    sound = jnp.isfinite(alphas).all(axis=(1, 2))
    return jnp.where(sound[:, None], sums, -1.0)


def _gains(scores: Array, part: _Held) -> Array:
    """The four metrics' sums over a block; equal scores rank in the order of the items."""
    column = jnp.arange(scores.shape[1], dtype=jnp.int32)[None, :]

    def slot(j: Array, sums: Array) -> Array:
        item = jax.lax.dynamic_index_in_dim(part.item, j, axis=1)  # [rows, 1]
        own = jnp.take_along_axis(scores, jnp.maximum(item, 0), axis=1)
        before = ((scores > own) | ((scores == own) & (column < item))).sum(axis=1)
        # A held-out item that the user already has can never be recommended: −inf is no rank.
        live = (item[:, 0] >= 0) & jnp.isfinite(own[:, 0])
        in_10, in_100 = live & (before < 10), live & (before < 100)
        gain = 1 / jnp.log2(before + 2.0)
        hits = jnp.stack([in_10, in_100, in_10 * gain, in_100 * gain], axis=1)
        return sums + (part.weight * hits).sum(axis=0)

    return jax.lax.fori_loop(0, part.used, slot, jnp.zeros(4, jnp.float32))
