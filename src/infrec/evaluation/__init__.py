"""Model × split → numbers, and how sure they are."""

from infrec.evaluation.coldness import Stratum, by_item_coldness, by_user_coldness
from infrec.evaluation.evaluate import Difference, Evaluation, compare, evaluate
from infrec.evaluation.tally import Scorer
from infrec.metrics.intervals import bootstrap

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
