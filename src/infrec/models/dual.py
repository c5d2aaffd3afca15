"""α on disk: whole, as the factors that it is the product of, or without columns that stand there twice.

Items of the same users have the same α. In a log with many items of one user each, most columns are another
one's copy.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infrec import machine
from infrec.contents import Artifact
from infrec.data import Interactions
from infrec.kernels.resident import FactoredMatrix, ResidentMatrix

_FEW = 0.8  # of the columns, at most, and copies are left out
_BLOCK = 4096  # columns looked at together


def arrays(alpha: ResidentMatrix) -> dict[str, NDArray[Any]]:
    """The arrays to save, by name.

    Args:
        alpha: Users × items.
    """
    if isinstance(alpha, FactoredMatrix):
        return {"inverse": alpha.left.here}
    whole, columns = alpha.here, np.zeros(alpha.shape[1], np.int32)
    known: dict[bytes, int] = {}
    for start in range(0, len(columns), _BLOCK):
        turned = np.ascontiguousarray(whole[:, start : start + _BLOCK].T)
        for at, column in enumerate(turned, start):
            columns[at] = known.setdefault(blake2b(column, digest_size=16).digest(), len(known))
    if len(known) > _FEW * len(columns):
        return {"alpha": whole}
    first = np.unique(columns, return_index=True)[1]
    return {"alpha": whole[:, first], "alpha.columns": columns}


def is_stored(artifact: Artifact) -> bool:
    """Whether `read` would find α.

    Args:
        artifact: The saved model.
    """
    return not artifact.arrays.keys().isdisjoint(("alpha", "inverse"))


def read(artifact: Artifact, users: int, log: Interactions) -> ResidentMatrix:
    """α from what `arrays` gave.

    Args:
        artifact: The saved model.
        users: Rows of α.
        log: The log over whose items it is, and in factors over whose users.
    """
    if "inverse" in artifact.arrays:
        return FactoredMatrix(artifact.array("inverse", log.n_users, log.n_users), log.matrix)
    if "alpha.columns" not in artifact.arrays:
        return ResidentMatrix(artifact.array("alpha", users, log.n_items))
    distinct = artifact.array("alpha", users, None)
    columns = artifact.positions("alpha.columns", log.n_items, distinct.shape[1])
    needed = users * log.n_items * distinct.itemsize
    machine.require_memory(needed, f"a model of {log.n_items:,} items", "use a machine with more memory")
    return ResidentMatrix(np.take(distinct, columns, axis=1))
