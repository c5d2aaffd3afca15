"""Leakage of summaries beside their quality: the paper's appendix on anonymity, with other attacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import fsum, hypot
from statistics import fmean
from typing import Any

from infrec.paper.cells import FULL, Cell, Data, Fit, pairs
from infrec.paper.experiment import BEYOND, Experiment, Judged, Plan, claimed
from infrec.paper.results import HR, Results
from infrec.paper.verdicts import Estimate, Untestable, every
from infrec.report.document import Figure, Panel, Point, Series, Table, Value
from infrec.report.numbers import number

USERS = 500
DELTA = 1e-6
# ε → noise multiplier at δ = 1e-6 (dp-accounting 0.6.0; a test asks it again)
NOISE = {8: 0.6536, 3: 1.5455, 1: 4.2290}
GUESSED = 0.02  # twice what guessing recognises at 1 % false positives
KNOWN = 16  # items that the attacker of the table knows
SAMPLE = "500 real users"
REAL_ROWS, NOISE_START = "as published, from real rows", "as published, from noise"
SOFT, SOFT_OTHERS = "fractional, own targets", "fractional, targets from others"
DISCRETE, DISCRETE_OWN = "0/1 (default)", "0/1, own targets"
DISCRETE_ROWS = "0/1, own targets, from real rows"
GUARDED = {epsilon: f"ε = {epsilon}, δ = {DELTA:g}" for epsilon in NOISE}
POPULAR = {epsilon: f"popularity, {guarded}" for epsilon, guarded in GUARDED.items()}
# Where a release stands in the table: from real people to what has ε and δ.
ORDER = (
    *(SAMPLE, REAL_ROWS, NOISE_START, SOFT, DISCRETE_ROWS, DISCRETE_OWN, SOFT_OTHERS, DISCRETE),
    *(*GUARDED.values(), *POPULAR.values()),
)


def varied(plan: Plan, dataset: str) -> Iterator[Cell]:
    """Releases of every kind, and popularity alone under the same guarantees."""
    users = plan.budgets(dataset, (USERS,))[0]
    noise = {8: NOISE[8]} if plan.quick else NOISE
    variants = {
        REAL_ROWS: plan.distilled(users, "published"),
        NOISE_START: plan.distilled(users, "published", start="popularity"),
        DISCRETE_ROWS: plan.distilled(users, start="users"),
        DISCRETE_OWN: plan.distilled(users),
        DISCRETE: plan.distilled(users, targets="others"),
        SOFT: plan.distilled(users, "soft"),
        SOFT_OTHERS: plan.distilled(users, "soft", targets="others"),
        SAMPLE: Data("user-rns", users),
    }
    for epsilon, sigma in noise.items():
        variants[GUARDED[epsilon]] = plan.distilled(users, noise_multiplier=sigma, delta=DELTA)
    for label in (DISCRETE, SAMPLE, GUARDED[8]) if plan.quick else variants:
        yield Cell(dataset, 0, variants[label], (Fit("infinite-ae"),), ("leakage",), label)
    for epsilon, sigma in noise.items():
        alone = Data(FULL, None, settings=pairs(noise_multiplier=sigma))
        yield Cell(dataset, 0, alone, (Fit("poprec"),), ("leakage",), POPULAR[epsilon])


# ---- reading the records ---------------------------------------------------------------------------------
def pooled(rates: Sequence[Mapping[str, float]]) -> Estimate:
    """The mean over seeds, each of which has its own people set aside; its interval from theirs."""
    value = fmean(rate["value"] for rate in rates)
    below, above = (
        fsum((rate[end] - rate["value"]) ** 2 for rate in rates) ** 0.5 / len(rates)
        for end in ("low", "high")
    )
    return Estimate(value, value - below, value + above)


def percent(rate: Estimate | None) -> str:
    """A share of people with its interval."""
    if rate is None:
        return "–"
    return f"{100 * rate.value:.2f} % ({100 * rate.low:.2f}–{100 * rate.high:.2f})"


@dataclass(frozen=True)
class Release:
    """The records of one release, one for each seed."""

    records: list[Mapping[str, Any]]

    @property
    def attacked(self) -> bool:
        return "leakage" in self.records[0]["data"]

    def found(self, attack: str) -> list[list[Mapping[str, Any]]]:
        """The results of a kind of attack, for each seed."""
        return [record["data"]["leakage"][attack] for record in self.records]

    def quality(self, metric: str = HR) -> Estimate:
        """The value and its interval, of the model that was asked."""
        rates = []
        for record in self.records:
            measured = record["measured"][0]
            value = measured["metrics"][metric]
            low, high = measured["intervals"].get(metric) or (value, value)
            rates.append({"value": value, "low": low, "high": high})
        return pooled(rates)

    @property
    def linked(self) -> tuple[Estimate | None, Estimate | None]:
        """The linkage attack of the table on members and on the control; None where there is none."""
        if not all(self.found("linkage")):
            return None, None
        linkages = [
            next((o for o in seed if o["known"] == KNOWN), seed[-1]) for seed in self.found("linkage")
        ]
        controls = [one["control"] for one in linkages if one["control"] is not None]
        return pooled([one["attack"] for one in linkages]), pooled(controls) if controls else None

    @property
    def recognised(self) -> tuple[Estimate | None, str]:
        """The strongest membership attack at 1 % false positives; None where the control is too small."""
        scores: dict[str, list[Mapping[str, float]]] = {}
        for one in chain(*self.found("membership")):
            if "1 %" in one["tpr"]:
                scores.setdefault(one["score"], []).append(one["tpr"]["1 %"])
        rates = [(pooled(r), score) for score, r in scores.items() if len(r) == len(self.records)]
        return max(rates, key=lambda rate: rate[0].value) if rates else (None, "")

    @property
    def bound(self) -> float:
        """The largest ε that an attack proves."""
        return max((one["bound"] for one in chain(*self.found("membership"))), default=0.0)


def releases(here: Results, *, attacked: bool = True) -> dict[str, Release]:
    """The releases by name, in the order of the table: those that were attacked, or all."""
    by_label: dict[str, Release] = {}
    for record in here.records:
        if label := record["configuration"]["label"]:
            by_label.setdefault(label, Release([])).records.append(record)
    ordered = sorted(by_label, key=ORDER.index)
    return {label: by_label[label] for label in ordered if by_label[label].attacked or not attacked}


# ---- claims ----------------------------------------------------------------------------------------------
@claimed("the default summary links and recognises members at most twice as often as the control")
def default_is_safe(here: Results) -> Judged:
    """Proved by the intervals: that they do not prove the opposite is not enough."""
    release = releases(here).get(DISCRETE)
    attack, control = release.linked if release else (None, None)
    who, _ = release.recognised if release else (None, "")
    if attack is None or control is None or who is None:
        raise Untestable("not measured yet, or the control is too small")
    # An attack's high end against the control's low end, and the other way round, as independent errors.
    spare = 2 * control.value - attack.value
    worse, better = (hypot(attack.high - attack.value, 2 * (control.value - control.low)),
                     hypot(attack.value - attack.low, 2 * (control.high - control.value)))  # fmt: skip
    linked = Estimate(spare, spare - worse, spare + better).above()
    figures = f"linked {percent(attack)}, control {percent(control)}; recognised {percent(who)}"
    return every((linked, who.below(GUESSED))), figures


@claimed("with ε = 8 a summary is worth clearly more than popularity released under the same ε and δ")
def worth_more(here: Results) -> Judged:
    releases_by_name = releases(here, attacked=False)
    if GUARDED[8] not in releases_by_name or POPULAR[8] not in releases_by_name:
        raise Untestable("not measured yet")
    ours, theirs = (releases_by_name[name].quality() for name in (GUARDED[8], POPULAR[8]))
    answer = True if ours.low > theirs.high else False if ours.high < theirs.low else None
    return answer, f"{HR} {number(HR, ours.value)} against {number(HR, theirs.value)}"


@claimed("no attack proves a larger ε than the one that is claimed")
def within_the_bound(here: Results) -> Judged:
    by_name = releases(here)
    proved = {epsilon: by_name[name].bound for epsilon, name in GUARDED.items() if name in by_name}
    if not proved:
        raise Untestable("not measured yet")
    figures = "; ".join(f"ε = {epsilon}: proves {bound:.2f}" for epsilon, bound in proved.items())
    return all(bound <= epsilon for epsilon, bound in proved.items()), figures


# ---- tables and figures ----------------------------------------------------------------------------------
def tables(each: list[Results]) -> Iterator[Table]:
    for here in each:
        lines: list[Sequence[str | Value]] = []
        for name, release in releases(here, attacked=False).items():
            leaks = ["–"] * 4
            if release.attacked:
                who, score = release.recognised
                leaks = [*map(percent, (*release.linked, who)), f"{release.bound:.2f}"]
                leaks[2] += f" ({score})" if score else ""
            rates = ((metric, release.quality(metric)) for metric in (HR, "NDCG@10"))
            lines.append((name, *(Value(m, one.value, one.low, one.high) for m, one in rates), *leaks))
        yield Table(
            f"{here.dataset}: ∞-AE on each release (popularity: PopRec), what a linkage attack with {KNOWN} "
            "known items (a quarter wrong) and the strongest membership attack reach, with 95 % intervals; "
            "means over seeds, each with its own people set aside. Guessing recognises 1 %.",
            ("release", HR, "NDCG@10", "linked", "control", "recognised at 1 % FPR", "proves ε ≥"),
            lines,
        )


def figures(each: list[Results]) -> Iterator[Figure]:
    """Usefulness against each kind of leakage, a point for each release."""

    def panel(here: Results, x: str, leak: Callable[[Release], Estimate | None]) -> Panel:
        series = []
        for name, release in releases(here).items():
            if (rate := leak(release)) is not None:
                own = release.quality()
                series.append(Series(name, [Point(100 * rate.value, own.value, own.low, own.high)]))
        return Panel(here.dataset, x, f"{HR} (%)", series)

    for here in each:
        panels = (
            panel(here, f"linked with {KNOWN} known items (%)", lambda release: release.linked[0]),
            panel(here, "recognised at 1 % false positives (%)", lambda release: release.recognised[0]),
        )
        if shown := [panel for panel in panels if panel.series]:
            caption = "Usefulness against leakage: further up is better, further left is safer."
            yield Figure(f"leakage-{here.dataset}", caption, [shown], same_y=True)


EXPERIMENT = Experiment(
    name="leakage",
    title="What do summaries give away?",
    source=BEYOND,
    about="Linkage, membership and quality of 500-user summaries: as published, default, with (ε, δ).",
    varied=varied,
    claims=(default_is_safe, worth_more, within_the_bound),
    figures=figures,
    tables=tables,
    notes=(
        "Every release is made without a tenth of the users, who are the control; quality is measured on all "
        "users.",
        "A synthetic row is said to belong to the person, of log and control, whose whole history is most "
        "like it.",
        "Of a fractional row the attacker reads the items by which it exceeds the mean of all rows most, as "
        "many as an average history has.",
        "With 600 people in the control, 1 % of them are six: that threshold is rough, and the stronger of "
        "two scores is shown. Compare with the releases that have ε and δ, of which little can be known.",
        "The list of items is public for these datasets, so it is given to the releases with ε and δ.",
        "The noise of releases with ε and δ comes from the operating system: they cannot be made again bit "
        "by bit.",
    ),
    datasets=("ml-1m",),
    shown=lambda here: bool(releases(here)),
)
