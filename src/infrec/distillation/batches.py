"""Real users in dense blocks for a compiled function: all of them once, or a mini-batch for each step.

The loss is a sum over users. With the rows of every block divided among the devices of one process or of many
by a named sharding, JAX computes each device's part of the loss and of its gradient where the rows are, and
adds the parts up. With one device nothing travels.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from infrec.errors import MemoryBudgetError
from infrec.kernels import device_arrays
from infrec.kernels.collectives import JaxProcesses, Team
from infrec.randomness import generator

if TYPE_CHECKING:
    import scipy.sparse as sp
    from jaxtyping import Array
    from numpy.typing import NDArray

    from infrec.distillation.leave_one_out import LeaveOneOutTargets

_USERS = "users"

CPU_ENTRIES = 1 << 21  # entries of a block on the CPU: 512 users of ML-1M, whose float32 scores are 8 MB
GPU_ENTRIES = 1 << 28
STEP = 64  # users that a single block is rounded up to
FULL_BATCH_BYTES = 4 << 30  # a full batch is held as bytes; past this, ask for mini-batches


class Users(NamedTuple):
    """Real users in blocks, as arrays for a compiled function. Rows of weight 0 are padding."""

    x: Array  # [blocks, rows, items], uint8 where values allow it
    user: Array  # [blocks, rows] uint32: the number of the user, names its random mask
    weight: Array  # [blocks, rows] float32
    total: Array  # float32: the sum of the weights, which is the number of users
    wanted: Array | None = None  # [blocks, rows, items] in half precision: targets that come from others


Tree = TypeVar("Tree")


def count() -> int:
    """Devices that share the work."""
    return jax.device_count()


@cache
def team() -> Team:
    """The processes that share the work."""
    return JaxProcesses() if jax.process_count() > 1 else Team()


@cache
def half_precision() -> type[np.floating[Any]]:
    """The type in which numbers of half precision are kept: float16, or float32 where XLA cannot compile its
    conversion, as on x86 processors without F16C. The numbers are the same."""
    try:
        jax.jit(lambda x: x.astype(jnp.float32)).lower(jax.ShapeDtypeStruct((8,), jnp.float16)).compile()
    except jax.errors.JaxRuntimeError:
        return np.float32
    return np.float16


@cache
def _mesh() -> Mesh:
    return Mesh(np.array(jax.devices()), (_USERS,))


def divided(shape: tuple[int, ...], part: Callable[[slice], NDArray[Any]]) -> jax.Array:
    """An array whose second axis is divided among the devices; `part` makes the rows of a slice of it.

    It is asked only for the rows of this process's devices.
    """

    def rows(at: Any) -> NDArray[Any]:
        return part(at[1])

    return jax.make_array_from_callback(shape, NamedSharding(_mesh(), PartitionSpec(None, _USERS)), rows)


def everywhere(tree: Tree) -> Tree:
    """Arrays copied to every device of every process."""
    if count() == 1:
        return jax.tree.map(jnp.asarray, tree)
    same = NamedSharding(_mesh(), PartitionSpec())

    def spread(value: Any) -> jax.Array:
        whole = np.asarray(value)
        return jax.make_array_from_callback(whole.shape, same, lambda at: whole[at])

    return jax.tree.map(spread, tree)


def summed(function: Callable[..., Tree], divided: Any, *same: Any) -> Tree:
    """Inside a compiled function: of each device's rows what `function` makes of them, added up once."""
    if count() == 1:
        return function(divided, *same)

    def own(divided: Any, *same: Any) -> Tree:
        return jax.lax.psum(function(divided, *same), _USERS)

    rows, all_of_it = PartitionSpec(None, _USERS), (PartitionSpec(),) * len(same)
    return jax.shard_map(
        own, mesh=_mesh(), in_specs=(rows, *all_of_it), out_specs=PartitionSpec(), check_vma=False
    )(divided, *same)


def added_up(tree: Tree) -> Tree:
    """Inside a compiled function: each device has the sum over all of them."""
    if count() == 1:
        return tree
    return jax.lax.with_sharding_constraint(tree, NamedSharding(_mesh(), PartitionSpec()))


def densify(matrix: sp.csr_array, rows: NDArray[np.integer], height: int) -> NDArray:
    """These rows, then zeros up to `height`, dense: uint8 where that holds the values, else float32."""
    part = matrix[rows]
    out = np.zeros((height, part.shape[1]), np.uint8 if _is_small(part.data) else np.float32)
    owner = np.repeat(np.arange(len(rows)), np.diff(part.indptr))
    out[owner, part.indices] = part.data
    return out


def densify_on_device(matrix: sp.csr_array, rows: NDArray[np.integer], height: int) -> Any:
    """Dense rows on an accelerator: only stored values travel, their number rounded up to few sizes."""
    import jax.numpy as jnp

    part = matrix[rows]
    room = 1 << max(0, part.nnz - 1).bit_length()
    row, column, value = device_arrays.coordinates(part, room, outside=height)
    kind = np.uint8 if _is_small(part.data) else np.float32
    return device_arrays.filler()(
        jnp.zeros((height, part.shape[1]), kind), row, column, value.astype(kind), 0
    )


def _is_small(values: NDArray) -> bool:
    return bool((values == np.floor(values)).all() and (values <= 255).all())


class UserBatches:
    """Hands each step its users: always the same device arrays (full batch), or new ones (mini-batch)."""

    def __init__(
        self,
        train: sp.csr_array,
        *,
        batch: int | None,
        seed: int,
        on_gpu: bool,
        weights: NDArray[np.float32] | None = None,
        others: Callable[[], LeaveOneOutTargets] | None = None,
    ) -> None:
        self._train, self._seed, self._fit_others = train, seed, others
        self._weights = np.ones(train.shape[0], np.float32) if weights is None else weights
        self._batch = None if batch is None or batch >= train.shape[0] else batch
        self._entries = GPU_ENTRIES if on_gpu else CPU_ENTRIES
        self._densified = densify_on_device if on_gpu else densify
        self._whole: Users | None = None
        if self._batch is None and train.shape[0] * train.shape[1] > FULL_BATCH_BYTES:
            raise MemoryBudgetError(
                f"a full batch of {train.shape[0]:,} users × {train.shape[1]:,} items needs "
                f"{train.shape[0] * train.shape[1] / 2**30:.1f} GiB as bytes; use mini-batches: batch=4096."
            )

    def at(self, step: int) -> Users:
        """The users of this step; a function of the seed and the step alone."""
        if self._batch is None:
            if self._whole is None:
                self._whole = self._pack(np.arange(self._train.shape[0]))
            return self._whole
        rng = generator(self._seed, "batch", str(step), "0")
        return self._pack(np.sort(rng.choice(self._train.shape[0], self._batch, replace=False)))

    def _pack(self, rows: NDArray[np.int64]) -> Users:
        import jax.numpy as jnp

        n, d = len(rows), self._train.shape[1]
        # Each device has a whole block of its own at a time.
        blocks = max(1, -(-n * d // (self._entries * count())))
        height = -(-n // blocks)
        if blocks == 1 and n > STEP:  # logs of about the same size share a compiled step
            height = -(-n // STEP) * STEP
        height = -(-height // count()) * count()
        user = np.zeros(blocks * height, np.uint32)
        user[:n] = rows
        weight = np.zeros(blocks * height, np.float32)
        weight[:n] = self._weights[rows]
        shape = (blocks, height)
        if count() == 1:
            x = self._densified(self._train, rows, blocks * height).reshape(blocks, height, d)
            return Users(
                jnp.asarray(x),
                jnp.asarray(user.reshape(shape)),
                jnp.asarray(weight.reshape(shape)),
                jnp.float32(weight.sum()),
                self._wanted(rows, (*shape, d)),
            )
        every, real = user.reshape(shape), (np.arange(blocks * height) < n).reshape(shape)

        def part(some: slice) -> NDArray:
            out = np.zeros((*every[:, some].shape, d), self._kind)
            mine = real[:, some]
            out[mine] = densify(self._train, every[:, some][mine], int(mine.sum()))
            return out

        def wanted(some: slice) -> NDArray:
            out = np.zeros((*every[:, some].shape, d), half_precision())
            mine = real[:, some]
            out[mine] = np.asarray(self._others.powers(self._train, every[:, some][mine]))
            return out

        total: Any = np.float32(weight.sum())
        return Users(
            divided((*shape, d), part),
            divided(shape, lambda some: every[:, some]),
            divided(shape, lambda some: weight.reshape(shape)[:, some]),
            everywhere(total),
            None if self._fit_others is None else divided((*shape, d), wanted),
        )

    def _wanted(self, rows: NDArray[np.int64], shape: tuple[int, int, int]) -> Any:
        """Predictions of all others for these users, then zeros, a block at a time."""
        import jax.numpy as jnp

        if self._fit_others is None:
            return None
        blocks = []
        for start in range(0, shape[0] * shape[1], shape[1]):
            powers = self._others.powers(self._train, rows[start : start + shape[1]])
            part = jnp.asarray(powers.astype(half_precision(), copy=False))
            blocks.append(jnp.pad(part, ((0, shape[1] - len(part)), (0, 0))))
        return jnp.stack(blocks)

    @cached_property
    def _others(self) -> LeaveOneOutTargets:
        """Fitted when the first step asks for it: a finished run that is only read needs none."""
        assert self._fit_others is not None
        return self._fit_others()

    @cached_property
    def _kind(self) -> type:
        """The smallest type that holds all values of the log."""
        return np.uint8 if _is_small(self._train.data) else np.float32
