"""Matching: planted users are found, absent ones are not, and nobody is claimed below the threshold."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from infrec.data import Interactions
from infrec.errors import ConfigError, DataError
from infrec.privacy import item_weights, match
from infrec.privacy import matching as module


def people(n: int, items: int = 400, seed: int = 0, each: int = 25) -> sp.csr_array:
    """Rows with items of falling popularity: everybody knows the first ones, few the last ones."""
    rng = np.random.default_rng(seed)
    chance = 1 / (np.arange(items) + 10.0)
    keys = np.log(rng.random((n, items))) / chance  # the largest keys: a draw without replacement
    rows = np.argsort(-keys, axis=1)[:, :each]
    return sp.csr_array(
        (np.ones(rows.size, np.float32), rows.ravel(), np.arange(0, rows.size + 1, each)), shape=(n, items)
    )


def some_of(rows: sp.csr_array, k: int, seed: int = 1) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    kept = np.concatenate([rng.choice(rows[[u]].indices, k, replace=False) for u in range(rows.shape[0])])
    return sp.csr_array(
        (np.ones(len(kept), np.float32), kept, np.arange(0, len(kept) + 1, k)), shape=rows.shape
    )


def test_a_score_by_hand() -> None:
    """Three released rows; item 0 is held by all, item 1 by two, item 2 by one."""
    released = sp.csr_array(np.array([[1, 1, 1], [1, 1, 0], [1, 0, 0]], np.float32))
    found = match(sp.csr_array(np.array([[1, 0, 1.0]])), released, length=0, eccentricity=0)
    common, rare = 1 / math.log(3), 1 / math.log(2)  # an item of one row weighs like one of two
    scores = np.array([common + rare, common, common])
    assert found.index.tolist() == [0]
    assert found.score[0] == pytest.approx(scores[0], rel=1e-6)
    assert found.eccentricity[0] == pytest.approx((scores[0] - scores[1]) / scores.std(), rel=1e-5)
    np.testing.assert_allclose(item_weights(np.array([0, 1, 2, 3])), [rare, rare, rare, common])


def test_length_divides_by_the_rows_own_weight() -> None:
    released = sp.csr_array(np.array([[1, 1, 1, 1], [1, 1, 0, 0]], np.float32))
    target = sp.csr_array(np.array([[1, 1, 0, 0.0]]))
    assert match(target, released, length=0).ties.tolist() == [2]  # the long row holds it all as well
    shorter = match(target, released, length=0.5)
    weight = 1 / math.log(2)
    assert (shorter.index[0], shorter.ties[0]) == (1, 1)
    assert shorter.score[0] == pytest.approx(2 * weight / math.sqrt(2 * weight), rel=1e-6)


@pytest.mark.parametrize(("k", "least"), [(25, 1.0), (8, 0.9), (1, 0.0)])
def test_planted_users_are_found_and_absent_ones_are_not(k: int, least: float) -> None:
    """Of 300 people 150 are released. Absent: at most 2 % of 150 claimed, with all that is known of them."""
    everybody = people(300)
    released, others = everybody[:150], everybody[150:]
    truth = np.arange(150)
    planted = match(some_of(released, k), released)
    assert planted.correct(truth).mean() >= least
    assert not planted.wrong(truth).any() or k == 1
    absent = match(some_of(others, k), released)
    assert not absent.correct(np.full(150, -1)).any()
    if k == 25:
        assert absent.accepted.mean() <= 0.02
        assert absent.eccentricity.max() < planted.eccentricity.min()


def test_rare_items_decide() -> None:
    """Two common items point at row 1, one rare item at row 0: the rare one says more."""
    released = np.zeros((60, 6), np.float32)
    released[2:, :2] = 1  # items 0 and 1 are common
    released[0, 5] = released[1, 0] = released[1, 1] = 1
    released[2:, :2] = np.random.default_rng(0).random((58, 2)) < 0.9
    target = sp.csr_array(np.array([[0, 1, 0, 0, 0, 1]], np.float32))
    assert match(target, sp.csr_array(released), length=0).index[0] == 0
    flat = np.full(6, 30)
    assert match(target, sp.csr_array(released), length=0, support=flat).ties[0] > 1


def test_the_threshold_is_respected() -> None:
    everybody = people(120)
    found = match(some_of(everybody, 3), everybody)
    assert 0 < found.accepted.sum() < 120
    assert (found.eccentricity[found.accepted] >= module.ECCENTRICITY).all()
    assert (found.eccentricity[~found.accepted] < module.ECCENTRICITY).all()
    shares = [found.at(phi).accepted.sum() for phi in (0.0, 1.0, 2.0, 4.0, 50.0)]
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] == 0
    again = match(some_of(everybody, 3), everybody, eccentricity=2.0)
    np.testing.assert_array_equal(again.accepted, found.at(2.0).accepted)


def test_twins_and_strangers_are_never_claimed() -> None:
    released = people(50)
    twins = sp.csr_array(sp.vstack([released, released[[7]]]))
    found = match(sp.csr_array(sp.vstack([released, sp.csr_array((1, 400))])), twins, eccentricity=0)
    assert not found.accepted[7]
    assert (found.ties[7], found.eccentricity[7]) == (2, 0.0)
    assert (found.index[-1], found.ties[-1], found.accepted[-1]) == (-1, 0, False)  # shares nothing
    alone = match(released[[3]], released[[3]], eccentricity=0)  # a single row has nobody to stand out from
    assert (alone.index[0], alone.eccentricity[0]) == (0, 0.0)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 999), length=st.sampled_from([0.0, 0.35, 1.0]))
def test_in_blocks_or_at_once_and_in_any_order(seed: int, length: float) -> None:
    rng = np.random.default_rng(seed)
    released = sp.csr_array((rng.random((13, 17)) < 0.3).astype(np.float32))
    targets = sp.csr_array((rng.random((9, 17)) < 0.3).astype(np.float32))
    whole = match(targets, released, length=length)
    at_once, module.SCORES_AT_ONCE = module.SCORES_AT_ONCE, 30
    try:
        blocks = match(targets, released, length=length)
    finally:
        module.SCORES_AT_ONCE = at_once
    for name in ("index", "score", "eccentricity", "ties", "accepted"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(blocks, name))
    order = rng.permutation(13)
    other = match(targets, released[order], length=length)
    np.testing.assert_allclose(other.eccentricity, whole.eccentricity, rtol=1e-4, atol=1e-5)
    sure = whole.ties == 1
    np.testing.assert_array_equal(order[other.index[sure]], whole.index[sure])


def test_items_are_matched_by_id() -> None:
    log = Interactions.from_csr(people(40, each=12))
    used = np.flatnonzero(log.item_counts)[::-1]  # other columns, in another order
    released = Interactions.from_csr(log.matrix[:, used], items=[int(i) for i in used])
    by_id = match(log, released)
    assert by_id.correct(np.arange(40)).mean() > 0.9
    np.testing.assert_array_equal(by_id.index, match(log.matrix[:, used], released).index)
    fewer = Interactions.from_csr(log.matrix[:, used[:5]], items=[int(i) for i in used[:5]])
    strangers = log.matrix[:, used[:5]].sum(axis=1) == 0
    np.testing.assert_array_equal(match(log, fewer).index == -1, strangers)
    assert strangers.any()


def test_fractional_rows_count_in_part() -> None:
    released = sp.csr_array(np.array([[0.4, 0.4], [1.0, 0.0]], np.float32))
    found = match(sp.csr_array(np.array([[1.0, 0.0]])), released, length=0)
    assert found.index[0] == 1
    assert found.score[0] == pytest.approx(1 / math.log(2), rel=1e-6)


def test_bad_input() -> None:
    rows = people(5)
    with pytest.raises(ConfigError, match="eccentricity"):
        match(rows, rows, eccentricity=float("nan"))
    with pytest.raises(ConfigError, match="length"):
        match(rows, rows, length=2)
    with pytest.raises(DataError, match="same items"):
        match(rows, rows[:, :10])
    with pytest.raises(DataError, match="support"):
        match(rows, rows, support=np.ones(3, int))
    with pytest.raises(DataError, match="no rows"):
        match(rows, rows[:0])


@pytest.mark.real_data
def test_ml_1m_gives_everybody_away(real_data) -> None:
    """All revealed, no noise: at least 95 % found on a User-RNS release, below 1 % of the others claimed."""
    from infrec.samplers import sample
    from infrec.splits import holdout

    log = holdout(Interactions.read(real_data / "ml-1m.parquet"), seed=42).train
    for seed in (1, 2):
        released = sample(log, strategy="user-rns", users=3000, seed=seed)
        rows = log.users.positions(released.users.ids)
        others = np.setdiff1d(np.arange(log.n_users), rows)
        assert match(released, released).correct(np.arange(3000)).mean() >= 0.95
        assert match(log.select_users(others), released).accepted.mean() < 0.01


def test_the_owner_of_a_row_is_the_most_alike_of_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A released copy of person 0 is theirs, also where people are compared two at a time."""
    everybody = sp.csr_array(np.tri(5, 8, 3, dtype=np.float32))  # each has one item more than the one before
    support = np.bincount(everybody.indices, minlength=8)
    monkeypatch.setattr(module, "AT_ONCE", 2)
    assert module.nearest(everybody[[0, 3]], everybody, support).person.tolist() == [0, 3]
