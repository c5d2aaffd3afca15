"""Leakage of summaries beside their quality: the paper's appendix on anonymity, with other attacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum
from statistics import fmean
from typing import Any

from infrec.paper.cells import FULL, Cell, Data, Fit, pairs
from infrec.paper.experiment import BEYOND, Experiment, Plan
from infrec.paper.results import Results
from infrec.report.document import Claim, Figure, Findings, Panel, Point, Series, Table, Value, claim
from infrec.report.numbers import number

USERS = 500
DELTA = 1e-6
# ε → noise multiplier at δ = 1e-6 (dp-accounting 0.6.0; a test asks it again)
NOISE = {8: 0.6536, 3: 1.5455, 1: 4.2290}
KNOWN = 16  # items that the attacker of the table knows
AE = (Fit("infinite-ae"),)
REAL_ROWS, NOISE_START = "as published, from real rows", "as published, from noise"
DISCRETE = "0/1 (default)"
DISCRETE_OWN, DISCRETE_ROWS = "0/1, own targets", "0/1, own targets, from real rows"
SOFT, SOFT_OTHERS = "fractional, own targets", "fractional, targets from others"
SAMPLE, POPULARITY = "500 real users", "popularity"


Seeds = list[Mapping[str, Any]]  # the records of one release


def guarded(epsilon: int) -> str:
    return f"ε = {epsilon}, δ = {DELTA:g}"


def popular(epsilon: int) -> str:
    return f"{POPULARITY}, {guarded(epsilon)}"


def cells(plan: Plan) -> list[Cell]:
    found = []
    noise = {8: NOISE[8]} if plan.quick else NOISE
    for dataset in plan.datasets:
        users = plan.budgets(dataset, (USERS,))[0]
        made = {
            REAL_ROWS: plan.distilled(users, "published"),
            NOISE_START: plan.distilled(users, "published", start="popularity"),
            DISCRETE_ROWS: plan.distilled(users, start="users"),
            DISCRETE_OWN: plan.distilled(users),
            DISCRETE: plan.distilled(users, targets="others"),
            SOFT: plan.distilled(users, "soft"),
            SOFT_OTHERS: plan.distilled(users, "soft", targets="others"),
            SAMPLE: Data("user-rns", users),
        } | {
            guarded(epsilon): plan.distilled(users, noise_multiplier=sigma, delta=DELTA)
            for epsilon, sigma in noise.items()
        }
        if plan.quick:
            made = {label: made[label] for label in (DISCRETE, SAMPLE, guarded(8))}
        found += [Cell(dataset, 0, data, AE, ("leakage",), label) for label, data in made.items()]
        found += [
            Cell(
                dataset,
                0,
                Data(FULL, None, settings=pairs(noise_multiplier=sigma)),
                (Fit("poprec"),),
                ("leakage",),
                popular(epsilon),
            )
            for epsilon, sigma in noise.items()
        ]
    return plan.grid(found)


# ---- what the records say
# ------------------------------------------------------------------------------------
def findings(results: Results) -> Findings:
    claims: list[Claim] = []
    figures, tables = [], []
    for dataset in results.datasets():
        records: dict[str, Seeds] = {}
        for r in results.records:
            if r["configuration"]["dataset"] == dataset and r["configuration"]["label"]:
                records.setdefault(r["configuration"]["label"], []).append(r)
        records = {label: records[label] for label in sorted(records, key=_place)}
        attacked = {label: every for label, every in records.items() if "leakage" in every[0]["data"]}
        if not attacked:
            continue
        tables.append(_table(dataset, records))
        figures += _figure(dataset, attacked)
        claims += [_default(dataset, attacked), _guarantee(dataset, records), _bound(dataset, attacked)]
    return Findings(claims=claims, figures=figures, tables=tables, notes=NOTES)


def _place(label: str) -> int:
    """Where a release stands in the table: from real people to what has ε and δ."""
    order = [
        SAMPLE, REAL_ROWS, NOISE_START, SOFT, DISCRETE_ROWS, DISCRETE_OWN, SOFT_OTHERS, DISCRETE,
        *map(guarded, NOISE), *map(popular, NOISE),
    ]  # fmt: skip
    return order.index(label)


def hit_rate(records: Seeds, metric: str = "HR@10") -> tuple[float, float, float]:
    """The value and its interval, of the model that was asked."""
    found = []
    for record in records:
        measured = record["measured"][0]
        value = measured["metrics"][metric]
        low, high = measured["intervals"].get(metric) or (value, value)
        found.append({"value": value, "low": low, "high": high})
    mean = pooled(found)
    return mean["value"], mean["low"], mean["high"]


def pooled(rates: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean over seeds, each of which has its own people set aside; its interval from theirs."""
    value = fmean(rate["value"] for rate in rates)
    below, above = (
        fsum((rate[end] - rate["value"]) ** 2 for rate in rates) ** 0.5 / len(rates)
        for end in ("low", "high")
    )
    return {"value": value, "low": value - below, "high": value + above}


def linked(records: Seeds) -> tuple[dict[str, float], dict[str, float] | None] | None:
    """The linkage attack of the table on members, and on the control where there is one."""
    found = []
    for record in records:
        every = record["data"]["leakage"]["linkage"]
        one = next((each for each in every if each["known"] == KNOWN), every[-1] if every else None)
        if one is None:
            return None
        found.append(one)
    controls = [one["control"] for one in found if one["control"] is not None]
    return pooled([one["attack"] for one in found]), pooled(controls) if controls else None


def recognised(records: Seeds) -> tuple[str, dict[str, float]] | None:
    """The strongest membership attack at 1 % false positives; None where the control is too small."""
    scores: dict[str, list[Mapping[str, float]]] = {}
    for record in records:
        for each in record["data"]["leakage"]["membership"]:
            if "1 %" in each["tpr"]:
                scores.setdefault(each["score"], []).append(each["tpr"]["1 %"])
    every = [(score, pooled(rates)) for score, rates in scores.items() if len(rates) == len(records)]
    return max(every, key=lambda each: each[1]["value"]) if every else None


def bound(records: Seeds) -> float:
    return max((m["bound"] for r in records for m in r["data"]["leakage"]["membership"]), default=0.0)


def _table(dataset: str, records: Mapping[str, Seeds]) -> Table:
    lines = []
    for label, record in records.items():
        line: list[str | Value] = [label]
        for metric in ("HR@10", "NDCG@10"):
            line.append(Value(metric, *hit_rate(record, metric)))
        if "leakage" not in record[0]["data"]:
            lines.append((*line, "–", "–", "–", "–"))
            continue
        link, who = linked(record), recognised(record)
        cells = ["–", "–", "–"]
        if link is not None:
            cells[:2] = [_percent(link[0]), "–" if link[1] is None else _percent(link[1])]
        if who is not None:
            cells[2] = f"{_percent(who[1])} ({who[0]})"
        lines.append((*line, *cells, f"{bound(record):.2f}"))
    head = ("release", "HR@10", "NDCG@10", "linked", "control", "recognised at 1 % FPR", "proves ε ≥")
    caption = (
        f"{dataset}: ∞-AE on each release (popularity: PopRec), what a linkage attack with {KNOWN} known "
        "items (a quarter wrong) and the strongest membership attack reach, with 95 % intervals; means over "
        "seeds, each with its own people set aside. Guessing recognises 1 %."
    )
    return Table(caption, head, tuple(lines))


def _figure(dataset: str, records: Mapping[str, Seeds]) -> list[Figure]:
    def series(leak: Any) -> tuple[Series, ...]:
        found = []
        for label, record in records.items():
            x = leak(record)
            if x is not None:
                found.append(Series(label, (Point(100 * x, *hit_rate(record)),)))
        return tuple(found)

    def by_link(record: Seeds) -> float | None:
        link = linked(record)
        return None if link is None else link[0]["value"]

    def by_member(record: Seeds) -> float | None:
        who = recognised(record)
        return None if who is None else who[1]["value"]

    panels = (
        Panel(dataset, f"linked with {KNOWN} known items (%)", "HR@10 (%)", series(by_link)),
        Panel(dataset, "recognised at 1 % false positives (%)", "HR@10 (%)", series(by_member)),
    )
    caption = "Usefulness against leakage: further up is better, further left is safer."
    shown = tuple(panel for panel in panels if panel.series)
    return [Figure(f"leakage-{dataset}", caption, (shown,), same_y=True)] if shown else []


def _default(dataset: str, records: Mapping[str, Seeds]) -> Claim:
    text = (
        "the default summary links and recognises members at most twice as often as the control, as far as "
        "the intervals tell"
    )
    record = records.get(DISCRETE)
    link, who = (None, None) if record is None else (linked(record), recognised(record))
    attack, control = link or (None, None)
    if attack is None or control is None or who is None:
        return claim(text, dataset, None, "not measured yet, or the control is too small.")
    # A rate that the control could have as well, by its interval, is no excess.
    fine = attack["low"] <= max(2 * control["value"], control["high"])
    figures = f"linked {_percent(attack)}, control {_percent(control)}; recognised {_percent(who[1])}."
    return claim(text, dataset, fine and who[1]["low"] <= 0.02, figures)


def _guarantee(dataset: str, records: Mapping[str, Seeds]) -> Claim:
    text = "with ε = 8 a summary is worth clearly more than popularity released under the same ε and δ"
    ours, theirs = records.get(guarded(8)), records.get(popular(8))
    if ours is None or theirs is None:
        return claim(text, dataset, None, "not measured yet.")
    (value, low, _), (other, _, high) = hit_rate(ours), hit_rate(theirs)
    return claim(
        text, dataset, low > high, f"HR@10 {number('HR@10', value)} against {number('HR@10', other)}."
    )


def _bound(dataset: str, records: Mapping[str, Seeds]) -> Claim:
    text = "no attack proves a larger ε than the one that is claimed"
    found = [(epsilon, bound(records[guarded(epsilon)])) for epsilon in NOISE if guarded(epsilon) in records]
    if not found:
        return claim(text, dataset, None, "not measured yet.")
    figures = "; ".join(f"ε = {epsilon}: proves {proved:.2f}" for epsilon, proved in found)
    return claim(text, dataset, all(proved <= epsilon for epsilon, proved in found), f"{figures}.")


def _percent(rate: Mapping[str, float]) -> str:
    return f"{100 * rate['value']:.2f} % ({100 * rate['low']:.2f}–{100 * rate['high']:.2f})"


NOTES = (
    "Every release is made without a tenth of the users, who are the control; quality is measured on all "
    "users.",
    "A synthetic row is said to belong to the person, of log and control, whose whole history is most like "
    "it.",
    "Of a fractional row the attacker reads the items by which it exceeds the mean of all rows most, as many "
    "as an average history has.",
    "With 600 people in the control, 1 % of them are six: that threshold is rough, and the stronger of two "
    "scores is shown. Compare with the releases that have ε and δ, of which little can be known.",
    "The list of items is public for these datasets, so it is given to the releases with ε and δ.",
    "The noise of releases with ε and δ comes from the operating system: they cannot be made again bit by "
    "bit.",
)
EXPERIMENT = Experiment(
    name="leakage",
    title="What do summaries give away?",
    source=BEYOND,
    about="Linkage, membership and quality of 500-user summaries: as published, default, with (ε, δ).",
    cells=cells,
    findings=findings,
    datasets=("ml-1m",),
    seeds=3,
)
