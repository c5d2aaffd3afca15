"""An audit in one plain paragraph: what the attacks found, for somebody who has to decide."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from infrec.privacy.audit import Audit
    from infrec.privacy.linkage import Linkage
    from infrec.privacy.reconstruction import Reconstruction
    from infrec.privacy.roc import Membership, Rate


TWICE = 2.0  # a rate above this many times the control's, beyond chance, is called a leak
RARE = {"1 %": 0.01, "10 %": 0.1}  # outsiders wrongly accused: the fewest that the control can tell


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
        parts.append(_linkage(audit.linkage[-1]))
    if audit.membership:
        parts.append(_membership(strongest(audit.membership), audit.control))
    else:
        parts.append(
            "Whether somebody was in the log at all could not be measured, because there was nobody to "
            "compare with; that is not the same as nothing being found."
        )
    if audit.reconstruction:
        parts.append(_reconstruction(audit.reconstruction[-1]))
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


def _linkage(found: Linkage) -> str:
    text = (
        f"Somebody who knows {found.known} items of a person ({found.wrong} of them wrong) finds the "
        f"released row that resembles that person most in {percent(found.attack.value)} of cases"
    )
    if found.control is not None:
        text += f", and in {percent(found.control.value)} for people who were never in the log"
    return f"{text}; on rows made from popularity alone, in {percent(found.popularity.value)}."


def _membership(found: Membership, control: int) -> str:
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


def _reconstruction(found: Reconstruction) -> str:
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
