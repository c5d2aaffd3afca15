"""How numbers and names are written, everywhere alike, and how models and sources of data look in figures."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from infrec.registry import MODELS

if TYPE_CHECKING:
    from infrec.report.document import Value

SHOWN = ("HR@10", "HR@100", "Recall@20", "NDCG@10", "NDCG@20", "NDCG@100", "PSP@10", "AUC")

MEANING = {
    "HR@10": "share of a user's held-out items that stand among the first 10 recommendations (%)",
    "HR@100": "the same for the first 100 (%)",
    "NDCG@10": "like HR@10, but a hit counts more the higher it stands (%)",
    "NDCG@100": "the same for the first 100 (%)",
    "PSP@10": "hits weighted by how rarely the item occurs: finding what is not popular (%)",
    "PSP@100": "the same for the first 100 (%)",
    "AUC": "chance that a held-out item scores higher than a random other one (0.5 is guessing)",
    "distance@10": "how few people two items of a list have in common: mean 1 − cosine over its pairs (%)",
    "coverage@10": "share of all items that anybody is recommended (%)",
    "disliked@10": "items among the first 10 that the user dislikes, as was held out",
    "novelty@10": "how unexpected the recommended items are: mean −log₂ of their share of users (bits)",
}


class Mark(NamedTuple):
    """How a verdict is shown: in words, by a class of the page's style sheet, in a colour of the terminal."""

    words: str
    kind: str
    colour: str


MARKS = {
    "holds": Mark("✓ holds", "holds", "green"),
    "does not hold": Mark("✗ does not hold", "fails", "red"),
    "undecided within the intervals": Mark("≈ undecided within the intervals", "even", "yellow"),
    "cannot be tested here": Mark("? cannot be tested here", "open", "dim"),
}
COUNTS = ("users", "items", "interactions")


def number(metric: str, value: float | None) -> str:
    """A value as its metric is written: AUC with four decimals, counts whole, shares as `3.2 %`, others
    with two decimals."""
    if value is None or not math.isfinite(value):
        return "–"
    if metric in COUNTS:
        return f"{value:,.0f}"
    return percent(value) if metric == "share" else f"{value:.{_digits(metric)}f}"


def interval(metric: str, bounds: tuple[float, float] | None) -> str:
    """A confidence interval, with one decimal fewer than its value: `31.0–32.8`."""
    if bounds is None or not all(math.isfinite(bound) for bound in bounds):
        return ""
    if metric == "share":
        return f"{percent(bounds[0])} – {percent(bounds[1])}"
    digits = 2 if metric.startswith("novelty") else _digits(metric) - 1
    return f"{bounds[0]:.{digits}f}–{bounds[1]:.{digits}f}"


def _digits(metric: str) -> int:
    return 4 if metric == "AUC" else 3 if metric.startswith("disliked") else 2


def beside(cell: Value) -> str:
    """The paper's number and how far ours is from it: `paper 31.51 (+0.40)`."""
    text = f"paper {number(cell.metric, cell.paper)}"
    if cell.value is None or cell.paper is None or cell.metric in COUNTS:
        return text
    apart, digits = cell.value - cell.paper, _digits(cell.metric)
    return (
        f"{text} ({'±' + f'{abs(apart):.{digits}f}' if round(apart, digits) == 0 else signed(apart, digits)})"
    )


def percent(share: float | None) -> str:
    """A share: `94 %`, `3.2 %`, `0.04 %`; `–` where it is unknown."""
    if share is None:
        return "–"
    hundredfold = 100 * share
    digits = 0 if hundredfold >= 10 or hundredfold == 0 else 1 if hundredfold >= 1 else 2
    return f"{hundredfold:.{digits}f} %"


def shown(metrics: Iterable[str], *, extra: Iterable[str] = ()) -> list[str]:
    """The metrics a table shows, of those that are there, in the order people expect."""
    there = set(metrics)
    return [metric for metric in (*SHOWN, *extra) if metric in there]


def settings(selected: Mapping[str, Any]) -> str:
    """Settings on one line: `reg=5, depth=1`."""
    return ", ".join(f"{key}={_short(value)}" for key, value in selected.items())


def facts(pairs: Mapping[str, Any]) -> str:
    """Small print on one line: `device: cpu · numpy: 2.1`."""
    return " · ".join(f"{key}: {value}" for key, value in pairs.items())


def seconds(value: float) -> str:
    """A duration: `0.42 s`, `12 s`, `3 min 5 s`."""
    if value < 10:
        return f"{value:.2f} s"
    if value < 60:
        return f"{value:.0f} s"
    return f"{int(value) // 60} min {int(value) % 60} s"


def size(n_bytes: float) -> str:
    """A size: `820 bytes`, `3.4 MB`, `15.2 GB`."""
    if n_bytes < 1000:
        return f"{int(n_bytes)} bytes"
    for unit in ("kB", "MB", "GB"):
        n_bytes /= 1000
        if n_bytes < 1000 or unit == "GB":
            break
    return f"{n_bytes:.1f} {unit}"


def signed(value: float, digits: int = 2) -> str:
    """A difference or a contribution: `+1.20`, `−0.34`."""
    return f"{'−' if value < 0 else '+'}{abs(value):.{digits}f}"


def listed(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else "none"


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


# ---- names and looks of models and sources of data --------------------------------------------------------
COLOURS = 9  # of the page's style sheet


class Style(NamedTuple):
    """A name as people write it; a colour of the page, a marker and a dash."""

    label: str
    colour: int
    marker: str
    dash: Any = "-"


DASHED = (0, (4, 2))
STYLES = {
    "distill-cf": Style("Distill-CF (0/1)", 0, "o"),
    "distill-cf-weighted": Style("Distill-CF (weighted)", 3, "D"),
    "distill-cf-soft": Style("Distill-CF (fractional)", 6, "P"),
    "distill-cf-published": Style("Distill-CF (as published)", 1, "X"),
    "full": Style("all users", 7, "*", DASHED),
    "joint": Style("Joint", 7, "*"),
    "individual": Style("Individual", 2, "D"),
    "fine-tune": Style("Fine-tune", 4, "^"),
    "ader": Style("ADER (for MVAE)", 1, "s"),
    "distill-cf-data": Style("Distill-CF as data", 5, "P"),
    "interaction-rns": Style("Interaction-RNS", 5, "v"),
    "user-rns": Style("User-RNS", 3, "s"),
    "head-user": Style("Head-user", 4, "^"),
    "svp-cf": Style("SVP-CF", 2, "D"),
    "herding": Style("Herding", 6, "P"),
    "ar-cf": Style("AR-CF-style", 8, "X"),
    "implicit-als": Style("ALS (implicit)", 2, "v"),
    "implicit-bpr": Style("BPR (implicit)", 5, "<"),
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


def label(word: str) -> str:
    """A model or a source of data as people write it, or both as in Table 1: `distill-cf-500+infinite-ae`."""
    if word in STYLES:
        return STYLES[word].label
    if both := re.fullmatch(r"(.+)-(\d+)\+(.+)", word):
        source, users, model = both.groups()
        # In Table 1's own column the recipe is the published one, and the 0/1 summary is named.
        source = {"distill-cf": "distill-cf-published", "distill-cf-discrete": "distill-cf"}.get(
            source, source
        )
        return f"{label(model)} on {label(source)}, {users} users"
    return word
