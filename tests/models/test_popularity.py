"""PopRec: counts."""

from __future__ import annotations

import numpy as np

from infrec.data import Interactions
from infrec.models import PopRec
from tests.models.contract import RecommenderContract


class TestPopRec(RecommenderContract):
    checkerboard_hits = 0
    small_log_hr10 = (20.0, 25.0)

    def make(self) -> PopRec:
        return PopRec()


def test_it_counts(small_log: Interactions) -> None:
    model = PopRec().fit(small_log)
    np.testing.assert_array_equal(model.score(small_log.matrix[:2])[1], small_log.item_counts)
    assert model.candidates == []
