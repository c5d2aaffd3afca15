"""A log in periods: ML-1M recognised by its data, its times from a file of their own, rows put together."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from infrec.data import Interactions, datasets
from infrec.errors import DataError
from infrec.splits import periods
from infrec.splits.holdout import rows_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

TIMES = "ml-1m-times.parquet"
ML_1M_SIZES = (6040, 3706, 1_000_209)  # users, items, ratings
ML_1M_ITEMS = "2da11f7b9acef76ac578b2371e51b156a57ba8cc7d200a5750b59a88c2b281b9"


@lru_cache(maxsize=2)
def timeline(dataset: str) -> Interactions:
    """The log with a time for everything.

    ML-1M as prepared has no times across users, only places in each user's own history. Where a file of its
    times is found, they are taken. Else the order is (−user, place in the user's own history): its user ids
    run backwards in time, and most users rated in one sitting.
    """
    log = replace(datasets.load(dataset), parts=None)
    if are_times(log):
        return log
    if not is_ml_1m(log):
        found = "has no times" if log.time is None else "has places in each user's own history for times"
        raise DataError(
            f"{dataset} {found}; expected times that can be compared across users, to cut it into periods "
            "by: name another dataset."
        )
    if (path := times_of(dataset)) is not None:
        return replace(log, time=times_in(path, log))
    if log.time is None:
        raise DataError(f"{dataset} has no times; expected the file {TIMES} beside it.")
    backwards = np.repeat(np.arange(log.n_users)[::-1], log.user_counts)
    return replace(log, time=backwards * (int(log.time.max()) + 1) + log.time)


def are_times(log: Interactions) -> bool:
    """Whether a log has times that can be compared across users, not places in each user's own history."""
    if log.time is None or not log.n_interactions:
        return log.time is not None
    return bool(log.time.max() > log.user_counts.max() or log.time.min() < 0)


def is_ml_1m(log: Interactions) -> bool:
    """Whether this is MovieLens-1M, by its data: how many users, items and ratings, and what was rated."""
    if (log.n_users, log.n_items, log.n_interactions) != ML_1M_SIZES:
        return False
    return hashlib.sha256(log.matrix.indices.astype("<i8").tobytes()).hexdigest() == ML_1M_ITEMS


def has_times(dataset: str) -> bool:
    """Whether this is ML-1M with real times: its own, or those of a file that is found."""
    if dataset in datasets.entries and datasets.locate(dataset) is None:
        return False  # nothing is downloaded for a plan
    log = datasets.load(dataset)
    return is_ml_1m(log) and (are_times(log) or times_of(dataset) is not None)


def times_of(dataset: str) -> Path | None:
    """The file of ML-1M's times: beside the dataset, in `$INFREC_DATA` or in the cache."""
    beside = [Path(dataset).parent] if Path(dataset).is_file() else []
    folders = (*beside, datasets.data_folder(), datasets.cache_folder())
    paths = (folder / TIMES for folder in folders if folder is not None)
    return next((path for path in paths if path.is_file()), None)


def times_in(path: Path, log: Interactions) -> NDArray[np.int64]:
    """The time of each interaction of a log, from a table (user, item, time).

    Args:
        path: The file of the table.
        log: The log, each of whose interactions must be in the table.
    """
    import pyarrow.parquet as parquet

    table = parquet.read_table(path, columns=["user", "item", "time"])
    rows, columns = (getattr(log, name).positions(table[name[:-1]]) for name in ("users", "items"))
    known = (rows >= 0) & (columns >= 0)
    keys = rows[known] * log.n_items + columns[known]
    order = np.argsort(keys, kind="stable")
    wanted = rows_of(log.matrix) * log.n_items + log.matrix.indices
    place = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
    if not len(keys) or (keys[order][place] != wanted).any():
        raise DataError(f"{path} lacks times of ratings of the dataset; expected one for each: remove it.")
    return table["time"].to_numpy()[known][order][place].astype(np.int64)


@lru_cache(maxsize=2)
def cut(dataset: str, count: int) -> tuple[Interactions, ...]:
    return tuple(periods(timeline(dataset), count))


def active(log: Interactions) -> Interactions:
    """Without the users who have nothing in it."""
    return log.select_users(np.flatnonzero(log.user_counts))


def together(logs: tuple[Interactions, ...]) -> Interactions:
    """Several periods as one log of the same users and items; nobody has the same item in two."""
    return logs[0].with_matrix(sp.csr_array(sum(log.matrix for log in logs)))


def beside(log: Interactions, rows: sp.csr_array) -> Interactions:
    """A log with further users, who are nobody: ids are text, so that theirs are no real user's."""
    users = [f"user {each}" for each in log.users.ids.to_pylist()]
    users += [f"synthetic {number}" for number in range(rows.shape[0])]
    return Interactions.from_csr(sp.vstack([log.matrix, rows]), users=users, items=log.items.ids)
