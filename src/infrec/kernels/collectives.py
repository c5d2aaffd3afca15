"""The sums of a Nyström pass over many processes: rows divided among them for the pass, columns for α.

Every process takes in its own rows, so its share of ZᵀY has all columns; but it keeps only the columns it
owns. After each block the shares are exchanged: process p sends process q what belongs to q's columns, and q
adds it up in float64. All of it is one array with two named shardings,

    [sender, owner, centres, columns]   over `sender`  →  over `owner`,

and JAX's runtime moves the data between them (all-to-all; gloo on CPUs, NCCL on GPUs). What grows with
centres × columns is therefore divided by the number of processes, in the pass and in the solve, which each
process does for its own columns. Scores go the same way back: kernel rows to every owner of columns, scores
to the owner of the rows.

Every block's share is the same whichever process computes it, and is added in float64, so the number of
processes changes nothing but the last bits of float64.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from infrec.errors import InfrecError

if TYPE_CHECKING:
    from jaxtyping import Float

_COLUMNS = 1024  # of ZᵀY exchanged at a time: what travels is held several times on the way
_TOTAL_BYTES = 1 << 25  # of a sum over all processes that travel at a time


class Team:
    """The processes of one fit, here one alone: nothing travels, and JAX is not needed.

    Each calls the same methods in the same order; that is all they agree on.
    """

    count, index = 1, 0

    def width(self, columns: int) -> int:
        """Columns exchanged at a time; each process owns an equal part of them."""
        return columns

    def exchange(self, share: Float[np.ndarray, "centres width"]) -> Float[np.ndarray, "centres own"]:
        """The sum over all processes of the columns that this one owns, in float64."""
        return share

    def all_sum(self, values: Float[np.ndarray, "*s"]) -> Float[np.ndarray, "*s"]:
        """The sum over all processes, in float64, the same bits on each."""
        return np.asarray(values, np.float64)

    def concatenate(self, values: NDArray[Any]) -> NDArray[Any]:
        """One-dimensional arrays of any lengths, one after the other in the order of the processes."""
        return values

    def scorer(self, alpha: Float[np.ndarray, "centres own"], columns: int) -> Callable[..., NDArray[Any]]:
        """A function from kernel rows, as many on every process, to these rows' scores for all columns."""
        return lambda kernel: kernel @ alpha

    def gather_to_first(self, alpha: Float[np.ndarray, "centres own"], columns: int) -> NDArray[Any] | None:
        """All columns of α on the first process; None on the others."""
        return alpha


class JaxProcesses(Team):
    """The processes that `jax.distributed` has brought together."""

    def __init__(self) -> None:
        import jax
        from jax.sharding import Mesh

        self.count, self.index = jax.process_count(), jax.process_index()
        first = [
            min((d for d in jax.devices() if d.process_index == index), key=lambda d: d.id)
            for index in range(self.count)
        ]
        self._mesh = Mesh(np.array(first), ("process",))
        self._movers: dict[tuple[str | None, ...], Any] = {}

    def width(self, columns: int) -> int:
        each = -(-min(columns, _COLUMNS) // self.count)
        return each * self.count

    def exchange(self, share: NDArray[Any]) -> NDArray[Any]:
        by_owner = np.ascontiguousarray(share.reshape(len(share), self.count, -1).transpose(1, 0, 2))[None]
        mine = self._moved(by_owner, None, "process")
        return mine[:, 0].sum(axis=0, dtype=np.float64)

    def all_sum(self, values: NDArray[Any]) -> NDArray[Any]:
        values = np.asarray(values, np.float64)
        flat, step = values.ravel(), _TOTAL_BYTES // 8
        out = np.empty_like(flat)
        for start in range(0, len(flat), step):
            some = slice(start, start + step)
            out[some] = self._do(self._sum, self._spread(flat[some][None]))
        return out.reshape(values.shape)

    def concatenate(self, values: NDArray[Any]) -> NDArray[Any]:
        own = np.zeros(self.count)
        own[self.index] = len(values)
        lengths = self.all_sum(own).astype(int)
        padded = np.zeros((1, int(lengths.max(initial=0))), values.dtype)
        padded[0, : len(values)] = values
        every = self._moved(padded)
        return np.concatenate([row[:length] for row, length in zip(every, lengths, strict=True)])

    def scorer(self, alpha: NDArray[Any], columns: int) -> Callable[..., NDArray[Any]]:
        held = self._spread(alpha, axis=1)
        chunks = -(-columns // self.width(columns))

        def scores(kernel: NDArray[Any]) -> NDArray[Any]:
            mine = self._do(self._predict, self._spread(kernel), held)
            by_owner = mine.reshape(len(kernel), self.count, chunks, -1).transpose(0, 2, 1, 3)
            return by_owner.reshape(len(kernel), -1)[:, :columns]

        return scores

    def gather_to_first(self, alpha: NDArray[Any], columns: int) -> NDArray[Any] | None:
        out = np.empty((len(alpha), columns), alpha.dtype) if self.index == 0 else None
        width = self.width(columns)
        each = width // self.count
        for number, start in enumerate(range(0, columns, width)):
            part = np.ascontiguousarray(alpha[:, number * each : (number + 1) * each])[None]
            every = self._moved(part)
            if out is not None:
                joined = every.transpose(1, 0, 2).reshape(len(alpha), width)
                out[:, start : start + width] = joined[:, : columns - start]
        return out

    # ---- JAX -----------------------------------------------------------------------------------------------
    def _sharding(self, *axes: str | None) -> Any:
        from jax.sharding import NamedSharding, PartitionSpec

        return NamedSharding(self._mesh, PartitionSpec(*axes))

    def _spread(self, mine: NDArray[Any], axis: int = 0) -> Any:
        """This process's part of a global array."""
        import jax

        shape = list(mine.shape)
        shape[axis] *= self.count
        axes = (None,) * axis + ("process",)
        with jax.enable_x64(True):  # here alone: what is float64 stays it
            return jax.make_array_from_process_local_data(self._sharding(*axes), mine, tuple(shape))

    def _moved(self, mine: NDArray[Any], *after: str | None) -> NDArray[Any]:
        """From a sharding over the first axis to another one."""
        import jax

        if after not in self._movers:
            self._movers[after] = jax.jit(lambda array: array, out_shardings=self._sharding(*after))
        return self._do(self._movers[after], self._spread(mine))

    def _do(self, function: Callable[..., Any], *arrays: Any) -> NDArray[Any]:
        """This process's part of the result; raises where another process has ended."""
        import jax

        try:
            with jax.enable_x64(True):
                return np.asarray(function(*arrays).addressable_shards[0].data)
        except (RuntimeError, ValueError) as failure:
            raise InfrecError(lost()) from failure

    @cached_property
    def _sum(self) -> Any:
        import jax

        return jax.jit(lambda parts: parts.sum(axis=0), out_shardings=self._sharding())

    @cached_property
    def _predict(self) -> Any:
        import jax
        import jax.numpy as jnp

        everywhere, by_column = self._sharding(), self._sharding(None, "process")

        def predict(kernel: Any, alpha: Any) -> Any:
            kernel = jax.lax.with_sharding_constraint(kernel, everywhere)
            scores = jnp.matmul(kernel, alpha, precision="highest")
            return jax.lax.with_sharding_constraint(scores, by_column)

        return jax.jit(predict, out_shardings=self._sharding("process"))


def lost() -> str:
    """The error message of a process that has lost another one."""
    return (
        "another of the processes has ended or cannot be reached, and its own message says why; the result "
        "was not written, so start all of them again (with --resume where there is a checkpoint)."
    )
