"""Ablation of Distill-CF: each choice that the paper argues for, against its alternatives."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from infrec.paper.cells import Cell
from infrec.paper.experiment import QUICK_STEPS, Experiment, Plan, unusual
from infrec.paper.records import Record
from infrec.paper.results import Results, Row
from infrec.paper.views import value
from infrec.report.document import Claim, Figure, Findings, Panel, Point, Series, Table, Value, claim
from infrec.report.numbers import number

USERS = 500
SHARP = 0.7  # τ at which a Gumbel summary is nearly discrete, so that γ and λ₂ have something to decide
HIDDEN = (0.0, 0.2, 0.5)  # shares of a user's items
Variant = tuple[str, str, Mapping[str, Any]]  # study, what is varied, settings


def variants(quick: bool) -> list[Variant]:
    """Every distillation of the grid. Several studies may name the same one: it is run once."""
    fixed = (5.0,) if quick else (0.001, 0.1, 1.0, 5.0)
    draws = (50, 200) if quick else (50, 100, 200, 500)
    penalties = (0.0, 10.0) if quick else (0.0, 0.001, 1.0, 10.0, 100.0)
    hidden = (0.0, 0.5) if quick else HIDDEN
    published: dict[str, Any] = {"mode": "published"}
    out: list[Variant] = [("λ", "on the fly", published)]
    out += [
        ("λ", f"fixed {reg:g}", {**published, "rechoose": False, "reg": reg, "reg_grid": (reg,)})
        for reg in fixed
    ]
    sharp = {**published, "tau": SHARP}
    out += [("γ", f"{count}", {**sharp, "draws": count}) for count in draws]
    out += [("λ₂", f"{weight:g}", {**sharp, "l1": weight}) for weight in penalties]
    out += [
        ("relaxation", f"Gumbel, τ={tau:g}", {**published, "tau": tau})
        for tau in ((SHARP, 10.0) if quick else (0.3, 0.5, SHARP, 5.0, 10.0))
    ]
    out += [("relaxation", "top-k", {}), ("relaxation", "soft, no noise", {"mode": "soft"})]
    for mode in ("discrete",) if quick else ("discrete", "soft", "published"):
        out += [("hidden", f"{mode}, {share:g}", {"mode": mode, "hidden": share}) for share in hidden]
        out += [
            ("start", f"{mode}, {start}", {"mode": mode, "start": start}) for start in ("popularity", "users")
        ]
    if not quick:
        longer = {"steps": 800, "validate_every": 25, "patience": None}
        out += [("steps", mode, {"mode": mode, **longer}) for mode in ("discrete", "soft", "published")]
    return out


def cells(plan: Plan) -> list[Cell]:
    out = []
    for dataset in plan.datasets:
        users = plan.budgets(dataset, (USERS,))[-1]
        fit = (plan.fit(dataset, "infinite-ae"),)
        for _, _, settings in variants(plan.quick):
            out.append(Cell(dataset, 0, plan.distilled(users, **settings), fit))
    return plan.grid(list({cell.hash: cell for cell in out}.values()))


# ---- reading the records ---------------------------------------------------------------------------------
class Study:
    """The records of one dataset by the settings of their distillation."""

    def __init__(self, results: Results, dataset: str) -> None:
        self.rows = results.rows.where(dataset=dataset)
        self.records = [r for r in results.records if r["configuration"]["dataset"] == dataset]
        self.quick = any(record["configuration"]["quick"] for record in self.records)
        self._by_settings: dict[tuple[str, str], list[Record]] = {}
        for record in self.records:
            self._by_settings.setdefault(_key(_settings(record)), []).append(record)

    def rows_of(self, settings: Mapping[str, Any], metric: str) -> Row | None:
        source, making = _key(settings)
        return self.rows.get(source=source, making=making, metric=metric)

    def facts(self, settings: Mapping[str, Any], name: str) -> float | None:
        """The mean over seeds of a figure of the summary itself."""
        values = [r["data"][name] for r in self.of(settings) if r["data"].get(name) is not None]
        return fmean(values) if values else None

    def of(self, settings: Mapping[str, Any]) -> list[Record]:
        return self._by_settings.get(_key(settings), [])

    def history(self, settings: Mapping[str, Any], metric: str) -> list[Point]:
        """Validation quality over the steps that every seed came to: mean over seeds, band their range."""
        curves: dict[int, list[float]] = {}
        of_seeds = self.of(settings)
        for record in of_seeds:
            for step in record["data"].get("history") or ():
                if step.get(metric) is not None:
                    curves.setdefault(int(step["step"]), []).append(step[metric])
        return [
            Point(float(step), fmean(v), min(v), max(v), len(v))
            for step, v in sorted(curves.items())
            if len(v) == len(of_seeds)
        ]


def _key(settings: Mapping[str, Any]) -> tuple[str, str]:
    mode = settings.get("mode", "discrete")
    known = unusual({"mode": mode, **settings})
    rest = {name: list(v) if isinstance(v, tuple) else v for name, v in known.items() if name != "mode"}
    source = "distill-cf" if mode == "discrete" else f"distill-cf-{mode}"
    return source, json.dumps(rest, sort_keys=True) if rest else ""


def _settings(record: Record) -> dict[str, Any]:
    """Settings of a record's distillation, without those that made it a quick one."""
    quick = record["configuration"]["quick"]
    settings = record["configuration"]["data"]["settings"]
    return {name: value for name, value in settings.items() if not (quick and name in QUICK_STEPS)}


# ---- figures, tables, claims -----------------------------------------------------------------------------
def findings(results: Results) -> Findings:
    claims: list[Claim] = []
    tables: list[Table] = []
    steps: list[tuple[Panel, ...]] = []
    sparse: list[tuple[Panel, ...]] = []
    for dataset in results.datasets():
        study = Study(results, dataset)
        known = [v for v in variants(study.quick) if study.of(v[2])]
        tables += [table(dataset, study, kind, known) for kind in dict.fromkeys(kind for kind, _, _ in known)]
        steps.append((steps_panel(dataset, study, "HR@100"), lambda_panel(dataset, study, "HR@100")))
        sparse.append(
            (sparsity_panel(dataset, study, known, "γ"), sparsity_panel(dataset, study, known, "λ₂"))
        )
        claims += [
            converges(dataset, study),
            on_the_fly(dataset, study, known),
            controls_sparsity(dataset, study, known, "γ", "the number of draws"),
            controls_sparsity(dataset, study, known, "λ₂", "the penalty"),
            top_k(dataset, study),
        ]
    figures = [
        Figure("ablation-steps", STEPS_CAPTION, tuple(steps)),
        Figure("ablation-sparsity", SPARSITY_CAPTION, tuple(sparse)),
    ]
    return Findings(claims, figures if steps else (), tables, NOTES)


STEPS_CAPTION = (
    "Validation HR@100 of ∞-AE on the summary while it is distilled. Left: the three relaxations. Right: the "
    "published recipe with λ chosen on the fly, or fixed. Bands are ranges over seeds."
)
SPARSITY_CAPTION = (
    "What γ (the number of draws) and λ₂ (the sparsity penalty) do to a Gumbel summary at τ = 0.7: "
    "entries above one half in a row, and its weight."
)
NOTES = [
    "“Gumbel” sums γ noisy softmax draws and clips at 1, as published; “top-k” keeps the largest logits "
    "of a row as 1 and passes gradients straight through, which the paper's appendix rules out because "
    "all rows would have the same size (here sizes follow the data's activity); “soft” is the softmax "
    "itself, scaled and clipped. The three modes differ in their losses, starts and hidden items as well: "
    "top-k and Gumbel are compared at the same share of hidden items.",
    "The published recipe stops when validation has not improved for 150 steps; for the long runs this was "
    "switched off, as the other two modes have no such rule.",
    "Every variant is a whole distillation, kept where validation was best; test quality is that of ∞-AE "
    "fitted on the summary with the λ that was chosen with it. A penalty that costs quality is therefore "
    "seen at an early step, before it has made the rows sparse.",
    "Users without a validation item count as missed, as in the paper's protocol, so validation figures are "
    "low where most histories are too short for one (magazine: 2,681 of 3,092 users).",
]


def steps_panel(dataset: str, study: Study, metric: str) -> Panel:
    longer = {} if study.quick else {"steps": 800, "validate_every": 25, "patience": None}
    series = []
    for mode in ("discrete", "soft", "published"):
        settings = {**longer} if mode == "discrete" else {"mode": mode, **longer}
        points = study.history(settings, metric)
        series += [Series(_key({"mode": mode})[0], tuple(points))] if points else []
    return Panel(f"{dataset}: relaxations", "steps", f"validation {metric} (%)", tuple(series))


def lambda_panel(dataset: str, study: Study, metric: str) -> Panel:
    series = []
    for kind, what, settings in variants(study.quick):
        points = study.history(settings, metric) if kind == "λ" else []
        series += [Series(f"λ {what}", tuple(points))] if points else []
    return Panel(f"{dataset}: λ", "steps", f"validation {metric} (%)", tuple(series))


def sparsity_panel(dataset: str, study: Study, known: Sequence[Variant], kind: str) -> Panel:
    own = [(what, settings) for each, what, settings in known if each == kind]
    series = []
    for label, fact in (("entries above ½", "above_half_per_user"), ("weight of a row", "mass_per_user")):
        values = [(float(at), study.facts(settings, fact)) for at, (_, settings) in enumerate(own)]
        points = tuple(Point(at, value, value, value) for at, value in values if value is not None)
        series += [Series(label, points)] if points else []
    ticks = tuple((float(at), what) for at, (what, _) in enumerate(own))
    return Panel(f"{dataset}: {kind}", kind, "per synthetic user", tuple(series), ticks=ticks)


def table(dataset: str, study: Study, kind: str, known: Sequence[Variant]) -> Table:
    metrics = ("HR@10", "HR@100", "NDCG@10", "NDCG@100", "PSP@10")
    lines = []
    for each, what, settings in known:
        if each != kind:
            continue
        found = [study.rows_of(settings, metric) for metric in metrics]
        line: list[str | Value] = [what]
        line += [value(metric, row) for metric, row in zip(metrics, found, strict=True)]
        step, mass = study.facts(settings, "best_step"), study.facts(settings, "mass_per_user")
        fraction, size = study.facts(settings, "fractional_share"), study.facts(settings, "bytes")
        line += [
            "–" if step is None else f"{step:.0f}",
            "–" if mass is None else f"{mass:.1f}",
            "–" if fraction is None else f"{100 * fraction:.0f} %",
            "–" if size is None else f"{size / 1000:,.0f} kB",
        ]
        lines.append(tuple(line))
    head = (kind, *metrics, "best step", "weight of a row", "fractional", "size")
    return Table(f"{dataset}: {kind}, ∞-AE on the summary, test.", head, tuple(lines))


def converges(dataset: str, study: Study, metric: str = "HR@100") -> Claim:
    text = "Distillation converges within hundreds of steps"
    longer = {"steps": 800, "validate_every": 25, "patience": None}
    parts, within = [], []
    for mode in ("discrete", "soft", "published"):
        points = study.history({**({} if mode == "discrete" else {"mode": mode}), **longer}, metric)
        if not points:
            continue
        best = max(point.value for point in points)
        near = next(point.x for point in points if point.value >= 0.99 * best)
        within.append(near <= 500)
        parts.append(
            f"{mode}: 99 % of its best validation {metric} ({best:.2f}) after {near:.0f} of "
            f"{points[-1].x:.0f} steps"
        )
    if not parts:
        return claim(text, dataset, None, "the long runs are not measured (--quick leaves them out).")
    return claim(text, dataset, all(within), "; ".join(parts) + ".")


def on_the_fly(dataset: str, study: Study, known: Sequence[Variant], metric: str = "HR@100") -> Claim:
    """Against the fixed λ that validation would choose: who is sooner at 99 % of what the former reaches?"""
    text = "With λ chosen on the fly, distillation converges faster than with a fixed λ chosen on validation"
    runs = {what: study.history(settings, metric) for kind, what, settings in known if kind == "λ"}
    tested = {what: study.rows_of(settings, metric) for kind, what, settings in known if kind == "λ"}
    own = runs.pop("on the fly", [])
    fixed = {what: points for what, points in runs.items() if points}
    if not own or not fixed:
        return claim(text, dataset, None)
    chosen = max(fixed, key=lambda what: max(point.value for point in fixed[what]))
    level = 0.99 * max(point.value for point in own)

    def sooner(points: Sequence[Point]) -> float | None:
        return next((point.x for point in points if point.value >= level), None)

    ours, theirs = sooner(own), sooner(fixed[chosen])
    assert ours is not None
    chosen = chosen.replace("fixed", "fixed at")
    there = "never" if theirs is None else f"after {theirs:.0f}"
    lines = "; ".join(
        f"{what} {number(metric, row.value)}" for what, row in tested.items() if row is not None
    )
    return claim(
        text,
        dataset,
        theirs is None or ours < theirs,
        f"validation {metric} of {level:.2f} after {ours:.0f} steps, with λ {chosen} {there}; "
        f"test {metric}: {lines}.",
    )


def controls_sparsity(dataset: str, study: Study, known: Sequence[Variant], kind: str, what: str) -> Claim:
    """From its smallest to its largest value, more draws fill rows and a larger penalty empties them."""
    text = f"{kind}, {what}, controls how sparse the summary is"
    parts, held = [], None
    for fact, word in (("above_half_per_user", "entries above ½ a row"), ("mass_per_user", "its weight")):
        values = [(name, study.facts(settings, fact)) for each, name, settings in known if each == kind]
        found = [(name, value) for name, value in values if value is not None]
        if len(found) < 2:
            return claim(text, dataset, None)
        if held is None:
            (_, first), (_, last) = found[0], found[-1]
            held = last > 1.1 * first if kind == "γ" else last < 0.9 * first
        parts.append(f"{word} at {kind} = " + ", ".join(f"{name}: {value:.1f}" for name, value in found))
    return claim(text, dataset, held, "; ".join(parts) + ".")


def top_k(dataset: str, study: Study, metric: str = "HR@100") -> Claim:
    """Like with like: both at the same share of hidden items."""
    text = "Gumbel sampling is needed: top-k cannot give good summaries"
    better, parts = [], []
    for share in HIDDEN:
        gumbel = study.rows_of({"mode": "published", "hidden": share}, metric)
        top = study.rows_of({"hidden": share}, metric)
        if gumbel is not None and top is not None:
            better.append(gumbel.value > top.value)
            parts.append(f"{number(metric, gumbel.value)} against {number(metric, top.value)} ({share:g})")
    if not parts:
        return claim(text, dataset, None)
    sharp = study.rows_of({"mode": "published", "tau": SHARP}, metric)
    lines = f"test {metric} of Gumbel (τ=10, fractional) against top-k (0/1), by the share of hidden items: "
    note = f"; Gumbel with τ={SHARP:g} {number(metric, sharp.value)}" if sharp is not None else ""
    return claim(text, dataset, all(better), lines + ", ".join(parts) + note + ".")


EXPERIMENT = Experiment(
    name="ablation",
    title="Which choices inside Distill-CF matter?",
    source="arguments of section 4 and the appendix",
    about=f"Summaries of {USERS} users with one choice changed at a time, judged by ∞-AE.",
    cells=cells,
    findings=findings,
    datasets=("ml-1m", "magazine", "douban-book"),
)
