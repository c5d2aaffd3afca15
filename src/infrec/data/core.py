"""The part of a log in which every user and every item has enough interactions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from infrec.data.columns import ReadOptions
from infrec.data.vocabulary import Vocabulary, from_numpy
from infrec.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from infrec.data.assemble import Fields


def core(matrix: sp.csr_array, min_user: int, min_item: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which users and items stay when those with too few interactions leave, until nothing changes.

    The result is the largest such part, whatever the order in which they leave.
    """
    users = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    items = matrix.indices
    while True:
        stays = np.bincount(users, minlength=matrix.shape[0]) >= min_user
        in_core = np.bincount(items, minlength=matrix.shape[1]) >= min_item
        kept = stays[users] & in_core[items]
        if kept.all():
            return stays, in_core
        users, items = users[kept], items[kept]


def cut(fields: Fields, options: ReadOptions) -> Fields:
    """The fields of a log without users and items that have fewer interactions than the options ask for."""
    min_user, min_item = options.min_user, options.min_item
    if min_user == min_item == 1:
        return fields
    matrix, report = fields["matrix"], fields["report"]
    stays, in_core = core(matrix, min_user, min_item)
    if options.new_items:  # nobody has them
        in_core |= np.bincount(matrix.indices, minlength=matrix.shape[1]) == 0
    rows, columns = np.flatnonzero(stays), np.flatnonzero(in_core)
    if not len(rows) or not len(columns):
        raise DataError(
            f"no interactions are left when each user has at least {min_user} and each item at least "
            f"{min_item}; give smaller numbers."
        )
    few = [
        f"{what} with fewer than {least}"
        for what, least in (("a user", min_user), ("an item", min_item))
        if least > 1
    ]
    reason = f"of {' or '.join(few)} interactions"
    result = _inside(fields, rows, columns)
    kept = result["matrix"].nnz
    if report is not None and matrix.nnz > kept:
        report = replace(report, kept=kept, dropped={**report.dropped, reason: matrix.nnz - kept})
    return {**result, "report": report}


def _inside(fields: Fields, rows: NDArray[np.integer], columns: NDArray[np.integer]) -> Fields:
    """The fields of a log with these users and items alone, and of its dislikes."""
    matrix = fields["matrix"]
    numbered = sp.csr_array(
        (np.arange(matrix.nnz, dtype=np.int64), matrix.indices, matrix.indptr), shape=matrix.shape
    )
    kept = numbered[rows][:, columns].data
    time, info, parts = fields["time"], fields["item_info"], fields["parts"]
    dislikes = fields["dislikes"]
    return {
        "matrix": matrix[rows][:, columns],
        "users": Vocabulary(fields["users"].take(rows)),
        "items": Vocabulary(fields["items"].take(columns)),
        "time": None if time is None else time[kept],
        "item_info": None if info is None else info.take(from_numpy(columns)),
        "parts": None if parts is None else {name: part[rows][:, columns] for name, part in parts.items()},
        "report": fields["report"],
        "dislikes": None if dislikes is None else _inside(dislikes, rows, columns),
    }
