"""Bias-only: the exact solution against dense least squares, and the one trained by epochs."""

from __future__ import annotations

import numpy as np
import pytest

from infrec.data import Interactions
from infrec.errors import ConfigError
from infrec.models import BiasOnly, PopRec
from tests.models.contract import RecommenderContract


class TestBiasOnly(RecommenderContract):
    checkerboard_hits = 0
    small_log_hr10 = (20.0, 25.0)  # PopRec's: it ranks as PopRec does

    def make(self) -> BiasOnly:
        return BiasOnly()


def test_it_is_the_least_squares_solution(small_log: Interactions) -> None:
    """One row per cell of the 0/1 matrix, an indicator per user and per item: numpy's minimum-norm answer."""
    x = small_log.matrix.toarray().astype(np.float64)
    n, d = x.shape
    user, item = np.indices(x.shape).reshape(2, -1)
    design = np.zeros((n * d, 1 + n + d))
    design[:, 0] = 1
    design[np.arange(n * d), 1 + user] = 1
    design[np.arange(n * d), 1 + n + item] = 1
    solution = np.linalg.lstsq(design, x.ravel(), rcond=None)[0]
    expected = (design @ solution).reshape(n, d)
    np.testing.assert_allclose(BiasOnly().fit(small_log).score(small_log.matrix), expected, atol=1e-6)


def test_it_ranks_as_popularity_does(small_log: Interactions) -> None:
    bias = BiasOnly().fit(small_log).score(small_log.matrix)
    popular = PopRec().fit(small_log).score(small_log.matrix)
    unequal = np.diff(np.sort(popular[0])) > 0
    assert unequal.any()
    for one, other in zip(bias[::17], popular[::17], strict=True):
        order = np.argsort(-other, kind="stable")
        assert (np.diff(one[order]) <= 1e-7).all()


def test_trained_by_epochs_it_learns_popularity(small_log: Interactions) -> None:
    model = BiasOnly(solver="epochs", epochs=40).fit(small_log)
    items = model.score(small_log.matrix[:1])[0]
    assert np.corrcoef(items, np.log(small_log.item_counts))[0, 1] > 0.98
    again = BiasOnly(solver="epochs", epochs=40).fit(small_log)
    np.testing.assert_array_equal(items, again.score(small_log.matrix[:1])[0])


@pytest.mark.parametrize(
    ("changes", "says"),
    [({"solver": "magic"}, "'exact' or 'epochs'"), ({"rate": 0}, "above 0"), ({"epochs": 0}, "at least 1")],
)
def test_bad_settings(changes: dict, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        BiasOnly(**changes)
