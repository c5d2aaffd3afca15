"""The report of an audit: one page, whole by itself; the paragraph first, then every attack."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from infrec.report import audit_figures, figures, pieces
from infrec.report.audit_words import copies, leaks, paragraph, percent, traces
from infrec.report.pieces import NO_PLOTS

if TYPE_CHECKING:
    from infrec.privacy.audit import Audit
    from infrec.privacy.roc import Rate


def render(audit: Audit, *, plots: bool = True) -> str:
    """The page. Without matplotlib (or with plots=False) the plots are left out and the tables remain."""
    draw = plots and figures.available()
    kind = audit.released.get("kind", "release")
    name = f"{audit.released.get('users', 0):,} rows" if audit.released.get("users") else kind
    body = [
        f"<h1>What this {escape(str(kind))} gives away</h1>",
        aside(audit),
        f"<p>{escape(_who(audit))}</p>",
        "" if draw else f"<p><strong>{escape(NO_PLOTS)}</strong></p>",
        guarantee(audit.guarantee),
        _linkage(audit, draw),
        _membership(audit, draw),
        _reconstruction(audit),
        _alarm(audit),
        _worst(audit),
        _footer(audit),
    ]
    return pieces.document(f"infrec: audit of {name}", body, ("page.css", "card.css"))


def aside(audit: Audit) -> str:
    """The paragraph, marked as a warning where something shows or could not be judged."""
    warn = bool(leaks(audit) or traces(audit) or copies(audit)) or not audit.control
    return f'<div class="aside{" warn" if warn else ""}" role="note"><p>{escape(paragraph(audit))}</p></div>'


def guarantee(claim: Mapping[str, Any] | None) -> str:
    """What is promised, to whom, and everything that is not."""
    if not claim:
        return ""
    epsilon = "ε not computed (dp-accounting is not installed)"
    if claim.get("epsilon") is not None:
        epsilon = f"ε = {claim['epsilon']:g}"
    facts = {
        "guarantee": f"differential privacy with {epsilon}, δ = {claim['delta']:g}",
        "neighbouring logs": claim["relation"],
        "mechanism": claim["mechanism"],
        "noise multiplier": f"{claim['noise_multiplier']:.4g}",
        "accountant": claim.get("accountant") or "none",
        "items": claim["vocabulary"],
    }
    pairs = "".join(f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>" for name, value in facts.items())
    without = "".join(f"<li>{escape(each)}</li>" for each in claim["not_covered"])
    return (
        f'<h2>What is guaranteed?</h2><dl class="words">{pairs}</dl>'
        f"<p>Not covered by ε and δ:</p><ul>{without}</ul>"
    )


def _who(audit: Audit) -> str:
    text = f"{audit.members:,} people whose histories went in were attacked"
    if not audit.control:
        return f"{text}; there is no control group."
    return f"{text}, beside a control of {audit.control:,} who were not in the log ({audit.control_from})."


def _linkage(audit: Audit, draw: bool) -> str:
    if not audit.linkage:
        return _missing("Can a row be linked to a person?", audit.not_measured.get("linkage"))
    rows = [
        [
            f"{each.known} items, {each.wrong} wrong",
            _cell(each.attack),
            _cell(each.popularity),
            _cell(each.control),
            _cell(each.claimed),
            percent(each.rows),
        ]
        for each in audit.linkage
    ]
    head = [
        "attacker knows",
        "in the log",
        "popularity",
        "control",
        "claimed",
        "rows linked",
    ]
    table = pieces.table(head, rows, LINKAGE)
    alt = "; ".join(f"{each.known} known: {percent(each.attack.value)}" for each in audit.linkage)
    plot = pieces.figure("linkage", alt, audit_figures.linkage(audit), LINKAGE_CAPTION) if draw else ""
    return f"<h2>Can a row be linked to a person?</h2>{plot}{table}"


def _membership(audit: Audit, draw: bool) -> str:
    heading = "Can one tell who was in the log?"
    if not audit.membership:
        return _missing(heading, audit.not_measured.get("membership"))
    every = [*audit.membership, *([audit.popularity] if audit.popularity else [])]
    wanted = [name for name in ("0.1 %", "1 %", "10 %") if any(name in each.tpr for each in every)]
    rows = [
        [
            escape(each.score),
            *(_cell(each.tpr.get(name)) for name in wanted),
            f"{each.auc.value:.3f}<small>{each.auc.low:.3f}–{each.auc.high:.3f}</small>",
            f"{each.bound:.2f}",
        ]
        for each in every
    ]
    head = ["score", *(f"found, {name} accused" for name in wanted), "AUC", "proves ε ≥"]
    alt = "; ".join(f"{each.score}: AUC {each.auc.value:.3f}" for each in every)
    plot = pieces.figure("roc", alt, audit_figures.roc(audit), ROC_CAPTION) if draw else ""
    small = (
        ""
        if "1 %" in wanted
        else f"<p>The control of {audit.control:,} is too small for 1 %: 500 are needed.</p>"
    )
    note = audit.not_measured.get("likelihood")
    note = f"<p>Likelihood ratio: {escape(note)}</p>" if note else ""
    return f"<h2>{heading}</h2>{plot}{pieces.table(head, rows, MEMBERSHIP)}{small}{note}"


def _reconstruction(audit: Audit) -> str:
    rows = []
    for each in audit.reconstruction:
        for kind, rates in (("all of it", each.exact), ("mean share", each.partly)):
            cells = [_cell(rates.get(arm)) for arm in ("attack", "popularity", "control")]
            rows.append([f"{percent(each.revealed)} known: {kind}", *cells])
    head = ["what is named of the rest", "people in the log", "popularity alone", "control"]
    return f"<h2>Can the rest of a history be named?</h2>{pieces.table(head, rows, RECONSTRUCTION)}"


def _alarm(audit: Audit) -> str:
    found = audit.neighbours
    if found is None:
        return ""
    alike = ", ".join(f"{name} {value:.2f}" for name, value in found.likeness.items())
    nearer = ""
    if found.nearer is not None:
        nearer = (
            f" {percent(found.nearer)} of the rows are nearer to a member than to anybody of as large a "
            "control (by chance: half)."
        )
    return (
        f"<h2>Smoke alarm: nearest neighbours</h2><p>{escape(ALARM)} Exact copies of a history: "
        f"{found.copies:,}.{escape(nearer)} Median similarity of a row to the nearest of: "
        f"{escape(alike)}.</p>"
    )


def _worst(audit: Audit) -> str:
    if not audit.worst:
        return ""
    rows = [
        [escape(str(each["user"])), f"{each['value']:.3f}", percent(each["control_above"])]
        for each in audit.worst
    ]
    head = ["user", f"score ({audit.worst[0]['score']})", "of the control, score as high"]
    return f"<h2>Who stands out most?</h2>{pieces.table(head, rows, WORST)}"


def _missing(heading: str, why: str | None) -> str:
    return f"<h2>{heading}</h2><p><strong>{escape((why or 'not measured').capitalize())}</strong></p>"


def _footer(audit: Audit) -> str:
    facts = " · ".join(f"{escape(str(key))}: {escape(str(value))}" for key, value in audit.facts.items())
    return f"<footer>Made by infrec. {facts}</footer>"


def _cell(rate: Rate | None) -> str:
    if rate is None:
        return "–"
    return f"{percent(rate.value)}<small>{percent(rate.low)} – {percent(rate.high)}</small>"


LINKAGE = (
    "How often the row that matches best is the one most like the target's whole history. A release that "
    "knows nothing of single people does equally well on the control. Intervals: 95 %."
)
LINKAGE_CAPTION = "The attack of Narayanan and Shmatikov on released rows; bands are 95 % intervals."
MEMBERSHIP = (
    "People above a threshold are called members; the control says how often that is wrong. The last "
    "column is a lower bound on ε at 95 % confidence: a mechanism with a smaller ε would not show this "
    "attack. Intervals: 95 %."
)
ROC_CAPTION = (
    "Both axes are logarithmic. On the grey line an attack only guesses; popularity is the baseline."
)
RECONSTRUCTION = (
    "∞-AE fitted on the release names as many items as are missing. What it does equally well for the "
    "control is recommendation, not leakage. Intervals: 95 %."
)
ALARM = "Distances prove nothing either way; they only say where to look."
WORST = "The members whom the strongest score puts furthest above the control. Keep this page to yourself."
