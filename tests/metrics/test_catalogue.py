"""Coverage, novelty, popularity and Gini, worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from infrec.metrics import (
    co_occurrence_agreement,
    coverage,
    exposure,
    gini,
    intra_list_distance,
    novelty,
    popularity,
    popularity_distance,
    unit_columns,
)

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


def test_distance_within_lists_is_one_minus_the_mean_cosine_of_its_pairs() -> None:
    """Items 0 and 1 have the same people, item 2 others, item 3 half of both, item 4 nobody."""
    people = sp.csr_array(np.array([[1, 1, 0, 1, 0], [1, 1, 0, 0, 0], [0, 0, 1, 1, 0], [0, 0, 1, 0, 0]]))
    columns = unit_columns(people)
    lists = np.array([[0, 1, -1], [0, 2, -1], [0, 1, 3], [0, 4, -1], [3, -1, -1], [-1, -1, -1]])
    expected = [0, 1, 1 - (1 + 0.5 + 0.5) / 3, 1, 0, 0]
    np.testing.assert_allclose(intra_list_distance(lists, columns), expected, atol=1e-12)


def test_distance_is_that_of_all_pairs_one_by_one() -> None:
    rng = np.random.default_rng(5)
    matrix = sp.csr_array((rng.random((40, 30)) < 0.3) * rng.random((40, 30)))
    top = np.array([rng.permutation(30)[:7] for _ in range(300)])  # more than a block of lists
    dense = unit_columns(matrix).toarray()
    cosines = (dense @ dense.T)[top[:, :, None], top[:, None, :]]
    expected = 1 - (cosines.sum(axis=(1, 2)) - 7) / 42
    np.testing.assert_allclose(intra_list_distance(top, unit_columns(matrix)), expected, atol=1e-12)


def test_gini() -> None:
    assert gini(np.full(7, 3)) == pytest.approx(0)
    assert gini(np.array([0, 0, 0, 9])) == pytest.approx(3 / 4)  # all on one of n items: (n − 1)/n
    assert gini(np.array([1, 3])) == pytest.approx(1 / 4)  # half the mean difference over twice the mean
    assert gini(np.zeros(3, np.int64)) == 0


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
