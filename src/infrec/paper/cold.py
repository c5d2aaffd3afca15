"""An appendix figure: for which users and items does each model work?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from infrec.paper import table1
from infrec.paper.cells import Cell, Data
from infrec.paper.experiment import Experiment, Plan
from infrec.paper.results import Results, Rows, part, rows_of
from infrec.paper.views import point, series, value
from infrec.report.document import Claim, Figure, Findings, Panel, Table, Value, claim
from infrec.report.numbers import label, listed

Kind = Literal["users", "items"]
KINDS: tuple[Kind, ...] = ("users", "items")
METRIC = "HR@100"
METRICS = {"users": METRIC, "items": "found@100"}
# Which of the bins, counted from the coldest, are meant by the paper's words.
WORDS: dict[str, tuple[Kind, int | None]] = {
    "tail users": ("users", 0),
    "head users": ("users", -1),
    "torso items": ("items", None),
    "head items": ("items", -1),
}


def cells(plan: Plan) -> list[Cell]:
    """Those of Table 1 that are fitted on all users: what was measured there is not measured again."""
    return [cell for cell in table1.cells(plan) if cell.data == Data()]


def bins(results: Results, kind: Kind) -> dict[str, Rows]:
    """Each model's bins on one dataset, coldest first; the label of a row says how warm its bin is."""
    rows = Rows(
        rows_of(
            part(
                record,
                _range(stratum),
                {
                    "metrics": {METRICS[kind]: stratum["value"]},
                    "intervals": {METRICS[kind]: stratum["interval"]},
                },
            )
            for record in results.records
            for stratum in record["measured"][0].get("strata", {}).get(kind, ())
        )
    )
    of_models = {model: rows.where(model=model) for model in table1.MODELS}
    return {model: own for model, own in of_models.items() if own}


def strata(results: Results, kind: Kind) -> list[dict[str, Any]]:
    """The bins of one dataset, which are the same for every model: `low`, `high` and `size`."""
    measured = (record["measured"][0] for record in results.records)
    return next((one["strata"][kind] for one in measured if "strata" in one), [])


def _range(stratum: Mapping[str, Any]) -> str:
    low, high = stratum["low"], stratum["high"]
    return f"{low}" if low == high else f"{low}–{high}"


def panel(dataset: str, results: Results, kind: Kind) -> Panel:
    points = {
        model: [point(at, row) for at, row in enumerate(rows)] for model, rows in bins(results, kind).items()
    }
    y = f"{METRIC} (%)" if kind == "users" else "found in the top 100 (%)"
    ticks = [(float(at), _range(stratum)) for at, stratum in enumerate(strata(results, kind))]
    return Panel(f"{dataset}: {kind}", f"train interactions of {kind}", y, series(points), ticks=ticks)


def table(dataset: str, results: Results, kind: Kind) -> Table:
    of_models = bins(results, kind)
    best = [max(row.value for row in column) for column in zip(*of_models.values(), strict=True)]
    lines: list[list[str | Value]] = [
        [
            label(model),
            *(value(METRIC, row, best=row.value == most) for row, most in zip(rows, best, strict=True)),
        ]
        for model, rows in of_models.items()
    ]
    head = ("model", *(f"{_range(stratum)} ({stratum['size']:,})" for stratum in strata(results, kind)))
    what = f"{METRIC} (%)" if kind == "users" else "share of held-out interactions in a top 100 (%)"
    return Table(
        f"{dataset}: {what} by train interactions of {kind} (how many {kind} in brackets).", head, lines
    )


def leads(dataset: str, results: Results) -> Claim:
    text = "∞-AE leads on tail and head users, and on torso and head items"
    parts, led = [], []
    of_models: dict[Kind, dict[str, Rows]] = {kind: bins(results, kind) for kind in KINDS}
    for words, (kind, at) in WORDS.items():
        ours = of_models[kind].get("infinite-ae")
        rivals = {model: rows for model, rows in of_models[kind].items() if model in table1.COMPETITORS}
        if not ours or not rivals:
            return claim(text, dataset, None)
        place = len(ours) // 2 if at is None else at
        best = max(rivals, key=lambda model: rivals[model][place].value)
        mine, theirs = ours[place].value, rivals[best][place].value
        led.append(mine >= theirs)
        parts.append(f"{words} {mine:.2f} against {label(best)} {theirs:.2f}")
    absent = [model for model in table1.COMPETITORS if model not in of_models["users"]]
    note = f" (not measured: {listed([label(model) for model in absent])})" if absent else ""
    return claim(
        text, dataset, False if not all(led) else None if absent else True, "; ".join(parts) + f"{note}."
    )


def findings(results: Results) -> Findings:
    here = {name: own for name, own in results.by_dataset().items() if strata(own, "users")}
    caption = (
        "Quality for users and items from the coldest to the warmest, by their interactions in the train "
        "part, in bins as equal in size as ties allow. Left: HR@100 of the users of a bin. Right: the "
        "share of a bin's held-out interactions that stand in a top 100."
    )
    panels = [[panel(dataset, own, kind) for kind in KINDS] for dataset, own in here.items()]
    return Findings(
        claims=[leads(dataset, own) for dataset, own in here.items()],
        figures=[Figure("cold", caption, panels)] if panels else (),
        tables=[table(dataset, own, kind) for dataset, own in here.items() for kind in KINDS],
        notes=[
            "Users with equally many interactions share a bin, so bins are not all of a size, and the "
            "smallest datasets have fewer: on magazine most users have a single interaction in the train "
            "part. How many are in a bin stands in the tables' heads.",
            "Tail and head are the coldest and the warmest bin, torso is the middle one.",
        ],
    )


def program_rows(results: Results) -> list[dict[str, Any]]:
    return [
        {
            "dataset": dataset,
            "model": model,
            "metric": METRICS[kind],
            "value": row.value,
            "paper": None,
            "of": kind,
            "train_interactions": [stratum["low"], stratum["high"]],
            "size": stratum["size"],
            "low": row.low,
            "high": row.high,
            "seeds": row.seeds,
        }
        for dataset, own in results.by_dataset().items()
        for kind in KINDS
        for model, rows in bins(own, kind).items()
        for row, stratum in zip(rows, strata(own, kind), strict=True)
    ]


EXPERIMENT = Experiment(
    name="cold",
    title="How does ∞-AE perform on cold users and cold items?",
    source="appendix",
    about="Every model on all users, HR@100 by coldness in bins of equal size, as far as ties allow.",
    cells=cells,
    findings=findings,
    rows=program_rows,
    seeds=1,
)
