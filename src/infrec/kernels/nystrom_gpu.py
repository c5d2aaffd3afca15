"""A Nyström fit on an accelerator: the factor of the centres' kernel, the pass, the solve.

It mirrors `nystrom`. Only stored values travel; rows become dense there. Factors and solves are in
float64. The pass is in float32, and its sums are pairs, the second of which catches what the first rounds
away (Knuth's two-sum): float64 in effect, at the speed of float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.kernels import gram, nystrom, ridge
from infrec.kernels.collectives import Team
from infrec.kernels.device_arrays import compiled, coordinates, filler, is_exact_in_bfloat16, power_of_two
from infrec.progress import Progress, silent

if TYPE_CHECKING:
    from jaxtyping import Float

COLUMNS = 4096  # of α solved at a time, on all devices of this process together


class DeviceFeatures(nystrom.Features):
    """`nystrom.Features` whose factor was formed on a device, and whose sums are."""

    @staticmethod
    def _factorised(rows: sp.csr_array, kernel: gram.Kernel, jitter: float) -> NDArray[np.float64]:
        import jax
        import jax.numpy as jnp

        with jax.enable_x64(True):  # for these functions alone, not for the program
            entries = coordinates(rows, max(1, rows.nnz), outside=rows.shape[0])
            products = _products()(filler()(jnp.zeros(rows.shape, jnp.float64), *entries, np.int32(0)))
            norms = gram.squared_norms(rows, np.float64)
            upper = _factorise_kernel(kernel, rows.shape[1])(products, norms, np.float64(jitter))
            return np.asarray(upper).T  # in Fortran order, as LAPACK's

    def sums(self, columns: int, team: Team | None = None) -> DeviceSums:
        return DeviceSums(self, columns, team or Team())


class DeviceSums(nystrom.Sums):
    """`nystrom.Sums` whose passes are on a device, and are exchanged once, at the end of each."""

    def add_all(
        self,
        blocks: Iterable[nystrom.Block],
        *,
        sign: int = 1,
        rounds: int = 0,
        total: int | None = None,
        progress: Progress = silent,
    ) -> None:
        import jax
        import jax.numpy as jnp

        features, columns = self.features, self.columns
        count, block = len(features), features.block
        whiten = whitening(features.factor)
        binary = is_exact_in_bfloat16(features.rows.data)
        centres = jnp.asarray(features.rows.toarray(), jnp.bfloat16 if binary else jnp.float32)
        norms = jnp.asarray(gram.squared_norms(features.rows))
        sums = tuple(jnp.zeros(shape) for shape in ((count, count),) * 2 + ((count, columns),) * 2)
        local = nystrom.Sums(features, columns, Team())
        for x, y in self._cut(blocks):
            step = _compiled(block, x.shape[1], columns, features.kernel, x is y)
            parts = (x,) if x is y else (x, y)  # their entries in one of few lengths: few are compiled
            stored = [coordinates(z, max(1 << 10, power_of_two(z.nnz)), outside=block) for z in parts]
            sums = step(sums, whiten, centres, norms, np.int32(x.shape[0]), *stored)
            local._count(x, 1)
            progress("one pass over the users", local.rows, total)
        with jax.enable_x64(True):
            local.products, local.targets = (np.asarray(_together()(*pair)) for pair in (sums[:2], sums[2:]))
        del sums
        self.merge(local, sign=sign)

    def exchange(self, before: sp.csr_array, after: sp.csr_array) -> None:
        self.add_all(nystrom.same(before), sign=-1)
        self.add_all(nystrom.same(after))

    def _solved(self, reg: float, added: float) -> NDArray[Any]:
        """α on the devices of this process, in float64: the factors on each of them, the columns divided."""
        import jax
        from jax.sharding import Mesh, NamedSharding, PartitionSpec

        mesh = Mesh(np.array(jax.local_devices()), ("items",))
        everywhere, by_item = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in ((), (None, "items")))
        centres, columns = self.targets.shape
        width = -(-min(COLUMNS, columns) // mesh.size) * mesh.size
        alpha = np.empty((centres, columns), np.float32)
        with jax.enable_x64(True):
            factorise, solve_block = _solver(mesh)
            factor, pivots = factorise(jax.device_put(self.products, everywhere), np.float64(added))
            diagonal = (np.diagonal(self.products) + added).astype(np.float32)
            ridge.check_pivots(0, np.asarray(pivots), diagonal, reg)
            # Turned, it lies in memory as JAX wants it.
            whiten = jax.device_put(self.features.factor.T, everywhere)
            for start in range(0, columns, width):
                some = self.targets[:, start : start + width]
                padded = np.pad(some, ((0, 0), (0, width - some.shape[1])))
                block = solve_block(factor, whiten, jax.device_put(padded, by_item))
                alpha[:, start : start + width] = np.asarray(block)[:, : some.shape[1]]
        return alpha


def whitening(factor: Float[np.ndarray, "centres centres"]) -> Float[Any, "centres centres"]:
    """L⁻ᵀ on the device: solved for in float64, held in float32."""
    import jax

    with jax.enable_x64(True):
        return _inverse()(jax.device_put(factor.T))


@cache
def _products() -> Callable[..., Any]:
    return compiled(lambda rows: rows @ rows.T)


@cache
def _factorise_kernel(kernel: gram.Kernel, d: int) -> Callable[..., Any]:
    import jax.numpy as jnp

    def upper(products: Any, norms: Any, jitter: Any) -> Any:
        added = jitter * kernel.diagonal(norms, d=d).mean()
        between = kernel.matrix(products, norms, d=d) + added * jnp.eye(len(norms), dtype=norms.dtype)
        return jnp.linalg.cholesky(between, upper=True, symmetrize_input=False)

    return compiled(upper, donate_argnums=0)


@cache
def _together() -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp

    return jax.jit(lambda high, low: high.astype(jnp.float64) + low)


@cache
def _inverse() -> Callable[..., Any]:
    import jax.numpy as jnp
    from jax.lax.linalg import triangular_solve

    def inverse(upper: Any) -> Any:
        unit = jnp.eye(len(upper), dtype=upper.dtype)
        return triangular_solve(upper, unit, left_side=True, lower=False).astype(jnp.float32)

    return compiled(inverse)


@cache
def _solver(mesh: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    import jax
    import jax.numpy as jnp
    from jax.lax.linalg import triangular_solve
    from jax.sharding import PartitionSpec

    def factorise(products: Any, added: Any) -> Any:
        upper = jnp.triu(products)  # the other half is not always there
        system = upper + jnp.triu(products, 1).T + added * jnp.eye(len(products), dtype=products.dtype)
        factor = jnp.linalg.cholesky(system, symmetrize_input=False)
        return factor, jnp.diagonal(factor)

    def block(factor: Any, whiten: Any, targets: Any) -> Any:
        weights = triangular_solve(factor, targets, left_side=True, lower=True)
        weights = triangular_solve(factor, weights, left_side=True, lower=True, transpose_a=True)
        return triangular_solve(whiten, weights, left_side=True, lower=False).astype(jnp.float32)

    over = PartitionSpec(None, "items")
    each = jax.shard_map(block, mesh=mesh, in_specs=(PartitionSpec(), PartitionSpec(), over), out_specs=over)
    return jax.jit(factorise, donate_argnums=0), jax.jit(each, donate_argnums=2)


@cache
def _compiled(block: int, d: int, columns: int, kernel: gram.Kernel, same: bool) -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp

    highest = jax.lax.Precision.HIGHEST

    def dense(stored: Any, width: int, kind: Any) -> Any:
        rows, at, values = stored
        return jnp.zeros((block, width), kind).at[rows, at].set(values.astype(kind), mode="drop")

    def plus(high: Any, low: Any, more: Any) -> tuple[Any, Any]:
        total = high + more
        taken = total - high
        return total, low + ((high - (total - taken)) + (more - taken))

    def step(sums: Any, whiten: Any, centres: Any, norms: Any, real: Any, x: Any, y: Any = None) -> Any:
        rows = dense(x, d, jnp.float32)
        if centres.dtype == jnp.bfloat16:
            # Weighted rows against 0/1 centres would lose digits in bfloat16: two halves keep them.
            upper = rows.astype(jnp.bfloat16)
            rest = (rows - upper.astype(jnp.float32)).astype(jnp.bfloat16)
            both = (jnp.matmul(part, centres.T, preferred_element_type=jnp.float32) for part in (upper, rest))
            products = sum(both)
        else:
            products = jnp.matmul(rows, centres.T, precision=highest)
        between = kernel.from_gram(products, jnp.sum(rows * rows, axis=1), norms, d=d)
        between = jnp.where((jnp.arange(block) < real)[:, None], between, 0.0)
        z = jnp.matmul(between, whiten, precision=highest)
        targets = rows if same else dense(y, columns, jnp.float32)
        high, low, target, target_low = sums
        high, low = plus(high, low, jnp.matmul(z.T, z, precision=highest))
        target, target_low = plus(target, target_low, jnp.matmul(z.T, targets, precision=highest))
        return high, low, target, target_low

    return jax.jit(step, donate_argnums=0)
