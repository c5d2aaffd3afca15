"""One file for each table and figure of the paper, one runner for all of them. Imported when first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from infrec.errors import ConfigError

if TYPE_CHECKING:
    from infrec.experiments.base import Experiment

NAMES = (
    "table1",
    "sample-efficiency",
    "transfer-ease",
    "transfer-mvae",
    "noise-samplers",
    "noise-infinite-ae",
    "depth",
    "cold",
    "ablation",
    "selection",
    "statistics",
    "augmentation",
    "deanonymise-noise",
    "deanonymise-reveal",
    "leakage",
    "continual",
    "continual-periods",
)

__all__ = ["NAMES", "get"]


def get(name: str) -> Experiment:
    """An experiment by its name."""
    if name not in NAMES:
        raise ConfigError(f"there is no experiment {name!r}; expected one of {', '.join(NAMES)}.")
    return importlib.import_module(f"infrec.experiments.{name.replace('-', '_')}").EXPERIMENT
