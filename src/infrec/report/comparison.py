"""Pages that compare: models side by side on one split; and one model's lists under a growing wish, accuracy
against coverage, distance within lists and novelty."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from infrec.evaluation.comparison import Comparison, Example, ModelRecord, Step, Trade
from infrec.evaluation.fidelity import Card
from infrec.report import card as cards
from infrec.report.document import (
    Block,
    Cell,
    Document,
    Dot,
    Explanations,
    Figure,
    Items,
    Pairs,
    Panel,
    Point,
    Section,
    Series,
    Table,
    Text,
    Value,
    dot_figure,
)
from infrec.report.numbers import MEANING, facts, label, number, seconds, settings, shown, signed

METRIC = "HR@10"  # of sentences and groups
BEYOND = ("coverage@10", "novelty@10", "disliked@10")
DRAWN = ("HR@10", "HR@100", "NDCG@10", "NDCG@100")


def document(record: Comparison) -> Document:
    """The page of a comparison."""
    about = (
        f"{record.users:,} users, {record.items:,} items, {record.interactions:,} interactions; "
        f"split: {record.split}; protocol: {record.protocol}."
    )
    metrics = shown(record.models[0].metrics, extra=BEYOND)
    parts: list[Section | Block | None] = [
        Text(headline(record), "lead"),
        Text(about, "quiet"),
        Section("How good are they?", [_quality(record), *(Text(text) for text in _leads(record))]),
        _coldness(record),
        _popularity(record),
        _distilled(record.card) if record.card is not None else None,
        _example(record.example) if record.example is not None else None,
        Section("What the words mean", [Pairs({m: MEANING[m] for m in metrics if m in MEANING})]),
    ]
    return Document(
        title=f"infrec: models on {record.dataset}",
        heading=f"{', '.join(label(model.name) for model in record.models)} on {record.dataset}",
        parts=[part for part in parts if part is not None],
        footer=f"Made by infrec. {facts(record.facts)}",
    )


def headline(record: Comparison) -> str:
    """The result in a sentence. A lead that may be chance is not called one."""
    ranked = sorted((m for m in record.models if METRIC in m.metrics), key=lambda m: -m.metrics[METRIC])
    if not ranked:
        return "Nothing was measured."
    best = ranked[0]
    text = f"{label(best.name)} places {best.metrics[METRIC]:.1f} % of the held-out items among its first ten"
    if len(ranked) == 1:
        return text + "."
    second = ranked[1]
    rival = f"{label(second.name)} ({second.metrics[METRIC]:.1f} %)"
    text += f", ahead of {rival}" if _is_ahead(record, best, second) else f", level with {rival}"
    if len(ranked) > 2:
        text += "; " + ", ".join(f"{label(m.name)} {m.metrics[METRIC]:.1f} %" for m in ranked[2:])
    return text + "."


def _is_ahead(record: Comparison, a: ModelRecord, b: ModelRecord) -> bool:
    """Whether a's lead is more than chance: by the paired difference where known, else by the intervals."""
    for lead in record.leads:
        if (lead.first, lead.second, lead.metric) == (a.name, b.name, METRIC):
            return lead.low > 0
    a_low, _ = a.intervals.get(METRIC, (a.metrics[METRIC],) * 2)
    _, b_high = b.intervals.get(METRIC, (b.metrics[METRIC],) * 2)
    return a_low > b_high


def table(models: Sequence[ModelRecord], caption: str) -> Table:
    """Everything measured: a metric a row, a model a column; then the settings chosen and the time.

    Args:
        models: The models, measured on the same split; one without metrics could not run.
        caption: The words above the table.
    """
    rows: list[Sequence[Cell]] = []
    for metric in shown(next(model.metrics for model in models if model.metrics), extra=BEYOND):
        best = max(model.metrics.get(metric, float("-inf")) for model in models)
        rivals = len(models) > 1 and metric not in BEYOND
        cells = [Value.of(m, metric, best=rivals and m.metrics.get(metric) == best) for m in models]
        rows.append((metric, *cells))
    rows.append(("settings chosen", *(settings(model.selected) or "–" for model in models)))
    for stage, name in (("fit", "time to fit"), ("evaluate", "time to evaluate")):
        if any(stage in model.seconds for model in models):
            times = (model.seconds.get(stage) for model in models)
            rows.append((name, *("–" if time is None else seconds(time) for time in times)))
    return Table(caption, ("", *(label(model.name) for model in models)), rows)


# ---- sections ---------------------------------------------------------------------------------------------
def _alt(models: Sequence[ModelRecord], facts: Callable[[ModelRecord], Iterable[str]]) -> str:
    """The figure of a section in words: for each model its facts."""
    return "; ".join(f"{label(model.name)}: {', '.join(facts(model))}" for model in models)


def _quality(record: Comparison) -> Figure:
    models = record.models
    points = [Dot(at, label(one.name), one.name, one, label(one.name)) for at, one in enumerate(models)]
    measured = table(models, "Means over all users; the best of a row is bold.")
    return dot_figure("quality", QUALITY_CAPTION, points, [one.name for one in models], DRAWN, measured)


def _leads(record: Comparison) -> list[str]:
    return [
        f"{label(lead.first)} against {label(lead.second)}, user by user: {lead.metric} "
        f"{signed(lead.value)} (95 % interval {signed(lead.low)} to {signed(lead.high)})"
        f"{'' if lead.low > 0 or lead.high < 0 else ': not more than chance'}."
        for lead in record.leads
    ]


def _coldness(record: Comparison) -> Section | None:
    """Quality for groups of users, from those we know least about to those we know best."""
    models = record.models
    if not all(model.strata for model in models):
        return None
    groups = models[0].strata
    series = [
        Series(model.name, [Point.of(at, one, METRIC) for at, one in enumerate(model.strata)])
        for model in models
    ]
    ticks = [(float(at), f"{group.label}\n{group.users:,} users") for at, group in enumerate(groups)]
    rows: list[Sequence[Cell]] = [
        (f"{group.label} ({group.users:,} users)", *(Value.of(model.strata[at], METRIC) for model in models))
        for at, group in enumerate(groups)
    ]
    alt = _alt(models, lambda m: (f"{s.label} {number(METRIC, s.metrics.get(METRIC))}" for s in m.strata))
    figure = Figure(
        "coldness",
        COLDNESS_CAPTION,
        [[Panel(f"{METRIC} (%)", "", "", series, ticks=ticks, from_zero=True)]],
        wide=True,
        alt=f"{METRIC} by how many items are known of a user. {alt}",
        table=Table(f"{METRIC} (%) by group.", ("known about a user", *_names(record)), rows),
    )
    return Section("For whom? Quality by how cold a user is", [figure])


def _popularity(record: Comparison) -> Section | None:
    """Where on the popularity scale each model's recommendations lie, against the data itself."""
    groups, models = record.popularity_groups, record.models
    if not groups or not all(model.popularity for model in models):
        return None
    series = [
        Series(model.name, [Point.at(at, 100 * y) for at, y in enumerate(model.popularity)])
        for model in models
    ]
    ticks = [
        (float(at), f"{name}\n{count:,} item{'s' * (count != 1)}") for at, (name, count) in enumerate(groups)
    ]
    rows = [
        (f"{name} ({count:,} items)", *(f"{100 * model.popularity[at]:.1f} %" for model in models))
        for at, (name, count) in enumerate(groups)
    ]
    even = 100 / len(groups)
    names = [name for name, _ in groups]
    alt = _alt(
        models,
        lambda m: (f"{name} {100 * y:.0f} %" for name, y in zip(names, m.popularity, strict=True)),
    )
    line, caption = (even, "what users chose"), "Share of the top-10 recommendations by popularity group"
    panel = Panel("share of all top-10 lists (%)", "", "", series, ticks=ticks, line=line, kind="bars")
    figure = Figure(
        "popularity",
        POPULARITY_CAPTION.format(even=f"{even:.0f}"),
        [[panel]],
        wide=True,
        alt=f"{caption}. {alt}",
        table=Table(f"{caption}.", ("items", *_names(record)), rows),
    )
    return Section("What? Popularity of what is recommended", [figure])


def _names(record: Comparison) -> tuple[str, ...]:
    return tuple(label(model.name) for model in record.models)


def _distilled(card: Card) -> Section:
    heading = f"From how few? {card.summary.users:,} synthetic users instead of {card.full.users:,}"
    return Section(heading, [Text(cards.headline(card)), cards.fidelity(card)])


def _example(example: Example) -> Section:
    return Section(
        f"For example: user {example.user}",
        [
            Text(f"Has {len(example.history)} items:"),
            Items(example.history, "tags"),
            Text(f"{label(example.model)} {EXAMPLE}"),
            Explanations(example.recommended),
        ],
    )


QUALITY_CAPTION = (
    "Each dot is a mean over all users; the band around it is the 95 % bootstrap interval. "
    "Models whose bands overlap may still differ: what counts is the comparison user by user, below."
)
COLDNESS_CAPTION = (
    "Users sorted by how many items are known of them and cut into groups of about the same size. "
    "Bands are 95 % bootstrap intervals."
)
POPULARITY_CAPTION = (
    "Items sorted from the most to the least popular and cut into groups with equally many interactions. "
    "A model that only repeats what is popular fills the first group; one that follows its users comes "
    "near the dashed line: what users chose ({even} % each)."
)
EXAMPLE = (
    "recommends the following. The bars show where a score comes from: the items of this history that speak "
    "most for it, the others, and what a user without any history would get. They add up to the score."
)


# ---- lists under a wish -----------------------------------------------------------------------------------
AGAINST = {
    "coverage": "coverage@{k} (% of all items)",
    "distance": "distance@{k} (%)",
    "novelty": "novelty@{k} (bits)",
}


def trade_document(
    trades: Sequence[Trade], dataset: str, about: str, small_print: Mapping[str, str]
) -> Document:
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
            *(Text(trade_headline(one), "lead") for one in trades),
            Text(about, "quiet"),
            Section("What it costs and what it brings", [_trade_figure(trades), *map(trade_table, trades)]),
            Section("What the words mean", [words]),
        ],
        footer=f"Made by infrec. {facts(small_print)}",
    )


def trade_headline(one: Trade) -> str:
    """Cost and gain of the whole wish, in a sentence."""
    first, last, k = one.steps[0], one.steps[-1], one.k

    def change(name: str) -> str:
        before, after = first.metrics[f"{name}@{k}"], last.metrics[f"{name}@{k}"]
        return f"{signed(100 * (after / before - 1), 1)} %" if before else "0 before"

    changes = ", ".join(f"{name}@{k} {change(name)}" for name in ("NDCG", *AGAINST))
    return f"{label(one.model)} with {_wish(last)}: {changes}."


def _wish(step: Step) -> str:
    """A wish in words: `diversity 0.3, popularity −0.2`."""
    parts = {"diversity": step.diversity, "popularity": step.popularity}
    words = (f"{name} {f'{value:.2g}'.replace('-', '−')}" for name, value in parts.items() if value)
    return ", ".join(words) or "by scores alone"


def trade_table(one: Trade) -> Table:
    """A wish a row, a metric a column."""
    names = [name for name in one.steps[0].metrics if not name.startswith(tuple(AGAINST))]
    names += [f"{name}@{one.k}" for name in AGAINST]
    rows: list[Sequence[Cell]] = [
        (_wish(step), *(Value.of(step, name) for name in names)) for step in one.steps
    ]
    return Table(f"{label(one.model)}: the first {one.k} of {one.users:,} users.", ("wish", *names), rows)


def _trade_figure(trades: Sequence[Trade]) -> Figure:
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
        f"{label(one.model)}, {_wish(step)}: "
        + ", ".join(f"{name} {number(name, step.metrics[name])}" for name in (measure, f"coverage@{k}"))
        for one in trades
        for step in one.steps
    )
    return Figure("trade", TRADE_CAPTION, [panels], same_y=True, wide=True, alt=alt)


TRADE_CAPTION = (
    "Each curve begins with lists by scores alone and ends with the whole wish, a third from mark to mark: "
    "what is gained lies to the right, what it costs below. Bands are 95 % bootstrap intervals over users."
)
