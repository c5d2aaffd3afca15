"""Names and looks of models and sources of data: the same in every table and figure."""

from __future__ import annotations

from typing import Any, NamedTuple

from infrec.registry import MODELS

COLOURS = 9  # of the page's style sheet


class Style(NamedTuple):
    """A name as people write it; a colour of the page, a marker and a dash."""

    label: str
    colour: int
    marker: str
    dash: Any = "-"


DASHED = (0, (4, 2))
STYLES = {
    "interaction-rns": Style("Interaction-RNS", 5, "v"),
    "user-rns": Style("User-RNS", 3, "s"),
    "head-user": Style("Head-user", 4, "^"),
    "svp-cf": Style("SVP-CF", 2, "D"),
    "ar-cf": Style("AR-CF", 8, "X"),
    "distill-cf": Style("Distill-CF (0/1)", 0, "o"),
    "distill-cf-soft": Style("Distill-CF (fractional)", 6, "P"),
    "distill-cf-published": Style("Distill-CF (as published)", 1, "X"),
    "full": Style("all users", 7, "*", DASHED),
    "joint": Style("Joint", 7, "*"),
    "individual": Style("Individual", 2, "D"),
    "fine-tune": Style("Fine-tune", 4, "^"),
    "ader": Style("ADER", 1, "s"),
    "guessing": Style("guessing", 2, "", DASHED),
} | {name: Style(model.label, model.colour, model.marker) for name, model in MODELS.items()}
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<")


def style_of(series: str, at: int) -> Style:
    """How a series is drawn; `model|source` has the model's colour and the source's dash."""
    if "|" in series:
        model, source = series.split("|")
        own = STYLES[model]
        return own if source == "distill-cf" else own._replace(marker="D", dash=DASHED)
    again = at // len(MARKERS)  # the second time round, each marker comes in another colour
    return STYLES.get(series) or Style(series, (at + 3 * again) % COLOURS, MARKERS[at % len(MARKERS)])
