"""Names of models, samplers and settings in tables, figures and sentences."""

from __future__ import annotations

import re

from infrec.paper.cells import DISTILLED, FULL, GENERATED
from infrec.report.numbers import MODELS

SOURCES = {
    FULL: "all users",
    "interaction-rns": "Interaction-RNS",
    "user-rns": "User-RNS",
    "head-user": "Head-user",
    "svp-cf": "SVP-CF",
    GENERATED: "AR-CF",
    DISTILLED: "Distill-CF (0/1)",
    f"{DISTILLED}-soft": "Distill-CF (fractional)",
    f"{DISTILLED}-published": "Distill-CF (as published)",
    "joint": "Joint",
    "individual": "Individual",
    "fine-tune": "Fine-tune",
    "ader": "ADER",
}
HEURISTICS = ("interaction-rns", "user-rns", "head-user", "svp-cf")


def name(word: str) -> str:
    """A model, a source, or both as in Table 1's columns: `distill-cf-500+infinite-ae`."""
    if word in MODELS or word in SOURCES:
        return MODELS.get(word) or SOURCES[word]
    if both := re.fullmatch(r"(.+)-(\d+)\+(.+)", word):
        source, users, model = both.groups()
        # In Table 1's own column the recipe is the published one, and the 0/1 summary is named.
        source = {DISTILLED: f"{DISTILLED}-published", f"{DISTILLED}-discrete": DISTILLED}.get(source, source)
        return f"{name(model)} on {name(source)}, {users} users"
    return word


def number(metric: str, value: float | None) -> str:
    """Percentages with two digits, AUC with four."""
    return "–" if value is None else f"{value:.4f}" if metric == "AUC" else f"{value:.2f}"


def signed(value: float, digits: int = 2) -> str:
    """`+1.20`, `−0.34`."""
    return f"{'−' if value < 0 else '+'}{abs(value):.{digits}f}"


def listed(words: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else "none"
