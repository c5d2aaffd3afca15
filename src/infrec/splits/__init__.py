"""Who is held out."""

from infrec.splits.holdout import Split, hide, holdout, inner_holdout, is_set_aside, own_split, set_aside
from infrec.splits.temporal import ahead, by_time, leave_last_out, periods

__all__ = [
    "Split",
    "ahead",
    "by_time",
    "hide",
    "holdout",
    "inner_holdout",
    "is_set_aside",
    "leave_last_out",
    "own_split",
    "periods",
    "set_aside",
]
