"""Ablation of Distill-CF: each choice that the paper argues for, against its alternatives."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import log
from statistics import fmean
from typing import Any, NamedTuple

from infrec.paper.cells import DISTILLED, Cell, Data, pairs
from infrec.paper.experiment import QUICK_STEPS, Experiment, Judged, Plan, claimed, unusual
from infrec.paper.records import Record
from infrec.paper.results import HR, Results, Row, Rows, data_of, series, value
from infrec.paper.verdicts import Answer, Estimate, Untestable, alike, every, margin, over_seeds, some
from infrec.report.document import Figure, Panel, Point, Table, Value

USERS = 500
SHARP = 0.7  # τ at which a Gumbel summary is nearly discrete, so that γ and λ₂ have something to decide
HIDDEN = (0.0, 0.2, 0.5)  # shares of a user's items
MODES = ("discrete", "soft", "published")
LONG = {"steps": 800, "validate_every": 25, "patience": None}
METRIC = "HR@100"
TENTH = log(1.1)
Variant = tuple[str, str, Mapping[str, Any]]  # study, what is varied, settings


def variants(quick: bool) -> Iterator[Variant]:
    """Every distillation of the grid. Several studies may name the same one: it is run once."""
    published: dict[str, Any] = {"mode": "published"}
    sharp = {**published, "tau": SHARP}
    hidden = (0.0, 0.5) if quick else HIDDEN
    yield "λ", "on the fly", published
    for reg in (5.0,) if quick else (0.001, 0.1, 1.0, 5.0):
        yield "λ", f"fixed {reg:g}", {**published, "rechoose": False, "reg": reg, "reg_grid": (reg,)}
    for count in (50, 200) if quick else (50, 100, 200, 500):
        yield "γ", f"{count}", {**sharp, "draws": count}
    for weight in (0.0, 10.0) if quick else (0.0, 0.001, 1.0, 10.0, 100.0):
        yield "λ₂", f"{weight:g}", {**sharp, "l1": weight}
    for tau in (SHARP, 10.0) if quick else (0.3, 0.5, SHARP, 5.0, 10.0):
        yield "relaxation", f"Gumbel, τ={tau:g}", {**published, "tau": tau}
    yield "relaxation", "top-k", {}
    yield "relaxation", "soft, no noise", {"mode": "soft"}
    for share in hidden:
        yield "hidden", f"Gumbel, τ={SHARP:g}, {share:g}", {**sharp, "hidden": share}
    for mode in MODES[:1] if quick else MODES:
        for share in hidden:
            yield "hidden", f"{mode}, {share:g}", {"mode": mode, "hidden": share}
        for start in ("popularity", "users"):
            yield "start", f"{mode}, {start}", {"mode": mode, "start": start}
    for mode in () if quick else MODES:
        yield "steps", mode, {"mode": mode, **LONG}


def varied(plan: Plan, dataset: str) -> Iterator[Cell]:
    users = plan.budgets(dataset, (USERS,))[-1]
    summaries = [plan.distilled(users, **settings) for _, _, settings in variants(plan.quick)]
    yield from (plan.cell(dataset, summary, "infinite-ae") for summary in dict.fromkeys(summaries))


# ---- reading the records ---------------------------------------------------------------------------------
class Variation(NamedTuple):
    """One distillation: its rows and its records, where there are any."""

    what: str
    rows: Rows
    records: list[Record]

    @classmethod
    def of(cls, here: Results, settings: Mapping[str, Any], what: str = "") -> Variation:
        """Settings are compared as they are recorded: without those that are usual here."""
        source, making = key = _key(
            Data(DISTILLED, settings=pairs(**unusual({"mode": "discrete", **settings})))
        )
        records = [r for r in here.records if _key(data_of(r), quick=r["configuration"]["quick"]) == key]
        return cls(what, here.rows.where(source=source, making=making), records)

    def row(self, metric: str = METRIC) -> Row | None:
        return self.rows.get(metric=metric)

    def fact(self, name: str) -> float | None:
        """The mean over seeds of a figure of the summary itself."""
        values = self.facts(name).values()
        return fmean(values) if values else None

    def facts(self, name: str) -> dict[int, float]:
        """A figure of the summary itself, by seed."""
        return {r["seed"]: r["data"][name] for r in self.records if r["data"].get(name) is not None}

    @property
    def curves(self) -> dict[int, list[Point]]:
        """Validation quality over the steps, by seed."""
        by_seed = {}
        for record in self.records:
            steps = [step for step in record["data"].get("history") or () if METRIC in step]
            if steps:
                by_seed[record["seed"]] = [Point(float(step["step"]), *[step[METRIC]] * 3) for step in steps]
        return by_seed

    @property
    def history(self) -> list[Point]:
        """Validation quality over the steps that every seed came to: mean over seeds, band their range."""
        by_step: dict[float, list[float]] = {}
        for curve in self.curves.values():
            for point in curve:
                by_step.setdefault(point.x, []).append(point.value)
        return [
            Point(step, fmean(v), min(v), max(v), len(v))
            for step, v in sorted(by_step.items())
            if len(v) == len(self.records)
        ]


def _key(data: Data, *, quick: bool = False) -> tuple[str, str]:
    """Source and making as a row has them: without the settings that made it a quick one."""
    making = {k: v for k, v in data.settings if k != "mode" and not (quick and k in QUICK_STEPS)}
    return data.name, json.dumps(making, sort_keys=True) if making else ""


def is_quick(here: Results) -> bool:
    return any(record["configuration"]["quick"] for record in here.records)


def study(here: Results, kind: str) -> list[Variation]:
    """The variations of a study that have records."""
    every = [Variation.of(here, making, what) for of, what, making in variants(is_quick(here)) if of == kind]
    return [one for one in every if one.records]


def long_runs(here: Results) -> dict[str, list[Point]]:
    """The curve of each kind of summaries."""
    longer = {} if is_quick(here) else LONG
    names = {mode: Data(DISTILLED, settings=pairs(mode=mode)).name for mode in MODES}
    return {name: Variation.of(here, {"mode": mode, **longer}).history for mode, name in names.items()}


# ---- claims ----------------------------------------------------------------------------------------------
@claimed("Distillation converges within hundreds of steps")
def converges(here: Results) -> Judged:
    """With each seed: 99 % of the best validation quality within 500 steps."""
    parts: list[str] = []
    answers: list[Answer] = []
    for mode in MODES:
        run = Variation.of(here, {"mode": mode, **LONG})
        if not (points := run.history):
            continue
        best = max(point.value for point in points)
        near = first_at(points, 0.99 * best)
        answers.append(alike(within(curve) for curve in run.curves.values()))
        parts.append(
            f"{mode}: 99 % of its best validation {METRIC} ({best:.2f}) after {near:.0f} of "
            f"{points[-1].x:.0f} steps"
        )
    if not parts:
        raise Untestable("the long runs are not measured (--quick leaves them out)")
    return every(answers), "; ".join(parts)


def within(curve: Sequence[Point]) -> bool:
    """Whether a curve comes to 99 % of its best within 500 steps."""
    near = first_at(curve, 0.99 * max(point.value for point in curve))
    return near is not None and near <= 500


def first_at(curve: Sequence[Point], level: float) -> float | None:
    """The first step at which a curve has a level; None where it never has it."""
    return next((point.x for point in curve if point.value >= level), None)


@claimed("With λ chosen on the fly, distillation converges faster than with a fixed λ chosen on validation")
def on_the_fly(here: Results) -> Judged:
    """With each seed, against the fixed λ that validation would choose: who is sooner at 99 % of the best?"""
    study_of_reg = study(here, "λ")
    runs = {one.what: one for one in study_of_reg if one.history}
    own = runs.pop("on the fly", None)
    if own is None or not runs:
        raise Untestable
    chosen = max(runs, key=lambda what: max(point.value for point in runs[what].history))
    level = 0.99 * max(point.value for point in own.history)
    ours, theirs = (first_at(run.history, level) for run in (own, runs[chosen]))
    there = "never" if theirs is None else f"after {theirs:.0f}"
    lines = "; ".join(f"{one.what} {row}" for one in study_of_reg if (row := one.row()) is not None)
    seeds = sorted(set(own.curves) & set(runs[chosen].curves))
    return (
        alike(sooner(own.curves[seed], runs[chosen].curves[seed]) for seed in seeds),
        f"validation {METRIC} of {level:.2f} after {ours:.0f} steps, with λ "
        f"{chosen.replace('fixed', 'fixed at')} {there}; test {METRIC}: {lines}",
    )


def sooner(curve: Sequence[Point], other: Sequence[Point]) -> bool:
    """Whether a curve comes to 99 % of its best before another one has that level."""
    level = 0.99 * max(point.value for point in curve)
    ours, theirs = first_at(curve, level), first_at(other, level)
    return theirs is None or (ours is not None and ours < theirs)


def controls_sparsity(here: Results, kind: str, more: bool) -> Judged:
    """Entries above ½ and the weight of a row both follow the setting, over its whole range.

    Between its ends each changes by a tenth or more in the direction claimed, and between neighbours never by
    a tenth or more in the other; both beyond the intervals over seeds.
    """
    parts: list[str] = []
    answers: list[Answer] = []
    for fact, word in (("above_half_per_user", "entries above ½ a row"), ("mass_per_user", "its weight")):
        own = [one for one in study(here, kind) if one.fact(fact)]
        if len(own) < 2:
            raise Untestable
        answers.append(growth(own[0], own[-1], fact, more).above(TENTH))
        back = [growth(one, other, fact, more) for one, other in pairwise(own)]
        answers += [False for step in back if step.high < -TENTH]
        values = ", ".join(f"{one.what}: {one.fact(fact):.1f}" for one in own)
        parts.append(f"{word} at {kind} = {values}")
    return every(answers), "; ".join(parts)


def growth(one: Variation, other: Variation, fact: str, more: bool) -> Estimate:
    """The logarithm of how much a fact grows (or falls, unless more), over the seeds that both have."""
    before, after = one.facts(fact), other.facts(fact)
    sign = 1 if more else -1
    return over_seeds(
        [sign * log(after[seed] / before[seed]) for seed in sorted(before.keys() & after.keys())]
    )


@claimed("γ, the number of draws, controls how sparse the summary is")
def draws_control_sparsity(here: Results) -> Judged:
    return controls_sparsity(here, "γ", more=True)


@claimed("λ₂, the penalty, controls how sparse the summary is")
def penalty_controls_sparsity(here: Results) -> Judged:
    return controls_sparsity(here, "λ₂", more=False)


@claimed("Gumbel sampling is needed: top-k cannot give good summaries")
def top_k(here: Results) -> Judged:
    """Sparse against sparse: Gumbel at τ = 0.7 is nearly discrete; each at the best of its hidden shares."""
    gumbel = by_hidden(here, {"mode": "published", "tau": SHARP})
    tops = by_hidden(here, {})
    if not gumbel or not tops:
        raise Untestable
    dense = Variation.of(here, {"mode": "published"}).row(HR)
    note = f"; dense Gumbel (τ=10, fractional throughout) {dense}" if dense is not None else ""
    ours, theirs = (
        ", ".join(f"{row} ({share:g} hidden)" for share, row in rows.items()) for rows in (gumbel, tops)
    )
    answer = some(every(margin(one, other) for other in tops.values()) for one in gumbel.values())
    return answer, f"test {HR} of nearly discrete Gumbel (τ={SHARP:g}) {ours} against top-k {theirs}{note}"


def by_hidden(here: Results, settings: Mapping[str, Any]) -> dict[float, Row]:
    """The rows of a kind of summaries by the share of items hidden, where they are measured."""
    rows = {share: Variation.of(here, {**settings, "hidden": share}).row(HR) for share in HIDDEN}
    return {share: row for share, row in rows.items() if row is not None}


# ---- figures and tables ----------------------------------------------------------------------------------
def figures(each: list[Results]) -> Iterator[Figure]:
    def steps(here: Results, what: str, curves: Mapping[str, Sequence[Point]]) -> Panel:
        return Panel(f"{here.dataset}: {what}", "steps", f"validation {METRIC} (%)", series(curves))

    yield Figure(
        "ablation-steps",
        "Validation HR@100 of ∞-AE on the summary while it is distilled. Left: the three relaxations. Right: "
        "the published recipe with λ chosen on the fly, or fixed. Bands are ranges over seeds.",
        [
            [
                steps(here, "relaxations", long_runs(here)),
                steps(here, "λ", {f"λ {one.what}": one.history for one in study(here, "λ")}),
            ]
            for here in each
        ],
    )
    yield Figure(
        "ablation-sparsity",
        "What γ (the number of draws) and λ₂ (the sparsity penalty) do to a Gumbel summary at τ = 0.7: "
        "entries above one half in a row, and its weight.",
        [[sparsity_panel(here, kind) for kind in ("γ", "λ₂")] for here in each],
    )


def sparsity_panel(here: Results, kind: str) -> Panel:
    own = study(here, kind)
    points = {
        label: [
            Point(float(at), value, value, value)
            for at, one in enumerate(own)
            if (value := one.fact(fact)) is not None
        ]
        for label, fact in (("entries above ½", "above_half_per_user"), ("weight of a row", "mass_per_user"))
    }
    ticks = [(float(at), one.what) for at, one in enumerate(own)]
    return Panel(f"{here.dataset}: {kind}", kind, "per synthetic user", series(points), ticks=ticks)


def tables(each: list[Results]) -> Iterator[Table]:
    metrics = ("HR@10", "HR@100", "NDCG@10", "NDCG@100", "PSP@10")
    facts = {
        "best_step": ("best step", 1, "{:.0f}"),
        "mass_per_user": ("weight of a row", 1, "{:.1f}"),
        "fractional_share": ("fractional", 100, "{:.0f} %"),
        "bytes": ("size", 1e-3, "{:,.0f} kB"),
    }
    for here in each:
        for kind in dict.fromkeys(kind for kind, _, _ in variants(is_quick(here))):
            lines: list[list[str | Value]] = []
            for one in study(here, kind):
                known = ((one.fact(name), unit, form) for name, (_, unit, form) in facts.items())
                written = ("–" if fact is None else form.format(unit * fact) for fact, unit, form in known)
                lines.append([one.what, *(value(metric, one.row(metric)) for metric in metrics), *written])
            head = (kind, *metrics, *(name for name, _, _ in facts.values()))
            if lines:
                yield Table(f"{here.dataset}: {kind}, ∞-AE on the summary, test.", head, lines)


NOTES = (
    "“Gumbel” sums γ noisy softmax draws and clips at 1, as published; “top-k” keeps the largest logits "
    "of a row as 1 and passes gradients straight through, which the paper's appendix rules out because "
    "all rows would have the same size (here sizes follow the data's activity); “soft” is the softmax "
    "itself, scaled and clipped. The three modes differ in their losses, starts and hidden items as well. "
    "Whether Gumbel is needed is asked of nearly discrete summaries (τ = 0.7): at τ = 10 every entry is "
    "fractional, which top-k's rows are not.",
    "The published recipe stops when validation has not improved for 150 steps; for the long runs this was "
    "switched off, as the other two modes have no such rule.",
    "Every variant is a whole distillation, kept where validation was best; test quality is that of ∞-AE "
    "fitted on the summary with the λ that was chosen with it. A penalty that costs quality is therefore "
    "seen at an early step, before it has made the rows sparse.",
    "Users without a validation item count as missed, as in the paper's protocol, so validation figures are "
    "low where most histories are too short for one (magazine: 2,681 of 3,092 users).",
)
EXPERIMENT = Experiment(
    name="ablation",
    title="Which choices inside Distill-CF matter?",
    source="arguments of section 4 and the appendix",
    about=f"Summaries of {USERS} users with one choice changed at a time, judged by ∞-AE.",
    varied=varied,
    claims=(converges, on_the_fly, draws_control_sparsity, penalty_controls_sparsity, top_k),
    figures=figures,
    tables=tables,
    notes=NOTES,
)
