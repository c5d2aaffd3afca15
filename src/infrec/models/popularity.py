"""Popularity: the most popular items for everybody, the baseline that any model has to beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.data import Interactions
from infrec.models.base import Recommender
from infrec.models.fitted import Fitted, State
from infrec.progress import Progress, silent
from infrec.search.tunable import takes
from infrec.settings import Settings


@dataclass(frozen=True)
class PopRecSettings(Settings):
    """There is nothing to choose."""


class PopRec(Recommender):
    """score(u, i) = Σ_v X_vi: how often an item was chosen (the sum of its weights)."""

    name: ClassVar[str] = "poprec"
    settings_type: ClassVar = PopRecSettings

    def _fit(self, interactions: Interactions, progress: Progress = silent) -> Fitted:
        return Fitted(self.settings, interactions, State())

    @takes(PopRecSettings)
    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)

    def _score(self, histories: sp.csr_array) -> NDArray[np.float32]:
        return np.repeat(self.popularity[None, :], histories.shape[0], axis=0)

    def _similarity(self, item: int) -> NDArray[np.floating[Any]]:
        """Popularity knows no item apart from its count: the others, most popular first."""
        return self.popularity
