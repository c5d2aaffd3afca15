"""Budgets of a summary: users, interactions, percent, bytes; and what happens without one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from infrec.data import Interactions, Summary
from infrec.distillation import size
from infrec.distillation.settings import DistillSettings
from infrec.errors import ConfigError

NONE: dict[str, Any] = dict.fromkeys((*size.BUDGETS, "gamma"))


def _sized(
    log: Interactions, users: int | None = None, mode: str = "weighted", **budget: Any
) -> tuple[int, int]:
    """Users and interactions in all."""
    settings = size.sized(DistillSettings.of(mode), users, NONE | budget, log)
    assert settings.per_user is not None
    return settings.users, round(settings.users * settings.per_user)


@pytest.fixture(scope="module")
def sparse() -> Interactions:
    """2,000 users × 600 items, three interactions each."""
    rng = np.random.default_rng(3)
    matrix = np.zeros((2000, 600))
    matrix[np.arange(2000)[:, None], rng.integers(0, 600, (2000, 3))] = 1
    return Interactions.from_csr(matrix)


def test_a_budget_in_interactions_decides_the_users(sparse: Interactions) -> None:
    """Rows have ten interactions or more; with fewer in all there are fewer users."""
    assert _sized(sparse, total=5000) == (500, 5000)
    assert _sized(sparse, total=830) == (83, 830)
    assert _sized(sparse, total=7) == (1, 7)
    assert _sized(sparse, users=200, total=830) == (200, 830)
    assert _sized(sparse, percent=10) == _sized(sparse, total=round(sparse.n_interactions / 10))
    assert _sized(sparse, users=50, per_user=4) == (50, 200)


@pytest.mark.parametrize("mode", ["weighted", "discrete"])
@pytest.mark.parametrize("budget", [1500, 3000, 6000])
def test_a_budget_in_bytes_is_used_and_kept(sparse: Interactions, mode: str, budget: int) -> None:
    users, total = _sized(sparse, mode=mode, bytes=budget)
    rng = np.random.default_rng(1)
    # Any summary of this size: items by popularity, weights of a few levels.
    rows = np.zeros((users, sparse.n_items))
    at = rng.choice(rows.size, total, replace=False)
    rows.flat[at] = 1.0 if mode == "discrete" else 2.0 ** (-rng.integers(3, 9, total) / 2)
    summary = Summary.of_array(rows, sparse, {})
    assert 0.7 * budget < summary.bytes
    assert size.trimmed(summary, budget).bytes <= budget


def test_trimming_takes_the_smallest_weights_and_no_more_than_need_go(sparse: Interactions) -> None:
    weights = np.linspace(0.01, 1, 3000).round(1).clip(0.1)
    rows = np.zeros((50, sparse.n_items))
    rows.flat[np.random.default_rng(0).choice(rows.size, 3000, replace=False)] = weights
    summary = Summary.of_array(rows, sparse, {})
    cut = size.trimmed(summary, summary.bytes - 500)
    assert summary.bytes - 700 < cut.bytes <= summary.bytes - 500
    gone = (summary.matrix - cut.matrix).data
    assert gone[gone > 0].max() <= cut.matrix.data.min() + 1e-6
    assert size.trimmed(summary, summary.bytes) is summary


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        ({"total": 5, "percent": 3}, "total and percent are given, and each sets the size"),
        ({"bytes": 900, "per_user": 3}, "per_user and bytes are given"),
        ({"total": 6001}, "6,001 interactions were asked for, but the log has"),
        ({"percent": 101}, "interactions were asked for, but the log has"),
        ({"bytes": 10**6}, "1,000,000 bytes were asked for, but the log takes"),
        ({"bytes": 20}, "20 bytes were asked for, too few for one interaction"),
        ({"users": 500, "bytes": 400}, "too few for one interaction of each synthetic user .500"),
        ({"users": 500, "total": 499}, "at least one for each"),
        ({"mode": "soft", "bytes": 900}, "mode is 'soft', whose rows hold every item"),
        ({"percent": 0}, "percent, the size of the summary, is 0"),
    ],
)
def test_a_budget_that_cannot_be_kept_is_one_sentence(
    budget: dict[str, Any], words: str, sparse: Interactions
) -> None:
    with pytest.raises(ConfigError, match=words):
        _sized(sparse, **budget)


def _flat(length: int) -> Interactions:
    """4,000 users of 4,000 items, each of whom has so many that stand side by side."""
    first = np.arange(4000)[:, None]
    matrix = np.zeros((4000, 4000), np.float32)
    matrix[first, (first + np.arange(length)) % 4000] = 1
    return Interactions.from_csr(matrix)


def test_without_a_budget_rows_are_as_long_as_the_log_s_or_half_of_a_small_log(sparse: Interactions) -> None:
    n = sparse.n_interactions
    users, total = _sized(sparse)
    assert total == round(0.5 * n) and users == total // 10  # 6,000 interactions, three a user
    flat = _flat(30)  # 4,000 items equally popular; 500 × 30 would be 15,000
    assert _sized(flat) == (500, 7 * 4000)
    assert _sized(flat, users=500) == (500, 15_000)
    assert _sized(_flat(18)) == (500, 24_000)  # a third is fewer
    # Items of popularity ½, ¼, ¼: 2√2 of them count.
    few = Interactions.from_csr(np.tile([[1, 1, 0], [1, 0, 1]], (50, 1)))
    assert size._items_that_count(few) == pytest.approx(2**1.5)
    dense = Interactions.from_csr(np.random.default_rng(0).random((4000, 120)) < 0.5)
    assert _sized(dense) == (500, round(500 * dense.n_interactions / 4000))
    assert _sized(dense, users=40) == (40, round(40 * dense.n_interactions / 4000))
    assert _sized(sparse, users=400) == (400, round(0.5 * n))
    assert size.sized(DistillSettings.of("discrete"), None, NONE, sparse).per_user is None  # as it was


def test_the_reason_of_a_size(sparse: Interactions) -> None:
    summary = Summary.of(sparse.select_users(np.arange(1000)))
    assert size.reason(NONE | {"users": None}, summary, sparse).endswith("interactions (half of a small log)")
    tail = Summary.of(_flat(60).select_users(np.arange(400)))
    assert size.reason(NONE | {"users": None}, tail, _flat(30)) == (
        "20% of the log's interactions (7 for each of 4,000 items that count, or a third)"
    )
    few = Summary.of(sparse.select_users(np.arange(20)))
    assert size.reason(NONE | {"users": None}, few, sparse) == (
        "1% of the log's interactions (rows as long as the log's, but 10 or more)"
    )
    assert size.reason({"users": 20, "bytes": 900}, few, sparse).endswith("(users=20 and bytes=900)")
