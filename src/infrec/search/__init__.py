"""Choose a model's settings on validation data."""

from infrec.models.selection import Candidate
from infrec.search.tune import SearchResult, tune

__all__ = ["Candidate", "SearchResult", "tune"]
