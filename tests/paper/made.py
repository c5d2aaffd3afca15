"""Records with figures made up for a test: what the report and the claims are checked on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infrec.paper.cells import Cell, Data, Fit, pairs
from infrec.paper.published import METRICS
from infrec.paper.records import Records

FULL = Data()
VERSIONS = {"python": "3.12.0", "infrec": "0.1.0", "jax": "0.10.2"}


def record(
    dataset: str,
    model: str,
    value: float,
    *,
    data: Data = FULL,
    seed: int = 42,
    settings: Mapping[str, Any] | None = None,
    strata: Mapping[str, Any] | None = None,
    about: Mapping[str, Any] | None = None,
    users: int = 1000,
    quick: bool = False,
    half: float = 0.01,
    space: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Every metric has the same value (AUC a hundredth of it), with an interval of `half` either way."""
    fit = Fit(model, pairs(**(settings or {})), pairs(**(space or {})))
    cell = Cell(dataset, seed, data, (fit,), quick=quick)
    metrics = {name: value / 100 if name == "AUC" else value for name in METRICS}
    intervals = {
        name: [v - half / (100 if name == "AUC" else 1), v + half / (100 if name == "AUC" else 1)]
        for name, v in metrics.items()
    }
    measured: dict[str, Any] = {
        "model": model,
        "settings": dict(settings or {}),
        "selected": {"reg": 5},
        "metrics": metrics,
        "intervals": intervals,
        "seconds": {"fit": 1.0, "evaluate": 0.5},
    }
    if strata is not None:
        measured["strata"] = strata
    return {
        "cell": cell.hash,
        "configuration": cell.configuration,
        "seed": seed,
        "data": {"users": data.users or users, "items": 60, "interactions": 500, **(about or {})},
        "measured": [measured],
        "seconds": {"total": 2.0},
        "device": "cpu (2 cores)",
        "versions": VERSIONS,
        "finished": "2026-11-16T00:00:00Z",
    }


def write(root: Path, experiment: str, *records: Mapping[str, Any]) -> None:
    for each in records:
        Records(root / experiment).append(each)
