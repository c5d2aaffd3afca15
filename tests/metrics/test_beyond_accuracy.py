"""Coverage, novelty, popularity and Gini, worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from infrec.metrics import coverage, exposure, gini, novelty, popularity

TOP = np.array([[0, 1], [0, -1], [-1, -1]])
COUNTS = np.array([8, 2, 0, 1])


def test_exposure_and_coverage() -> None:
    exposed = exposure(TOP, 4)
    assert exposed.tolist() == [2, 1, 0, 0]
    assert coverage(exposed) == 0.5


def test_novelty_is_the_mean_surprise_in_bits() -> None:
    # 8 of 16 users: 1 bit; 2 of 16: 3 bits. An item that nobody has counts as one that one user has: 4 bits.
    np.testing.assert_allclose(novelty(TOP, COUNTS, 16), [2, 1, 0])
    np.testing.assert_allclose(novelty(np.array([[2, 3]]), COUNTS, 16), [4])


def test_popularity_is_a_mean_over_the_list_without_its_padding() -> None:
    np.testing.assert_allclose(popularity(TOP, COUNTS), [5, 8, 0])


def test_gini() -> None:
    assert gini(np.full(7, 3)) == pytest.approx(0)
    assert gini(np.array([0, 0, 0, 9])) == pytest.approx(3 / 4)  # all on one of n items: (n − 1)/n
    assert gini(np.array([1, 3])) == pytest.approx(1 / 4)  # half the mean difference over twice the mean
    assert gini(np.zeros(3, np.int64)) == 0
