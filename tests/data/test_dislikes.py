"""`negative`: rows that are dislikes, beside the interactions, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from infrec import Interactions, holdout
from infrec.data.change import without_user_ids
from infrec.errors import ConfigError, DataError
from infrec.splits import by_time, leave_last_out

FRAME = {
    "user": ["a", "a", "a", "b", "b", "b", "c", "d"],
    "item": [1, 2, 3, 1, 2, 4, 4, 9],
    "rating": [5, 1, 4, 4, 5, 2, 1, 1],
    "timestamp": [1, 2, 3, 4, 5, 6, 7, 8],
}
GOOD, BAD = "rating >= 4", "rating <= 2"


def pairs(log: Interactions | None) -> set[tuple[object, object]]:
    assert log is not None
    table = log.to_table()
    return set(zip(table["user"].to_pylist(), table["item"].to_pylist(), strict=True))


def test_they_stand_beside_the_interactions() -> None:
    log = Interactions.from_frame(FRAME, positive=GOOD, negative=BAD)
    plain = Interactions.from_frame(FRAME, positive=GOOD)
    assert pairs(log) == pairs(plain)
    assert pairs(log.dislikes) == {("a", 2), ("b", 4), ("c", 4), ("d", 9)}
    assert (log.n_users, log.n_items) == (4, 5)  # also who likes nothing, and what nobody likes
    assert log.report is not None and log.dislikes is not None
    assert log.report.kept == 4 and "4 rows are dislikes (rating <= 2)" in log.report.notes
    assert "4 dislikes" in repr(log) and log.dislikes.time is not None


def test_without_positive_all_other_rows_are_interactions() -> None:
    log = Interactions.from_frame(FRAME, negative="rating <= 1")
    assert pairs(log) == {("a", 1), ("a", 3), ("b", 1), ("b", 2), ("b", 4)}
    assert pairs(log.dislikes) == {("a", 2), ("c", 4), ("d", 9)}


@pytest.mark.parametrize(
    ("rules", "error", "sentence"),
    [
        ({"positive": "rating >= 2", "negative": BAD}, DataError, "1 rows of the frame are likes"),
        ({"negative": "stars <= 2"}, DataError, "no column 'stars' for the rule 'stars <= 2'"),
        ({"negative": "rating below 2"}, ConfigError, "negative is 'rating below 2'; expected comparisons"),
        ({"negative": "rating <= 5"}, DataError, "none of the 8 rows"),
        ({"negative": BAD, "by_row": True}, ConfigError, "with ε and δ"),
    ],
)
def test_refused(rules: dict[str, object], error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        Interactions.from_frame(FRAME, **rules)


def test_a_pair_that_was_liked_and_disliked() -> None:
    frame = {"user": ["a", "a", "b"], "item": [1, 1, 1], "rating": [5, 1, 5]}
    with pytest.raises(DataError, match="liked and disliked at once, such as user 'a' and item 1"):
        Interactions.from_frame(frame, positive=GOOD, negative=BAD)


def many(seed: int = 0) -> Interactions:
    rng = np.random.default_rng(seed)
    keys = rng.choice(40 * 30, 700, replace=False)
    table = {
        "user": keys // 30,
        "item": keys % 30,
        "rating": rng.integers(1, 6, 700),
        "timestamp": rng.integers(0, 10**6, 700),
    }
    return Interactions.from_frame(table, positive=GOOD, negative=BAD)


def test_every_split_divides_them_with_their_users() -> None:
    log = many()
    for split in (holdout(log), leave_last_out(log), by_time(log)):
        parts = [part.dislikes for part in (split.train, split.val, split.test)]
        sets = [pairs(part) for part in parts]
        assert set.union(*sets) <= pairs(log.dislikes)
        assert sum(map(len, sets)) == len(set.union(*sets)) and all(sets)
        assert all(part is not None and part.users == split.train.users for part in parts)
    bare = holdout(log.with_dislikes(None))
    assert bare.train.dislikes is None and (bare.test.matrix != holdout(log).test.matrix).nnz == 0


def test_a_split_of_its_own_divides_them_too() -> None:
    own = {**FRAME, "split": ["train", "train", "test", "train", "test", "train", "train", "train"]}
    own["item"] = [1, 2, 3, 1, 2, 3, 1, 2]
    split = holdout(Interactions.from_frame(own, positive=GOOD, negative=BAD))
    assert pairs(split.train.dislikes) == {("a", 2), ("b", 3), ("c", 1), ("d", 2)} and not pairs(
        split.test.dislikes
    )


def test_users_and_items_that_leave_take_theirs_along() -> None:
    log = many()
    some = log.select_users(np.array([5, 2]))
    assert pairs(some.dislikes) == {pair for pair in pairs(log.dislikes) if pair[0] in list(some.users)}
    nameless = without_user_ids(log)
    assert nameless.dislikes is not None and nameless.dislikes.users == nameless.users
    assert nameless.dislikes.n_interactions == log.dislikes.n_interactions  # type: ignore[union-attr]
    assert not nameless.dislikes.matrix.multiply(nameless.matrix).nnz
    aligned = log.align_items(log.items)
    assert aligned.dislikes is log.dislikes


def test_a_core_keeps_theirs() -> None:
    rng = np.random.default_rng(1)
    keys = rng.choice(40 * 30, 700, replace=False)
    frame = {"user": keys // 30, "item": keys % 30, "rating": rng.integers(1, 6, 700)}
    whole = Interactions.from_frame(frame, positive=GOOD, negative=BAD)
    core = Interactions.from_frame(frame, positive=GOOD, negative=BAD, min_user=8, min_item=4)
    stay = {
        pair for pair in pairs(whole.dislikes) if pair[0] in list(core.users) and pair[1] in list(core.items)
    }
    assert 0 < core.n_users < whole.n_users and pairs(core.dislikes) == stay
