"""Evaluation negatives: distinct, free, uniform."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from infrec.metrics import Negatives


def negatives(train: np.ndarray, test: np.ndarray, n: int = 50, *, seed: int) -> np.ndarray:
    return Negatives(*(sp.csr_array(np.asarray(part, float)) for part in (train, test)), n, seed=seed).of(
        0, len(train)
    )


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 40))
@settings(deadline=None, max_examples=80)
def test_negatives_are_distinct_and_free_and_as_many_as_there_are(seed: int, n: int, items: int) -> None:
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 4, (7, items)) * (rng.random((7, items)) < rng.random((7, 1)))
    drawn = negatives(label == 1, label == 3, n, seed=seed)
    assert drawn.shape == (7, n)
    for user in range(7):
        free = set(np.flatnonzero((label[user] == 0) | (label[user] == 2)).tolist())
        got = drawn[user][drawn[user] >= 0].tolist()
        assert len(set(got)) == len(got) == min(n, len(free))
        assert set(got) <= free
        assert (drawn[user][len(got) :] == -1).all()
    np.testing.assert_array_equal(drawn, negatives(label == 1, label == 3, n, seed=seed))


def test_every_free_item_is_equally_likely() -> None:
    """20,000 users draw 3 of the 8 free items of 10: each 7,500 times, ±5 binomial standard deviations."""
    train, test = np.zeros((20_000, 10)), np.zeros((20_000, 10))
    train[:, 4], test[:, 7] = 1, 1
    drawn = negatives(train, test, 3, seed=0)
    counts = np.bincount(drawn.ravel(), minlength=10)
    assert counts[4] == counts[7] == 0
    assert np.abs(np.delete(counts, [4, 7]) - 7500).max() < 5 * np.sqrt(20_000 * (3 / 8) * (5 / 8))


def test_another_seed_draws_others() -> None:
    nothing = np.zeros((5, 1000))
    assert (negatives(nothing, nothing, seed=1) != negatives(nothing, nothing, seed=2)).any()
