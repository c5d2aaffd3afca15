"""The HTML report of a comparison: one file that needs nothing else, readable without scripts or sight."""

from __future__ import annotations

from html import escape

from infrec.evaluation.card_records import Card
from infrec.report import card as cards
from infrec.report import figures, html
from infrec.report.html import NO_PLOTS
from infrec.report.numbers import MEANING, interval, label, number, seconds, settings, shown, signed
from infrec.report.records import Comparison, Example, ModelRecord, Reason, Recommended

BEYOND = ("coverage@10", "novelty@10")


def render(record: Comparison, *, plots: bool = True) -> str:
    """The page. Without matplotlib (or with plots=False) the figures are left out and the tables remain."""
    draw = plots and figures.available()
    body = [
        f"<h1>{escape(', '.join(label(m.name) for m in record.models))} on {escape(record.dataset)}</h1>",
        f'<p class="lead">{escape(headline(record)).replace(" %", "&nbsp;%")}</p>',
        f'<p class="quiet">{record.users:,} users, {record.items:,} items, '
        f"{record.interactions:,} interactions; "
        f"split: {escape(record.split)}; protocol: {escape(record.protocol)}.</p>",
        "" if draw else f"<p><strong>{escape(NO_PLOTS)}</strong></p>",
        _quality(record, draw),
        _coldness(record, draw),
        _popularity(record, draw),
        "" if record.card is None else _distilled(record.card, draw),
        "" if record.example is None else _example(record.example),
        _words(record),
        _footer(record),
    ]
    return html.document(f"infrec: models on {record.dataset}", body)


def headline(record: Comparison, metric: str = "HR@10") -> str:
    """The result in a sentence. A lead that may be chance is not called one."""
    ranked = sorted((m for m in record.models if metric in m.metrics), key=lambda m: -m.metrics[metric])
    if not ranked:
        return "Nothing was measured."
    best = ranked[0]
    text = f"{label(best.name)} places {best.metrics[metric]:.1f} % of the held-out items among its first ten"
    if len(ranked) == 1:
        return text + "."
    second = ranked[1]
    beside = f"{label(second.name)} ({second.metrics[metric]:.1f} %)"
    text += f", ahead of {beside}" if _leads(record, best, second, metric) else f", level with {beside}"
    if len(ranked) > 2:
        text += "; " + ", ".join(f"{label(m.name)} {m.metrics[metric]:.1f} %" for m in ranked[2:])
    return text + "."


def _leads(record: Comparison, a: ModelRecord, b: ModelRecord, metric: str) -> bool:
    """Whether a's lead is more than chance: by the paired difference where known, else by the intervals."""
    for lead in record.leads:
        if (lead.first, lead.second, lead.metric) == (a.name, b.name, metric):
            return lead.low > 0
    a_low, _ = a.intervals.get(metric, (a.metrics[metric],) * 2)
    _, b_high = b.intervals.get(metric, (b.metrics[metric],) * 2)
    return a_low > b_high


# ---- sections ----------------------------------------------------------------------------------------------
def _quality(record: Comparison, draw: bool) -> str:
    metrics = shown(record.models[0].metrics)
    best = {metric: max(m.metrics.get(metric, float("-inf")) for m in record.models) for metric in metrics}
    rows = []
    for model in record.models:
        cells = []
        for metric in metrics:
            cell = _measured(model, metric)
            leads = len(record.models) > 1 and model.metrics.get(metric) == best[metric]
            cells.append(f"<strong>{cell}</strong>" if leads else cell)
        rows.append([escape(label(model.name)), *cells])
    caption = (
        "Means over all users; the small figures are 95 % bootstrap intervals, the best of a column is bold."
    )
    table = html.table(["model", *metrics], rows, caption)
    alt = "; ".join(
        f"{label(m.name)}: "
        + ", ".join(f"{x} {number(x, m.metrics[x])}" for x in metrics[:4] if x in m.metrics)
        for m in record.models
    )
    plot = html.figure("quality", alt, figures.quality(record), QUALITY_CAPTION) if draw else ""
    return f"<h2>How good are they?</h2>{plot}{table}{_lead_sentences(record)}{_beyond(record)}"


def _lead_sentences(record: Comparison) -> str:
    return "".join(
        f"<p>{escape(label(x.first))} against {escape(label(x.second))}, user by user: {escape(x.metric)} "
        f"{signed(x.value)} (95 % interval {signed(x.low)} to {signed(x.high)})"
        f"{'' if x.low > 0 or x.high < 0 else ': not more than chance'}.</p>"
        for x in record.leads
    )


def _beyond(record: Comparison) -> str:
    """The table beside accuracy: coverage, novelty, settings and time of each model."""
    metrics = [metric for metric in BEYOND if metric in record.models[0].metrics]
    rows = [
        [
            escape(label(model.name)),
            *(_measured(model, metric) for metric in metrics),
            escape(settings(model.selected)) or "–",
            seconds(model.seconds["fit"]) if "fit" in model.seconds else "–",
        ]
        for model in record.models
    ]
    return html.table(
        ["model", *metrics, "settings chosen", "time to fit"], rows, "Beyond accuracy, and what it cost."
    )


def _measured(model: ModelRecord, metric: str) -> str:
    bounds = interval(metric, model.intervals.get(metric))
    return number(metric, model.metrics.get(metric)) + (f"<small>{bounds}</small>" if bounds else "")


def _coldness(record: Comparison, draw: bool, metric: str = "HR@10") -> str:
    if not all(model.strata for model in record.models):
        return ""
    rows = [
        [f"{stratum.label} ({stratum.users:,} users)"]
        + [
            f"{number(metric, m.strata[at].metrics.get(metric))}"
            f"<small>{interval(metric, m.strata[at].intervals.get(metric))}</small>"
            for m in record.models
        ]
        for at, stratum in enumerate(record.models[0].strata)
    ]
    table = html.table(
        ["known about a user", *(label(m.name) for m in record.models)], rows, f"{metric} (%) by group"
    )
    alt = f"{metric} by how many items are known of a user. " + "; ".join(
        f"{label(m.name)}: "
        + ", ".join(f"{s.label} {number(metric, s.metrics.get(metric))}" for s in m.strata)
        for m in record.models
    )
    plot = html.figure("coldness", alt, figures.coldness(record, metric), COLDNESS_CAPTION) if draw else ""
    return f"<h2>For whom? Quality by how cold a user is</h2>{plot}{html.details(table, opened=not draw)}"


def _popularity(record: Comparison, draw: bool) -> str:
    if not record.popularity_groups or not all(model.popularity for model in record.models):
        return ""
    rows = [
        [f"{name} ({count:,} items)"] + [f"{100 * m.popularity[at]:.1f} %" for m in record.models]
        for at, (name, count) in enumerate(record.popularity_groups)
    ]
    caption = "Share of the top-10 recommendations by popularity group"
    table = html.table(["items", *(label(m.name) for m in record.models)], rows, caption)
    names = [name for name, _ in record.popularity_groups]
    alt = f"{caption}. " + "; ".join(
        f"{label(m.name)}: "
        + ", ".join(f"{name} {100 * share:.0f} %" for name, share in zip(names, m.popularity, strict=True))
        for m in record.models
    )
    plot = html.figure("popularity", alt, figures.popularity(record), POPULARITY_CAPTION) if draw else ""
    return f"<h2>What? Popularity of what is recommended</h2>{plot}{html.details(table, opened=not draw)}"


def _distilled(card: Card, draw: bool) -> str:
    return (
        f"<h2>From how few? {card.summary.users:,} synthetic users instead of {card.full.users:,}</h2>"
        f"<p>{escape(cards.headline(card))}</p>{cards.fidelity(card, draw)}"
    )


def _example(example: Example) -> str:
    history = "".join(f"<li>{escape(title)}</li>" for title in example.history)
    recs = "".join(_recommended(rec) for rec in example.recommended)
    return (
        f"<h2>For example: user {escape(example.user)}</h2>"
        f"<p>Has {len(example.history)} items:</p><ul class='tags'>{history}</ul>"
        f"<p>{escape(label(example.model))} recommends the following. The bars show where a score comes "
        "from: the items of this history that speak most for it, the others, and what a user without any "
        "history would get. They add up to the score.</p>"
        f"<ol class='recs'>{recs}</ol>"
    )


def _recommended(rec: Recommended) -> str:
    hit = '<span class="hit">✓ held out: this user did choose it</span>' if rec.held_out else ""
    parts = (
        *rec.items,
        Reason("the rest of the history", rec.rest),
        Reason("without a history", rec.baseline),
    )
    widest = max(abs(part.contribution) for part in parts) or 1.0
    bars = "".join(_bar(part, widest, quiet=at >= len(rec.items)) for at, part in enumerate(parts))
    users = ", ".join(f"{escape(x.label)} ({signed(x.contribution)})" for x in rec.users)
    return (
        f'<li><div class="rec-head"><span>{rec.rank}. {escape(rec.label)}{hit}</span>'
        f'<span class="score">score {rec.score:.3f}</span></div><div class="why">{bars}</div>'
        + (f'<p class="quiet">Users like this one who speak for it: {users}.</p>' if users else "")
        + "</li>"
    )


def _bar(reason: Reason, widest: float, *, quiet: bool) -> str:
    share = 100 * abs(reason.contribution) / widest
    name = "quiet" if quiet else "own"
    kind = " against" if reason.contribution < 0 else " quiet" if quiet else ""
    return (
        f'<span class="{name}">{escape(reason.label)}</span>'
        '<span class="track" aria-hidden="true">'
        f'<span class="bar{kind}" style="display:block;width:{share:.1f}%"></span></span>'
        f'<span class="amount">{signed(reason.contribution)}</span>'
    )


def _words(record: Comparison) -> str:
    metrics = shown(record.models[0].metrics, extra=BEYOND)
    entries = "".join(f"<dt>{escape(m)}</dt><dd>{escape(MEANING[m])}</dd>" for m in metrics if m in MEANING)
    return f"<h2>What the words mean</h2><dl class='words'>{entries}</dl>"


def _footer(record: Comparison) -> str:
    facts = " · ".join(f"{escape(key)}: {escape(value)}" for key, value in record.facts.items())
    return f"<footer>Made by infrec. {facts}</footer>"


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
    "near the dashed line."
)
