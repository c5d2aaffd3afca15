"""Herding: an answer worked out by hand, and what it is a greedy minimum of."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from infrec.data import Interactions
from infrec.samplers import sample
from infrec.samplers.sample import front, herd


def test_three_directions_by_hand() -> None:
    """μ points along the diagonal: the diagonal comes first, then the axes, the first of equals before."""
    rows = np.array([[2.0, 0.0], [0.0, 5.0], [1.0, 1.0]])  # lengths do not matter
    assert front(herd(rows), np.ones(3, int), 3).tolist() == [2, 0, 1]


def test_two_groups_are_taken_in_proportion() -> None:
    """μ = (¾, ¼). w: (¾, ¼) → left; (½, ½) → left, the first of equals; (¼, ¾) → right; (1, 0) → left."""
    rows = np.repeat([[1.0, 0.0], [0.0, 1.0]], [30, 10], axis=0)
    assert front(herd(rows), np.ones(40, int), 4).tolist() == [0, 1, 30, 2]
    half = front(herd(rows), np.ones(40, int), 20)
    assert (half < 30).sum() == 15


@given(st.integers(0, 2**32 - 1), st.integers(2, 9), st.integers(1, 4))
@settings(deadline=None, max_examples=50)
def test_each_row_brings_the_mean_as_near_as_can_be(seed: int, n: int, width: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(n, width))
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    mean, taken = unit.mean(axis=0), front(herd(rows), np.ones(n, int), n)
    assert sorted(taken) == list(range(n))
    for k in range(n):
        so_far = unit[taken[:k]].sum(axis=0)
        distance = np.linalg.norm(mean - (so_far + unit) / (k + 1), axis=1)
        left = np.setdiff1d(np.arange(n), taken[:k])
        assert distance[taken[k]] <= distance[left].min() + 1e-9


def test_sparse_is_dense(small_log: Interactions) -> None:
    costs = small_log.user_counts
    dense = front(herd(small_log.matrix.toarray()), costs, 300)
    np.testing.assert_array_equal(front(herd(small_log.matrix), costs, 300), dense)
    assert costs[dense].sum() >= 300 > costs[dense[:-1]].sum()  # the budget is what they cost


def test_a_row_of_nothing_comes_last() -> None:
    rows = sp.csr_array(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    assert front(herd(rows), np.ones(3, int), 9).tolist() == [1, 2, 0]


@pytest.mark.parametrize("users", [4, 12, 40])
def test_a_sample_holds_every_group(small_log: Interactions, users: int) -> None:
    """Four groups of equal size: each has its share of the users that herding takes, give or take one."""
    found = sample(small_log, strategy="herding", users=users)
    group = small_log.users.positions(found.users.ids) // 30
    assert np.abs(np.bincount(group, minlength=4) - users // 4).max() <= 1
