"""Rates and curves: hand-worked values, known distributions, and what (ε, δ) allows."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from infrec.privacy import membership


def test_rates_have_exact_intervals() -> None:
    """Clopper–Pearson: 0 of 10 is at most 1 − 0.025^(1/10); 10 of 10 mirrors it."""
    none, every = membership.rate(0, 10), membership.rate(10, 10)
    assert (none.value, none.low) == (0.0, 0.0) and (every.value, every.high) == (1.0, 1.0)
    assert none.high == pytest.approx(1 - 0.025**0.1)
    assert every.low == pytest.approx(0.025**0.1)


@given(st.integers(0, 50), st.integers(1, 50))
def test_an_interval_holds_its_rate(hits: int, more: int) -> None:
    found = membership.rate(hits, hits + more)
    assert 0 <= found.low <= found.value <= found.high <= 1


def test_tpr_at_fpr_by_hand() -> None:
    """Of 100 people of the control, 0 … 99, one may lie above the threshold: it is 98."""
    control = np.arange(100.0)
    assert membership.threshold(control, 0.01) == 98.0
    members = np.array([97.0, 98.0, 98.5, 99.5, 120.0])
    assert membership.tpr_at(members, control, 0.01, seed=1).value == 0.6


def test_two_normal_distributions() -> None:
    """Members shifted by d: AUC = Φ(d/√2), TPR at 1 % = Φ(d − Φ⁻¹(0.99)); within their own intervals."""
    rng = np.random.default_rng(1)
    members, control = rng.normal(1.5, 1, 20_000), rng.normal(0, 1, 20_000)
    found = membership.Membership.of("x", members, control, seed=3)
    assert found.auc.low < stats.norm.cdf(1.5 / math.sqrt(2)) < found.auc.high
    assert found.tpr["1 %"].low < stats.norm.cdf(1.5 - stats.norm.ppf(0.99)) < found.tpr["1 %"].high
    assert set(found.tpr) == {"10 %", "1 %", "0.1 %"}


def test_a_small_control_says_nothing_about_rare_errors() -> None:
    rng = np.random.default_rng(2)
    found = membership.Membership.of("x", rng.normal(size=300), rng.normal(size=60), seed=1)
    assert set(found.tpr) == {"10 %"}


def test_ties_help_nobody() -> None:
    found = membership.Membership.of("x", np.ones(600), np.ones(600), seed=1)
    assert found.auc.value == 0.5 and found.tpr["1 %"].value == 0.0 and found.bound == 0.0


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_bound_never_exceeds_what_was_spent(epsilon: float) -> None:
    """Randomised response with ε: of 40 attacks, at 95 % confidence, at most a few prove more than ε."""
    rng = np.random.default_rng(5)
    honest = math.exp(epsilon) / (1 + math.exp(epsilon))
    bounds = []
    for at in range(40):
        answers = [(rng.random(2000) < p).astype(float) for p in (honest, 1 - honest)]
        bounds.append(membership.epsilon_at_least(*answers, seed=at))
    assert np.mean(np.array(bounds) > epsilon) <= 0.1
    assert np.mean(bounds) > 0.6 * epsilon, "and it is not an empty bound"


def test_the_curve_ends_at_one_and_rises() -> None:
    rng = np.random.default_rng(3)
    curve = membership.curve(rng.normal(0.5, 1, 500), rng.normal(size=400))
    assert curve[-1][0] == 1.0
    assert all(a[0] <= b[0] and a[1] <= b[1] for a, b in pairwise(curve))


def test_the_interval_of_an_auc_is_that_of_the_rank_test_at_one_half() -> None:
    """Mann–Whitney: the deviation of guessing is √((n + m + 1) / 12nm); 1.96 of them reach to ½ exactly."""
    n, m = 40, 30
    reach = 1.96 * math.sqrt((n + m + 1) / (12 * n * m))
    assert membership._compatible(0.5 + reach, 0.0, n, m) == pytest.approx(0.5, abs=1e-9)
    assert membership._compatible(0.5 - reach, 1.0, n, m) == pytest.approx(0.5, abs=1e-9)


@pytest.mark.parametrize(("n", "m"), [(3, 2), (10, 1), (20, 5), (900, 10)])
def test_few_people_who_are_told_apart_by_chance_prove_nothing(n: int, m: int) -> None:
    """Where scores say nothing, an interval above ½ comes up in 1 of 40 cases: at most 20 of 300 here."""
    rng = np.random.default_rng(1)
    found = [membership.auc(rng.normal(size=n), rng.normal(size=m)) for _ in range(300)]
    assert sum(each.low > 0.5 for each in found) <= 20
    assert all(0 <= each.low <= each.value <= each.high <= 1 for each in found)
    best = membership.auc(np.arange(3.0) + 5, np.arange(2.0))
    assert best.value == 1.0 and best.low < 0.5, "of 10 orders of five people, one has all members on top"


def test_the_interval_of_a_high_auc_holds_it() -> None:
    """900 members against 50 others, true AUC 0.90: 95 % of intervals hold it, here at least 92 % of 300."""
    rng = np.random.default_rng(3)
    true = stats.norm.cdf(1.8 / math.sqrt(2))
    found = [membership.auc(rng.normal(1.8, 1, 900), rng.normal(size=50)) for _ in range(300)]
    assert np.mean([each.low <= true <= each.high for each in found]) >= 0.92


def test_two_members_say_little_about_a_rate() -> None:
    """None of two above the threshold: Clopper–Pearson's upper end is 1 − 0.025^(1/2), not 0."""
    found = membership.tpr_at(np.array([-5.0, -6.0]), np.arange(600.0), 0.01, seed=1)
    assert found.value == 0.0 and found.high == pytest.approx(1 - 0.025**0.5)
