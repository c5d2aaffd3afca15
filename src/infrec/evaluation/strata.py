"""For whom and for what a model works: quality by how cold users and items are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from infrec.errors import ConfigError
from infrec.metrics.intervals import Interval, intervals_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from infrec.evaluation.evaluate import Evaluation

Measured = tuple[dict[str, float], dict[str, Interval]]


@dataclass(frozen=True)
class Stratum:
    """Users (or items) with `low` to `high` interactions in train.

    Args:
        low, high: Fewest and most interactions in train.
        size: How many users or items there are.
        metrics: Name → value.
        intervals: Name → (low, high), 95 %.
    """

    low: int
    high: int
    size: int
    metrics: dict[str, float]
    intervals: dict[str, Interval]

    @property
    def label(self) -> str:
        """Such as "3–7", for axes."""
        return f"{self.low}" if self.low == self.high else f"{self.low}–{self.high}"


def by_user_coldness(evaluation: Evaluation, bins: int = 5, *, seed: int = 42) -> list[Stratum]:
    """Every per-user metric in bins of users by their number of train interactions, coldest first.

    Bins are equally large as far as ties allow: users with equally many interactions share a bin, so there
    may be fewer bins than asked for.

    Args:
        evaluation: From `evaluate`.
        bins: How many bins.
        seed: Seed of the intervals.
    """

    def of(inside: NDArray[np.bool_]) -> Measured:
        values = {name: value[inside] for name, value in evaluation.per_user.items()}
        return {name: float(value.mean()) for name, value in values.items()}, intervals_of(values, seed=seed)

    return _strata(evaluation.user_counts, bins, of)


def by_item_coldness(evaluation: Evaluation, bins: int = 5) -> list[Stratum]:
    """The share of held-out interactions that was found, in bins of items by their train interactions.

    The metric `found@k` is hits / held-out interactions over the items of a bin, in percent. Items that were
    held out for nobody are in no bin.

    Args:
        evaluation: From `evaluate`.
        bins: How many bins.
    """
    at = np.flatnonzero(evaluation.item_held_out)
    held, hits = evaluation.item_held_out[at], {k: n[at] for k, n in evaluation.item_hits.items()}

    def of(inside: NDArray[np.bool_]) -> Measured:
        return {
            f"found@{k}": float(100.0 * n[inside].sum() / held[inside].sum()) for k, n in hits.items()
        }, {}

    return _strata(evaluation.item_counts[at], bins, of)


def _strata(
    counts: NDArray[np.int64], bins: int, of: Callable[[NDArray[np.bool_]], Measured]
) -> list[Stratum]:
    """The bins of these counts. of: metrics and intervals of those inside one."""
    bin_of = _bins(counts, bins)
    strata = []
    for number in range(int(bin_of.max(initial=-1)) + 1):
        inside = bin_of == number
        low, high = int(counts[inside].min()), int(counts[inside].max())
        strata.append(Stratum(low, high, int(inside.sum()), *of(inside)))
    return strata


def _bins(counts: NDArray[np.int64], bins: int) -> NDArray[np.int64]:
    """The bin of each, by quantiles of `counts`, numbered without gaps from the smallest."""
    if bins < 1:
        raise ConfigError(f"{bins} bins were asked for; expected 1 or more.")
    if not len(counts):
        return np.zeros(0, np.int64)
    inner = np.quantile(counts, np.arange(1, bins) / bins, method="inverted_cdf")
    return np.unique(np.searchsorted(np.unique(inner), counts, "left"), return_inverse=True)[1]
