"""Records of a comparison, as plain data: written once by the code that measures, only formatted here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from infrec.evaluation.card_records import Card

Interval = tuple[float, float]


@dataclass(frozen=True)
class Stratum:
    """Quality for one group of users. `label` says which, in words a reader understands (`3–7 items`)."""

    label: str
    users: int
    metrics: Mapping[str, float]
    intervals: Mapping[str, Interval] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelRecord:
    """One model measured on one split. `popularity`: the share of its recommendations in each group."""

    name: str
    metrics: Mapping[str, float]
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    selected: Mapping[str, Any] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    strata: Sequence[Stratum] = ()
    popularity: Sequence[float] = ()


@dataclass(frozen=True)
class Lead:
    """How far one model is ahead of another, user by user: the difference and its 95 % interval."""

    first: str
    second: str
    metric: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Reason:
    """One thing that spoke for a recommendation, and how much of the score it is."""

    label: str
    contribution: float


@dataclass(frozen=True)
class Recommended:
    """One recommended item and why. `items` are of the user's own history; `users` are others like them.

    rest: what the items of the history that are not listed add together. baseline: the item's score for
    somebody without a history. Items, rest and baseline add up to the score.
    """

    rank: int
    label: str
    score: float
    items: Sequence[Reason] = ()
    users: Sequence[Reason] = ()
    rest: float = 0.0
    baseline: float = 0.0
    held_out: bool = False


@dataclass(frozen=True)
class Example:
    """Recommendations for one user, with that user's history."""

    user: str
    model: str
    history: Sequence[str]
    recommended: Sequence[Recommended]


@dataclass(frozen=True)
class Comparison:
    """Several models on one split: everything the HTML report shows.

    popularity_groups: items from the most to the least popular, cut so that each group holds the same
        share of the interactions; (label, number of items).
    card: what a summary of the same data is worth, where one was distilled.
    facts: small print worth keeping (library versions, device, command).
    """

    dataset: str
    protocol: str
    split: str
    users: int
    items: int
    interactions: int
    models: Sequence[ModelRecord]
    leads: Sequence[Lead] = ()
    popularity_groups: Sequence[tuple[str, int]] = ()
    example: Example | None = None
    card: Card | None = None
    facts: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The record as JSON can hold it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Comparison:
        """A record that `as_dict` wrote."""
        models = tuple(
            ModelRecord(**{**m, "strata": tuple(Stratum(**s) for s in m.get("strata", ()))})
            for m in record["models"]
        )
        example = record.get("example")
        if example is not None:
            recommended = tuple(
                Recommended(
                    **{
                        **r,
                        "items": tuple(Reason(**x) for x in r["items"]),
                        "users": tuple(Reason(**x) for x in r["users"]),
                    }
                )
                for r in example["recommended"]
            )
            example = Example(**{**example, "recommended": recommended})
        card = record.get("card")
        if card is not None:
            from infrec.evaluation.card_records import Card

            card = Card.from_dict(card)
        leads = tuple(Lead(**lead) for lead in record.get("leads", ()))
        groups = tuple((label, count) for label, count in record.get("popularity_groups", ()))
        return cls(
            **{
                **record,
                "models": models,
                "leads": leads,
                "popularity_groups": groups,
                "example": example,
                "card": card,
            }
        )
