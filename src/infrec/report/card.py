"""The card of a summary: what it is, how faithful, what it means for privacy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from infrec import drafts
from infrec.artifacts import CARD
from infrec.evaluation.fidelity import Card, Curve, Fidelity, Which
from infrec.report import audit as audits
from infrec.report import html
from infrec.report.document import (
    Block,
    Cell,
    Document,
    Dot,
    Figure,
    Fold,
    Matrix,
    Pairs,
    Panel,
    Point,
    Section,
    Series,
    Table,
    Text,
    Tiles,
    Value,
    dot_figure,
)
from infrec.report.numbers import MEANING, facts, label, number, percent, seconds, settings, size

if TYPE_CHECKING:
    from infrec.privacy import Audit

PAGE, RECORD = CARD
METRICS = ("HR@10", "HR@100", "NDCG@10")
# The order in which datasets are drawn: each has the same colour and marker in every plot.
DRAWN: tuple[Which, ...] = ("summary", "random", "full", "finished")


def folder_of(release: Path, *, guaranteed: bool) -> Path:
    """Where the card of a release lies: in its directory or, with (ε, δ), beside it.

    It has exact figures of the real log, which ε and δ do not cover.

    Args:
        release: The directory of the summary.
        guaranteed: Whether the summary has (ε, δ).
    """
    return release.with_name(f"{release.name}-card") if guaranteed else release


def write(card: Card, folder: Path) -> Path:
    """`card.html` and `card.json` into a directory, which is made; each appears when it is whole."""
    record = json.dumps(card.as_dict(), ensure_ascii=False, allow_nan=False)
    drafts.write_text(folder / RECORD, record)
    drafts.write_text(folder / PAGE, html.render(document(card)))
    return folder / PAGE


def add_audit(release: Path, audit: Audit) -> Path | None:
    """Put what an audit found, without anybody's id, into the card of a release, where it has one."""
    folder = folder_of(release, guaranteed=audit.guarantee is not None)
    if not (folder / RECORD).is_file():
        return None
    before = Card.from_dict(json.loads((folder / RECORD).read_bytes()))
    return write(replace(before, audit=audit.as_dict(ids=False)), folder)


def document(card: Card) -> Document:
    """The page of a card."""
    heading = f"{card.dataset} in {card.summary.users:,} synthetic users"
    metrics = [metric for metric in METRICS if card.fidelity and metric in card.fidelity[0].metrics]
    parts: list[Section | Block] = [Text(headline(card), "lead"), _tiles(card)]
    if card.fidelity:
        parts.append(Section("How faithful is it?", [fidelity(card)]))
    if card.picture:
        parts.append(Section("What is in it?", [_picture(card)]))
    if card.popularity and card.activity:
        parts.append(Section("Is it spread like the original?", _spread(card)))
    parts += [*_privacy(card), Section("How was it made?", _making(card))]
    if metrics:
        parts.append(Section("What the words mean", [Pairs({metric: MEANING[metric] for metric in metrics})]))
    return Document(f"infrec: {heading}", heading, parts, footer=f"Made by infrec. {facts(card.facts)}")


def headline(card: Card) -> str:
    """The result in a sentence or two, for the first model that was measured."""
    metric = METRICS[0]
    first = {one.data: one for one in card.fidelity if one.model == card.fidelity[0].model}
    kind = "interactions" if card.discrete else "weighted interactions"
    if "summary" not in first or "full" not in first or metric not in first["summary"].share:
        return (
            f"{card.full.interactions:,} interactions of {card.full.users:,} users became "
            f"{card.summary.interactions:,} {kind} of {card.summary.users:,} users who never existed."
        )
    summary, full = first["summary"], first["full"]
    text = (
        f"{label(full.model)} fitted on these {card.summary.users:,} synthetic users finds "
        f"{percent(summary.share[metric])} of what it finds when fitted on all {card.full.users:,} "
        f"({metric} {number(metric, summary.metrics[metric])} against {number(metric, full.metrics[metric])})"
    )
    if "random" in first:
        text += f"; on {_names(card)['random']}, {percent(first['random'].share.get(metric))}"
    return text + "."


def _names(card: Card) -> dict[Which, str]:
    """Names of the datasets on the card."""
    return {
        "full": f"all {card.full.users:,} users",
        "summary": f"summary ({card.summary.users:,} users)",
        "finished": "all users, summary as centres",
        "random": f"{card.random.users if card.random else card.summary.users:,} random users",
    }


# ---- sections --------------------------------------------------------------------------------------------
def _tiles(card: Card) -> Tiles:
    kind = "" if card.discrete else ", weighted"
    share = percent(card.summary.bytes / max(1, card.full.bytes))
    tiles = [
        ("users", f"{card.summary.users:,}", f"of {card.full.users:,}"),
        (f"interactions{kind}", f"{card.summary.interactions:,}", f"of {card.full.interactions:,}"),
        ("on disk (Parquet)", size(card.summary.bytes), f"of {size(card.full.bytes)}: {share}"),
    ]
    if "distilling" in card.seconds:
        tiles.append(("distilled in", seconds(card.seconds["distilling"]), f"{card.steps:,} steps"))
    return Tiles(tiles)


def fidelity(card: Card) -> Figure:
    """Each model on each dataset: one panel per metric, and everything as a table."""
    names, models = _names(card), list(dict.fromkeys(one.model for one in card.fidelity))
    points = [
        Dot(
            at + 0.7 * models.index(one.model),  # a gap between the models, so that each reads as a group
            f"{label(one.model)}, {names[one.data]}",
            names[one.data],
            one,
            f"{label(one.model)} fitted on {names[one.data]}",
        )
        for at, one in enumerate(card.fidelity)
    ]
    series = [names[data] for data in DRAWN]
    return dot_figure("fidelity", FIDELITY_CAPTION, points, series, METRICS, fidelity_table(card))


def fidelity_table(card: Card) -> Table:
    """Each model on each dataset: a row with its metrics and the share of the full data's."""
    metrics = [metric for metric in METRICS if metric in card.fidelity[0].metrics]
    rows: list[Sequence[Cell]] = [
        (
            f"{label(one.model)}, {_names(card)[one.data]}",
            *(
                Value.of(one, metric, best=one.data == "summary", note=_share(one, metric))
                for metric in metrics
            ),
            settings(one.selected) or "–",
        )
        for one in card.fidelity
    ]
    return Table(FIDELITY_TABLE, ("model, fitted on", *metrics, "settings chosen"), rows)


def _share(one: Fidelity, metric: str) -> str:
    known = one.data != "full" and metric in one.share
    return f"{percent(one.share[metric])} of full" if known else ""


def _picture(card: Card) -> Matrix:
    rows, columns = len(card.picture), len(card.picture[0])
    filled = sum(columns - row.count("0") for row in card.picture) / (rows * columns)
    which = "All" if rows == card.summary.users else f"{rows:,} of the"
    items = f"all {columns:,}" if columns == card.items else f"the {columns:,} most popular of {card.items:,}"
    alt = (
        f"{which} {card.summary.users:,} synthetic users, one a row, those alike beside each other; "
        f"{items} items, one a column, the most popular on the left."
    )
    weight = "A dot is an interaction" if card.discrete else "The darker a dot, the larger its weight"
    return Matrix(card.picture, alt, f"{alt} {weight}; {percent(filled)} of the cells hold one.")


def _spread(card: Card) -> list[Block]:
    """Popularity of items and activity of users, each from the largest to the smallest, on log axes."""
    names = _names(card)
    alt = "; ".join(
        f"{names[curve.data]}: "
        + ", ".join(f"{name} {_amount(value)}" for name, value in curve.facts.items())
        for curve in (*card.popularity, *card.activity)
    )
    panels = [
        _curves(card, card.popularity, "users who have the item (%)", "items, the most popular first (%)"),
        _curves(card, card.activity, "interactions of a user", "users, the most active first (%)"),
    ]
    amounts = [
        (f"{what}: {name}", *(_amount(curve.facts[name]) for curve in curves))
        for what, curves in (("users of an item", card.popularity), ("interactions of a user", card.activity))
        for name in curves[0].facts
    ]
    head = ("", *(names[curve.data] for curve in card.popularity))
    table = Table("Popularity of items and activity of users.", head, amounts)
    blocks: list[Block] = [Figure("distributions", SPREAD_CAPTION, [panels], wide=True, alt=alt, table=table)]
    if card.likeness is not None:
        blocks.append(
            Text(
                "Rank correlation of the items' popularity in the summary and in the original: "
                f"{card.likeness:.2f} (1: the same order, 0: no relation)."
            )
        )
    return blocks


def _curves(card: Card, curves: Sequence[Curve], title: str, x: str) -> Panel:
    series = [
        Series(_names(card)[curve.data], [Point.at(100 * x, y) for x, y in curve.points if y > 0])
        for curve in sorted(curves, key=lambda curve: DRAWN.index(curve.data))
    ]
    return Panel(title, x, "", series, log_x=True, log_y=True)


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"


def _privacy(card: Card) -> list[Section]:
    text, caveat, warn = PRIVACY.get(card.start, (PRIVACY_OTHER, NO_GUARANTEE, True))
    if card.guarantee:
        text, warn = GUARANTEED, False
    shown = text.format(users=f"{card.summary.users:,}", start=card.start)
    meaning: list[Block] = [Text(shown, "warning" if warn else "note")]
    if not card.guarantee:
        targets = TARGETS.get(str(card.settings.get("targets")), "")
        meaning.append(Text(f"{targets} {caveat}".strip()))
    sections = [Section("What does it mean for privacy?", meaning)]
    if card.guarantee:
        sections += audits.guarantee(card.guarantee)
    if card.audit is None:
        meaning.append(Text(NOT_AUDITED))
        return sections
    from infrec.privacy import Audit

    audit = Audit.from_dict(card.audit)
    found = Text(audits.paragraph(audit), audits.kind(audit))
    return [*sections, Section("What did attacks find?", [found])]


def _making(card: Card) -> list[Block]:
    kept = f"of which step {card.best_step:,} was the best on validation and was kept"
    making = {
        "mode": f"{card.mode}: {'0/1 interactions' if card.discrete else 'weights between 0 and 1'}",
        **({"size": card.size_reason} if card.size_reason else {}),
        "start": card.start,
        "seed": str(card.seed),
        "steps": f"{card.steps:,}, {kept}",
        **{f"time for {stage}": seconds(value) for stage, value in card.seconds.items()},
    }
    every = {name: settings({name: value}).partition("=")[2] for name, value in card.settings.items()}
    again = Text(ONCE if card.guarantee else AGAIN, "quiet")
    return [Pairs(making), *([Fold("All settings", Pairs(every))] if every else []), again]


# ---- words -----------------------------------------------------------------------------------------------
FIDELITY_CAPTION = (
    "The same model, fitted on all users, on the summary, and on as many real users drawn at random; always "
    "measured on the original's held-out items. Dots are means over users, bands 95 % bootstrap intervals."
)
FIDELITY_TABLE = (
    "Measured on the original's test part. With a number stands its share of what the same model reaches on "
    "the full data."
)
SPREAD_CAPTION = (
    "Left: how many users have an item, from the most popular item to the least. Right: how many "
    "interactions a user has, from the most active user to the least. Both axes are logarithmic."
)
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
