"""Who is held out."""

from infrec.splits.by_time import ahead, leave_last_out, periods
from infrec.splits.negatives import evaluation_negatives
from infrec.splits.per_user import hide, holdout, own_split
from infrec.splits.set_aside import is_set_aside, set_aside
from infrec.splits.split import Split

__all__ = [
    "Split",
    "ahead",
    "evaluation_negatives",
    "hide",
    "holdout",
    "is_set_aside",
    "leave_last_out",
    "own_split",
    "periods",
    "set_aside",
]
