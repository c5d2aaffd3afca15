"""Make users by gradient through ∞-AE: a log becomes a few synthetic users (Distill-CF, the paper's §4).

Names are imported when first used: settings need no arrays, saved summaries no JAX.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from infrec.checkpoints import Interrupted
    from infrec.distillation.pipeline import distill
    from infrec.distillation.settings import DistillSettings

_HOME = {
    "DistillSettings": "infrec.distillation.settings",
    "Interrupted": "infrec.checkpoints",
    "distill": "infrec.distillation.pipeline",
}

__all__ = ["DistillSettings", "Interrupted", "distill"]


if not TYPE_CHECKING:  # with it, type checkers would take any name for one of these

    def __getattr__(name):
        if name not in _HOME:
            raise AttributeError(f"module 'infrec.distillation' has no attribute {name!r}")
        return getattr(importlib.import_module(_HOME[name]), name)
