"""Real users as dense blocks for a compiled function: all of them once, or a mini-batch for each step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from infrec.errors import MemoryBudgetError
from infrec.randomness import generator

if TYPE_CHECKING:
    import scipy.sparse as sp
    from numpy.typing import NDArray

    from infrec.distillation.objective import Users

CPU_ENTRIES = 1 << 21  # entries of a block on the CPU: 512 users of ML-1M, whose float32 scores are 8 MB
GPU_ENTRIES = 1 << 28
FULL_BATCH_BYTES = 4 << 30  # a full batch is held as bytes; past this, ask for mini-batches


def densified(matrix: sp.csr_array, rows: NDArray[np.integer], height: int) -> NDArray:
    """These rows, then zeros up to `height`, dense: uint8 where that holds the values, else float32."""
    part = matrix[rows]
    small = bool((part.data == np.floor(part.data)).all() and (part.data <= 255).all())
    out = np.zeros((height, part.shape[1]), np.uint8 if small else np.float32)
    owner = np.repeat(np.arange(len(rows)), np.diff(part.indptr))
    out[owner, part.indices] = part.data
    return out


class Feed:
    """Hands each step its users: always the same device arrays (full batch), or new ones (mini-batch)."""

    def __init__(
        self, train: sp.csr_array, *, batch: int | None, parts: int, seed: int, on_gpu: bool
    ) -> None:
        self._train, self._seed = train, seed
        self._batch = None if batch is None or batch >= train.shape[0] else batch
        self.parts = parts if self._batch else 1
        self._entries = GPU_ENTRIES if on_gpu else CPU_ENTRIES
        self._whole: Users | None = None
        if self._batch is None and train.shape[0] * train.shape[1] > FULL_BATCH_BYTES:
            raise MemoryBudgetError(
                f"a full batch of {train.shape[0]:,} users × {train.shape[1]:,} items needs "
                f"{train.shape[0] * train.shape[1] / 2**30:.1f} GiB as bytes; use mini-batches: batch=4096."
            )

    def at(self, step: int, part: int) -> Users:
        """The users of this step's `part`-th share; a function of the seed and the step alone."""
        if self._batch is None:
            if self._whole is None:
                self._whole = self._pack(np.arange(self._train.shape[0]))
            return self._whole
        rng = generator(self._seed, "batch", str(step), str(part))
        return self._pack(np.sort(rng.choice(self._train.shape[0], self._batch, replace=False)))

    def _pack(self, rows: NDArray[np.int64]) -> Users:
        import jax.numpy as jnp

        from infrec.distillation.objective import Users

        n, d = len(rows), self._train.shape[1]
        blocks = max(1, -(-n * d // self._entries))
        height = -(-n // blocks)
        x = densified(self._train, rows, blocks * height).reshape(blocks, height, d)
        user = np.zeros(blocks * height, np.uint32)
        user[:n] = rows
        weight = (np.arange(blocks * height) < n).astype(np.float32)
        shape = (blocks, height)
        return Users(
            jnp.asarray(x),
            jnp.asarray(user.reshape(shape)),
            jnp.asarray(weight.reshape(shape)),
            jnp.float32(n),
        )
