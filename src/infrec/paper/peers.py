"""Models of implicit, where it is installed: what data are worth to another library than ours.

A person is known by the history alone, whatever the model was fitted on: ALS solves for the person's factors,
BPR has the mean of the factors of the items. To ALS weights are confidences; BPR does not look at them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.data import Interactions
from infrec.errors import ConfigError
from infrec.search.criterion import Candidate, Criterion, Scorer
from infrec.splits import Split

ALS, BPR = "implicit-als", "implicit-bpr"
NAMES = (ALS, BPR)
GRIDS: Mapping[str, Mapping[str, tuple[int, ...] | tuple[float, ...]]] = {
    ALS: {"factors": (16, 64), "regularization": (0.1, 1.0, 10.0)},
    BPR: {"factors": (16, 64), "regularization": (0.001, 0.01, 0.1)},
}


def installed() -> bool:
    """Whether implicit is there."""
    return find_spec("implicit") is not None


class Peer(Scorer):
    """A fitted model of implicit, which is asked as ours are.

    Args:
        name: One of `NAMES`.
        log: What it is fitted on.
        seed: Seed of everything random.
        settings: implicit's own, by name.
    """

    def __init__(self, name: str, log: Interactions, seed: int, **settings: Any) -> None:
        if not installed():
            raise ConfigError(f"{name} needs implicit; expected `pip install implicit`.")
        from implicit.als import AlternatingLeastSquares
        from implicit.bpr import BayesianPersonalizedRanking

        kind = AlternatingLeastSquares if name == ALS else BayesianPersonalizedRanking
        self.name, self._log, self.items, self.selected = name, log, log.items, settings
        self.model = kind(**settings, random_state=seed, num_threads=1, use_gpu=False)
        self.model.fit(sp.csr_matrix(log.matrix, copy=True), show_progress=False)

    @property
    def log(self) -> Interactions:
        """The data that it was fitted on."""
        return self._log

    def fitted_scores(self, rows: slice | NDArray[np.integer]) -> NDArray[np.float32]:
        """Scores of training users by their histories."""
        return self.score(self._log.matrix[rows])

    def score(self, histories: sp.csr_array, *, users: Sequence[object] | None = None) -> NDArray[np.float32]:
        """A score for every item, by these histories alone."""
        rows = sp.csr_matrix(histories, dtype=np.float32, copy=True)
        if self.name == ALS:
            people = self.model.recalculate_user(np.arange(rows.shape[0]), rows)
        else:
            people = (rows @ self.model.item_factors) / np.maximum(np.diff(rows.indptr), 1)[:, None]
        return np.asarray(people @ self.model.item_factors.T, np.float32)

    @classmethod
    def best(cls, name: str, log: Interactions, split: Split, seed: int) -> tuple[Peer, list[Candidate]]:
        """The model of those in `GRIDS` that is best on validation, and all that were tried.

        Args:
            name: One of `NAMES`.
            log: What it is fitted on.
            split: The validation items, and the histories of those who judge.
            seed: Seed of everything random.
        """
        judge = Criterion(split.val.matrix, split.train.matrix)
        models, tried = list[Peer](), list[Candidate]()
        for values in product(*GRIDS[name].values()):
            settings = dict(zip(GRIDS[name], values, strict=True))
            models.append(cls(name, log, seed, **settings))
            tried.append(Candidate(settings, judge(models[-1])))
        at = max(range(len(tried)), key=lambda at: tried[at].score or 0.0)
        return models[at], tried
