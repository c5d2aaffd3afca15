"""Evaluation of very many users: a sample of them, in batches, with draws and intervals that do not grow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.stats import mannwhitneyu

from infrec import machine
from infrec.data import Interactions
from infrec.errors import ConfigError, MemoryBudgetError
from infrec.evaluation import evaluate
from infrec.evaluation.evaluate import generator
from infrec.metrics import Negatives, auc, intervals
from infrec.metrics.auc import pooled_auc_by_user
from infrec.models import InfiniteAE
from infrec.splits import Split, holdout


class Known:
    """Scores worked out once: a model's own may differ in the last bits between batches."""

    def __init__(self, model: InfiniteAE, split: Split) -> None:
        self.users, self.scores = split.train.users, model.score(split.test_context)

    def score(self, histories: sp.csr_array, *, users: Sequence[object] | None = None) -> NDArray[np.float32]:
        assert users is not None and len(users) == histories.shape[0]
        return self.scores[self.users.positions(users)]


def share_of_pairs(positives: NDArray[np.floating], negatives: NDArray[np.floating]) -> float:
    """The pooled AUC by the Mann-Whitney statistic."""
    return float(mannwhitneyu(positives, negatives).statistic / (len(positives) * len(negatives)))


@pytest.fixture(scope="module")
def split(small_log: Interactions) -> Split:
    return holdout(small_log)


@pytest.fixture(scope="module")
def model(split: Split) -> InfiniteAE:
    return InfiniteAE(reg=5).fit(split.train)


def test_a_sample_measures_these_users_and_says_so(split: Split, model: InfiniteAE) -> None:
    known = Known(model, split)
    whole = evaluate(known, split, intervals=False)
    some = evaluate(known, split, sample_users=40, seed=3)
    assert (some.n_users, some.population, whole.population) == (40, 120, 120)
    assert "40 of 120 users (seed 3)" in some.split
    people = np.sort(generator(3, "evaluated users").choice(120, 40, replace=False))
    for name in ("HR@10", "NDCG@100", "PSP@10", "novelty@10"):
        np.testing.assert_allclose(some.per_user[name], whole.per_user[name][people])
        low, high = some.intervals[name]
        assert low <= some.metrics[name] <= high
    np.testing.assert_array_equal(some.item_counts, whole.item_counts)
    again = evaluate(known, split, sample_users=40, seed=3)
    assert dict(again.metrics) == dict(some.metrics)
    assert dict(evaluate(known, split, sample_users=40, seed=4).metrics) != dict(some.metrics)


def test_intervals_of_samples_hold_the_whole(split: Split, model: InfiniteAE) -> None:
    """95 % of the intervals of random samples hold the value of all users: of 40, at least 33 (p < 0.002)."""
    whole = evaluate(model, split, intervals=False).metrics["HR@10"]
    hits = 0
    for seed in range(40):
        low, high = evaluate(model, split, sample_users=30, seed=seed).intervals["HR@10"]
        hits += low <= whole <= high
    assert hits >= 33


def test_a_sample_of_everybody_is_everybody(split: Split, model: InfiniteAE) -> None:
    assert dict(evaluate(model, split, sample_users=500).metrics) == dict(evaluate(model, split).metrics)
    with pytest.raises(ConfigError, match="sample_users is 0"):
        evaluate(model, split, sample_users=0)


def negatives(split: Split) -> NDArray[np.int64]:
    return Negatives(split.train.matrix, split.test.matrix).of(0, split.train.n_users)


@pytest.mark.parametrize("batch", [1, 7, 50])
def test_batches_of_any_size_with_draws_in_blocks(
    split: Split, model: InfiniteAE, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auc, "BLOCK", 16)
    known = Known(model, split)
    whole, pieces = evaluate(known, split, batch=120), evaluate(known, split, batch=batch)
    assert dict(pieces.metrics) == dict(whole.metrics)
    drawn = negatives(split)
    at = np.repeat(np.arange(120), np.diff(split.test.matrix.indptr))
    of, place = np.nonzero(drawn >= 0)
    positive, negative = known.scores[at, split.test.matrix.indices], known.scores[of, drawn[of, place]]
    assert pieces.metrics["AUC"] == pytest.approx(share_of_pairs(positive, negative))
    # The model itself, whose products differ with the batch: only pairs that are equal up to rounding may
    # swap, and each counts 1 of all (a score is a sum of 120 terms below 1: it is right to 120 eps).
    equal = np.abs(positive[:, None] - negative).ravel() < 2 * 120 * np.finfo(np.float32).eps
    assert equal.mean() < 1e-3
    own = evaluate(model, split, batch=batch, intervals=False).metrics["AUC"]
    assert own == pytest.approx(whole.metrics["AUC"], abs=max(equal.mean(), 1e-12))


def test_the_first_block_of_draws_is_what_it_always_was(
    split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = negatives(split)
    monkeypatch.setattr(auc, "BLOCK", 50)
    several = negatives(split)
    np.testing.assert_array_equal(several.shape, one.shape)
    assert (several[50:] != one[50:]).any()
    taken = (split.train.matrix + split.test.matrix).toarray() > 0
    rows, place = np.nonzero(several >= 0)
    assert not taken[rows, several[rows, place]].any()


def test_the_pooled_auc_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    scores, user = rng.normal(size=500).round(1), rng.integers(0, 20, 500)
    positive = rng.random(500) < 0.3
    halves = (scores[positive], user[positive], scores[~positive], user[~positive], 20)
    whole, contributions = pooled_auc_by_user(*halves)
    monkeypatch.setattr(auc, "_CHUNK", 37)
    again, same = pooled_auc_by_user(*halves)
    assert (whole, again) == pytest.approx((share_of_pairs(scores[positive], scores[~positive]),) * 2)
    np.testing.assert_allclose(same, contributions)
    assert same.mean() == pytest.approx(whole)


def test_with_many_users_intervals_are_normal(monkeypatch: pytest.MonkeyPatch) -> None:
    """2,000 users: the bootstrap's and the normal's bounds differ by its noise, a tenth of the width."""
    values = np.random.default_rng(0).exponential(size=(2000, 2))
    resampled = intervals.bootstrap(values)
    monkeypatch.setattr(intervals, "MANY", 1000)
    normal = intervals.bootstrap(values)
    np.testing.assert_allclose(normal, resampled, atol=0.1 * (resampled[1] - resampled[0]).max())


def test_it_asks_for_memory_first(split: Split, model: InfiniteAE, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "memory_available", lambda: 1000)
    with pytest.raises(MemoryBudgetError, match=r"an evaluation of 120 users .*--sample-users"):
        evaluate(model, split)
