"""infrec: ∞-AE, an infinitely wide autoencoder for recommendation in closed form, and what surrounds it.

Public names are imported when first used, so that `import infrec` stays fast.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing would take longer to import than all of this
if TYPE_CHECKING:
    from os import PathLike
    from typing import Any

    from infrec.data import Interactions, Summary
    from infrec.distillation import distill
    from infrec.errors import InfrecError
    from infrec.evaluation.evaluate import evaluate  # from the file: the room has a module of that name
    from infrec.models import EASE, InfiniteAE, InfiniteAEPlus, PopRec, Recommender
    from infrec.splits.holdout import Split, holdout

__version__ = "0.2.0"

_HOME = {
    "Interactions": "infrec.data",
    "Split": "infrec.splits",
    "holdout": "infrec.splits",
    "InfiniteAE": "infrec.models",
    "InfiniteAEPlus": "infrec.models",
    "EASE": "infrec.models",
    "PopRec": "infrec.models",
    "distill": "infrec.distillation",
    "Summary": "infrec.data",
    "evaluate": "infrec.evaluation",
    "InfrecError": "infrec.errors",
}

__all__ = [
    "EASE",
    "InfiniteAE",
    "InfiniteAEPlus",
    "InfrecError",
    "Interactions",
    "PopRec",
    "Split",
    "Summary",
    "__version__",
    "distill",
    "evaluate",
    "holdout",
    "load",
]


def load(path: str | PathLike[str]) -> Recommender | Any:
    """Whatever infrec wrote: a fitted model, a summary or a sample, a prepared dataset (`PartitionedLog`).

    Args:
        path: The directory.
    """
    from infrec import artifacts, models
    from infrec.data import partitioned, summary

    kind = artifacts.kind_of(path)
    if kind in summary.KINDS:
        return summary.Summary.load(path)
    if kind == partitioned.KIND:
        return partitioned.PartitionedLog.open(path)
    return models.load(path)


if not TYPE_CHECKING:  # with it, type checkers would take any name for a public one

    def __getattr__(name):
        if name not in _HOME:
            raise AttributeError(f"module 'infrec' has no attribute {name!r}")
        import importlib

        return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
