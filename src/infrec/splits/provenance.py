"""Which log a summary was made from: a fingerprint of its interactions, to know it again.

A fingerprint is the sum of a hash of each (user, item, weight), by the texts of the ids. So the order of
rows, users and items does not matter, nor items without interactions, nor whether ids are numbers or text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from infrec.data import Interactions
from infrec.errors import DataError
from infrec.splits.holdout import hashed, holdout, mixed, set_aside

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BLOCK = 1 << 22  # interactions hashed at a time


def fingerprint(log: Interactions) -> str:
    """A short name for who interacted with what.

    Args:
        log: The interactions.
    """
    users, items, matrix = hashed(log.users, 0), hashed(log.items, 1), log.matrix
    total = np.uint64(0)
    for start in range(0, matrix.nnz, _BLOCK):
        stop = min(matrix.nnz, start + _BLOCK)
        row = np.searchsorted(matrix.indptr, np.arange(start, stop), side="right") - 1
        weight: NDArray[np.uint32] = np.asarray(matrix.data[start:stop], np.float32).view(np.uint32)
        pairs = mixed(users[row] ^ items[matrix.indices[start:stop]])
        total += mixed(pairs ^ weight.astype(np.uint64)).sum(dtype=np.uint64)
    return f"{int(total):016x}"


def source_of(log: Interactions) -> dict[str, Any]:
    """Facts about the log that something was made from, for a manifest.

    Args:
        log: The interactions that went in.
    """
    return {
        "users": log.n_users,
        "items": log.n_items,
        "interactions": log.n_interactions,
        "fingerprint": fingerprint(log),
    }


def fingerprints(about: Mapping[str, Any]) -> tuple[str, ...]:
    """The fingerprints in a manifest: of the source and, of a summary that was continued, of earlier ones.

    Args:
        about: The manifest's facts.
    """
    source = about.get("source")
    if not isinstance(source, Mapping) or "fingerprint" not in source:
        return ()
    return (source["fingerprint"], *source.get("earlier", ()))


def is_source(log: Interactions, about: Mapping[str, Any]) -> bool | None:
    """Whether a log, or its train part by the manifest's own seed, is what a summary was made from.

    None where the manifest has no fingerprint.

    Args:
        log: The log, whole.
        about: The facts of the summary's manifest.
    """
    known = fingerprints(about)
    if not known:
        return None
    try:
        return fingerprint(train_of(log, about)) in known or fingerprint(log) in known
    except DataError:  # too few interactions to be split as the source was
        return False


def train_of(log: Interactions, about: Mapping[str, Any]) -> Interactions:
    """The train part of a log without the users set aside, by the rules in a manifest.

    Args:
        log: The log, whole.
        about: The facts of the summary's manifest.
    """
    split, rule = holdout(log, seed=int(about.get("seed", 42))), about.get("set_aside")
    return split.train if rule is None else set_aside(split, rule["share"], rule["seed"])[0].train
