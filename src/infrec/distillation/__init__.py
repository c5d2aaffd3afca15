"""Make users by gradient through ∞-AE: a log becomes a few synthetic users (Distill-CF, the paper's §4).

Names are imported when first used: settings and saved summaries need no JAX.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "Config": "infrec.distillation.config",
    "Interrupted": "infrec.checkpoints",
    "distill": "infrec.distillation.api",
    "finish": "infrec.distillation.finishing",
}

__all__ = ["Config", "Interrupted", "distill", "finish"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'infrec.distillation' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
