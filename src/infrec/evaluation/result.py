"""The result of an evaluation: one number per metric, what it is made of, and how sure it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The quality of one model on one split under one protocol.

    metrics: name → value. HR, NDCG, PSP and coverage in percent, AUC and gini in 0…1, novelty in bits,
        popularity in train histories.
    intervals: name → (low, high), 95 %, by resampling users; not for coverage and gini, which are not means.
    n_users: how many were measured; population: of how many (more when only a sample was).
    per_user: name → one value per user, in the unit of the metric, whose mean is the metric.
    auc_contributions: the same for a pooled AUC, as pseudo-values (see `metrics.pooled_auc_by_user`).
    exposure: k → in how many lists each item stands. item_hits: k → how often each was a hit.
    item_held_out: how often each item was held out. user_counts, item_counts: interactions in train.
    """

    protocol: str
    split: str
    n_users: int
    k: tuple[int, ...]
    metrics: Mapping[str, float]
    per_user: Mapping[str, NDArray[np.float64]]
    user_counts: NDArray[np.int64]
    item_counts: NDArray[np.int64]
    exposure: Mapping[int, NDArray[np.int64]]
    item_hits: Mapping[int, NDArray[np.int64]]
    item_held_out: NDArray[np.int64]
    auc_contributions: NDArray[np.float64] | None = None
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    population: int = 0

    @property
    def contributions(self) -> dict[str, NDArray[np.float64]]:
        """Every metric that is a mean over users, as the values it is the mean of: what resampling needs."""
        pooled = {} if self.auc_contributions is None else {"AUC": self.auc_contributions}
        return {**pooled, **self.per_user}
