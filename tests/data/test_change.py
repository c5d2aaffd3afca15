"""Logs that grow, shrink or lose the ids of their users, by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from infrec.data import Interactions
from infrec.data.change import append, remove, without_user_ids
from infrec.errors import DataError


def log(**rows: str) -> Interactions:
    """A user's name and the letters of their items."""
    pairs = [(user, item) for user, items in rows.items() for item in items]
    return Interactions.from_frame({"user": [u for u, _ in pairs], "item": [i for _, i in pairs]})


def contents(one: Interactions) -> dict[str, str]:
    rows = {}
    for user, row in zip(one.users, one.matrix.toarray(), strict=True):
        rows[str(user)] = "".join(str(one.items[at]) for at in np.flatnonzero(row))
    return rows


def test_new_users_come_last_and_new_items_in_order() -> None:
    change = append(log(b="xz", c="z"), log(a="yx", b="xzw", c="z"))
    assert contents(change.after) == {"b": "wxz", "c": "z", "a": "xy"}
    assert list(change.after.items) == list("wxyz")
    assert change.columns.tolist() == [1, 3] and change.rows.tolist() == [0, 1, -1]
    assert change.has_new_items
    assert change.taken_out.tolist() == [0] and change.put_in.tolist() == [0, 2]
    assert [rows.tolist() for rows in change.changed] == [[0], [0]]
    assert append(log(b="xz"), log(b="xz")).put_in.tolist() == []


def test_a_user_leaves_and_every_item_stays() -> None:
    change = remove(log(a="x", b="y", c="xy"), ["b", "a"])
    assert contents(change.after) == {"c": "xy"} and change.after.n_items == 2
    assert change.taken_out.tolist() == [0, 1] and not len(change.put_in)
    assert [len(rows) for rows in change.changed] == [0, 0]
    with pytest.raises(DataError, match="does not know 2 of the users to forget, such as 'no'"):
        remove(log(a="x"), ["no", "a", "nobody"])
    with pytest.raises(DataError, match="no interactions are left"):
        remove(log(a="x"), ["a"])


def test_weights_are_kept_or_added() -> None:
    known = Interactions.from_csr([[2.0, 0.0]])
    more = Interactions.from_csr([[3.0, 5.0]])
    assert append(known, more).after.matrix.toarray().tolist() == [[2, 5]]
    assert append(known, more, "sum").after.matrix.toarray().tolist() == [[5, 5]]


def test_titles_of_both() -> None:
    known = Interactions.from_csr([[1, 1]], items=["a", "b"], titles=["A", "B"])
    more = Interactions.from_csr([[1, 1]], items=["b", "c"], titles=["other", "C"])
    assert append(known, more).after.titles.to_pylist() == ["A", "B", "C"]


def test_kinds_of_ids() -> None:
    """Whole numbers among texts are texts where one of them is known; texts are never numbers."""
    texts = Interactions.from_csr([[1, 1]], users=["u"], items=["7", "x"])
    numbers = Interactions.from_csr([[1, 1]], users=["u"], items=[7, 9])
    assert list(append(texts, numbers).after.items) == ["7", "9", "x"]
    strange = Interactions.from_csr([[1]], users=["u"], items=[8])
    with pytest.raises(
        DataError, match="new item ids are whole numbers, such as 8, and those of the model texts"
    ):
        append(texts, strange)
    with pytest.raises(DataError, match="new item ids are texts, such as '7', and those of the model whole"):
        append(numbers, texts)


# ---- without ids -------------------------------------------------------------------------------------------
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
