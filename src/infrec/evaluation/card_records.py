"""The record of a summary's card: filled in by `evaluation.fidelity`, formatted by `report.card`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

# The train part; what was distilled of it; that as centres of a fit on the train part; random users.
Which = Literal["full", "summary", "finished", "random"]


@dataclass(frozen=True)
class Size:
    """How much a dataset is. `bytes`: its interactions as Parquet."""

    users: int
    interactions: int
    bytes: int


@dataclass(frozen=True)
class Fidelity:
    """One model fitted on one dataset, measured on the original's test part.

    share: each metric as a part of what the same model reaches when it is fitted on the full data.
    """

    model: str
    data: Which
    metrics: Mapping[str, float]
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    share: Mapping[str, float] = field(default_factory=dict)
    selected: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Curve:
    """A distribution of one dataset, largest first: points (share of items or users, value), and figures."""

    data: Which
    points: Sequence[tuple[float, float]]
    facts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Card:
    """Everything the card of a summary shows.

    start: what the optimisation started from, `popularity` or `users` (rows of real users).
    seconds: spent, by stage. `steps` were made, and the summary of `best_step` was kept.
    popularity: in what share of users' histories the items stand. activity: interactions per user.
    likeness: rank correlation of the items' popularity in the summary with that in the original.
    picture: synthetic users × most popular items, a hexadecimal digit a cell, 0 (none) to f (weight 1).
    facts: small print worth keeping (library versions, device, command).
    guarantee: ε, δ, what they mean and what they do not cover; None where there is none.
    audit: what `infrec audit` found, without anybody's id (`Audit.as_dict(ids=False)`); None before it.
    """

    dataset: str
    items: int
    mode: str
    start: str
    discrete: bool
    seed: int
    steps: int
    best_step: int
    full: Size
    summary: Size
    random: Size | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    fidelity: Sequence[Fidelity] = ()
    popularity: Sequence[Curve] = ()
    activity: Sequence[Curve] = ()
    likeness: float | None = None
    picture: Sequence[str] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    guarantee: Mapping[str, Any] | None = None
    audit: Mapping[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        """The record as JSON can hold it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Card:
        """A record that `as_dict` wrote."""
        random = record.get("random")
        return cls(
            **{
                **record,
                "full": Size(**record["full"]),
                "summary": Size(**record["summary"]),
                "random": None if random is None else Size(**random),
                "fidelity": tuple(Fidelity(**each) for each in record["fidelity"]),
                "popularity": tuple(_curve(each) for each in record["popularity"]),
                "activity": tuple(_curve(each) for each in record["activity"]),
                "picture": tuple(record["picture"]),
            }
        )


def _curve(record: Mapping[str, Any]) -> Curve:
    return Curve(**{**record, "points": tuple((x, y) for x, y in record["points"])})


Interval = tuple[float, float]
