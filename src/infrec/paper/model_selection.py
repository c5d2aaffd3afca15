"""The paper's motivation: can models and settings be compared on a summary instead of on all data?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import fsum
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from infrec.paper.cells import DISTILLED, FULL, HEURISTICS, Cell, Data, Fit, pairs
from infrec.paper.experiment import Experiment, Plan
from infrec.paper.records import Record
from infrec.paper.results import Results, data_of
from infrec.paper.views import series
from infrec.report.document import Claim, Figure, Findings, Panel, Point, Table, claim
from infrec.report.numbers import label, signed

BUDGETS = (100, 500)
METRICS = ("HR@10", "HR@100", "NDCG@100")
QUICK_MODELS = ("poprec", "mvae")
TRAINED_VARIANTS = 2  # of each trained model: as shipped, and with one setting changed
# Stated, not measured: what a device draws while it computes.
WATTS = {"cpu": 65.0, "NVIDIA H200": 700.0}


def candidates(plan: Plan) -> tuple[Fit, ...]:
    """Every model with a grid of fixed settings; nothing is chosen inside a cell."""
    from infrec.models import NAMES, create

    regs = (1, 5, 20, 100) if plan.quick else (1, 5, 20, 50, 100)
    out = [Fit("infinite-ae", pairs(reg=reg, depth=depth)) for depth in (1, 2) for reg in regs]
    out += [
        Fit("ease", pairs(reg=reg)) for reg in ((10, 1000) if plan.quick else (1, 10, 100, 500, 1000, 5000))
    ]
    for model in NAMES:
        if model in ("infinite-ae", "ease") or (plan.quick and model not in QUICK_MODELS):
            continue
        shipped = create(model)
        fixed = {key: value for key, value in shipped.fallback.items() if shipped.selected.get(key) == "auto"}
        changes: list[dict[str, Any]] = [{}]
        for key, values in shipped.search_space.items():
            changes += [
                {key: value} for value in (values[0], values[-1]) if value != shipped.selected.get(key)
            ]
        epochs = plan.shorter(model)
        wanted = changes[:1] if plan.quick else changes[:TRAINED_VARIANTS]
        out += [Fit(model, pairs(**(fixed | change | epochs))) for change in wanted]
    return tuple(out)


def cells(plan: Plan) -> list[Cell]:
    fits, out = candidates(plan), []
    for dataset in plan.datasets:
        out.append(Cell(dataset, 0, Data(), fits))
        budgets = plan.budgets(dataset, BUDGETS)
        for users in budgets[-1:] if plan.quick else budgets:
            out += [Cell(dataset, 0, Data(source, users), fits) for source in HEURISTICS]
            out.append(Cell(dataset, 0, plan.distilled(users), fits))
    # One ranking on all users is what the others are compared with.
    return [cell for cell in plan.grid(out) if cell.data.users is not None or cell.seed == plan.seeds[0]]


# ---- rankings --------------------------------------------------------------------------------------------
def kendall(a: Sequence[float], b: Sequence[float]) -> float | None:
    """τ-b of two rankings: 1 the same order, −1 the reverse; None where one has no order."""
    if len(a) < 2 or len(set(a)) == 1 or len(set(b)) == 1:
        return None
    above = np.triu_indices(len(a), 1)
    one, other = (np.sign(np.subtract.outer(values, values))[above] for values in (a, b))
    return float((one * other).sum() / np.sqrt((one**2).sum() * (other**2).sum()))


def qualities(record: Record, metric: str) -> dict[str, float]:
    """Each candidate's quality, by its model and settings."""
    return {
        json.dumps([m["model"], {k: v for k, v in m["settings"].items() if k != "seed"}], sort_keys=True): m[
            "metrics"
        ][metric]
        for m in record["measured"]
        if "metrics" in m
    }


class Agreement(NamedTuple):
    """Rankings of the candidates on a sample or a summary beside that on all users, for each seed.

    Args:
        taus: Kendall's τ.
        shares: The quality on all users of what the sample ranks first, as a share of the best.
        candidates: How many were compared, with the first seed.
        seconds: Mean time of one seed.
        seeds: How many.
    """

    taus: list[float]
    shares: list[float]
    candidates: int
    seconds: float
    seeds: int


def agreements(results: Results, metric: str) -> dict[tuple[str, int], Agreement]:
    """The agreement of each source and number of users with all users, on one dataset."""
    full = full_record(results)
    groups: dict[tuple[str, int], list[Record]] = {}
    for record in results.records if full else ():
        if (data := data_of(record)).users is not None:
            groups.setdefault((data.name, data.users), []).append(record)
    return {key: _agreement(full, records, metric) for key, records in groups.items() if full}


def _agreement(full: Record, records: Sequence[Record], metric: str) -> Agreement:
    on_full, taus, shares, counts = qualities(full, metric), [], [], []
    for record in records:
        on_small = qualities(record, metric)
        shared = [key for key in on_full if key in on_small]
        counts.append(len(shared))
        if not shared:
            continue
        tau = kendall([on_full[key] for key in shared], [on_small[key] for key in shared])
        taus += [] if tau is None else [tau]
        favourite, best = max(shared, key=lambda key: on_small[key]), max(on_full[key] for key in shared)
        shares += [on_full[favourite] / best] if best else []
    return Agreement(taus, shares, counts[0], fmean(seconds(record) for record in records), len(records))


def seconds(record: Record) -> float:
    """Fitting all candidates, and making what they were fitted on, even where a kept summary was read."""
    fits = fsum(m["seconds"]["fit"] for m in record["measured"] if "seconds" in m)
    distilling = record["data"].get("distill_seconds")
    return fits + (record["seconds"].get("data", 0.0) if distilling is None else distilling)


def full_record(results: Results) -> Record | None:
    """The last record of all users, on one dataset."""
    return next((r for r in reversed(results.records) if data_of(r).source == FULL), None)


# ---- figures, tables, claims -----------------------------------------------------------------------------
def findings(results: Results) -> Findings:
    here = {name: own for name, own in results.by_dataset().items() if full_record(own) is not None}
    panels = [[panel(dataset, own, metric) for metric in METRICS] for dataset, own in here.items()]
    caption = (
        "Kendall's τ between the rankings of all candidates (models and settings) when fitted on all users "
        "and on a sample or a summary, both measured on the real test part. Bands are ranges over seeds."
    )
    return Findings(
        claims=[ranks_as_full(dataset, own) for dataset, own in here.items()],
        figures=[Figure("selection", caption, panels)] if here else (),
        tables=[table(dataset, own) for dataset, own in here.items()],
        notes=[
            "Time is measured: fitting every candidate, compilation included, and sampling or distilling. "
            "Cells that ran side by side on one device waited for each other, so compare seconds roughly. "
            "Energy is not: it is that time multiplied by a stated power of the device that all users were "
            "fitted on "
            f"({', '.join(f'{power:g} W for {device}' for device, power in WATTS.items())}).",
            "“favourite” is the quality, on all users, of the candidate that the sample ranks first, as a "
            "share of the best candidate's.",
        ],
    )


def panel(dataset: str, results: Results, metric: str) -> Panel:
    points: dict[str, list[Point]] = {}
    for (source, users), one in sorted(agreements(results, metric).items()):
        if taus := one.taus:
            point = Point(float(users), fmean(taus), min(taus), max(taus), len(taus))
            points.setdefault(source, []).append(point)
    return Panel(f"{dataset}: {metric}", "users", "Kendall's τ", series(points), log_x=True)


def table(dataset: str, results: Results, metric: str = "HR@100") -> Table:
    full = full_record(results)
    assert full is not None
    whole, device = seconds(full), full["device"].lower()
    power = next((power for word, power in WATTS.items() if word.lower() in device), WATTS["cpu"])
    lines = [
        (
            f"{label(source)}, {users:,}",
            _tau(fmean(one.taus)) if one.taus else "–",
            f"{100 * fmean(one.shares):.1f} %" if one.shares else "–",
            f"{one.candidates}",
            f"{one.seconds:.1f}",
            f"{100 * (1 - one.seconds / whole):.0f} %" if whole else "–",
            f"{power * (whole - one.seconds) / 3600:.2f}",
            f"{one.seeds}",
        )
        for (source, users), one in sorted(agreements(results, metric).items())
    ]
    candidates = f"{len(qualities(full, metric))}"
    lines.append(("all users", "1", "100 %", candidates, f"{whole:.1f}", "–", "–", "1"))
    times = ("seconds", "time saved", "Wh saved")
    head = ("fitted on", f"τ ({metric})", "favourite", "candidates", *times, "seeds")
    return Table(f"{dataset}: choosing on less data.", head, lines)


def _tau(value: float) -> str:
    return signed(value).removeprefix("+")


def ranks_as_full(dataset: str, results: Results, metric: str = "HR@100") -> Claim:
    text = "A distilled summary ranks models and settings as the full data does, and better than samples do"
    means = {key: fmean(one.taus) for key, one in agreements(results, metric).items() if one.taus}
    budgets = [users for source, users in means if source == DISTILLED]
    if not budgets:
        return claim(text, dataset, None)
    users = max(budgets)
    distilled = means[DISTILLED, users]
    rest = {s: tau for (s, u), tau in means.items() if u == users and s != DISTILLED}
    lines = "; ".join(f"{label(source)} {_tau(tau)}" for source, tau in rest.items())
    verdict = distilled >= 0.5 and distilled >= max(rest.values(), default=-1.0)
    figures = f"τ over {metric} with {users} users: distilled {_tau(distilled)}; {lines}."
    return claim(text, dataset, verdict, figures)


def program_rows(results: Results) -> list[dict[str, Any]]:
    return [
        {
            "dataset": dataset,
            "source": source,
            "users": users,
            "model": None,
            "metric": f"τ({metric})",
            "value": fmean(taus),
            "paper": None,
            "seeds": len(taus),
        }
        for dataset, own in results.by_dataset().items()
        for of_metrics in [{metric: agreements(own, metric) for metric in METRICS}]
        for source, users in of_metrics[METRICS[0]]
        for metric in METRICS
        if (taus := of_metrics[metric][source, users].taus)
    ]


EXPERIMENT = Experiment(
    name="selection",
    title="Can models be chosen on a summary?",
    source="its motivation",
    about="Every model with a grid of settings on all users, samples and summaries: do they rank alike?",
    cells=cells,
    findings=findings,
    rows=program_rows,
    datasets=("ml-1m", "magazine", "douban-book"),
)
