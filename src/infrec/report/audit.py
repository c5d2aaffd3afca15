"""The report of an audit: one page, whole by itself; the paragraph first, then every attack.

An audit in one plain paragraph: what the attacks found, for somebody who has to decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from infrec.report import audit_figures, figures, html
from infrec.report.html import NO_PLOTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from infrec.privacy.audit import Audit
    from infrec.privacy.linkage import Linkage
    from infrec.privacy.reconstruction import Reconstruction
    from infrec.privacy.roc import Membership, Rate

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

TWICE = 2.0  # a rate above this many times the control's, beyond chance, is called a leak
RARE = {"1 %": 0.01, "10 %": 0.1}  # outsiders wrongly accused: the fewest that the control can tell


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
    return html.document(f"infrec: audit of {name}", body, ("page.css", "card.css"))


def aside(audit: Audit) -> str:
    """The paragraph, marked as a warning where something shows or could not be judged."""
    warn = bool(leaks(audit) or traces(audit) or copies(audit)) or not audit.control
    return f'<div class="aside{" warn" if warn else ""}" role="note"><p>{escape(paragraph(audit))}</p></div>'


def guarantee(claim: Mapping[str, Any] | None) -> str:
    """The paragraph about the guarantee: what is promised, to whom, and what is not."""
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
    table = html.table(head, rows, LINKAGE)
    alt = "; ".join(f"{each.known} known: {percent(each.attack.value)}" for each in audit.linkage)
    plot = html.figure("linkage", alt, audit_figures.linkage(audit), LINKAGE_CAPTION) if draw else ""
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
    plot = html.figure("roc", alt, audit_figures.roc(audit), ROC_CAPTION) if draw else ""
    small = (
        ""
        if "1 %" in wanted
        else f"<p>The control of {audit.control:,} is too small for 1 %: 500 are needed.</p>"
    )
    note = audit.not_measured.get("likelihood")
    note = f"<p>Likelihood ratio: {escape(note)}</p>" if note else ""
    return f"<h2>{heading}</h2>{plot}{html.table(head, rows, MEMBERSHIP)}{small}{note}"


def _reconstruction(audit: Audit) -> str:
    rows = []
    for each in audit.reconstruction:
        for kind, rates in (("all of it", each.exact), ("mean share", each.partly)):
            cells = [_cell(rates.get(arm)) for arm in ("attack", "popularity", "control")]
            rows.append([f"{percent(each.revealed)} known: {kind}", *cells])
    head = ["what is named of the rest", "people in the log", "popularity alone", "control"]
    return f"<h2>Can the rest of a history be named?</h2>{html.table(head, rows, RECONSTRUCTION)}"


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
    return f"<h2>Who stands out most?</h2>{html.table(head, rows, WORST)}"


def _missing(heading: str, why: str | None) -> str:
    return f"<h2>{heading}</h2><p><strong>{escape((why or 'not measured').capitalize())}</strong></p>"


def _footer(audit: Audit) -> str:
    facts = " · ".join(f"{escape(str(key))}: {escape(str(value))}" for key, value in audit.facts.items())
    return f"<footer>Made by infrec. {facts}</footer>"


def _cell(rate: Rate | None) -> str:
    if rate is None:
        return "–"
    return f"{percent(rate.value)}<small>{percent(rate.low)} – {percent(rate.high)}</small>"


def exceeds(attack: Rate, control: Rate, times: float) -> bool:
    """Whether members are hit more than so many times as often as the control, and not by chance."""
    return attack.value > times * control.value and attack.low > control.high


def paragraph(audit: Audit) -> str:
    """The findings, without a word of the trade."""
    from infrec.privacy.roc import strongest

    parts = [_opening(audit)]
    if found := copies(audit):  # what needs no proof comes before what was proved
        parts.append(f"Released rows that are a real person's history, item by item: {found:,}.")
    if audit.linkage:
        parts.append(_linkage_words(audit.linkage[-1]))
    if audit.membership:
        parts.append(_membership_words(strongest(audit.membership), audit.control))
    else:
        parts.append(
            "Whether somebody was in the log at all could not be measured, because there was nobody to "
            "compare with; that is not the same as nothing being found."
        )
    if audit.reconstruction:
        parts.append(_reconstruction_words(audit.reconstruction[-1]))
    return " ".join([*parts, _closing(audit)])


def copies(audit: Audit) -> int:
    """How many released rows are exactly what somebody in the log has."""
    return audit.neighbours.copies if audit.neighbours is not None else 0


def leaks(audit: Audit) -> list[str]:
    """The attacks that hit members more than twice as often as the control.

    Membership is judged where 1 % of the control are accused, or 10 % where it is too small for that.
    """

    def recognises(each: Membership) -> bool:
        rare = _rare(each)
        return rare is not None and each.tpr[rare].low > TWICE * RARE[rare]

    return _found(audit, TWICE, recognises)


def _rare(found: Membership) -> str | None:
    return next((name for name in RARE if name in found.tpr), None)


def traces(audit: Audit) -> list[str]:
    """The attacks that do better on members than on the control beyond chance, and yet are no leak.

    Membership is judged by the whole curve: a member scores above somebody of the control more often than
    half of the time, and more often than popularity alone explains.
    """
    chance = max(0.5, audit.popularity.auc.high if audit.popularity else 0.5)
    worse = leaks(audit)
    return [each for each in _found(audit, 1.0, lambda each: each.auc.low > chance) if each not in worse]


def _found(audit: Audit, times: float, recognises: Callable[[Membership], bool]) -> list[str]:
    """The attacks that hit members so many times as often as the control; scores, if they recognise them."""
    found = []
    if any(each.control is not None and exceeds(each.attack, each.control, times) for each in audit.linkage):
        found.append("linkage")
    found += [f"membership ({each.score})" for each in audit.membership if recognises(each)]
    exact = [each.exact for each in audit.reconstruction if "control" in each.exact]
    if any(exceeds(each["attack"], each["control"], times) for each in exact):
        found.append("reconstruction")
    return found


def percent(value: float) -> str:
    """`94 %`, `3.2 %`, `0.04 %`."""
    hundredfold = 100 * value
    digits = 0 if hundredfold >= 10 or hundredfold == 0 else 1 if hundredfold >= 1 else 2
    return f"{hundredfold:.{digits}f} %"


def _opening(audit: Audit) -> str:
    what = audit.released.get("kind", "release")
    found = leaks(audit)
    if found:
        return f"This {what} gives people away: {', '.join(found)} did clearly better on them than on others."
    if not audit.control:
        return f"This {what} was attacked, but without a control group most of it cannot be judged."
    if left := traces(audit):
        twice = (
            f"No attack tried here hits people of this {what}'s log clearly more than twice as often as "
            "others, but having been in it leaves a trace"
        )
        if any(_rare(each) is None for each in audit.membership):
            twice = (
                f"Having been in this {what}'s log leaves a trace, and the control of {audit.control:,} is "
                "too small to say whether anybody is singled out"
            )
        better = f"{', '.join(left)} did better on them than on others, beyond chance."
        return f"{twice}: {better}{_on_average(audit)}"
    return f"No attack tried here did clearly better on the people in this {what}'s log than on others."


def _on_average(audit: Audit) -> str:
    best = max(audit.membership, key=lambda each: each.auc.value, default=None)
    if best is None or "1 %" not in best.tpr or f"membership ({best.score})" not in traces(audit):
        return ""  # with a small control, the sentence about membership says it
    return (
        " Shown one person who was in the log and one who was not, the best test tells them apart "
        f"{percent(best.auc.value)} of the time (guessing: 50 %)."
    )


def _linkage_words(found: Linkage) -> str:
    text = (
        f"Somebody who knows {found.known} items of a person ({found.wrong} of them wrong) finds the "
        f"released row that resembles that person most in {percent(found.attack.value)} of cases"
    )
    if found.control is not None:
        text += f", and in {percent(found.control.value)} for people who were never in the log"
    return f"{text}; on rows made from popularity alone, in {percent(found.popularity.value)}."


def _membership_words(found: Membership, control: int) -> str:
    if "1 %" in found.tpr:
        at = found.tpr["1 %"]
        return (
            f"When 1 % of outsiders may be wrongly accused, the best test recognises {percent(at.value)} "
            f"of those who were in the log ({percent(at.low)} to {percent(at.high)}); guessing would "
            "recognise 1 %."
        )
    return (
        "Shown one person who was in the log and one who was not, the best test tells them apart "
        f"{percent(found.auc.value)} of the time (guessing: 50 %); the control of {control:,} is too small "
        "to say more."
    )


def _reconstruction_words(found: Reconstruction) -> str:
    text = (
        f"From {percent(found.revealed)} of somebody's items, all that are missing are named for "
        f"{percent(found.exact['attack'].value)} of those in the log"
    )
    if "control" in found.exact:
        text += f" and {percent(found.exact['control'].value)} of the others"
    return f"{text}."


def _closing(audit: Audit) -> str:
    claim = audit.guarantee
    if not claim or claim.get("epsilon") is None:
        return "An attack that fails proves nothing: a better one may succeed."
    text = f"The release claims ε = {claim['epsilon']:g} with δ = {claim['delta']:g}"
    if not audit.membership:  # a bound that was not measured is not 0
        return f"{text}; without a control group that could not be put to the test."
    bound = max(each.bound for each in audit.membership)
    text += f"; the attacks prove no more than ε ≥ {bound:.2f}."
    if bound > claim["epsilon"]:
        return f"{text} That breaks the claim: do not pass it on, and report this."
    return text
