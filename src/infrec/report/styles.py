"""How a series is drawn: each source and each model looks the same in every figure."""

from __future__ import annotations

from typing import Any, NamedTuple

COLOURS = 9  # of the page's style sheet


class Style(NamedTuple):
    colour: int
    marker: str
    dash: Any = "-"


DASHED = (0, (4, 2))
STYLES = {
    "interaction-rns": Style(5, "v"),
    "user-rns": Style(3, "s"),
    "head-user": Style(4, "^"),
    "svp-cf": Style(2, "D"),
    "ar-cf": Style(8, "X"),
    "distill-cf": Style(0, "o"),
    "distill-cf-soft": Style(6, "P"),
    "distill-cf-published": Style(1, "X"),
    "full": Style(7, "*", DASHED),
    "poprec": Style(2, "D"),
    "bias-only": Style(5, "v"),
    "mf": Style(3, "s"),
    "neumf": Style(4, "^"),
    "lightgcn": Style(6, "P"),
    "ease": Style(1, "s"),
    "mvae": Style(8, "X"),
    "infinite-ae": Style(0, "o"),
    "infinite-ae-plus": Style(7, "*"),
    "joint": Style(7, "*"),
    "individual": Style(2, "D"),
    "fine-tune": Style(4, "^"),
    "ader": Style(1, "s"),
    "guessing": Style(2, "", DASHED),
}
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<")


def style_of(series: str, at: int) -> Style:
    """How a series is drawn; `model|source` has the model's colour and the source's dash."""
    if "|" in series:
        model, source = series.split("|")
        own = STYLES[model]
        return own if source == "distill-cf" else Style(own.colour, "D", DASHED)
    again = at // len(MARKERS)  # the second time round, each marker comes in another colour
    return STYLES.get(series) or Style((at + 3 * again) % COLOURS, MARKERS[at % len(MARKERS)])
