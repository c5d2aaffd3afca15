"""Model × split → numbers, and how sure they are."""

from infrec.evaluation.evaluate import Evaluation, Scorer, evaluate
from infrec.evaluation.intervals import Difference, bootstrap, compare
from infrec.evaluation.strata import Stratum, by_item_coldness, by_user_coldness

__all__ = [
    "Difference",
    "Evaluation",
    "Scorer",
    "Stratum",
    "bootstrap",
    "by_item_coldness",
    "by_user_coldness",
    "compare",
    "evaluate",
]
