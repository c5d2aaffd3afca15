"""The card of a summary: what it is, how faithful, what it means for privacy. One page, whole by itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

from infrec.artifacts import CARD
from infrec.data.export import atomically
from infrec.evaluation.card_records import Card, Curve, Fidelity
from infrec.report import audit as audits
from infrec.report import card_figures, figures, html
from infrec.report.card_figures import METRICS, names
from infrec.report.html import NO_PLOTS
from infrec.report.numbers import MEANING, interval, label, number, seconds, settings, size

PAGE, RECORD = CARD
HEIGHT = 420  # of the picture, in pixels, unless there are more rows than that shows


def write(card: Card, folder: Path) -> Path:
    """`card.html` and `card.json` into a directory, which is made; each appears when it is whole."""
    folder.mkdir(parents=True, exist_ok=True)
    with atomically(folder / RECORD) as file:
        file.write(json.dumps(card.as_dict(), ensure_ascii=False, allow_nan=False).encode())
    with atomically(folder / PAGE) as file:
        file.write(render(card).encode())
    return folder / PAGE


def add_audit(folder: Path, audit: Mapping[str, Any]) -> Path:
    """Put what an audit found into the card that lies in a directory."""
    before = Card.from_dict(json.loads((folder / RECORD).read_bytes()))
    return write(replace(before, audit=audit), folder)


def render(card: Card, *, plots: bool = True) -> str:
    """The page. Without matplotlib (or with plots=False) the plots are left out and the tables remain."""
    draw = plots and figures.available()
    body = [
        f"<h1>{escape(card.dataset)} in {card.summary.users:,} synthetic users</h1>",
        f'<p class="lead">{escape(headline(card))}</p>',
        _tiles(card),
        "" if draw else f"<p><strong>{escape(NO_PLOTS)}</strong></p>",
        "<h2>How faithful is it?</h2>" + fidelity(card, draw) if card.fidelity else "",
        _picture(card),
        _distributions(card, draw),
        _privacy(card),
        _making(card),
        _words(card),
        _footer(card),
    ]
    title = f"infrec: {card.dataset} in {card.summary.users:,} synthetic users"
    return html.document(title, body, ("page.css", "card.css"))


def headline(card: Card, metric: str = "HR@10") -> str:
    """The result in a sentence or two, for the first model that was measured."""
    own = [each for each in card.fidelity if each.model == card.fidelity[0].model]
    by = {each.data: each for each in own}
    kind = "interactions" if card.discrete else "fractional interactions"
    if "summary" not in by or "full" not in by or metric not in by["summary"].share:
        return (
            f"{card.full.interactions:,} interactions of {card.full.users:,} users became "
            f"{card.summary.interactions:,} {kind} of {card.summary.users:,} users who never existed."
        )
    text = (
        f"{label(own[0].model)} fitted on these {card.summary.users:,} synthetic users finds "
        f"{_percent(by['summary'].share[metric])} of what it finds when fitted on all {card.full.users:,} "
        f"({metric} {number(metric, by['summary'].metrics[metric])} against "
        f"{number(metric, by['full'].metrics[metric])})"
    )
    if "random" in by:
        text += f"; on {by_name(card, 'random')}, {_percent(by['random'].share.get(metric))}"
    return text + "."


def by_name(card: Card, data: str) -> str:
    """The name of one of the datasets in a sentence."""
    return {str(which): name for which, name in names(card).items()}[data]


# ---- sections --------------------------------------------------------------------------------------------
def _tiles(card: Card) -> str:
    kind = "" if card.discrete else ", fractional"
    spent = card.seconds.get("distilling")
    entries = [
        ("users", f"{card.summary.users:,}", f"of {card.full.users:,}"),
        (f"interactions{kind}", f"{card.summary.interactions:,}", f"of {card.full.interactions:,}"),
        (
            "on disk (Parquet)",
            size(card.summary.bytes),
            f"of {size(card.full.bytes)}: {_percent(card.summary.bytes / max(1, card.full.bytes))}",
        ),
        *([("distilled in", seconds(spent), f"{card.steps:,} steps")] if spent is not None else []),
    ]
    tiles = "".join(
        f'<div><dt>{escape(name)}</dt><dd class="now">{escape(now)}</dd>'
        f'<dd class="was">{escape(was)}</dd></div>'
        for name, now, was in entries
    )
    return f'<dl class="tiles">{tiles}</dl>'


def fidelity(card: Card, draw: bool) -> str:
    """Each model on each dataset, as a plot and as a table."""
    metrics = [metric for metric in METRICS if metric in card.fidelity[0].metrics]
    called = names(card)
    rows = []
    for each in card.fidelity:
        name = escape(f"{label(each.model)}, {called[each.data]}")
        cells = [_measured(each, metric) for metric in metrics]
        if each.data == "summary":
            cells = [f"<strong>{cell}</strong>" for cell in cells]
        rows.append([name, *cells, escape(settings(each.selected)) or "–"])
    table = html.table(["model, fitted on", *metrics, "settings chosen"], rows, FIDELITY_TABLE)
    alt = "; ".join(
        f"{label(each.model)} fitted on {called[each.data]}: "
        + ", ".join(f"{metric} {number(metric, each.metrics[metric])}" for metric in metrics)
        for each in card.fidelity
    )
    plot = html.figure("fidelity", alt, card_figures.fidelity(card), FIDELITY_CAPTION) if draw else ""
    return f"{plot}{table}"


def _measured(each: Fidelity, metric: str) -> str:
    parts = [interval(metric, each.intervals.get(metric))]
    if each.data != "full" and metric in each.share:
        parts.insert(0, f"{_percent(each.share[metric])} of full")
    small = "".join(f"<small>{escape(part)}</small>" for part in parts if part)
    return number(metric, each.metrics.get(metric)) + small


def _picture(card: Card) -> str:
    if not card.picture:
        return ""
    rows, columns = len(card.picture), len(card.picture[0])
    filled = sum(columns - row.count("0") for row in card.picture) / (rows * columns)
    which = "All" if rows == card.summary.users else f"{rows:,} of the"
    items = f"all {columns:,}" if columns == card.items else f"the {columns:,} most popular of {card.items:,}"
    what = (
        f"{which} {card.summary.users:,} synthetic users, one a row, those alike beside each other; "
        f"{items} items, one a column, the most popular on the left."
    )
    weight = "A dot is an interaction" if card.discrete else "The darker a dot, the larger its weight"
    caption = f"{what} {weight}; {_percent(filled)} of the cells hold one."
    height = max(HEIGHT, rows * 2) if rows > 20 else rows * 20
    address = card_figures.picture(card.picture)
    shape = f'width="{columns}" height="{rows}" style="height:{height}px"'
    return (
        '<h2>What is in it?</h2><figure aria-labelledby="picture-caption"><div class="matrix">'
        f'<img src="{address}" alt="{escape(what)}" {shape}>'
        f'</div><figcaption id="picture-caption">{escape(caption)}</figcaption></figure>'
    )


def _distributions(card: Card, draw: bool) -> str:
    if not card.popularity or not card.activity:
        return ""
    tables = _facts(card, card.popularity, "items", POPULARITY_TABLE) + _facts(
        card, card.activity, "interactions of a user", ACTIVITY_TABLE
    )
    called = names(card)
    alt = "; ".join(
        f"{called[curve.data]}: "
        + ", ".join(f"{name} {_figure_of(value)}" for name, value in curve.facts.items())
        for curve in (*card.popularity, *card.activity)
    )
    plot = html.figure("distributions", alt, card_figures.distributions(card), SPREAD_CAPTION) if draw else ""
    alike = ""
    if card.likeness is not None:
        alike = (
            "<p>Rank correlation of the items' popularity in the summary and in the original: "
            f"<strong>{card.likeness:.2f}</strong> (1: the same order, 0: no relation).</p>"
        )
    heading = "<h2>Is it spread like the original?</h2>"
    return f"{heading}{plot}{alike}{html.details(tables, opened=not draw)}"


def _facts(card: Card, curves: Sequence[Curve], head: str, caption: str) -> str:
    called = names(card)
    rows = [[escape(name), *(_figure_of(curve.facts[name]) for curve in curves)] for name in curves[0].facts]
    return html.table([head, *(called[curve.data] for curve in curves)], rows, caption)


def _privacy(card: Card) -> str:
    text, caveat, warn = PRIVACY.get(card.start, (PRIVACY_OTHER, NO_GUARANTEE, True))
    if card.guarantee:
        text, warn = GUARANTEED, False
    shown = escape(text.format(users=f"{card.summary.users:,}", start=card.start))
    targets = TARGETS.get(str(card.settings.get("targets")), "")
    told = "" if card.guarantee else f"<p>{escape(f'{targets} {caveat}'.strip())}</p>"
    tested = f"<p>{escape(NOT_AUDITED)}</p>"
    if card.audit is not None:
        from infrec.privacy.audit import Audit

        tested = f"<h2>What did attacks find?</h2>{audits.aside(Audit.from_dict(card.audit))}"
    return (
        "<h2>What does it mean for privacy?</h2>"
        f'<div class="aside{" warn" if warn else ""}" role="note"><p>{shown}</p></div>{told}'
        f"{audits.guarantee(card.guarantee)}{tested}"
    )


def _making(card: Card) -> str:
    kept = f"of which step {card.best_step:,} was the best on validation and was kept"
    facts = {
        "mode": f"{card.mode}: {'0/1 interactions' if card.discrete else 'weights between 0 and 1'}",
        "start": card.start,
        "seed": str(card.seed),
        "steps": f"{card.steps:,}, {kept}",
        **{f"time for {stage}": seconds(value) for stage, value in card.seconds.items()},
    }
    every = {name: settings({name: value}).partition("=")[2] for name, value in card.settings.items()}
    more = f"<details><summary>All settings</summary>{_pairs(every)}</details>" if every else ""
    again = f'<p class="quiet">{escape(ONCE if card.guarantee else AGAIN)}</p>'
    return f"<h2>How was it made?</h2>{_pairs(facts)}{more}{again}"


def _pairs(facts: Mapping[str, str]) -> str:
    entries = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.items())
    return f'<dl class="words">{entries}</dl>'


def _words(card: Card) -> str:
    metrics = [metric for metric in METRICS if card.fidelity and metric in card.fidelity[0].metrics]
    meaning = {metric: MEANING[metric] for metric in metrics if metric in MEANING}
    return f"<h2>What the words mean</h2>{_pairs(meaning)}" if meaning else ""


def _footer(card: Card) -> str:
    facts = " · ".join(f"{escape(key)}: {escape(value)}" for key, value in card.facts.items())
    return f"<footer>Made by infrec. {facts}</footer>"


# ---- words -----------------------------------------------------------------------------------------------
def _percent(share: float | None) -> str:
    """A share: `94 %`, `3.2 %` where it is small, `–` where it is unknown."""
    if share is None:
        return "–"
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.1f} %"


def _figure_of(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"


FIDELITY_CAPTION = (
    "The same model, fitted on all users, on the summary, and on as many real users drawn at random; always "
    "measured on the original's held-out items. Dots are means over users, bands 95 % bootstrap intervals."
)
FIDELITY_TABLE = (
    "Measured on the original's test part. Below a value: its share of what the same model reaches on the "
    "full data, and its 95 % interval."
)
SPREAD_CAPTION = (
    "Left: how many users have an item, from the most popular item to the least. Right: how many "
    "interactions a user has, from the most active user to the least. Both axes are logarithmic."
)
POPULARITY_TABLE = "Popularity of items."
ACTIVITY_TABLE = "Activity of users."
AGAIN = "The same data, settings and seed make it again."
ONCE = "The noise came from the operating system and was not kept: nobody can make the same summary again."
NO_GUARANTEE = (
    "This is not a guarantee. A summary that is good for recommending has learnt from real people, and "
    "nothing here proves that it says nothing about one of them."
)
# targets → what they mean
TARGETS = {
    "own": (
        "It was trained to predict each user's own items. On data we attacked, members could be told from "
        "others more often than by chance (--targets others avoids that)."
    ),
    "others": "It learnt for each user what all other users' data predict, not what the user has.",
}
NOT_AUDITED = "It has not been attacked yet: infrec audit SUMMARY --against LOG does that and writes here."
GUARANTEED = (
    "Real users came in through noise alone. How much any one of them can have changed what is released here "
    "is bounded by ε and δ, below, whatever an attacker knows or tries."
)
# start → what it means, what remains to be said, whether it is a warning
PRIVACY = {
    "users": (
        "The optimisation started from the rows of {users} real users. Parts of these people's histories may "
        "still stand in the summary and can be recognised. Handle it like the original data: do not pass it "
        "on where the original must not go.",
        "The start from popularity copies nobody's row, at some cost in quality.",
        True,
    ),
    "popularity": (
        "The optimisation started from the popularity of the items and from noise: no single user's row was "
        "copied. What the summary knows about people came in through a loss averaged over all of them.",
        NO_GUARANTEE,
        False,
    ),
    "summary": (
        "The optimisation went on from an earlier summary. What that one says about its users, this one may "
        "still say: see its card, and the first one's start.",
        NO_GUARANTEE,
        True,
    ),
}
PRIVACY_OTHER = (
    "The optimisation started from “{start}”; nothing is known here about what that reveals of real users."
)
