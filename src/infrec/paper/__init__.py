"""One file for each table and figure of the paper, one runner for all of them. Imported when first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from infrec.errors import ConfigError

if TYPE_CHECKING:
    from infrec.paper.experiment import Experiment

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

# File and attribute of the experiments that share a file or whose file has another name.
_WHERE = {
    "sample-efficiency": ("scaling", "SAMPLE_EFFICIENCY"),
    "transfer-ease": ("scaling", "TRANSFER_EASE"),
    "transfer-mvae": ("scaling", "TRANSFER_MVAE"),
    "noise-samplers": ("noise", "NOISE_SAMPLERS"),
    "noise-infinite-ae": ("noise", "NOISE_INFINITE_AE"),
    "selection": ("model_selection", "EXPERIMENT"),
    "deanonymise-noise": ("deanonymise", "DEANONYMISE_NOISE"),
    "deanonymise-reveal": ("deanonymise", "DEANONYMISE_REVEAL"),
    "continual-periods": ("continual", "CONTINUAL_PERIODS"),
}

__all__ = ["NAMES", "get"]


def get(name: str) -> Experiment:
    """An experiment by its name."""
    if name not in NAMES:
        raise ConfigError(f"there is no experiment {name!r}; expected one of {', '.join(NAMES)}.")
    module, attribute = _WHERE.get(name, (name.replace("-", "_"), "EXPERIMENT"))
    return getattr(importlib.import_module(f"infrec.paper.{module}"), attribute)
