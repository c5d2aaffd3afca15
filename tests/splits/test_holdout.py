"""The paper's holdout: what every split must satisfy, whatever the log."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from infrec.data import Interactions, Vocabulary
from infrec.errors import ConfigError, DataError
from infrec.splits import hide, holdout, is_set_aside, set_aside


@st.composite
def logs(draw: st.DrawFn) -> Interactions:
    users, items = draw(st.integers(1, 12)), draw(st.integers(3, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    likes = rng.random((users, items)) < rng.random((users, 1))
    likes[0, :3] = True
    return Interactions.from_csr(likes * rng.integers(1, 4, likes.shape))


@given(logs(), st.integers(0, 1000))
@settings(deadline=None, max_examples=60)
def test_parts_are_disjoint_and_their_sizes_follow_the_rule(log: Interactions, seed: int) -> None:
    split = holdout(log, seed=seed)
    kept = np.flatnonzero(log.user_counts >= 3)
    assert split.train.users.ids.to_pylist() == kept.tolist()
    assert split.train.items == log.items
    # Disjoint, complete, weights kept: the parts add up to the log, value by value.
    total = (split.train.matrix + split.val.matrix + split.test.matrix).toarray()
    np.testing.assert_array_equal(total, log.matrix.toarray()[kept])
    assert sum(part.n_interactions for part in (split.train, split.val, split.test)) == np.count_nonzero(
        total
    )
    for row, n in enumerate(log.user_counts[kept].tolist()):
        assert split.train.user_counts[row] == int(0.8 * n) - 1  # one of them was moved to test
        assert split.val.user_counts[row] == int(0.9 * n) - int(0.8 * n)
        assert split.test.user_counts[row] == n - int(0.9 * n) + 1


@given(logs())
@settings(deadline=None, max_examples=20)
def test_the_seed_decides(log: Interactions) -> None:
    first, again = holdout(log, seed=3), holdout(log, seed=3)
    np.testing.assert_array_equal(first.test.matrix.toarray(), again.test.matrix.toarray())


def test_seeds_differ_and_every_interaction_is_equally_likely_to_be_held_out() -> None:
    """4,000 users with the same 10 items: 2 of 10 are test, 1 validation. Binomial, ±4 deviations."""
    split = holdout(Interactions.from_csr(np.ones((4000, 10))), seed=1)
    for part, share in ((split.test, 0.2), (split.val, 0.1), (split.train, 0.7)):
        spread = 4 * np.sqrt(4000 * share * (1 - share))
        assert np.abs(part.item_counts - 4000 * share).max() < spread
    other = holdout(Interactions.from_csr(np.ones((4000, 10))), seed=2)
    assert (other.test.matrix != split.test.matrix).nnz > 0


def test_small_users_have_no_validation_item() -> None:
    split = holdout(Interactions.from_csr(np.ones((5, 3))))
    assert split.train.user_counts.tolist() == [1] * 5
    assert split.val.n_interactions == 0
    assert split.test.user_counts.tolist() == [2] * 5


def test_users_with_two_are_dropped_and_items_are_not() -> None:
    log = Interactions.from_csr([[1, 1, 0, 0], [1, 1, 1, 0]], users=["a", "b"])
    split = holdout(log)
    assert split.train.users.ids.to_pylist() == ["b"]
    assert split.train.n_items == 4


def test_time_stays_with_its_interaction() -> None:
    log = dataclasses.replace(Interactions.from_csr(np.ones((3, 10))), time=np.arange(30))
    split = holdout(log)
    for part in (split.train, split.val, split.test):
        coo = part.matrix.tocoo()
        np.testing.assert_array_equal(part.time, coo.row * 10 + coo.col)


def test_a_log_that_cannot_be_split_says_so() -> None:
    with pytest.raises(DataError, match="none of the 4 users has 3 interactions or more, the most is 2"):
        holdout(Interactions.from_csr(np.ones((4, 2))))


def test_the_datas_own_split_wins() -> None:
    parts = {
        name: sp.csr_array(np.eye(3, k=k, dtype=np.float32))
        for k, name in enumerate(("train", "val", "test"))
    }
    log = dataclasses.replace(
        Interactions.from_csr(sum(part.toarray() for part in parts.values())), parts=parts
    )
    split = holdout(log)
    assert split.name == "own"
    for name, part in parts.items():
        np.testing.assert_array_equal(getattr(split, name).matrix.toarray(), part.toarray())


def test_an_own_split_may_lack_validation_but_not_test() -> None:
    train, test = (sp.csr_array(np.eye(3, k=k, dtype=np.float32)) for k in (0, 1))
    log = Interactions.from_csr((train + test).toarray())
    assert holdout(dataclasses.replace(log, parts={"train": train, "test": test})).val.n_interactions == 0
    with pytest.raises(DataError, match="no test interactions"):
        holdout(dataclasses.replace(log, parts={"train": train}))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 12),
    st.integers(1, 15),
    st.floats(0.05, 0.6),
    st.integers(0, 99),
)
def test_left_and_hidden_are_the_log(seed: int, users: int, items: int, share: float, cut: int) -> None:
    rng = np.random.default_rng(seed)
    likes = rng.random((users, items)) < 0.4
    likes[0, 0] = True
    log = Interactions.from_csr(likes)
    left, hidden = hide(log, share=share, seed=cut)
    assert (left.users, left.items) == (log.users, log.items) == (hidden.users, hidden.items)
    np.testing.assert_array_equal(left.matrix.toarray() + hidden.matrix.toarray(), log.matrix.toarray())
    for n, h in zip(log.user_counts, hidden.user_counts, strict=True):
        assert h == (0 if n < 2 else max(1, int(share * n)))


def test_every_interaction_is_hidden_equally_often() -> None:
    """Two of ten a time: over 600 seeds each is hidden 120 ± 49 times (5 standard deviations)."""
    log = Interactions.from_csr(np.ones((1, 10)))
    times = sum(hide(log, share=0.2, seed=seed)[1].matrix.toarray()[0] for seed in range(600))
    assert np.abs(times - 120).max() < 49


def test_the_same_seed_hides_the_same() -> None:
    log = Interactions.from_csr(np.ones((30, 9)))
    first, again, other = (hide(log, seed=seed)[1].matrix.toarray() for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_a_share_is_set_aside_by_id_alone() -> None:
    ids = [f"user {n}" for n in range(5000)]
    chosen = is_set_aside(Vocabulary.of(ids), 0.1, 42)
    assert 430 < chosen.sum() < 570  # 500 ± 3.3 standard deviations
    order = np.random.default_rng(1).permutation(5000)[:1000]
    some = is_set_aside(Vocabulary.of([ids[at] for at in order]), 0.1, 42)
    np.testing.assert_array_equal(some, chosen[order])
    longer = is_set_aside(Vocabulary.of([*ids, "x" * 200]), 0.1, 42)
    np.testing.assert_array_equal(longer[:-1], chosen)


def test_another_seed_sets_others_aside_and_numbers_work() -> None:
    ids = Vocabulary.numbered(4000)
    one, other = is_set_aside(ids, 0.5, 1), is_set_aside(ids, 0.5, 2)
    assert 0.45 < (one == other).mean() < 0.55
    np.testing.assert_array_equal(one, is_set_aside(Vocabulary.of([str(n) for n in range(4000)]), 0.5, 1))
    assert 0.45 < is_set_aside(ids, 0.5, 2**200 + 3).mean() < 0.55  # a seed may be of any size


def test_the_two_sides_are_everybody(small_log: Interactions) -> None:
    split = holdout(small_log)
    kept, aside = set_aside(split, 0.2, 7)
    assert kept.train.n_users + aside.n_users == split.train.n_users
    assert set(kept.train.users.ids.to_pylist()).isdisjoint(aside.users.ids.to_pylist())
    assert kept.train.items == aside.items == split.train.items


def test_impossible_shares_are_refused(small_log: Interactions) -> None:
    split = holdout(small_log)
    with pytest.raises(ConfigError, match="a share above 0 and below 1"):
        set_aside(split, 1.5, 1)
    with pytest.raises(DataError, match="expected some on"):
        set_aside(split, 1e-9, 1)
