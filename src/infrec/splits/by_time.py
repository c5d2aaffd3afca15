"""Splits that respect time: the last interactions held out, or the log cut into periods."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from infrec.data import Interactions
from infrec.errors import ConfigError, DataError
from infrec.splits.cut import keep, rows_of, with_enough
from infrec.splits.split import Split

if TYPE_CHECKING:
    from numpy.typing import NDArray


def leave_last_out(log: Interactions) -> Split:
    """Each user's last interaction is test, the one before it validation, the rest train.

    Users with fewer than 3 interactions are dropped. At equal times the later item in the item order is last.
    """
    _times(log)
    log = with_enough(log)
    row = rows_of(log.matrix)
    from_end = np.empty(len(row), np.int64)
    from_end[np.lexsort((_times(log), row))] = log.matrix.indptr[row + 1] - 1 - np.arange(len(row))
    return Split(
        keep(log, from_end >= 2), keep(log, from_end == 1), keep(log, from_end == 0), name="leave-last-out"
    )


def periods(log: Interactions, n: int) -> list[Interactions]:
    """The log cut by time into n periods of equally many interactions (to within one), the oldest first.

    All periods have the log's users and items. At equal times users and then items come in their own order.
    """
    time = _times(log)
    if not 1 <= n <= max(1, len(time)):
        raise ConfigError(
            f"{n} periods of {len(time)} interactions were asked for; expected 1 to {len(time)}."
        )
    period = np.empty(len(time), np.int64)
    period[np.argsort(time, kind="stable")] = np.arange(len(time)) * n // max(1, len(time))
    return [keep(log, period == number) for number in range(n)]


def _times(log: Interactions) -> NDArray[np.int64]:
    if log.time is None:
        raise DataError("the log has no times; expected a time column: name it (`time=`), or use `holdout`.")
    return log.time
