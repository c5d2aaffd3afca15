"""Splits that respect time: the log cut into periods, and the last interactions of a period held out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from infrec.data import Interactions
from infrec.errors import ConfigError, DataError
from infrec.splits.holdout import Split, keep, rows_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


def periods(log: Interactions, n: int) -> list[Interactions]:
    """The log cut by time into n periods of equally many interactions (to within one), the oldest first.

    All periods have the log's users and items. At equal times users and then items come in their own order.

    Args:
        log: A log with times.
        n: How many periods.
    """
    time = _times(log)
    if not 1 <= n <= max(1, len(time)):
        raise ConfigError(
            f"{n} periods of {len(time)} interactions were asked for; expected 1 to {len(time)}."
        )
    period = np.empty(len(time), np.int64)
    period[np.argsort(time, kind="stable")] = np.arange(len(time)) * n // max(1, len(time))
    return [keep(log, period == number) for number in range(n)]


def ahead(past: Interactions, period: Interactions, *, share: float = 0.2) -> Split:
    """How well a model of the past foresees a period: the users of the period, their last items held out.

    Of a user's n interactions in the period the last max(1, int(share · n)) are test. Train is what is known
    of the user by then: the earlier ones, and everything in `past`. For somebody with a single interaction in
    all it is empty. Validation is empty. Items that `past` lacks stay: they cannot be foreseen.

    Args:
        past: Everything before the period.
        period: The period to foresee.
        share: How much of each user's period is test, in 0…1.
    """
    if not 0 < share <= 1:
        raise ConfigError(f"share is {share}; expected more than 0 and at most 1.")
    _times(period)
    users = np.flatnonzero(period.user_counts)
    period = period.select_users(users)
    counts = period.user_counts
    last = _from_end(period) < np.repeat(np.maximum(1, (share * counts).astype(np.int64)), counts)
    test, shown = keep(period, last), keep(period, ~last)
    known = shown.with_matrix(shown.matrix.maximum(past.matrix[users]))
    return Split(known, keep(period, np.zeros(len(last), bool)), test, name="next period")


def _from_end(log: Interactions) -> NDArray[np.int64]:
    """The place of each interaction counted from its user's last one, which is 0."""
    row = rows_of(log.matrix)
    from_end = np.empty(len(row), np.int64)
    from_end[np.lexsort((_times(log), row))] = log.matrix.indptr[row + 1] - 1 - np.arange(len(row))
    return from_end


def _times(log: Interactions) -> NDArray[np.int64]:
    if log.time is None:
        raise DataError("the log has no times; expected a time column: name it (`time=`), or use `holdout`.")
    return log.time
