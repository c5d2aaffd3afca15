"""Every sampler that chooses: exact sizes, nothing invented, the same seed the same sample."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from infrec import samplers
from infrec.data import Interactions
from infrec.errors import ConfigError, DataError
from infrec.samplers import sample
from infrec.samplers.sample import auc_per_user

# Those that make users are tested by themselves.
STRATEGIES = tuple(name for name in samplers.STRATEGIES if name != "ar-cf")
USER_STRATEGIES = STRATEGIES[1:]


@st.composite
def logs(draw) -> Interactions:
    users, items = draw(st.integers(2, 12)), draw(st.integers(2, 9))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    likes = rng.random((users, items)) < draw(st.floats(0.1, 0.9))
    likes[np.arange(users), rng.integers(0, items, users)] = True
    return Interactions.from_csr(
        likes, users=[f"u{n}" for n in range(users)], items=[f"i{n}" for n in range(items)]
    )


def _pairs(log: Interactions) -> set[tuple[str, str]]:
    table = log.to_table()
    return set(zip(table["user"].to_pylist(), table["item"].to_pylist(), strict=True))


@pytest.mark.parametrize(("plain", "paper"), samplers.PLAIN.items())
def test_plain_words_for_the_papers_names(small_log: Interactions, plain: str, paper: str) -> None:
    drawn, named = (samplers.sample(small_log, strategy=name, users=5) for name in (plain, paper))
    assert drawn.about == named.about and (drawn.matrix != named.matrix).nnz == 0


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=25, deadline=None)
@given(log=logs(), share=st.floats(0.5, 100), seed=st.integers(0, 99))
def test_by_percent(strategy: str, log: Interactions, share: float, seed: int) -> None:
    out = sample(log, strategy=strategy, percent=share, seed=seed)
    assert out.items == log.items
    assert _pairs(out) <= _pairs(log)
    budget = share / 100 * log.n_interactions
    if strategy == "interaction-rns":
        assert out.n_interactions == max(1, round(budget))
        assert (out.user_counts > 0).all()
    else:
        assert out.n_interactions >= budget * (1 - 1e-9)
        rows = log.users.positions(out.users.ids)
        np.testing.assert_array_equal(out.user_counts, log.user_counts[rows])  # whole users
        # One user fewer would not have been enough: some taken user was the last one.
        assert out.n_interactions - out.user_counts.max() < budget


@pytest.mark.parametrize("strategy", USER_STRATEGIES)
@settings(max_examples=25, deadline=None)
@given(log=logs(), data=st.data())
def test_by_number_of_users(strategy: str, log: Interactions, data) -> None:
    n = data.draw(st.integers(1, log.n_users))
    out = sample(log, strategy=strategy, users=n, seed=3)
    assert out.n_users == n
    assert _pairs(out) <= _pairs(log)
    assert out.items == log.items


@settings(max_examples=25, deadline=None)
@given(log=logs(), data=st.data())
def test_interactions_by_users_is_their_share(log: Interactions, data) -> None:
    n = data.draw(st.integers(1, log.n_users))
    out = sample(log, strategy="interaction-rns", users=n)
    assert out.n_interactions == max(1, round(n / log.n_users * log.n_interactions))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_deterministic_by_seed(strategy: str, small_log: Interactions) -> None:
    first, again = (sample(small_log, strategy=strategy, percent=20, seed=5) for _ in range(2))
    assert _pairs(first) == _pairs(again)
    assert first.users == again.users


@pytest.mark.parametrize("strategy", ["interaction-rns", "user-rns"])
def test_random_ones_follow_the_seed(strategy: str, small_log: Interactions) -> None:
    one, other = (sample(small_log, strategy=strategy, percent=20, seed=seed) for seed in (1, 2))
    assert _pairs(one) != _pairs(other)


def test_everything_is_everything(small_log: Interactions) -> None:
    for strategy in STRATEGIES:
        assert _pairs(sample(small_log, strategy=strategy, percent=100)) == _pairs(small_log)


def test_head_user_takes_the_most_active(small_log: Interactions) -> None:
    out = sample(small_log, strategy="head-user", users=10)
    assert out.user_counts.min() >= np.sort(small_log.user_counts)[-10]


def test_user_rns_is_fair() -> None:
    """Each of 10 users is in a third of the samples of 3: 400 draws, 5 standard deviations (0.023 each)."""
    log = Interactions.from_csr(np.eye(10))
    drawn = [sample(log, strategy="user-rns", users=3, seed=s).users.ids.to_pylist() for s in range(400)]
    share = np.bincount(np.concatenate(drawn), minlength=10) / 400
    assert np.abs(share - 0.3).max() < 5 * np.sqrt(0.3 * 0.7 / 400)


def test_time_travels_along() -> None:
    matrix = sp.csr_array(np.array([[1, 1, 0], [0, 1, 1]], np.float32))
    log = Interactions.from_csr(matrix)
    log = Interactions(log.matrix, log.users, log.items, time=np.array([4, 3, 2, 1]))
    for strategy in STRATEGIES:
        out = sample(log, strategy=strategy, percent=50, seed=1)
        assert out.time is not None
        assert set(out.time.tolist()) <= {4, 3, 2, 1}


def test_auc_against_counting_pairs(small_log: Interactions) -> None:
    scores = np.round(np.random.default_rng(0).normal(size=small_log.n_items), 1)  # with ties
    fast = auc_per_user(small_log.matrix, scores)
    for u in range(0, small_log.n_users, 17):
        own = small_log.matrix[[u]].indices
        a, b = scores[own][:, None], np.delete(scores, own)[None, :]
        assert fast[u] == pytest.approx(((a > b) + 0.5 * (a == b)).mean(), abs=1e-12)


def test_auc_at_the_edges() -> None:
    matrix = sp.csr_array(np.array([[1, 1, 1], [0, 0, 0], [1, 0, 0]], np.float32))
    np.testing.assert_allclose(auc_per_user(matrix, np.array([0.0, 1.0, 2.0])), [0.5, 0.5, 0.25])


def test_svp_cf_takes_users_of_unpopular_taste_first() -> None:
    """90 users like the ten common items, 10 users like what nobody else likes: these are the hard ones."""
    rng = np.random.default_rng(0)
    likes = np.zeros((100, 40), bool)
    likes[:90, :10] = rng.random((90, 10)) < 0.7
    likes[90:, 10:] = rng.random((10, 30)) < 0.3
    likes[:90, 0] = likes[90:, 10] = True
    out = sample(Interactions.from_csr(likes), strategy="svp-cf", users=10)
    assert set(out.users.ids.to_pylist()) == set(range(90, 100))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"strategy": "coreset", "percent": 10}, "interaction-rns"),
        ({"strategy": "user-rns"}, "exactly one"),
        ({"strategy": "user-rns", "percent": 10, "users": 3}, "exactly one"),
        ({"strategy": "user-rns", "percent": 0}, "more than 0"),
        ({"strategy": "user-rns", "percent": 101}, "at most 100"),
        ({"strategy": "user-rns", "users": 0}, "at least 1"),
        ({"strategy": "head-user", "users": 121}, "the log has 120"),
    ],
)
def test_bad_input(small_log: Interactions, options: dict, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        sample(small_log, **options)


def test_empty_log() -> None:
    with pytest.raises(DataError, match="no interactions"):
        sample(Interactions.from_csr(np.zeros((2, 2))), strategy="user-rns", users=1)


def test_svp_cf_leaves_those_it_cannot_judge_for_last() -> None:
    """Who has nothing, or everything, has no AUC: 2 for 1/½ would put them before nearly everybody."""
    rng = np.random.default_rng(0)
    likes = np.zeros((40, 20))
    likes[:38] = rng.random((38, 20)) < np.linspace(0.7, 0.05, 20)
    likes[:38, 0] = 1.0
    likes[:38, 19] = 0.0
    likes[39] = 1.0
    log = Interactions.from_csr(likes)
    assert log.user_counts[38] == 0
    chosen = sample(log, strategy="svp-cf", users=38).users.ids.to_pylist()
    assert set(chosen) == set(range(38))
