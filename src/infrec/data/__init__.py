"""Files and frames become `Interactions`. Names are imported when first used: options need no Arrow."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from infrec.data.assemble import ReadReport
    from infrec.data.interactions import Interactions
    from infrec.data.summary import Summary
    from infrec.data.vocabulary import Vocabulary

_HOME = {
    "Interactions": "infrec.data.interactions",
    "ReadReport": "infrec.data.assemble",
    "Summary": "infrec.data.summary",
    "Vocabulary": "infrec.data.vocabulary",
}

__all__ = ["SUMMARY_REG_GRID", "Interactions", "ReadReport", "Summary", "Vocabulary"]

SUMMARY_REG_GRID = (1e-5, 1e-3, 0.1, 1.0, 5.0, 50.0)  # λ of ∞-AE on a summary: the paper's, inside Distill-CF


if not TYPE_CHECKING:  # with it, type checkers would take any name for one of these

    def __getattr__(name):
        if name not in _HOME:
            raise AttributeError(f"module 'infrec.data' has no attribute {name!r}")
        return getattr(importlib.import_module(_HOME[name]), name)
