"""Splits that respect time."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infrec.data import Interactions
from infrec.errors import ConfigError, DataError
from infrec.splits import ahead, by_time, leave_last_out, periods
from infrec.splits.holdout import keep


def timed(matrix: object, time: list[int]) -> Interactions:
    return dataclasses.replace(Interactions.from_csr(matrix), time=np.array(time, np.int64))


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.booleans())
@settings(deadline=None, max_examples=50)
def test_periods_are_equal_ordered_and_complete(seed: int, n: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    likes = rng.random((6, 12)) < 0.4
    likes[0, :] = True
    log = timed(likes, rng.integers(0, 3 if ties else 10**9, int(likes.sum())).tolist())
    cut = periods(log, n)
    sizes = [part.n_interactions for part in cut]
    assert len(cut) == n and max(sizes) - min(sizes) <= 1
    np.testing.assert_array_equal(sum(part.matrix.toarray() for part in cut), log.matrix.toarray())
    for earlier, later in pairwise(cut):
        assert earlier.time is not None and later.time is not None
        assert earlier.time.max() <= later.time.min()


def test_equal_times_fall_into_periods_in_the_order_of_users_and_items() -> None:
    first, second = periods(timed(np.ones((2, 3)), [5] * 6), 2)
    np.testing.assert_array_equal(first.matrix.toarray(), [[1, 1, 1], [0, 0, 0]])
    np.testing.assert_array_equal(second.matrix.toarray(), [[0, 0, 0], [1, 1, 1]])


def test_without_times_or_with_too_many_periods_it_says_so() -> None:
    untimed = Interactions.from_csr(np.ones((2, 3)))
    with pytest.raises(DataError, match="no times"):
        periods(untimed, 2)
    with pytest.raises(DataError, match="no times"):
        ahead(untimed, untimed)
    with pytest.raises(ConfigError, match="7 periods of 6 interactions"):
        periods(timed(np.ones((2, 3)), [1] * 6), 7)


# ---- looking ahead -----------------------------------------------------------------------------------------
def test_the_next_period_is_foreseen_from_everything_before() -> None:
    """Users 0 and 1 are in both periods, 2 only in the second, 3 only in the first."""
    log = timed(
        [[1, 1, 1, 1, 0], [1, 0, 1, 0, 0], [0, 1, 1, 0, 1], [1, 1, 0, 0, 0]],
        [1, 9, 8, 7, 2, 6, 7, 6, 9, 3, 4],
    )
    past, following = (keep(log, log.time < 5), keep(log, log.time >= 5))  # type: ignore[operator]
    split = ahead(past, following, share=0.5)
    assert split.train.users.ids.to_pylist() == [0, 1, 2]  # 3 is not in the period
    # 0 has items 3, 2, 1 there, the last of three is int(1.5) = 1; 1 has item 2 alone; 2 has items 2, 1, 4.
    np.testing.assert_array_equal(
        split.test.matrix.toarray(), [[0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 1]]
    )
    np.testing.assert_array_equal(
        split.train.matrix.toarray(), [[1, 0, 1, 1, 0], [1, 0, 0, 0, 0], [0, 1, 1, 0, 0]]
    )
    assert split.val.n_interactions == 0
    assert not past.item_counts[4] and split.test.item_counts[4]  # first seen there: it stays to be missed


def test_at_equal_times_the_later_item_is_last() -> None:
    log = timed([[1, 0, 1, 1], [1, 1, 1, 1]], [5, 5, 5, 9, 4, 7, 1])
    split = ahead(keep(log, np.zeros(7, bool)), log, share=0.4)
    np.testing.assert_array_equal(split.test.matrix.toarray(), [[0, 0, 0, 1], [1, 0, 0, 0]])


def test_somebody_with_a_single_interaction_has_no_history() -> None:
    log = timed([[1, 1, 0], [0, 0, 1]], [1, 2, 3])
    split = ahead(*periods(log, 3)[1:])
    assert split.train.users.ids.to_pylist() == [1]
    assert split.train.n_interactions == 0 and split.test.n_interactions == 1


@given(st.integers(0, 2**32 - 1), st.floats(0.01, 1.0))
@settings(deadline=None, max_examples=40)
def test_nothing_of_a_period_is_lost_and_the_last_ones_are_held_out(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    likes = rng.random((5, 9)) < 0.6
    likes[0] = True
    log = timed(likes, rng.permutation(int(likes.sum())).tolist())
    past, following = periods(log, 2)
    split = ahead(past, following, share=share)
    users = np.flatnonzero(following.user_counts)
    both = split.train.matrix + split.test.matrix
    np.testing.assert_array_equal(both.toarray(), (past.matrix + following.matrix)[users].toarray())
    n = following.user_counts[users]
    np.testing.assert_array_equal(split.test.user_counts, np.maximum(1, (share * n).astype(int)))


def test_a_share_of_nothing_is_refused() -> None:
    log = timed(np.ones((2, 3)), [1] * 6)
    with pytest.raises(ConfigError, match="share is 0; expected more than 0"):
        ahead(log, log, share=0)


# ---- whole logs --------------------------------------------------------------------------------------------
def test_leave_last_out_holds_out_the_last_two_of_each_user() -> None:
    """Two users of three and four items; the third has two and is dropped."""
    log = timed([[1, 1, 1, 0], [1, 1, 1, 1], [0, 0, 1, 1]], [30, 10, 20, 4, 3, 2, 1, 1, 2])
    split = leave_last_out(log)
    assert split.name == "leave-last-out" and split.train.users.ids.to_pylist() == [0, 1]
    np.testing.assert_array_equal(split.test.matrix.toarray(), [[1, 0, 0, 0], [1, 0, 0, 0]])
    np.testing.assert_array_equal(split.val.matrix.toarray(), [[0, 0, 1, 0], [0, 1, 0, 0]])
    np.testing.assert_array_equal(split.train.matrix.toarray(), [[0, 1, 0, 0], [0, 0, 1, 1]])


def test_by_time_cuts_the_log_at_two_moments() -> None:
    """Ten interactions at ten moments: the first eight are train, then one and one; user 2 comes too late."""
    log = timed([[1, 1, 1, 1, 1], [1, 1, 1, 1, 0], [0, 0, 0, 0, 1]], [0, 1, 2, 3, 9, 4, 5, 6, 8, 7])
    split = by_time(log)
    assert split.train.users.ids.to_pylist() == [0, 1, 2]  # 2 came at moment 7, the eighth
    np.testing.assert_array_equal(split.test.matrix.toarray()[0], [0, 0, 0, 0, 1])
    np.testing.assert_array_equal(split.val.matrix.toarray()[1], [0, 0, 0, 1, 0])
    late = timed([[1, 1, 1, 1, 1], [1, 1, 1, 1, 0], [0, 0, 0, 0, 1]], [0, 1, 2, 3, 9, 4, 5, 6, 7, 8])
    split = by_time(late)
    assert split.train.users.ids.to_pylist() == [0, 1] and split.val.n_interactions == 0


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=30)
def test_both_cut_a_log_into_parts_of_which_no_earlier_one_is_later(seed: int) -> None:
    rng = np.random.default_rng(seed)
    likes = rng.random((8, 15)) < 0.6
    likes[:, :3] = True
    log = timed(likes, rng.permutation(int(likes.sum())).tolist())
    last = leave_last_out(log)
    np.testing.assert_array_equal(
        (last.train.matrix + last.val.matrix + last.test.matrix).toarray(), likes.astype(np.float32)
    )
    for part in (last.val, last.test):
        np.testing.assert_array_equal(part.user_counts, 1)
    cut = by_time(log)
    moments = [part.time for part in (cut.train, cut.val, cut.test)]
    for earlier, later in pairwise(each for each in moments if each is not None and len(each)):
        assert earlier.max() < later.min()


def test_without_times_or_enough_interactions_neither_cuts() -> None:
    untimed = Interactions.from_csr(np.ones((2, 3)))
    for cut in (leave_last_out, by_time):
        with pytest.raises(DataError, match="no times"):
            cut(untimed)
    with pytest.raises(DataError, match="3 interactions or more"):
        leave_last_out(timed(np.ones((2, 2)), [1, 2, 3, 4]))
    with pytest.raises(DataError, match="none is in the last 10 %"):
        by_time(timed(np.eye(10), list(range(10))))
