"""The looks of a dataset: how much it is, how popularity and activity are spread, and a picture of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from infrec.data import Summary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from infrec.data import Interactions

CURVE_POINTS = 48
PICTURE = (210, 415)  # most users and items it shows: two pixels for a cell of a full-width page

# The train part; what was distilled of it; that as centres of a fit on the train part; random users.
Which = Literal["full", "summary", "finished", "random"]


@dataclass(frozen=True)
class Size:
    """How much a dataset is. `bytes`: its interactions as Parquet."""

    users: int
    interactions: int
    bytes: int

    @classmethod
    def of(cls, log: Interactions) -> Size:
        """Users, interactions, and the bytes of the interactions as a summary's Parquet file."""
        return cls(log.n_users, log.n_interactions, Summary.of(log).bytes)


@dataclass(frozen=True)
class Curve:
    """A distribution of one dataset, largest first: points (share of items or users, value), and figures."""

    data: Which
    points: Sequence[tuple[float, float]]
    facts: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Curve:
        """A record as `asdict` writes it."""
        return cls(**{**record, "points": tuple((x, y) for x, y in record["points"])})

    @classmethod
    def of_popularity(cls, log: Interactions, which: Which) -> Curve:
        """In what share of users' histories items stand, the most popular first (in percent)."""
        held = np.sort(_amounts(log, axis=0))[::-1]
        total = max(float(held.sum()), 1e-12)
        upto = np.cumsum(held)
        facts = {
            "items that anybody has (%)": 100 * float((held > 0).mean()),
            "users who have the most popular item (%)": 100 * float(held[0]) / log.n_users,
        }
        for share in (1, 10, 50):
            top = float(upto[_last(share, held)])
            facts[f"interactions with the top {share} % of items (%)"] = 100 * top / total
        return cls(which, _points(100 * held / log.n_users), facts)

    @classmethod
    def of_activity(cls, log: Interactions, which: Which) -> Curve:
        """How many interactions a user has, the most active first."""
        per_user = np.sort(_amounts(log, axis=1))[::-1]
        facts = {
            "most": float(per_user[0]),
            "a tenth has more than": float(np.quantile(per_user, 0.9)),
            "median": float(np.median(per_user)),
            "a tenth has fewer than": float(np.quantile(per_user, 0.1)),
            "fewest": float(per_user[-1]),
            "mean": float(per_user.mean()),
        }
        return cls(which, _points(per_user), facts)


def _amounts(log: Interactions, axis: int) -> NDArray[np.float64]:
    """Interactions by item (0) or user (1): their number or, where most items have some weight, its sum."""
    matrix = log.matrix
    if 2 * matrix.nnz <= matrix.shape[0] * matrix.shape[1]:
        matrix = matrix.astype(bool).astype(np.float64)
    return np.asarray(matrix.sum(axis=axis), np.float64).ravel()


def _last(percent: int, values: NDArray[np.float64]) -> int:
    return max(1, round(len(values) * percent / 100)) - 1


def _points(values: NDArray[np.float64]) -> tuple[tuple[float, float], ...]:
    """A few points of a sorted array, evenly spaced on a logarithmic axis."""
    ranks = np.unique(np.geomspace(1, len(values), CURVE_POINTS).round().astype(int))
    return tuple((float(rank / len(values)), float(values[rank - 1])) for rank in ranks)


def likeness(summary: Interactions, train: Interactions) -> float | None:
    """Rank correlation of the items' popularity in the two; None where one of them has no order."""
    ranks = [_ranks(np.asarray(log.matrix.sum(axis=0)).ravel()) for log in (summary, train)]
    if min(float(r.std()) for r in ranks) == 0.0:
        return None
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _ranks(values: NDArray[Any]) -> NDArray[np.float64]:
    """Equal values share the mean of their ranks."""
    _, group, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[group]


def picture(summary: Interactions, train: Interactions) -> tuple[str, ...]:
    """Synthetic users × most popular items as rows of hexadecimal digits; like users stand together."""
    columns = np.argsort(-train.item_counts, kind="stable")[: PICTURE[1]]
    cells = summary.matrix[:, columns].toarray().astype(np.float64)
    centred = cells - cells.mean(axis=0)
    # The direction in which users differ most orders them; its sign is free, so the fullest end comes last.
    along = np.linalg.svd(centred, full_matrices=False)[0][:, 0]
    if cells[np.argmax(along)].sum() < cells[np.argmin(along)].sum():
        along = -along
    order = np.argsort(along, kind="stable")
    shown = np.linspace(0, len(order) - 1, min(len(order), PICTURE[0])).round().astype(int)
    levels = np.ceil(15 * np.clip(cells[order[shown]] / cells.max(), 0.0, 1.0)).astype(int)
    return tuple("".join(f"{level:x}" for level in row) for row in levels)
