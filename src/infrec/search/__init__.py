"""Choose a model's settings on validation data. A model is what `Tunable` says; none is imported here."""

from infrec.search.criterion import Candidate
from infrec.search.tune import Tuned, tune

__all__ = ["Candidate", "Tuned", "tune"]
