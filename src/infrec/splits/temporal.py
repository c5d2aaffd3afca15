"""Splits that respect time: the last interactions held out, of each user or of the log; periods."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from infrec.data import Interactions
from infrec.errors import ConfigError, DataError
from infrec.splits.holdout import FEWEST, Split, keep, place_in_row, with_dislikes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from infrec.data.interactions import InteractionsLike

_TENTHS = 10  # of the log; the last one is test, the one before validation


def leave_last_out(log: InteractionsLike) -> Split:
    """Each user's last interaction is test, the one before validation, all earlier ones train.

    Users with fewer than 3 interactions are dropped. At equal times the item that comes later in the
    vocabulary is the last.

    Args:
        log: A log with times, in any form that `Interactions.from_data` takes; a split of its own is not
            looked at.
    """
    log = Interactions.from_data(log)
    _times(log)
    log = log.select_users(np.flatnonzero(log.user_counts >= FEWEST))
    if not log.n_users:
        raise DataError(
            f"none of the users has {FEWEST} interactions or more; expected some with {FEWEST}, one for each "
            "of train, validation and test."
        )
    from_end = _from_end(log)
    parts = keep(log, from_end > 1), keep(log, from_end == 1), keep(log, from_end == 0)
    return Split(*with_dislikes(log, parts, 0), name="leave-last-out")


def by_time(log: InteractionsLike) -> Split:
    """The log cut at two moments: 80 % of its interactions are train, the next 10 % validation, then test.

    Users who have nothing before the first cut are dropped. Items that came later stay: nobody can be told
    of them. Interactions at the moment of a cut may lie on either side of it.

    Args:
        log: A log with times, in any form that `Interactions.from_data` takes; a split of its own is not
            looked at.
    """
    log = Interactions.from_data(log)
    time = _times(log)
    tenth = np.empty(len(time), np.int64)
    tenth[np.argsort(time, kind="stable")] = np.arange(len(time)) * _TENTHS // max(1, len(time))
    known = np.flatnonzero(keep(log, tenth < _TENTHS - 2).user_counts)
    val, test = (tenth == _TENTHS - 2), (tenth == _TENTHS - 1)
    train, val_part, test_part = (keep(log, part).select_users(known) for part in (~val & ~test, val, test))
    if not test_part.n_interactions:
        raise DataError(
            f"of the {len(known):,} users who are there in the first 80 % of the log's interactions, none is "
            "in the last 10 %; expected some: use another split, leave-last-out or random."
        )
    if (dislikes := log.dislikes) is not None and dislikes.time is not None:
        said = np.searchsorted(np.sort(time)[np.searchsorted(np.sort(tenth), (8, 9))], dislikes.time, "right")
        train, val_part, test_part = (
            replace(part, dislikes=keep(dislikes, said == number).select_users(known))
            for number, part in enumerate((train, val_part, test_part))
        )
    return Split(train, val_part, test_part, name="by-time")


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
    last = np.repeat(log.user_counts - 1, log.user_counts)
    return last - place_in_row(log.matrix, _times(log))


def _times(log: Interactions) -> NDArray[np.int64]:
    if log.time is None:
        raise DataError("the log has no times; expected a time column: name it (`time=`), or use `holdout`.")
    return log.time
