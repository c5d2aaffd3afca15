"""Logs without the ids of their users."""

from __future__ import annotations

import dataclasses

import numpy as np

from infrec.data import Interactions
from infrec.data.unnamed import without_user_ids

LIKES = np.array([[1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 1], [1, 1, 0, 1]])


def test_the_order_of_users_follows_from_their_histories_alone() -> None:
    log = Interactions.from_csr(LIKES, users=["ann", "bob", "cat", "dan"])
    hidden = without_user_ids(log)
    assert hidden.users.ids.to_pylist() == [f"unnamed {number}" for number in (1, 2, 3, 4)]
    np.testing.assert_array_equal(hidden.matrix.toarray(), LIKES[[1, 3, 0, 2]])  # 01, 013, 02, 3
    renamed = Interactions.from_csr(LIKES[[2, 0, 3, 1]], users=["ann", "bob", "cat", "dan"])
    np.testing.assert_array_equal(without_user_ids(renamed).matrix.toarray(), hidden.matrix.toarray())


def test_equal_items_are_ordered_by_their_weights_and_times_go_along() -> None:
    log = dataclasses.replace(
        Interactions.from_csr(np.array([[2.0, 3.0], [2.0, 1.0]])), time=np.array([1, 2, 3, 4])
    )
    hidden = without_user_ids(log)
    np.testing.assert_array_equal(hidden.matrix.toarray(), [[2, 1], [2, 3]])
    assert hidden.time is not None and hidden.time.tolist() == [3, 4, 1, 2]
