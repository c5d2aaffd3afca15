"""The paper's motivation: can models and settings be compared on a summary instead of on all data?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from infrec.paper.cells import DISTILLED, FULL, HEURISTICS, Cell, Data, Fit, pairs
from infrec.paper.experiment import Experiment, Plan
from infrec.paper.records import Record
from infrec.paper.results import Results, data_of
from infrec.report.document import Claim, Figure, Findings, Panel, Point, Series, Table, claim
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


def agreement(full: Record, small: Record, metric: str) -> tuple[float | None, float | None, int]:
    """τ; the full-data quality of the summary's favourite as a share of the best; how many candidates."""
    on_full, on_small = qualities(full, metric), qualities(small, metric)
    shared = [key for key in on_full if key in on_small]
    if not shared:
        return None, None, 0
    tau = kendall([on_full[key] for key in shared], [on_small[key] for key in shared])
    favourite, best = max(shared, key=lambda key: on_small[key]), max(on_full[key] for key in shared)
    return tau, on_full[favourite] / best if best else None, len(shared)


def seconds(record: Record) -> float:
    """Fitting all candidates, and making what they were fitted on, even where a kept summary was read."""
    fits = sum(m["seconds"]["fit"] for m in record["measured"] if "seconds" in m)
    made = record["data"].get("distill_seconds")
    return fits + (record["seconds"].get("data", 0.0) if made is None else made)


def watts(device: str) -> float:
    return next((power for word, power in WATTS.items() if word.lower() in device.lower()), WATTS["cpu"])


def small_records(results: Results, dataset: str) -> dict[tuple[str, int], list[Record]]:
    out: dict[tuple[str, int], list[Record]] = {}
    for record in results.records:
        data = data_of(record)
        if record["configuration"]["dataset"] == dataset and data.users is not None:
            out.setdefault((data.name, data.users), []).append(record)
    return out


def full_record(results: Results, dataset: str) -> Record | None:
    own = [
        r for r in results.records if r["configuration"]["dataset"] == dataset and data_of(r).source == FULL
    ]
    return own[-1] if own else None


# ---- figures, tables, claims -----------------------------------------------------------------------------
def findings(results: Results) -> Findings:
    datasets = [dataset for dataset in results.datasets() if full_record(results, dataset) is not None]
    panels = tuple(tuple(panel(results, dataset, metric) for metric in METRICS) for dataset in datasets)
    caption = (
        "Kendall's τ between the rankings of all candidates (models and settings) when fitted on all users "
        "and on a sample or a summary, both measured on the real test part. Bands are ranges over seeds."
    )
    return Findings(
        claims=[ranks_as_full(results, dataset) for dataset in datasets],
        figures=[Figure("selection", caption, panels)] if datasets else (),
        tables=[table(results, dataset) for dataset in datasets],
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


def panel(results: Results, dataset: str, metric: str) -> Panel:
    full = full_record(results, dataset)
    series: dict[str, list[Point]] = {}
    for (source, users), records in sorted(small_records(results, dataset).items()):
        found = [agreement(full, record, metric)[0] for record in records] if full else []
        taus = [tau for tau in found if tau is not None]
        if taus:
            point = Point(float(users), sum(taus) / len(taus), min(taus), max(taus), len(taus))
            series.setdefault(source, []).append(point)
    lines = tuple(Series(source, tuple(points)) for source, points in series.items())
    return Panel(f"{dataset}: {metric}", "users", "Kendall's τ", lines, log_x=True)


def table(results: Results, dataset: str, metric: str = "HR@100") -> Table:
    full = full_record(results, dataset)
    assert full is not None
    whole, power = seconds(full), watts(full["device"])
    lines: list[tuple[str, ...]] = []
    for (source, users), records in sorted(small_records(results, dataset).items()):
        found = [agreement(full, record, metric) for record in records]
        taus = [tau for tau, _, _ in found if tau is not None]
        shares = [share for _, share, _ in found if share is not None]
        spent = sum(seconds(record) for record in records) / len(records)
        saved = power * (whole - spent) / 3600
        lines.append(
            (
                f"{label(source)}, {users:,}",
                _tau(sum(taus) / len(taus)) if taus else "–",
                f"{100 * sum(shares) / len(shares):.1f} %" if shares else "–",
                f"{found[0][2]}",
                f"{spent:.1f}",
                f"{100 * (1 - spent / whole):.0f} %" if whole else "–",
                f"{saved:.2f}",
                f"{len(records)}",
            )
        )
    lines.append(
        ("all users", "1", "100 %", f"{len(qualities(full, metric))}", f"{whole:.1f}", "–", "–", "1")
    )
    head = (
        "fitted on",
        f"τ ({metric})",
        "favourite",
        "candidates",
        "seconds",
        "time saved",
        "Wh saved",
        "seeds",
    )
    return Table(f"{dataset}: choosing on less data.", head, tuple(lines))


def _tau(value: float) -> str:
    return signed(value).removeprefix("+")


def ranks_as_full(results: Results, dataset: str, metric: str = "HR@100") -> Claim:
    text = "A distilled summary ranks models and settings as the full data does, and better than samples do"
    full = full_record(results, dataset)
    means: dict[tuple[str, int], float] = {}
    for key, records in small_records(results, dataset).items():
        taus = [tau for r in records if full and (tau := agreement(full, r, metric)[0]) is not None]
        if taus:
            means[key] = sum(taus) / len(taus)
    budgets = [users for source, users in means if source == DISTILLED]
    if not budgets:
        return claim(text, dataset, None, "nothing measured yet.")
    users = max(budgets)
    own = means[DISTILLED, users]
    rest: Mapping[str, float] = {s: tau for (s, u), tau in means.items() if u == users and s != DISTILLED}
    lines = "; ".join(f"{label(source)} {_tau(tau)}" for source, tau in rest.items())
    verdict = own >= 0.5 and own >= max(rest.values(), default=-1.0)
    return claim(
        text, dataset, verdict, f"τ over {metric} with {users} users: distilled {_tau(own)}; {lines}."
    )


def rows_of(results: Results) -> list[dict[str, Any]]:
    out = []
    for dataset in results.datasets():
        full = full_record(results, dataset)
        if full is None:
            continue
        for (source, users), records in small_records(results, dataset).items():
            for metric in METRICS:
                taus = [tau for record in records if (tau := agreement(full, record, metric)[0]) is not None]
                if taus:
                    at = {"dataset": dataset, "source": source, "users": users, "model": None}
                    value = sum(taus) / len(taus)
                    out.append(
                        {**at, "metric": f"τ({metric})", "value": value, "paper": None, "seeds": len(taus)}
                    )
    return out


EXPERIMENT = Experiment(
    name="selection",
    title="Can models be chosen on a summary?",
    source="its motivation",
    about="Every model with a grid of settings on all users, samples and summaries: do they rank alike?",
    cells=cells,
    findings=findings,
    rows=rows_of,
    datasets=("ml-1m", "magazine", "douban-book"),
)
