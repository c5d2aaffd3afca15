"""AUC against the Mann-Whitney statistic, brute force over pairs, and its own standard error."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

from infrec.metrics import pooled_auc_by_user, user_auc


def test_by_hand() -> None:
    # Pairs: 3 > 1, 3 > 2, 2 > 1, and 2 = 2 counts one half.
    one = np.zeros(2, np.int64)
    assert pooled_auc_by_user(np.array([3.0, 2.0]), one, np.array([1.0, 2.0]), one, 1)[0] == 3.5 / 4


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(1, 60), st.integers(1, 8))
@settings(deadline=None, max_examples=60)
def test_pooled_is_mann_whitney_with_ties(seed: int, n_pos: int, n_neg: int, levels: int) -> None:
    rng = np.random.default_rng(seed)
    positives, negatives = rng.integers(0, levels, n_pos) + 0.5, rng.integers(0, levels, n_neg) + 0.5
    expected = mannwhitneyu(positives, negatives).statistic / (n_pos * n_neg)
    users = rng.integers(0, 5, n_pos), rng.integers(0, 5, n_neg)
    auc, contributions = pooled_auc_by_user(positives, users[0], negatives, users[1], 5)
    assert np.isclose(auc, expected) and np.isclose(contributions.mean(), expected)


def test_contributions_give_the_standard_error_over_users() -> None:
    """Scores of a user move together, so pairs are not independent; the contributions must know it.

    400 simulated datasets of 60 users: the mean estimated standard error is within 15 % of the true spread
    (whose own sampling error is 3.5 %). One that takes pairs for independent is off by more than 30 %.
    """
    rng = np.random.default_rng(0)
    users, found, errors = np.repeat(np.arange(60), 6), [], []
    for _ in range(400):
        level = rng.standard_normal((60, 1))  # shared by a user's scores
        skill = rng.standard_normal((60, 1))
        positives = (level + skill + 0.5 + 0.5 * rng.standard_normal((60, 6))).ravel()
        negatives = (level + 0.5 * rng.standard_normal((60, 6))).ravel()
        auc, contributions = pooled_auc_by_user(positives, users, negatives, users, 60)
        found.append(auc)
        errors.append(contributions.std(ddof=1) / np.sqrt(60))
    assert abs(np.mean(errors) / np.std(found) - 1) < 0.15


def test_without_pairs_it_is_a_coin() -> None:
    nothing, nobody = np.zeros(0), np.zeros(0, np.int64)
    auc, contributions = pooled_auc_by_user(np.ones(2), np.array([0, 1]), nothing, nobody, 2)
    assert auc == 0.5 and contributions.tolist() == [0.5, 0.5]


@given(st.integers(0, 2**32 - 1), st.sampled_from([np.float32, np.float64]))
@settings(deadline=None, max_examples=60)
def test_user_auc_is_the_share_of_pairs(seed: int, dtype: type) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(-3, 3, (12, 17)).astype(dtype)
    held_out, context = rng.random((2, 12, 17)) < rng.random((2, 12, 1))
    got = user_auc(scores, sp.csr_array(held_out), sp.csr_array(context))
    for user in range(12):
        positives = scores[user, held_out[user]][:, None]
        negatives = scores[user, ~held_out[user] & ~context[user]][None]
        pairs = (positives > negatives) + 0.5 * (positives == negatives)
        assert np.isclose(got[user], pairs.mean() if pairs.size else 0.5)


def test_user_auc_over_many_blocks() -> None:
    rng = np.random.default_rng(3)
    scores = rng.standard_normal((1500, 700)).astype(np.float32)
    held_out = sp.csr_array(rng.random(scores.shape) < 0.01)
    whole = user_auc(scores, held_out)
    single = [user_auc(scores[[u]], held_out[[u]])[0] for u in range(0, 1500, 97)]
    np.testing.assert_allclose(whole[::97], single)
    assert abs(whole.mean() - 0.5) < 0.015  # random scores; standard error about 0.003
