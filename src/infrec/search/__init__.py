"""Choose a model's settings on validation data."""

from infrec.models.selection import Candidate
from infrec.search.choose import SearchResult, choose

__all__ = ["Candidate", "SearchResult", "choose"]
