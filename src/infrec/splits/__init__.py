"""Who is held out."""

from infrec.splits.by_time import leave_last_out, periods
from infrec.splits.negatives import evaluation_negatives
from infrec.splits.per_user import hide, holdout, own_split
from infrec.splits.split import Split

__all__ = ["Split", "evaluation_negatives", "hide", "holdout", "leave_last_out", "own_split", "periods"]
