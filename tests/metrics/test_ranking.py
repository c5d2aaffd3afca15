"""top_k is a stable sort of what is allowed, only faster."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from infrec.errors import ConfigError, SolveError
from infrec.metrics import hit_rate_at, hits, top_k, truncated_recall


def by_sorting(scores: np.ndarray, k: int, forbidden: np.ndarray) -> np.ndarray:
    """The definition: a stable sort, forbidden items dropped, −1 to fill up."""
    out = np.full((len(scores), k), -1)
    for row, (values, no) in enumerate(zip(scores, forbidden, strict=True)):
        order = [item for item in np.argsort(-values, kind="stable").tolist() if not no[item]][:k]
        out[row, : len(order)] = order
    return out


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 90),
    st.integers(1, 100),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from(["constant", "three values", "signed zeros", "distinct"]),
)
@settings(deadline=None, max_examples=200)
def test_top_k_is_a_stable_sort(seed: int, items: int, k: int, dtype: type, kind: str) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((9, items)).astype(dtype)
    if kind == "constant":
        scores[:] = 1.5
    elif kind == "three values":
        scores = np.sign(scores) * (rng.random(scores.shape) < 0.6)
    elif kind == "signed zeros":
        scores = np.where(scores > 0, 0.0, -0.0).astype(dtype)
    seen = rng.random((9, items)) < rng.random((9, 1))
    only = rng.random(items) < 0.7
    got = top_k(scores, k, exclude=sp.csr_array(seen), only=only)
    np.testing.assert_array_equal(got, by_sorting(scores, k, seen | ~only))


def test_many_items_and_many_blocks() -> None:
    """Wide enough for groups of columns with some left over, long enough for more than one block of rows."""
    rng = np.random.default_rng(1)
    scores = np.round(rng.standard_normal((700, 1237)), 2).astype(np.float32)
    seen = rng.random(scores.shape) < 0.1
    for k in (1, 10, 100, 1237):
        got = top_k(scores, k, exclude=sp.csr_array(seen))
        np.testing.assert_array_equal(got, by_sorting(scores, k, seen))


def test_extreme_scores_are_still_scores() -> None:
    most = np.finfo(np.float32).max
    scores = np.array([[-most, 0, most, -most]], np.float32)
    np.testing.assert_array_equal(top_k(scores, 4), [[2, 1, 0, 3]])


def test_whole_numbers_that_float32_cannot_tell_apart() -> None:
    assert top_k(np.array([[2**24, 2**24 + 1, 5]]), 3).tolist() == [[1, 0, 2]]


def test_the_scores_are_left_alone() -> None:
    scores = np.arange(12, dtype=np.float32).reshape(3, 4)
    before = scores.copy()
    top_k(scores, 2, exclude=sp.csr_array(np.eye(3, 4)))
    np.testing.assert_array_equal(scores, before)


def test_a_weight_masks_like_any_other() -> None:
    assert top_k(np.array([[3.0, 2.0]]), 1, exclude=sp.csr_array([[7.0, 0.0]])).tolist() == [[1]]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_scores_that_are_no_numbers_are_refused_even_where_masked(bad: float) -> None:
    scores = np.zeros((3, 5), np.float32)
    scores[1, 2] = bad
    with pytest.raises(SolveError, match="1 of 3 users"):
        top_k(scores, 2, exclude=sp.csr_array(np.ones((3, 5))))


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ConfigError, match="k is 0"):
        top_k(np.zeros((1, 3)), 0)
    with pytest.raises(ConfigError, match="expected equal"):
        top_k(np.zeros((1, 3)), 1, exclude=sp.csr_array((2, 3)))


def test_no_users_no_lists() -> None:
    assert top_k(np.zeros((0, 5), np.float32), 3).shape == (0, 3)


def test_hits_know_padding_from_the_last_item() -> None:
    held_out = sp.csr_array(np.array([[0, 0, 1], [1, 0, 0]]))
    np.testing.assert_array_equal(
        hits(np.array([[2, -1], [-1, 0]]), held_out), [[True, False], [False, True]]
    )


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.floats(0, 0.4))
@settings(deadline=None, max_examples=60)
def test_hit_rate_at_is_truncated_recall(seed: int, k: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    scores = np.round(rng.standard_normal((20, 50)), 1).astype(np.float32)
    seen = sp.csr_array(rng.random(scores.shape) < 0.2)
    held_out = sp.csr_array(rng.random(scores.shape) < share * rng.random((20, 1)))
    expected = truncated_recall(hits(top_k(scores, k, exclude=seen), held_out), np.diff(held_out.indptr))
    np.testing.assert_array_equal(hit_rate_at(scores, seen, held_out, k), expected)
