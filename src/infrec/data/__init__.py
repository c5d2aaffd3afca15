"""Files and frames become `Interactions`."""

from infrec.data.interactions import Interactions, ReadReport
from infrec.data.vocabulary import Vocabulary

__all__ = ["Interactions", "ReadReport", "Vocabulary"]
