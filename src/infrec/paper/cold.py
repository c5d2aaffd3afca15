"""An appendix figure: for which users and items does each model work?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from infrec.paper import table1
from infrec.paper.cells import Cell, Data
from infrec.paper.experiment import Experiment, Plan
from infrec.paper.results import Results, join
from infrec.report.document import Claim, Figure, Findings, Panel, Point, Series, Table, Value, claim
from infrec.report.numbers import label, listed

Kind = Literal["users", "items"]
METRIC = "HR@100"
# Which of the bins, counted from the coldest, are meant by the paper's words.
WORDS = {
    "tail users": ("users", 0),
    "head users": ("users", -1),
    "torso items": ("items", None),
    "head items": ("items", -1),
}


def cells(plan: Plan) -> list[Cell]:
    """Those of Table 1 that are fitted on all users: what was measured there is not measured again."""
    return [cell for cell in table1.cells(plan) if cell.data == Data()]


def bins(results: Results, dataset: str, kind: Kind) -> dict[str, list[dict[str, Any]]]:
    """Each model's bins, coldest first, with the mean over seeds."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for record in results.records:
        measured = record["measured"][0]
        if record["configuration"]["dataset"] == dataset and "strata" in measured:
            join(found.setdefault(measured["model"], []), measured)
    out = {}
    for model in table1.MODELS:
        if model in found:
            of_seeds = (measured["strata"][kind] for measured in found[model])
            out[model] = [_mean(bin_of_seeds) for bin_of_seeds in zip(*of_seeds, strict=True)]
    return out


def _mean(strata: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    def mean(values: Sequence[float]) -> float:
        return sum(values) / len(values)

    bounds = [stratum["interval"] or (stratum["value"],) * 2 for stratum in strata]
    return {
        **strata[0],
        "value": mean([stratum["value"] for stratum in strata]),
        "interval": (mean([low for low, _ in bounds]), mean([high for _, high in bounds])),
        "seeds": len(strata),
    }


def _range(stratum: Mapping[str, Any]) -> str:
    low, high = stratum["low"], stratum["high"]
    return f"{low}" if low == high else f"{low}–{high}"


def _point(at: int, stratum: Mapping[str, Any]) -> Point:
    low, high = stratum["interval"]
    return Point(float(at), stratum["value"], low, high, stratum["seeds"])


def panel(results: Results, dataset: str, kind: Kind) -> Panel:
    of_models = bins(results, dataset, kind)
    first = next(iter(of_models.values()), [])
    series = tuple(
        Series(model, tuple(_point(at, stratum) for at, stratum in enumerate(own)))
        for model, own in of_models.items()
    )
    y = f"{METRIC} (%)" if kind == "users" else "found in the top 100 (%)"
    ticks = tuple((float(at), _range(stratum)) for at, stratum in enumerate(first))
    return Panel(f"{dataset}: {kind}", f"train interactions of {kind}", y, series, ticks=ticks)


def table(results: Results, dataset: str, kind: Kind) -> Table:
    of_models = bins(results, dataset, kind)
    first = next(iter(of_models.values()), [])
    best = [max(own[at]["value"] for own in of_models.values()) for at in range(len(first))]
    lines: tuple[tuple[str | Value, ...], ...] = tuple(
        (
            label(model),
            *(
                Value(METRIC, b["value"], b["interval"][0], b["interval"][1], best=b["value"] == best[at])
                for at, b in enumerate(own)
            ),
        )
        for model, own in of_models.items()
    )
    head = ("model", *(f"{_range(b)} ({b['size']:,})" for b in first))
    what = f"{METRIC} (%)" if kind == "users" else "share of held-out interactions in a top 100 (%)"
    return Table(
        f"{dataset}: {what} by train interactions of {kind} (how many {kind} in brackets).", head, lines
    )


def leads(results: Results, dataset: str) -> Claim:
    text = "∞-AE leads on tail and head users, and on torso and head items"
    parts, led = [], []
    for words, (kind, at) in WORDS.items():
        of_models = bins(results, dataset, "users" if kind == "users" else "items")
        ours = of_models.pop("infinite-ae", None)
        rivals = {model: own for model, own in of_models.items() if model in table1.COMPETITORS}
        if not ours or not rivals:
            return claim(text, dataset, None, "nothing measured yet.")
        place = len(ours) // 2 if at is None else at
        best = max(rivals, key=lambda model: rivals[model][place]["value"])
        mine, theirs = ours[place]["value"], rivals[best][place]["value"]
        led.append(mine >= theirs)
        parts.append(f"{words} {mine:.2f} against {label(best)} {theirs:.2f}")
    absent = [model for model in table1.COMPETITORS if model not in bins(results, dataset, "users")]
    note = f" (not measured: {listed([label(model) for model in absent])})" if absent else ""
    return claim(
        text, dataset, False if not all(led) else None if absent else True, "; ".join(parts) + f"{note}."
    )


def findings(results: Results) -> Findings:
    datasets = [dataset for dataset in results.datasets() if bins(results, dataset, "users")]
    kinds: tuple[Kind, ...] = ("users", "items")
    caption = (
        "Quality for users and items from the coldest to the warmest, by their interactions in the train "
        "part, in bins as equal in size as ties allow. Left: HR@100 of the users of a bin. Right: the "
        "share of a bin's held-out interactions that stand in a top 100."
    )
    panels = tuple(tuple(panel(results, dataset, kind) for kind in kinds) for dataset in datasets)
    return Findings(
        claims=[leads(results, dataset) for dataset in datasets],
        figures=[Figure("cold", caption, panels)] if panels else (),
        tables=[table(results, dataset, kind) for dataset in datasets for kind in kinds],
        notes=[
            "Users with equally many interactions share a bin, so bins are not all of a size, and the "
            "smallest datasets have fewer: on magazine most users have a single interaction in the train "
            "part. How many are in a bin stands in the tables' heads.",
            "Tail and head are the coldest and the warmest bin, torso is the middle one.",
        ],
    )


def rows_of(results: Results) -> list[dict[str, Any]]:
    kinds: tuple[Kind, ...] = ("users", "items")
    return [
        {
            "dataset": dataset,
            "model": model,
            "metric": METRIC if kind == "users" else "found@100",
            "value": stratum["value"],
            "paper": None,
            "of": kind,
            "train_interactions": [stratum["low"], stratum["high"]],
            "size": stratum["size"],
            "low": stratum["interval"][0],
            "high": stratum["interval"][1],
            "seeds": stratum["seeds"],
        }
        for dataset in results.datasets()
        for kind in kinds
        for model, own in bins(results, dataset, kind).items()
        for stratum in own
    ]


EXPERIMENT = Experiment(
    name="cold",
    title="How does ∞-AE perform on cold users and cold items?",
    source="appendix",
    about="Every model on all users, HR@100 by coldness in bins of equal size, as far as ties allow.",
    cells=cells,
    findings=findings,
    rows=rows_of,
    seeds=1,
)
