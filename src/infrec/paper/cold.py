"""An appendix figure: for which users and items does each model work?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from infrec.paper import table1
from infrec.paper.cells import Cell, Data
from infrec.paper.experiment import Experiment, Judged, Plan, claimed
from infrec.paper.records import Record
from infrec.paper.results import Results, pivot, point, series, value
from infrec.paper.rows import Rows, parts
from infrec.paper.verdicts import Answer, Untestable, every, margin
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
def strata(here: Results, kind: Kind) -> dict[str, dict[str, Any]]:
    """The bins by their names, coldest first: `low`, `high` and `size`."""
    measured = (record["measured"][0].get("strata", {}) for record in here.records)
    by_name = {_range(stratum): stratum for strata in measured for stratum in strata.get(kind, ())}
    return dict(sorted(by_name.items(), key=lambda named: (named[1]["low"], named[1]["high"])))


def bins(here: Results, kind: Kind) -> dict[str, Rows]:
    """Each model's rows; the label of a row is the name of its bin."""

    def of(record: Record) -> Iterable[tuple[str, dict[str, Any]]]:
        for one in record["measured"][0].get("strata", {}).get(kind, ()):
            figures = {"metrics": one["value"], "intervals": one["interval"]}
            yield _range(one), {name: {METRICS[kind]: value} for name, value in figures.items()}

    rows = parts(here.records, of)
    of_models = {model: rows.where(model=model) for model in table1.MODELS}
    return {model: own for model, own in of_models.items() if own}


def _range(stratum: Mapping[str, Any]) -> str:
    low, high = stratum["low"], stratum["high"]
    return f"{low}" if low == high else f"{low}–{high}"


@claimed("∞-AE leads on tail and head users, and on torso and head items")
def leads(here: Results) -> Judged:
    lines: list[str] = []
    led: list[Answer] = []
    for words, (kind, at) in WORDS.items():
        names, of_models = list(strata(here, kind)), bins(here, kind)
        rivals = Rows(row for model in table1.COMPETITORS for row in of_models.get(model, ()))
        if not names or "infinite-ae" not in of_models:
            raise Untestable
        name = names[len(names) // 2 if at is None else at]
        own, others = of_models["infinite-ae"].one(label=name), rivals.where(label=name)
        led.append(every(margin(own, row) for row in others))
        lines.append(f"{words} {own} against {label(others.best.model)} {others.best}")
    return table1.over_competitors(led, list(bins(here, "users")), "; ".join(lines))


def figures(each: list[Results]) -> Iterator[Figure]:
    def panel(here: Results, kind: Kind) -> Panel:
        names = list(strata(here, kind))
        points = {
            model: [point(names.index(row.label), row) for row in rows]
            for model, rows in bins(here, kind).items()
        }
        y = f"{METRIC} (%)" if kind == "users" else "found in the top 100 (%)"
        ticks = [(float(at), name) for at, name in enumerate(names)]
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
            everything = Rows(row for rows in of_models.values() for row in rows)

            def cell(rows: Rows, name: str, everything: Rows = everything) -> Value:
                return value(METRIC, rows.get(label=name), best=everything.where(label=name).best.value)

            what = f"{METRIC} (%)" if kind == "users" else "share of held-out interactions in a top 100 (%)"
            yield pivot(
                f"{here.dataset}: {what} by train interactions of {kind} (how many {kind} in brackets).",
                "model",
                {label(model): rows for model, rows in of_models.items()},
                {f"{name} ({one['size']:,})": name for name, one in strata(here, kind).items()},
                cell,
            )


def rows(results: Results) -> list[dict[str, Any]]:
    return [
        {
            **row.only("dataset", "model", "metric", "value", "paper"),
            "of": kind,
            "train_interactions": [by_name[row.label]["low"], by_name[row.label]["high"]],
            "size": by_name[row.label]["size"],
            **row.only("low", "high", "seeds"),
        }
        for here in results.each()
        for kind in KINDS
        for by_name in [strata(here, kind)]
        for rows in bins(here, kind).values()
        for row in rows
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
    shown=lambda here: bool(strata(here, "users")),
)
