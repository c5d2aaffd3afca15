"""Whether a figure of several records is above zero, beyond their intervals.

A claim is put as margins: numbers made of rows that must be above zero. A margin's interval is over users and
over seeds. Where the records of all its rows have the means of the same groups of users (`records.groups`),
users are paired: the jackknife over groups. Older records only have an interval for each row: there these are
carried through the formula as if rows were independent, which is wider. Seeds are paired where rows share
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import hypot, sqrt
from statistics import fmean, stdev
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from infrec.paper.results import Row

LEVEL = 0.95
Answer = bool | None  # None: undecided within the intervals
Statistic = Callable[..., float]


class Untestable(Exception):
    """Raised where a claim cannot be tested, with the reason."""

    def __init__(self, reason: str = "nothing measured yet") -> None:
        super().__init__(reason)


@dataclass(frozen=True)
class Estimate:
    """A number and its 95 % interval."""

    value: float
    low: float
    high: float

    def above(self, limit: float = 0.0) -> Answer:
        """Whether it is above a limit; None where the limit lies in the interval."""
        return True if self.low > limit else False if self.high < limit else None

    def below(self, limit: float) -> Answer:
        """Whether it is below a limit; None where the limit lies in the interval."""
        return True if self.high < limit else False if self.low > limit else None


def estimate(statistic: Statistic, *rows: Row) -> Estimate:
    """A statistic of the values of rows, with its interval over users and seeds.

    Args:
        statistic: Takes the value of each row, in this order.
        rows: What was measured, on one dataset.
    """
    value = statistic(*(row.value for row in rows))
    half = hypot(_over_users(statistic, rows), _over_seeds(statistic, rows))
    return Estimate(value, value - half, value + half)


def margin(one: Row, other: Row, share: float = 1.0) -> Answer:
    """Whether one row is above a share of another one.

    Args:
        one: The row that should be higher.
        other: The row that it is compared with.
        share: Of the other row's value.
    """
    return estimate(lambda a, b: a - share * b, one, other).above()


def over_seeds(values: Sequence[float]) -> Estimate:
    """The mean of what was measured with each seed, with Student's interval; without one for a single seed.

    Args:
        values: One for each seed.
    """
    mean = fmean(values)
    half = _student(len(values) - 1) * stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0
    return Estimate(mean, mean - half, mean + half)


def _over_users(statistic: Statistic, rows: Sequence[Row]) -> float:
    """Half the interval over users."""
    count = len(rows[0].groups)
    if count > 1 and all(len(row.groups) == count for row in rows):
        sums = [sum(row.groups) for row in rows]
        left_out = [
            statistic(
                *((total - row.groups[at]) / (count - 1) for total, row in zip(sums, rows, strict=True))
            )
            for at in range(count)
        ]
        mean = fmean(left_out)
        return _student(count - 1) * sqrt((count - 1) / count * sum((each - mean) ** 2 for each in left_out))
    values, total = [row.value for row in rows], 0.0
    for at, row in enumerate(rows):
        half = (row.high - row.low) / 2
        above, below = (statistic(*values[:at], row.value + d, *values[at + 1 :]) for d in (half, -half))
        total = hypot(total, (above - below) / 2)
    return total


def _over_seeds(statistic: Statistic, rows: Sequence[Row]) -> float:
    """Half the interval over the seeds that all rows share which have several."""
    by_seed = [dict(row.by_seed) for row in rows]
    several = [set(own) for own in by_seed if len(own) > 1]
    shared = sorted(set.intersection(*several)) if several else []
    if len(shared) < 2:
        return 0.0
    each = [
        statistic(*(own.get(seed, row.value) for own, row in zip(by_seed, rows, strict=True)))
        for seed in shared
    ]
    return over_seeds(each).high - fmean(each)


def _student(freedom: int) -> float:
    """The 97.5 % quantile of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + LEVEL) / 2))


# ---- several answers --------------------------------------------------------------------------------------
def every(answers: Iterable[Answer]) -> Answer:
    """No if one of them is no, yes if all are yes."""
    known = list(answers)
    return False if False in known else None if None in known else True


def some(answers: Iterable[Answer]) -> Answer:
    """Yes if one of them is yes, no if all are no."""
    known = list(answers)
    return True if True in known else None if None in known else False


def most(answers: Iterable[Answer]) -> Answer:
    """Yes if more than half are yes; no if half or more are no."""
    known = list(answers)
    if 2 * known.count(True) > len(known):
        return True
    return False if 2 * known.count(False) >= len(known) else None


def alike(answers: Iterable[Answer]) -> Answer:
    """The answer that all of them give, such as those of several seeds; None where they differ."""
    known = set(answers)
    return known.pop() if len(known) == 1 else None
