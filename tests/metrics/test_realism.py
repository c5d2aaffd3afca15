"""What made users have in common with a log: hand-worked values, and the ends of both scales."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from infrec.metrics import co_occurrence_agreement, popularity_distance


def rows(*of: list[float]) -> sp.csr_array:
    return sp.csr_array(np.array(of, np.float32))


def test_popularity_by_hand() -> None:
    """Shares (½, ½, 0) against (¼, ¼, ½): half of the sum of ¼, ¼ and ½."""
    assert popularity_distance(rows([1, 1, 0]), rows([1, 1, 1], [0, 0, 1])) == pytest.approx(0.5)
    assert popularity_distance(rows([1, 0]), rows([0, 1])) == 1.0
    assert popularity_distance(rows([0.5, 0.5]), rows([1, 0], [0, 1])) == 0.0  # weights count as they are


def test_the_same_users_agree_and_shuffled_ones_do_not() -> None:
    """A group's items go together. Shuffling each item over users keeps popularity and breaks the pairs."""
    rng = np.random.default_rng(0)
    taste = np.full((600, 40), 0.05)
    for group in range(4):
        taste[group * 150 : (group + 1) * 150, group * 10 : (group + 1) * 10] = 0.6
    likes = rng.random(taste.shape) < taste
    log, again = sp.csr_array(likes.astype(np.float32)), sp.csr_array((rng.random(taste.shape) < taste) * 1.0)
    assert co_occurrence_agreement(log, log) == pytest.approx(1)
    assert co_occurrence_agreement(again, log) > 0.9
    apart = sp.csr_array(rng.permuted(likes, axis=0).astype(np.float32))
    assert popularity_distance(apart, log) == pytest.approx(0)
    assert abs(co_occurrence_agreement(apart, log)) < 5 / np.sqrt(40 * 39 / 2)  # 780 pairs, 5 deviations


def test_without_variation_there_is_no_agreement() -> None:
    log = rows([1, 0, 1], [0, 1, 1], [1, 1, 0])
    assert co_occurrence_agreement(rows([1, 1, 1], [1, 1, 1]), log) == 0.0
