"""The document of an audit, and its findings in one plain paragraph, for somebody who has to decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from infrec.report.document import (
    Block,
    Cell,
    Document,
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
)
from infrec.report.numbers import facts, percent

if TYPE_CHECKING:
    from infrec.privacy.audit import Audit
    from infrec.privacy.linkage import Linkage, Reconstruction
    from infrec.privacy.membership import Membership, Rate

LINKAGE = (
    "How often the row that matches best is the one most like the target's whole history. A release that "
    "knows nothing of single people does equally well on the control."
)
LINKAGE_CAPTION = "The attack of Narayanan and Shmatikov on released rows; bands are 95 % intervals."
MEMBERSHIP = (
    "People above a threshold are called members; the control says how often that is wrong. The last "
    "column is a lower bound on ε at 95 % confidence: a mechanism with a smaller ε would not show this "
    "attack."
)
ROC_CAPTION = (
    "Both axes are logarithmic. On the dashed line an attack only guesses; popularity is the baseline."
)
RECONSTRUCTION = (
    "∞-AE fitted on the release names as many items as are missing. What it does equally well for the "
    "control is recommendation, not leakage."
)
ALARM = "Distances prove nothing either way; they only say where to look."
WORST = "The members whom the strongest score puts furthest above the control. Keep this page to yourself."

RANGES = "Small ranges are 95 % intervals."
ARMS = {"attack": "people in the log", "popularity": "rows from popularity", "control": "control"}


def document(audit: Audit) -> Document:
    """The page of an audit: the verdict, a row for each attack, the findings in words, then every attack."""
    what = audit.released.get("kind", "release")
    name = f"{audit.released['users']:,} rows" if audit.released.get("users") else what
    return Document(
        title=f"infrec: audit of {name}",
        heading=f"What this {what} gives away",
        parts=[
            Text(_opening(audit), _judged(audit)),
            _overview(audit),
            Text(" ".join(_findings(audit)), kind(audit)),
            Text(_who(audit)),
            *guarantee(audit.guarantee),
            Section("Can a row be linked to a person?", _linkage(audit)),
            Section("Can one tell who was in the log?", _membership(audit)),
            Section("Can the rest of a history be named?", [_reconstruction(audit)]),
            *_alarm(audit),
            *_worst(audit),
        ],
        footer=f"Made by infrec. {facts(audit.facts)}",
    )


def kind(audit: Audit) -> Literal["warning", "note"]:
    """The kind of a text about an audit: a warning where something shows or could not be judged."""
    alarming = audit.leaks or audit.traces or audit.copies or not audit.control
    return "warning" if alarming else "note"


def _judged(audit: Audit) -> Literal["good", "bad", "unsure"]:
    """The verdict's colour."""
    if audit.leaks or audit.copies:
        return "bad"
    return "unsure" if kind(audit) == "warning" else "good"


def _overview(audit: Audit) -> Table:
    """One row for each kind of attack: how often it succeeds on people of the log and of the control."""

    def row(name: str, rate: Rate | None, control: Rate | str | None, attack: str) -> Sequence[Cell]:
        outside = control if isinstance(control, str) else _share(control)
        return (name, _share(rate), outside, _found(audit, attack))

    rows = []
    if audit.linkage:
        linked = audit.linkage[-1]
        rows.append(row(f"Linked, {linked.known} items known", linked.attack, linked.control, "linkage"))
    best = audit.strongest if audit.membership else None
    accused = best.rarest if best else None
    name = f"Recognised, {accused} accused" if accused else "Recognised"
    rows.append(row(name, best.tpr[accused] if best and accused else None, accused, "membership"))
    if audit.reconstruction:
        named = audit.reconstruction[-1]
        name, outside = f"Completed, {percent(named.revealed)} known", named.exact.get("control")
        rows.append(row(name, named.exact["attack"], outside, "reconstruction"))
    return Table("", ("attack", "in the log", "control", "finding"), rows)


def _share(rate: Rate | None) -> str:
    return "–" if rate is None else percent(rate.value)


def _found(audit: Audit, attack: str) -> str:
    """The finding of one kind of attack in a word."""
    if any(name.startswith(attack) for name in audit.leaks):
        return "leak"
    if any(name.startswith(attack) for name in audit.traces):
        return "trace"
    return "nothing" if audit.control else "untested"


def guarantee(claim: Mapping[str, Any] | None) -> list[Section]:
    """The section about the guarantee, where there is one: what is promised, to whom, and what is not."""
    if not claim:
        return []
    epsilon = "ε not computed (dp-accounting is not installed)"
    if claim.get("epsilon") is not None:
        epsilon = f"ε = {claim['epsilon']:g}"
    promise = {
        "guarantee": f"differential privacy with {epsilon}, δ = {claim['delta']:g}",
        "neighbouring logs": str(claim["relation"]),
        "mechanism": str(claim["mechanism"]),
        "noise multiplier": f"{claim['noise_multiplier']:.4g}",
        "accountant": str(claim.get("accountant") or "none"),
        "items": str(claim["vocabulary"]),
    }
    without = Items([str(one) for one in claim["not_covered"]])
    return [Section("What is guaranteed?", [Pairs(promise), Text("Not covered by ε and δ:"), without])]


def _who(audit: Audit) -> str:
    text = f"{audit.members:,} people whose histories went in were attacked"
    if not audit.control:
        return f"{text}; there is no control group."
    return f"{text}, beside a control of {audit.control:,} who were not in the log ({audit.control_from})."


def _linkage(audit: Audit) -> list[Block]:
    if not audit.linkage:
        return [_missing(audit.not_measured.get("linkage"))]
    arms = [
        (name, [(one.known, rate) for one in audit.linkage if (rate := getattr(one, arm)) is not None])
        for arm, name in ARMS.items()
    ]
    series = [
        Series(name, [Point(x, 100 * rate.value, 100 * rate.low, 100 * rate.high) for x, rate in rates])
        for name, rates in arms
        if rates
    ]
    title = "linked to the right row (%)"
    panel = Panel(title, "items that the attacker knows", "", series, log_x=True, from_zero=True)
    rows: list[Sequence[Cell]] = [
        (
            f"{one.known} items, {one.wrong} wrong",
            *(_rate(rate) for rate in (one.attack, one.popularity, one.control, one.claimed)),
            percent(one.rows),
        )
        for one in audit.linkage
    ]
    head = ("attacker knows", "in the log", "popularity", "control", "claimed", "rows linked")
    alt = "; ".join(f"{one.known} known: {percent(one.attack.value)}" for one in audit.linkage)
    return [_figure("linkage", LINKAGE_CAPTION, panel, alt, Table(LINKAGE, head, rows, RANGES))]


def _membership(audit: Audit) -> list[Block]:
    if not audit.membership:
        return [_missing(audit.not_measured.get("membership"))]
    scores = [*audit.membership, *([audit.popularity] if audit.popularity else [])]
    wanted = [name for name in ("0.1 %", "1 %", "10 %") if any(name in one.tpr for one in scores)]
    rows: list[Sequence[Cell]] = [
        (
            one.score,
            *(_rate(one.tpr.get(name)) for name in wanted),
            Value("AUC", one.auc.value, one.auc.low, one.auc.high),
            f"{one.bound:.2f}",
        )
        for one in scores
    ]
    head = ("score", *(f"found, {name} accused" for name in wanted), "AUC", "proves ε ≥")
    alt = "; ".join(f"{one.score}: AUC {one.auc.value:.3f}" for one in scores)
    table = Table(MEMBERSHIP, head, rows, RANGES)
    blocks: list[Block] = [_figure("roc", ROC_CAPTION, _roc(audit, scores), alt, table)]
    if "1 %" not in wanted:
        blocks.append(Text(f"The control of {audit.control:,} is too small for 1 %: 500 are needed."))
    if note := audit.not_measured.get("likelihood"):
        blocks.append(Text(f"Likelihood ratio: {note}"))
    return blocks


def _roc(audit: Audit, scores: Sequence[Membership]) -> Panel:
    """True positives over false positives on logarithmic axes: the left edge is what matters."""
    least = 1 / max(audit.control, 10)
    curves = {one.score: [(x, y) for x, y in one.curve if x > 0 and y > 0] for one in scores}
    curves["guessing"] = [(least, least), (1, 1)]
    series = [Series(name, [Point.at(x, y) for x, y in curve]) for name, curve in curves.items()]
    x = "share of the control wrongly accused"
    return Panel("share of members recognised", x, "", series, log_x=True, log_y=True)


def _figure(name: str, caption: str, panel: Panel, alt: str, table: Table) -> Figure:
    return Figure(name, caption, [[panel]], wide=True, alt=alt, table=table, table_open=True)


def _reconstruction(audit: Audit) -> Table:
    head = ("what is named of the rest", "people in the log", "popularity alone", "control")
    rows: list[Sequence[Cell]] = [
        (
            f"{percent(one.revealed)} known: {kind}",
            *(_rate(rates.get(arm)) for arm in ("attack", "popularity", "control")),
        )
        for one in audit.reconstruction
        for kind, rates in (("all of it", one.exact), ("mean share", one.partly))
    ]
    return Table(RECONSTRUCTION, head, rows, RANGES)


def _alarm(audit: Audit) -> list[Section]:
    near = audit.neighbours
    if near is None:
        return []
    alike = ", ".join(f"{name} {value:.2f}" for name, value in near.likeness.items())
    text = f"{ALARM} Exact copies of a history: {near.copies:,}."
    if near.nearer is not None:
        text += (
            f" {percent(near.nearer)} of the rows are nearer to a member than to anybody of as large a "
            "control (by chance: half)."
        )
    text += f" Median similarity of a row to the nearest of: {alike}."
    return [Section("Smoke alarm: nearest neighbours", [Text(text)])]


def _worst(audit: Audit) -> list[Section]:
    if not audit.worst:
        return []
    rows = [(str(one["user"]), f"{one['value']:.3f}", percent(one["control_above"])) for one in audit.worst]
    head = ("user", f"score ({audit.worst[0]['score']})", "of the control, score as high")
    return [Section("Who stands out most?", [Table(WORST, head, rows)])]


def _missing(why: str | None) -> Text:
    return Text((why or "not measured").capitalize(), "notice")


def _rate(rate: Rate | None) -> Value:
    return Value("share", None) if rate is None else Value("share", rate.value, rate.low, rate.high)


# ---- in words ---------------------------------------------------------------------------------------------
def paragraph(audit: Audit) -> str:
    """Verdict and findings, without a word of the trade."""
    return " ".join([_opening(audit), *_findings(audit)])


def _findings(audit: Audit) -> list[str]:
    """A sentence or two on each attack."""
    parts = []
    if copies := audit.copies:  # what needs no proof comes before what was proved
        parts.append(f"Released rows that are a real person's history, item by item: {copies:,}.")
    if audit.linkage:
        parts.append(_linkage_words(audit.linkage[-1]))
    if audit.membership:
        parts.append(_membership_words(audit))
    else:
        parts.append(
            "Whether somebody was in the log at all could not be measured, because there was nobody to "
            "compare with; that is not the same as nothing being found."
        )
    if audit.reconstruction:
        parts.append(_reconstruction_words(audit.reconstruction[-1]))
    return [*parts, _closing(audit)]


def _opening(audit: Audit) -> str:
    what = audit.released.get("kind", "release")
    if audit.leaks:
        attacks = ", ".join(audit.leaks)
        return f"This {what} gives people away: {attacks} did clearly better on them than on others."
    if not audit.control:
        return f"This {what} was attacked, but without a control group most of it cannot be judged."
    if traces := audit.traces:
        twice = (
            f"No attack tried here hits people of this {what}'s log clearly more than twice as often as "
            "others, but having been in it leaves a trace"
        )
        if any(each.rarest is None for each in audit.membership):
            twice = (
                f"Having been in this {what}'s log leaves a trace, and the control of {audit.control:,} is "
                "too small to say whether anybody is singled out"
            )
        better = f"{', '.join(traces)} did better on them than on others, beyond chance."
        return f"{twice}: {better}{_on_average(audit)}"
    return f"No attack tried here did clearly better on the people in this {what}'s log than on others."


def _on_average(audit: Audit) -> str:
    best = max(audit.membership, key=lambda each: each.auc.value, default=None)
    if best is None or "1 %" not in best.tpr or f"membership ({best.score})" not in audit.traces:
        return ""  # with a small control, the sentence about membership says it
    return f" {_told_apart(best)}."


def _told_apart(membership: Membership) -> str:
    return (
        "Shown one person who was in the log and one who was not, the best test tells them apart "
        f"{percent(membership.auc.value)} of the time (guessing: 50 %)"
    )


def _linkage_words(linkage: Linkage) -> str:
    text = (
        f"Somebody who knows {linkage.known} items of a person ({linkage.wrong} of them wrong) finds the "
        f"released row that resembles that person most in {percent(linkage.attack.value)} of cases"
    )
    if linkage.control is not None:
        text += f", and in {percent(linkage.control.value)} for people who were never in the log"
    return f"{text}; on rows made from popularity alone, in {percent(linkage.popularity.value)}."


def _membership_words(audit: Audit) -> str:
    membership = audit.strongest
    if "1 %" not in membership.tpr:
        return f"{_told_apart(membership)}; the control of {audit.control:,} is too small to say more."
    at = membership.tpr["1 %"]
    return (
        f"When 1 % of outsiders may be wrongly accused, the best test recognises {percent(at.value)} "
        f"of those who were in the log ({percent(at.low)} to {percent(at.high)}); guessing would "
        "recognise 1 %."
    )


def _reconstruction_words(reconstruction: Reconstruction) -> str:
    text = (
        f"From {percent(reconstruction.revealed)} of somebody's items, all that are missing are named for "
        f"{percent(reconstruction.exact['attack'].value)} of those in the log"
    )
    if "control" in reconstruction.exact:
        text += f" and {percent(reconstruction.exact['control'].value)} of the others"
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
