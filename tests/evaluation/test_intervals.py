"""Intervals cover what they should, and comparisons see what is paired."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from infrec.errors import ConfigError
from infrec.evaluation import Evaluation, bootstrap, compare
from infrec.metrics.intervals import resampled_means


def evaluation(**per_user: np.ndarray) -> Evaluation:
    n = len(next(iter(per_user.values())))
    none = np.zeros(0, np.int64)
    return Evaluation(
        protocol="paper-code",
        split="toy",
        n_users=n,
        k=(10,),
        metrics={name: float(values.mean()) for name, values in per_user.items()},
        per_user=per_user,
        user_counts=none,
        item_counts=none,
        exposure={},
        item_hits={},
        item_held_out=none,
    )


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    """600 skewed samples of 150 users: 95 % intervals cover the true mean 95 % of the time.

    The percentile bootstrap of a skewed mean covers a little less (about 94 %), and 600 trials have a
    standard error of 0.9 %: between 91 and 98 %.
    """
    samples = np.random.default_rng(0).exponential(1.0, (150, 600))
    low, high = bootstrap(samples)
    assert 0.91 < np.mean((low <= 1) & (high >= 1)) < 0.98


def test_the_spread_is_that_of_a_mean() -> None:
    """Standard deviation of the resampled means ≈ σ/√n: within 8 % (1,000 resamples know it to 2.2 %)."""
    values = np.random.default_rng(1).standard_normal((5000, 3))
    spread = resampled_means(values).std(axis=0)
    np.testing.assert_allclose(spread, values.std(axis=0) / np.sqrt(5000), rtol=0.08)


def test_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(2).random((40, 2))
    whole = resampled_means(values, resamples=101)
    monkeypatch.setattr("infrec.metrics.intervals._BLOCK_ENTRIES", 400)
    np.testing.assert_allclose(resampled_means(values, resamples=101), whole)


def test_the_seed_decides_and_one_user_has_no_spread() -> None:
    values = np.random.default_rng(3).random((50, 1))
    np.testing.assert_array_equal(bootstrap(values, seed=5), bootstrap(values, seed=5))
    assert (bootstrap(values, seed=5) != bootstrap(values, seed=6)).any()
    np.testing.assert_array_equal(bootstrap(np.array([[3.0]])), [[3.0], [3.0]])
    with pytest.raises(ConfigError, match="no users"):
        bootstrap(np.zeros((0, 1)))


def test_a_small_steady_difference_is_seen_although_intervals_overlap() -> None:
    rng = np.random.default_rng(4)
    base = rng.random(400) * 100
    better = base + 1 + rng.standard_normal(400)
    a, b = evaluation(**{"HR@10": better}), evaluation(**{"HR@10": base})
    gain = compare(a, b)["HR@10"]
    assert gain.low > 0 and 0 < gain.p_value < 0.01  # never 0: 1,000 resamples cannot show that
    assert gain.value == pytest.approx(better.mean() - base.mean())
    loss = compare(b, a)["HR@10"]
    assert (loss.value, loss.low, loss.high) == pytest.approx((-gain.value, -gain.high, -gain.low))


def test_no_difference_is_no_difference() -> None:
    a = evaluation(**{"HR@10": np.arange(10.0)})
    none = compare(a, a)["HR@10"]
    assert (none.value, none.low, none.high, none.p_value) == (0, 0, 0, 1)


def test_false_alarms_are_as_rare_as_stated() -> None:
    """200 comparisons of equals: p < 0.05 in about 5 % (binomial, at most 20 has probability 99.9 %)."""
    rng = np.random.default_rng(5)
    alarms = 0
    for _ in range(200):
        a, b = (evaluation(x=rng.standard_normal(80)) for _ in range(2))
        alarms += compare(a, b, resamples=400)["x"].p_value < 0.05
    assert 1 <= alarms <= 20


def test_a_pooled_auc_is_compared_through_its_contributions() -> None:
    base = evaluation(x=np.zeros(50))
    a, b = (dataclasses.replace(base, auc_contributions=np.full(50, auc)) for auc in (0.9, 0.8))
    assert compare(a, b)["AUC"].value == pytest.approx(0.1)


def test_different_users_or_protocols_cannot_be_compared() -> None:
    a = evaluation(x=np.zeros(5))
    with pytest.raises(ConfigError, match="expected the same users, split and protocol"):
        compare(a, evaluation(x=np.zeros(6)))
    with pytest.raises(ConfigError, match="textbook"):
        compare(a, dataclasses.replace(a, protocol="textbook"))
