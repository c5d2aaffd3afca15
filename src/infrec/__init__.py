"""infrec: ∞-AE, an infinitely wide autoencoder for recommendation in closed form, and what surrounds it.

Public names are imported when first used, so that `import infrec` stays fast.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing would take longer to import than all of this
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.2.0"

_HOME = {
    "Interactions": "infrec.data",
    "Split": "infrec.splits",
    "holdout": "infrec.splits",
    "InfiniteAE": "infrec.models",
    "EASE": "infrec.models",
    "PopRec": "infrec.models",
    "load": "infrec.models",
    "distill": "infrec.distillation",
    "Summary": "infrec.data",
    "evaluate": "infrec.evaluation",
    "InfrecError": "infrec.errors",
}

__all__ = [*_HOME, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'infrec' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
