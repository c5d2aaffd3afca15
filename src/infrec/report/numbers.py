"""How numbers are written, in tables on the terminal and in HTML alike."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

SHOWN = ("HR@10", "HR@100", "NDCG@10", "NDCG@100", "PSP@10", "AUC")

MEANING = {
    "HR@10": "share of a user's held-out items that stand among the first 10 recommendations (%)",
    "HR@100": "the same for the first 100 (%)",
    "NDCG@10": "like HR@10, but a hit counts more the higher it stands (%)",
    "NDCG@100": "the same for the first 100 (%)",
    "PSP@10": "hits weighted by how rarely the item occurs: finding what is not popular (%)",
    "PSP@100": "the same for the first 100 (%)",
    "AUC": "chance that a held-out item scores higher than a random other one (0.5 is guessing)",
    "coverage@10": "share of all items that anybody is recommended (%)",
    "novelty@10": "how unexpected the recommended items are: mean −log₂ of their share of users (bits)",
}

MODELS = {
    "poprec": "PopRec",
    "bias-only": "Bias-only",
    "mf": "MF",
    "neumf": "NeuMF",
    "lightgcn": "LightGCN",
    "ease": "EASE",
    "mvae": "MVAE",
    "infinite-ae": "∞-AE",
    "infinite-ae-plus": "∞-AE-plus",
}


def label(model: str) -> str:
    """A model's name as people write it."""
    return MODELS.get(model, model)


def number(metric: str, value: float | None) -> str:
    """A metric's value: percentages with two digits, AUC with three decimals."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:.3f}" if metric == "AUC" else f"{value:.2f}"


def interval(metric: str, bounds: tuple[float, float] | None) -> str:
    """A confidence interval, short: `31.0–32.8`."""
    if bounds is None or not all(math.isfinite(bound) for bound in bounds):
        return ""
    digits = 3 if metric == "AUC" else 2 if metric.startswith("novelty") else 1
    return f"{bounds[0]:.{digits}f}–{bounds[1]:.{digits}f}"


def shown(metrics: Iterable[str], *, extra: Iterable[str] = ()) -> list[str]:
    """The metrics a table shows, of those that are there, in the order people expect."""
    there = set(metrics)
    return [metric for metric in (*SHOWN, *extra) if metric in there]


def settings(selected: Mapping[str, Any]) -> str:
    """Settings on one line: `reg=5, depth=1`."""
    return ", ".join(f"{key}={_short(value)}" for key, value in selected.items())


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


def signed(value: float) -> str:
    """A contribution: `+1.20`, `−0.034`."""
    digits = 3 if abs(value) < 0.1 else 2
    return f"{'−' if value < 0 else '+'}{abs(value):.{digits}f}"


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
