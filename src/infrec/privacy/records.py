"""What an audit found, as plain records: filled in by the attacks, formatted by `report`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Rate:
    """A share with its 95 % interval. of: how many it was measured on."""

    value: float
    low: float
    high: float
    of: int


@dataclass(frozen=True)
class Linkage:
    """Targets with k known items, `wrong` of them wrong: how often the attacker's best row is really theirs.

    claimed: how often the attacker would also have dared to say so. popularity: the same attack on rows drawn
    from item popularity alone. control: the same attack on people who were not in the log.
    rows: the share of released rows that the attack linked to a member.
    """

    known: int
    wrong: int
    attack: Rate
    popularity: Rate
    control: Rate | None
    claimed: Rate
    rows: float


@dataclass(frozen=True)
class Membership:
    """How well one score tells members from the control. tpr: true-positive rate by false-positive rate.

    curve: points (false-positive rate, true-positive rate). bound: the ε that this attack proves at least, at
    95 % confidence: no mechanism with a smaller ε would show it (up to its δ).
    """

    score: str
    auc: Rate
    tpr: Mapping[str, Rate]
    curve: Sequence[tuple[float, float]]
    bound: float


def strongest(found: Sequence[Membership]) -> Membership:
    """The membership attack with the highest true-positive rate where few are wrongly accused."""
    return max(found, key=lambda each: each.tpr["1 %"].value if "1 %" in each.tpr else each.auc.value)


@dataclass(frozen=True)
class Reconstruction:
    """A share of each history is known; the rest is predicted, as many items as are missing.

    exact: users all of whose missing items were named. partly: the mean share that was.
    """

    revealed: float
    exact: Mapping[str, Rate]
    partly: Mapping[str, Rate]


@dataclass(frozen=True)
class Neighbours:
    """A smoke alarm, no measure of leakage: how near released rows lie to members and to the control.

    nearer: the share of rows nearer to a member than to anybody of an equally large control; half by chance.
    copies: rows that are a member's history exactly. likeness: median similarity to the nearest one.
    """

    nearer: float | None
    copies: int
    likeness: Mapping[str, float]


@dataclass(frozen=True)
class Audit:
    """Everything an audit found. arms with no control are None, and `not_measured` says why.

    worst: members whom an attack singles out: user id, score, and the share of the control that scores
    higher. guarantee: what the release itself claims (ε, δ and so on), or None.
    """

    released: Mapping[str, Any]
    members: int
    control: int
    control_from: str
    linkage: Sequence[Linkage] = ()
    membership: Sequence[Membership] = ()
    popularity: Membership | None = None
    reconstruction: Sequence[Reconstruction] = ()
    neighbours: Neighbours | None = None
    not_measured: Mapping[str, str] = field(default_factory=dict)
    worst: Sequence[Mapping[str, Any]] = ()
    guarantee: Mapping[str, Any] | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self, *, ids: bool = True) -> dict[str, Any]:
        """As JSON can hold it. ids=False: without users' ids, for whatever may be passed on."""
        found = asdict(self)
        return found if ids else {name: value for name, value in found.items() if name != "worst"}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Audit:
        """A record that `as_dict` wrote."""
        links, neighbours, alone = record["linkage"], record["neighbours"], record["popularity"]
        return cls(
            **{
                **record,
                "linkage": tuple(_linkage(each) for each in links),
                "membership": tuple(_membership(each) for each in record["membership"]),
                "popularity": None if alone is None else _membership(alone),
                "reconstruction": tuple(_reconstruction(each) for each in record["reconstruction"]),
                "neighbours": None if neighbours is None else Neighbours(**neighbours),
            }
        )


def _rate(record: Mapping[str, Any] | None) -> Any:
    return None if record is None else Rate(**record)


def _linkage(record: Mapping[str, Any]) -> Linkage:
    arms = {name: _rate(record[name]) for name in ("attack", "popularity", "control", "claimed")}
    return Linkage(**{**record, **arms})


def _membership(record: Mapping[str, Any]) -> Membership:
    tpr = {name: Rate(**each) for name, each in record["tpr"].items()}
    curve = tuple((x, y) for x, y in record["curve"])
    return Membership(**{**record, "auc": Rate(**record["auc"]), "tpr": tpr, "curve": curve})


def _reconstruction(record: Mapping[str, Any]) -> Reconstruction:
    arms = {kind: {name: Rate(**each) for name, each in record[kind].items()} for kind in ("exact", "partly")}
    return Reconstruction(record["revealed"], **arms)
