"""A log without the ids of its users, in an order that does not give them away either."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from infrec.data.vocabulary import Vocabulary

if TYPE_CHECKING:
    from infrec.data.interactions import Interactions


def without_user_ids(log: Interactions) -> Interactions:
    """The histories of a log, with names such as `unnamed 17` in place of the users' ids.

    Users stand in the order of their histories: in that of their ids, a list of all ids would tell whose row
    is whose. Histories stay as they are, and somebody who knows a part of one may still recognise it.

    Args:
        log: The log with its ids.
    """
    matrix = log.matrix
    # Big-endian bytes compare as the numbers do; equal sets of items are told apart by their weights.
    items, weights = matrix.indices.astype(">i4"), matrix.data.astype(">f4")
    bounds = zip(matrix.indptr[:-1].tolist(), matrix.indptr[1:].tolist(), strict=True)
    histories = [(items[start:end].tobytes(), weights[start:end].tobytes()) for start, end in bounds]
    order = np.array(sorted(range(len(histories)), key=histories.__getitem__), np.int64)
    width = len(str(log.n_users))
    names = [f"unnamed {number:0{width}}" for number in range(1, log.n_users + 1)]
    other, users = log.select_users(order), Vocabulary.of(names)
    said = other.dislikes and replace(other.dislikes, users=users)
    return replace(other, users=users, dislikes=said)
