"""One file for each table and figure of the paper, one runner for all of them. Imported when first used."""

from __future__ import annotations

import importlib

from infrec.errors import ConfigError
from infrec.paper.experiment import Experiment

_FILES = {
    "table1": "table1",
    "sample-efficiency": "scaling",
    "transfer-ease": "scaling",
    "transfer-mvae": "scaling",
    "noise-samplers": "noise",
    "noise-infinite-ae": "noise",
    "depth": "appendix",
    "cold": "appendix",
    "ablation": "ablation",
    "selection": "model_selection",
    "statistics": "appendix",
    "augmentation": "scaling",
    "deanonymise-noise": "deanonymise",
    "deanonymise-reveal": "deanonymise",
    "leakage": "leakage",
    "continual": "continual",
    "continual-periods": "continual",
    "bytes": "weighted",
    "transfer": "weighted",
}
NAMES = tuple(_FILES)

__all__ = ["NAMES", "get"]


def get(name: str) -> Experiment:
    """An experiment by its name."""
    if name not in _FILES:
        raise ConfigError(f"there is no experiment {name!r}; expected one of {', '.join(NAMES)}.")
    module = importlib.import_module(f"infrec.paper.{_FILES[name]}")
    return next(one for one in vars(module).values() if getattr(one, "name", None) == name)
