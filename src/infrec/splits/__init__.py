"""Who is held out."""

from infrec.splits.holdout import Split, hide, holdout, inner_holdout, is_set_aside, own_split, set_aside
from infrec.splits.temporal import ahead, periods

__all__ = [
    "Split",
    "ahead",
    "hide",
    "holdout",
    "inner_holdout",
    "is_set_aside",
    "own_split",
    "periods",
    "set_aside",
]
