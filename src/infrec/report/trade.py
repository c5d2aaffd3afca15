"""The document of a trade: accuracy against coverage, distance within lists and novelty, with a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from infrec.evaluation.trade import Step, Trade
from infrec.report.document import (
    Cell,
    Document,
    Figure,
    Pairs,
    Panel,
    Point,
    Section,
    Series,
    Table,
    Text,
    Value,
)
from infrec.report.numbers import MEANING, facts, label, number, signed

AGAINST = {
    "coverage": "coverage@{k} (% of all items)",
    "distance": "distance@{k} (%)",
    "novelty": "novelty@{k} (bits)",
}


def document(trades: Sequence[Trade], dataset: str, about: str, small_print: Mapping[str, str]) -> Document:
    """The page of the trades of one or several models.

    Args:
        trades: One for each model, of lists of one length.
        dataset: The name of the data.
        about: The data, the split and the protocol in a sentence.
        small_print: Facts by name.
    """
    k = trades[0].k
    names = [f"NDCG@{k}", *(f"{name}@{k}" for name in AGAINST)]
    words = Pairs({name: MEANING[name] for name in names if name in MEANING})
    return Document(
        title=f"infrec: lists on {dataset}",
        heading=f"Lists that are not all alike, on {dataset}",
        parts=[
            *(Text(headline(one), "lead") for one in trades),
            Text(about, "quiet"),
            Section("What it costs and what it brings", [figure(trades), *map(table, trades)]),
            Section("What the words mean", [words]),
        ],
        footer=f"Made by infrec. {facts(small_print)}",
    )


def headline(one: Trade) -> str:
    """Cost and gain of the whole wish, in a sentence."""
    first, last, k = one.steps[0], one.steps[-1], one.k

    def change(name: str) -> str:
        before, after = first.metrics[f"{name}@{k}"], last.metrics[f"{name}@{k}"]
        return f"{signed(100 * (after / before - 1), 1)} %" if before else "0 before"

    changes = ", ".join(f"{name}@{k} {change(name)}" for name in ("NDCG", *AGAINST))
    return f"{label(one.model)} with {wish(last)}: {changes}."


def wish(step: Step) -> str:
    """A wish in words: `diversity 0.3, popularity −0.2`."""
    parts = {"diversity": step.diversity, "popularity": step.popularity}
    words = (f"{name} {f'{value:.2g}'.replace('-', '−')}" for name, value in parts.items() if value)
    return ", ".join(words) or "by scores alone"


def table(one: Trade) -> Table:
    """A wish a row, a metric a column."""
    names = [name for name in one.steps[0].metrics if not name.startswith(tuple(AGAINST))]
    names += [f"{name}@{one.k}" for name in AGAINST]
    rows: list[Sequence[Cell]] = [
        (wish(step), *(Value.of(step, name) for name in names)) for step in one.steps
    ]
    return Table(f"{label(one.model)}: the first {one.k} of {one.users:,} users.", ("wish", *names), rows)


def figure(trades: Sequence[Trade]) -> Figure:
    """Accuracy against each of the three, a curve for each model, from lists by scores alone on."""
    k = trades[0].k
    measure = f"NDCG@{k}"

    def curve(one: Trade, against: str) -> Series:
        return Series(one.model, [Point.of(step.metrics[against], step, measure) for step in one.steps])

    panels = [
        Panel("", words.format(k=k), f"{measure} (%)", [curve(one, f"{name}@{k}") for one in trades])
        for name, words in AGAINST.items()
    ]
    alt = "; ".join(
        f"{label(one.model)}, {wish(step)}: "
        + ", ".join(f"{name} {number(name, step.metrics[name])}" for name in (measure, f"coverage@{k}"))
        for one in trades
        for step in one.steps
    )
    return Figure("trade", CAPTION, [panels], same_y=True, wide=True, alt=alt)


CAPTION = (
    "Each curve begins with lists by scores alone and ends with the whole wish, a third from mark to mark: "
    "what is gained lies to the right, what it costs below. Bands are 95 % bootstrap intervals over users."
)
