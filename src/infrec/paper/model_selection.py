"""The paper's motivation: can models and settings be compared on a summary instead of on all data?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from infrec.paper.cells import FULL, HEURISTICS, Cell, Data, Fit, pairs
from infrec.paper.experiment import Experiment, Judged, Plan, claimed_of_summaries
from infrec.paper.noise import MODES
from infrec.paper.records import Record
from infrec.paper.results import Results, data_of, series
from infrec.paper.verdicts import Untestable, every, over_seeds
from infrec.report.document import Figure, Panel, Point, Table
from infrec.report.numbers import label, signed

BUDGETS = (100, 500)
METRICS = ("HR@10", "HR@100", "NDCG@100")
METRIC = "HR@100"  # of the table and the claim
LEAST = 0.5  # of Kendall's τ
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
            ends = (values[0], values[-1])
            changes += [{key: value} for value in ends if value != shipped.selected.get(key)]
        wanted = changes[: 1 if plan.quick else TRAINED_VARIANTS]
        out += [Fit(model, pairs(**(fixed | change | plan.shorter(model)))) for change in wanted]
    return tuple(out)


def varied(plan: Plan, dataset: str) -> Iterator[Cell]:
    """All candidates on all users, and on samples and summaries."""
    fits, budgets = candidates(plan), plan.budgets(dataset, BUDGETS)
    yield Cell(dataset, 0, Data(), fits)
    for users in budgets[-1:] if plan.quick else budgets:
        for source in HEURISTICS:
            yield Cell(dataset, 0, Data(source, users), fits)
        for mode in MODES[plan.quick :]:
            yield Cell(dataset, 0, plan.distilled(users, mode), fits)


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
    scores = {}
    for one in record["measured"]:
        settings = {name: value for name, value in one["settings"].items() if name != "seed"}
        if "metrics" in one:
            scores[json.dumps([one["model"], settings], sort_keys=True)] = one["metrics"][metric]
    return scores


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

    @classmethod
    def of(cls, on_full: Mapping[str, float], records: Sequence[Record], metric: str) -> Agreement:
        """That of the records of each seed with the qualities on all users."""
        taus, shares, counts = [], [], []
        for record in records:
            on_small = qualities(record, metric)
            shared = [one for one in on_full if one in on_small]
            counts.append(len(shared))
            tau = kendall([on_full[one] for one in shared], [on_small[one] for one in shared])
            taus += [] if tau is None else [tau]
            if best := max((on_full[one] for one in shared), default=0.0):
                shares.append(on_full[max(shared, key=on_small.__getitem__)] / best)
        return cls(taus, shares, counts[0], fmean(map(seconds, records)), len(records))


def full_record(here: Results) -> Record | None:
    """The last record of all users."""
    return next((r for r in reversed(here.records) if data_of(r).source == FULL), None)


def agreements(here: Results, metric: str = METRIC) -> dict[tuple[str, int], Agreement]:
    """The agreement of each source and number of users with all users."""
    full, groups = full_record(here), dict[tuple[str, int], list[Record]]()
    if full is None:
        return {}
    on_full = qualities(full, metric)
    for record in here.records:
        if (data := data_of(record)).users is not None:
            groups.setdefault((data.name, data.users), []).append(record)
    return {key: Agreement.of(on_full, records, metric) for key, records in groups.items()}


def seconds(record: Record) -> float:
    """Fitting all candidates, and making what they were fitted on, even where a kept summary was read."""
    fits = fsum(m["seconds"]["fit"] for m in record["measured"] if "seconds" in m)
    distilling = record["data"].get("distill_seconds")
    return fits + (record["seconds"].get("data", 0.0) if distilling is None else distilling)


# ---- the claim, the figure, the table ----------------------------------------------------------------------
@claimed_of_summaries(
    "A distilled summary ranks models and settings as the full data does, and better than samples do"
)
def ranks_as_full(here: Results, kind: str) -> Judged:
    """τ of at least ½, and above that of every sampler of its size; over seeds."""
    by_size = {key: one.taus for key, one in agreements(here).items() if one.taus}
    users = max((users for source, users in by_size if source == kind), default=None)
    if users is None:
        raise Untestable
    rest = {source: taus for (source, u), taus in by_size.items() if u == users and source in HEURISTICS}
    own = by_size[kind, users]
    answers = [over_seeds(own).above(LEAST)]
    for taus in rest.values():
        others = taus * len(own) if len(taus) == 1 else taus
        answers.append(over_seeds([a - b for a, b in zip(own, others, strict=False)]).above())
    lines = "; ".join(f"{label(source)} {_tau(fmean(taus))}" for source, taus in rest.items())
    return every(answers), f"τ over {METRIC} with {users} users: distilled {_tau(fmean(own))}; {lines}"


def figures(each: list[Results]) -> Iterator[Figure]:
    def panel(here: Results, metric: str) -> Panel:
        points: dict[str, list[Point]] = {}
        for (source, users), one in sorted(agreements(here, metric).items()):
            if taus := one.taus:
                point = Point(float(users), fmean(taus), min(taus), max(taus), len(taus))
                points.setdefault(source, []).append(point)
        return Panel(f"{here.dataset}: {metric}", "users", "Kendall's τ", series(points), log_x=True)

    yield Figure(
        "selection",
        "Kendall's τ between the rankings of all candidates (models and settings) when fitted on all users "
        "and on a sample or a summary, both measured on the real test part. Bands are ranges over seeds.",
        [[panel(here, metric) for metric in METRICS] for here in each],
    )


def tables(each: list[Results]) -> Iterator[Table]:
    for here in each:
        full = full_record(here)
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
            for (source, users), one in sorted(agreements(here).items())
        ]
        candidates = f"{len(qualities(full, METRIC))}"
        lines.append(("all users", "1", "100 %", candidates, f"{whole:.1f}", "–", "–", "1"))
        times = ("seconds", "time saved", "Wh saved")
        head = ("fitted on", f"τ ({METRIC})", "favourite", "candidates", *times, "seeds")
        yield Table(f"{here.dataset}: choosing on less data.", head, lines)


def _tau(value: float) -> str:
    return signed(value).removeprefix("+")


def rows(results: Results) -> list[dict[str, Any]]:
    out = []
    for here in results.each():
        of_metrics = {metric: agreements(here, metric) for metric in METRICS}
        for source, users in of_metrics[METRIC]:
            place = {"dataset": here.dataset, "source": source, "users": users, "model": None}
            for metric, of_samples in of_metrics.items():
                if taus := of_samples[source, users].taus:
                    tau = {"metric": f"τ({metric})", "value": fmean(taus), "paper": None, "seeds": len(taus)}
                    out.append({**place, **tau})
    return out


@dataclass(frozen=True)
class Selection(Experiment):
    """One ranking on all users is what the others are compared with: it is not repeated for each seed."""

    def cells(self, plan: Plan) -> list[Cell]:
        return [one for one in super().cells(plan) if one.data.users is not None or one.seed == plan.seeds[0]]


EXPERIMENT = Selection(
    name="selection",
    title="Can models be chosen on a summary?",
    source="its motivation",
    about="Every model with a grid of settings on all users, samples and summaries: do they rank alike?",
    varied=varied,
    claims=(ranks_as_full,),
    figures=figures,
    tables=tables,
    notes=(
        "Time is measured: fitting every candidate, compilation included, and sampling or distilling. "
        "Cells that ran side by side on one device waited for each other, so compare seconds roughly. "
        "Energy is not: it is that time multiplied by a stated power of the device that all users were "
        f"fitted on ({', '.join(f'{power:g} W for {device}' for device, power in WATTS.items())}).",
        "“favourite” is the quality, on all users, of the candidate that the sample ranks first, as a "
        "share of the best candidate's.",
    ),
    rows=rows,
    shown=lambda here: full_record(here) is not None,
)
