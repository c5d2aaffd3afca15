"""An appendix figure: for which users and items does each model work?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from infrec.paper import table1
from infrec.paper.cells import Cell, Data
from infrec.paper.experiment import Experiment, Judged, Plan, claimed
from infrec.paper.records import Record
from infrec.paper.results import Results, Rows, parts, point, series, value
from infrec.paper.verdicts import Answer, every, margin
from infrec.report.document import Figure, Panel, Table, Value
from infrec.report.numbers import label

Kind = Literal["users", "items"]
KINDS: tuple[Kind, ...] = ("users", "items")
METRIC = "HR@100"
METRICS = {"users": METRIC, "items": "found@100"}
# Which of the bins, counted from the coldest, are meant by the paper's words; None: the middle one.
WORDS: dict[str, tuple[Kind, int | None]] = {
    "tail users": ("users", 0),
    "head users": ("users", -1),
    "torso items": ("items", None),
    "head items": ("items", -1),
}


def varied(plan: Plan, dataset: str) -> Iterator[Cell]:
    """Those of Table 1 that are fitted on all users: what was measured there is not measured again."""
    return (cell for cell in table1.varied(plan, dataset) if cell.data == Data())


# ---- reading the records ---------------------------------------------------------------------------------
def bins(here: Results, kind: Kind) -> dict[str, Rows]:
    """Each model's bins, coldest first; the label of a row says how warm its bin is."""

    def of(record: Record) -> Iterable[tuple[str, dict[str, Any]]]:
        for one in record["measured"][0].get("strata", {}).get(kind, ()):
            figures = {"metrics": one["value"], "intervals": one["interval"]}
            yield _range(one), {name: {METRICS[kind]: value} for name, value in figures.items()}

    rows = parts(here.records, of)
    of_models = {model: rows.where(model=model) for model in table1.MODELS}
    return {model: own for model, own in of_models.items() if own}


def strata(here: Results, kind: Kind = "users") -> list[dict[str, Any]]:
    """The bins, which are the same for every model: `low`, `high` and `size`."""
    measured = (record["measured"][0] for record in here.records)
    return next((one["strata"][kind] for one in measured if "strata" in one), [])


def _range(stratum: Mapping[str, Any]) -> str:
    low, high = stratum["low"], stratum["high"]
    return f"{low}" if low == high else f"{low}–{high}"


@claimed("∞-AE leads on tail and head users, and on torso and head items")
def leads(here: Results) -> Judged:
    lines: list[str] = []
    led: list[Answer] = []
    of_models = {kind: bins(here, kind) for kind in KINDS}
    for words, (kind, at) in WORDS.items():
        ours = of_models[kind].get("infinite-ae")
        rivals = {model: rows for model, rows in of_models[kind].items() if model in table1.COMPETITORS}
        if not ours or not rivals:
            return None
        place = len(ours) // 2 if at is None else at
        best = max(rivals, key=lambda model: rivals[model][place].value)
        led.append(every(margin(ours[place], rows[place]) for rows in rivals.values()))
        lines.append(f"{words} {ours[place]} against {label(best)} {rivals[best][place]}")
    absent = table1.not_measured(list(of_models["users"]))
    figures, verdict = "; ".join(lines) + absent, every(led)
    return figures if absent and verdict is not False else (verdict, figures)


def figures(each: list[Results]) -> Iterator[Figure]:
    def panel(here: Results, kind: Kind) -> Panel:
        of_models = bins(here, kind)
        points = {model: [point(at, row) for at, row in enumerate(rows)] for model, rows in of_models.items()}
        y = f"{METRIC} (%)" if kind == "users" else "found in the top 100 (%)"
        ticks = [(float(at), _range(stratum)) for at, stratum in enumerate(strata(here, kind))]
        title, x = f"{here.dataset}: {kind}", f"train interactions of {kind}"
        return Panel(title, x, y, series(points), ticks=ticks)

    yield Figure(
        "cold",
        "Quality for users and items from the coldest to the warmest, by their interactions in the train "
        "part, in bins as equal in size as ties allow. Left: HR@100 of the users of a bin. Right: the "
        "share of a bin's held-out interactions that stand in a top 100.",
        [[panel(here, kind) for kind in KINDS] for here in each],
    )


def tables(each: list[Results]) -> Iterator[Table]:
    """Models down, bins across."""
    for here in each:
        for kind in KINDS:
            of_models = bins(here, kind)
            best = [max(row.value for row in column) for column in zip(*of_models.values(), strict=True)]
            lines: list[Sequence[str | Value]] = [
                (label(model), *(value(METRIC, row, best=most) for row, most in zip(rows, best, strict=True)))
                for model, rows in of_models.items()
            ]
            what = f"{METRIC} (%)" if kind == "users" else "share of held-out interactions in a top 100 (%)"
            yield Table(
                f"{here.dataset}: {what} by train interactions of {kind} (how many {kind} in brackets).",
                ("model", *(f"{_range(one)} ({one['size']:,})" for one in strata(here, kind))),
                lines,
            )


def rows(results: Results) -> list[dict[str, Any]]:
    return [
        {
            **row.only("dataset", "model", "metric", "value", "paper"),
            "of": kind,
            "train_interactions": [stratum["low"], stratum["high"]],
            "size": stratum["size"],
            **row.only("low", "high", "seeds"),
        }
        for here in results.each()
        for kind in KINDS
        for rows in bins(here, kind).values()
        for row, stratum in zip(rows, strata(here, kind), strict=True)
    ]


EXPERIMENT = Experiment(
    name="cold",
    title="How does ∞-AE perform on cold users and cold items?",
    source="appendix",
    about="Every model on all users, HR@100 by coldness in bins of equal size, as far as ties allow.",
    varied=varied,
    claims=(leads,),
    figures=figures,
    tables=tables,
    notes=(
        "Users with equally many interactions share a bin, so bins are not all of a size, and the "
        "smallest datasets have fewer: on magazine most users have a single interaction in the train "
        "part. How many are in a bin stands in the tables' heads.",
        "Tail and head are the coldest and the warmest bin, torso is the middle one.",
    ),
    rows=rows,
    seeds=1,
    shown=lambda here: bool(strata(here)),
)
