"""The audit: every attack on a release, beside what popularity alone achieves and beside a control group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from infrec.data import Interactions
from infrec.errors import ConfigError, DataError
from infrec.privacy.linkage import Linkage, Neighbours, Reconstruction, linkage, reconstruction
from infrec.privacy.matching import Groups
from infrec.privacy.membership import FALSE_POSITIVES, Membership, Rate, membership, strongest
from infrec.privacy.released import Released
from infrec.progress import Progress, Stopwatch, silent

NO_CONTROL = (
    "not measurable: there is no control group. Distil with --set-aside 0.1, or give people who were not "
    "in the log with --control FILE."
)
NO_ROWS = "not measurable: this model holds no histories."
FEWEST_SHADOWS = 4
TWICE = 2.0  # a rate above this many times the control's, beyond chance, is called a leak


@dataclass(frozen=True)
class Audit:
    """Everything an audit found.

    Args:
        released: Facts about the release.
        members, control: How many people it was made from, and how many others there were to compare with.
        control_from: Where the control came from.
        linkage, membership, reconstruction: Results of the attacks; those without a control are None or
            empty, and `not_measured` has the reason.
        popularity: Membership by popularity alone, the attack to beat.
        neighbours: How near released rows lie to members and to the control.
        not_measured: Attack → why it was not measured.
        worst: Members whom an attack singles out: user id, score, and the share of the control that scores
            higher.
        guarantee: The claim of the release itself (ε, δ and so on), or None.
        seconds: Time of each part.
        facts: Further figures for the record.
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
        """The audit as JSON can hold it.

        Args:
            ids: False: without users' ids, for files that may be passed on.
        """
        record = asdict(self)
        return record if ids else {name: value for name, value in record.items() if name != "worst"}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Audit:
        """A record that `as_dict` wrote.

        Args:
            record: The dictionary.
        """
        near = record["neighbours"]
        parts = {
            "linkage": tuple(_with_rates(Linkage, one) for one in record["linkage"]),
            "membership": tuple(_with_rates(Membership, one) for one in record["membership"]),
            "popularity": _with_rates(Membership, record["popularity"]),
            "reconstruction": tuple(_with_rates(Reconstruction, one) for one in record["reconstruction"]),
            "neighbours": None if near is None else Neighbours(**near),
        }
        return cls(**{**record, **parts})

    @property
    def copies(self) -> int:
        """How many released rows are exactly the history of somebody in the log."""
        return self.neighbours.copies if self.neighbours is not None else 0

    @property
    def strongest(self) -> Membership:
        """The membership attack that recognises most members where few others are accused."""
        return strongest(self.membership)

    @property
    def leaks(self) -> list[str]:
        """The attacks that hit members more than twice as often as the control.

        Membership is judged where 1 % of the control are accused, or 10 % where it is too small for that.
        """

        def recognises(one: Membership) -> bool:
            rare = one.rarest
            return rare is not None and one.tpr[rare].low > TWICE * FALSE_POSITIVES[rare]

        return self._attacks_above(TWICE, recognises)

    @property
    def traces(self) -> list[str]:
        """The attacks that do better on members than on the control beyond chance, and yet are no leak.

        Membership is judged by the whole curve: a member scores above somebody of the control more often than
        half of the time, and more often than popularity alone explains.
        """
        chance = max(0.5, self.popularity.auc.high if self.popularity else 0.5)
        better = self._attacks_above(1.0, lambda one: one.auc.low > chance)
        return [name for name in better if name not in self.leaks]

    def _attacks_above(self, times: float, recognises: Callable[[Membership], bool]) -> list[str]:
        """The attacks that hit members so many times as often as the control, and not by chance."""

        def exceeds(attack: Rate, control: Rate | None) -> bool:
            if control is None:
                return False
            return attack.value > times * control.value and attack.low > control.high

        names = ["linkage"] if any(exceeds(one.attack, one.control) for one in self.linkage) else []
        names += [f"membership ({one.score})" for one in self.membership if recognises(one)]
        exact = [one.exact for one in self.reconstruction]
        if any(exceeds(rates["attack"], rates.get("control")) for rates in exact):
            names.append("reconstruction")
        return names


def _with_rates(kind: Callable[..., Any], record: Mapping[str, Any] | None) -> Any:
    """A result of an attack as it was; rates, alone or by name, are the dictionaries with a `value`."""

    def restored(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return Rate(**value) if "value" in value else {name: restored(one) for name, one in value.items()}

    return None if record is None else kind(**restored(record))


def audit(
    released: Released,
    members: Interactions,
    control: Interactions | None = None,
    *,
    control_from: str = "",
    shadow_runs: int = 0,
    guarantee: Mapping[str, Any] | None = None,
    seed: int = 42,
    progress: Progress = silent,
) -> Audit:
    """Attack a release that was made from `members`; `control` are people of the same kind who were not.

    Args:
        released: The release.
        members: The people it was made from.
        control: People of the same kind it was not made from; None: attacks that need them are not measured.
        control_from: Where the control came from, for the record.
        shadow_runs: How many shadow releases the likelihood ratio may make (0: none, and it is not measured).
        guarantee: The claim of the release; its δ is granted to the mechanism where ε is bounded from below.
        seed: Seed of everything random.
        progress: Called with the stage and how much of it is done.
    """
    who = Groups.of(members, control, released.items, seed=seed)
    if not who.members.shape[0]:
        raise DataError(
            "none of the log's users has an item of the release; expected the log it was made from."
        )
    if shadow_runs:
        _check_shadows(shadow_runs, released, who)
    watch = Stopwatch()
    missing: dict[str, str] = {}
    parts: dict[str, Any] = {}
    rows = released.read(who.everybody)
    if rows is not None:
        with watch("linkage"):
            parts["linkage"] = tuple(linkage(rows, who, released.counts, seed=seed, progress=progress))
            parts["neighbours"] = Neighbours.of(rows, who, seed=seed)
    else:
        missing |= {"linkage": NO_ROWS, "neighbours": NO_ROWS}
    if who.measurable:
        with watch("membership"):
            delta = float((guarantee or {}).get("delta", 0.0))
            parts |= membership(released, who, shadows=shadow_runs, delta=delta, seed=seed, progress=progress)
        if not shadow_runs:
            missing["likelihood"] = "not measured: it needs shadow distillations (--shadows 16)."
    else:
        missing["membership"] = NO_CONTROL
    with watch("reconstruction"):
        parts["reconstruction"] = tuple(
            reconstruction(released.model, released.counts, who, seed=seed, progress=progress)
        )
    return Audit(
        released=dict(released.about),
        members=who.members.shape[0],
        control=who.control.shape[0],
        control_from=control_from if who.measurable else "",
        not_measured=missing,
        guarantee=guarantee,
        seconds=watch.seconds,
        facts={"seed": seed, "shadows": shadow_runs},
        **parts,
    )


def _check_shadows(shadows: int, released: Released, groups: Groups) -> None:
    """Refuse shadows that would be good for nothing or cannot be made, before the attacks begin."""
    if shadows < FEWEST_SHADOWS or shadows % 2:
        raise ConfigError(
            f"{shadows} shadows were asked for; expected an even number of at least {FEWEST_SHADOWS}."
        )
    if not groups.measurable:
        raise ConfigError(
            "shadows are there to tell members from others, but there is no control group; distil with "
            "--set-aside 0.1, give one with --control FILE, or leave out --shadows."
        )
    if (periods := released.about.get("periods", 1)) > 1:
        raise ConfigError(
            f"this summary was continued over {periods} periods, and a shadow would need the logs of all of "
            "them; leave out --shadows, or audit a summary of one log."
        )
    if released.remake is None:
        raise ConfigError(
            "how this release was made from the log is not known, so shadows cannot be made alike; leave out "
            "--shadows."
        )
