"""The users of a step over all devices, of one process or of many; everything else the same on each.

The loss is a sum over users. With the rows of every block divided among the devices by a named sharding, JAX
computes each device's part of the loss and of its gradient where the rows are, and adds the parts up. With
one device nothing here does anything.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from infrec.kernels.sharded import Alone, Processes, Team

if TYPE_CHECKING:
    from numpy.typing import NDArray

_USERS = "users"
Tree = TypeVar("Tree")


def count() -> int:
    """Devices that share the work."""
    return jax.device_count()


@cache
def team() -> Team:
    """The processes that share the work."""
    return Processes() if jax.process_count() > 1 else Alone()


@cache
def half_precision() -> type[np.floating[Any]]:
    """The type in which numbers of half precision are kept: float16, or float32 where XLA cannot compile its
    conversion, as on x86 processors without F16C. The numbers are the same."""
    try:
        jax.jit(lambda x: x.astype(jnp.float32)).lower(jax.ShapeDtypeStruct((8,), jnp.float16)).compile()
    except jax.errors.JaxRuntimeError:
        return np.float32
    return np.float16


def anybody(says: bool) -> bool:
    """Whether it is so on any process; each has to ask at the same point."""
    return bool(team().total(np.array([float(says)]))[0])


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
    """The same arrays on every device of every process."""
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
