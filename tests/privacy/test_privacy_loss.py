"""The privacy that is really there: simulated on neighbouring logs, and the naming of items by another sum.

Logs go through the command line's reading up to the noise; only the release is repeated. Every secret is
fixed, so every figure is the same in every run.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import ndtr
from scipy.stats import beta

from infrec.cli.reading import Reading, Source
from infrec.data import Vocabulary
from infrec.distillation import dp_sums, private
from infrec.distillation.dp_sums import MOST_ITEMS, SHARES, Release, Sums
from infrec.progress import silent


def gaussian_delta(epsilon: float, multiplier: float) -> float:
    """δ of one Gaussian mechanism (Balle and Wang, ICML 2018, theorem 8), not the accountant's."""
    half, rest = 1 / (2 * multiplier), epsilon * multiplier
    return float(ndtr(half - rest) - math.exp(epsilon) * ndtr(-half - rest))


# ---- the whole mechanism -----------------------------------------------------------------------------------
RUNS = 2000
MULTIPLIER, DELTA = 0.7, 1e-4
EPSILON = 5.9  # gaussian_delta(5.9, 0.7) is just below 1e-4 (tested)


@pytest.fixture(scope="module")
def neighbours(tmp_path_factory: pytest.TempPathFactory) -> tuple[Sums, Sums]:
    """60 users of 12 items in one order, and with one more in another; without a column `split`."""
    folder, rng = tmp_path_factory.mktemp("neighbours"), np.random.default_rng(5)
    likes = [(user, item) for user in range(60) for item in rng.permutation(12)[: 2 + 5 * (user % 2)]]
    more = [*likes, *((-1, item) for item in range(12))]  # sorted before everybody else
    found = []
    for name, rows in (("less", likes), ("more", [more[at] for at in rng.permutation(len(more))])):
        path = folder / f"{name}.csv"
        path.write_text("user,item\n" + "".join(f"{user},{item}\n" for user, item in rows))
        source = Source(str(path), Reading(), None, None, 42)
        log = source.members(source.read_log(silent))
        found.append(private.user_sums(log, Vocabulary.numbered(12)))
    return found[0], found[1]


@pytest.fixture(scope="module")
def likelihoods(neighbours: tuple[Sums, Sums]) -> tuple[np.ndarray, np.ndarray]:
    """The strongest attack's score, log-likelihood ratio of the two logs, over many releases of each."""
    less, more = neighbours
    whole = np.arange(12)
    deviation = {name: MULTIPLIER / math.sqrt(share) for name, share in SHARES.items()}
    apart = {
        "activity": (less.activity, more.activity, deviation["activity"]),
        "items": (less.items, more.items, deviation["items"]),
        "together": (less.together(whole), more.together(whole), deviation["together"] / math.sqrt(2)),
    }

    def score(told: Release) -> float:
        order = np.argsort(told.items)
        seen = {
            "activity": told.activity,
            "items": told.weights[order],
            "together": told.together[np.ix_(order, order)],
        }
        total = 0.0
        for name, (one, other, spread) in apart.items():
            ratio = ((seen[name] - (one + other) / 2) * (other - one)) / spread**2
            total += float(np.triu(ratio, 1).sum() if name == "together" else ratio.sum())
        return total

    return tuple(  # type: ignore[return-value]
        np.array(
            [
                score(dp_sums.release(sums, MULTIPLIER, secret=first + n, threshold_delta=None))
                for n in range(RUNS)
            ]
        )
        for first, sums in ((0, less), (RUNS, more))
    )


def test_the_likelihood_ratio_tells_the_two_logs_apart_no_better_than_claimed(
    likelihoods: tuple[np.ndarray, np.ndarray],
) -> None:
    """Scores of a Gaussian mechanism are normal, μ = 1/σ deviations apart; here the user adds nearly norm 1
    to each sum, so μ is just below. A mean over 2,000 runs is off by 0.03 deviations or less (99.9 %)."""
    less, more = likelihoods
    apart = (more.mean() - less.mean()) / np.sqrt((less.var() + more.var()) / 2)
    assert 0.93 / MULTIPLIER < apart < 1 / MULTIPLIER + 4 * math.sqrt(2 / RUNS)


def test_simulated_privacy_loss_is_below_the_claim(likelihoods: tuple[np.ndarray, np.ndarray]) -> None:
    """ε ≥ ln((TPR − δ) / FPR), with Clopper and Pearson's bounds at 99.9 % for 12 thresholds together."""
    assert gaussian_delta(EPSILON, MULTIPLIER) < DELTA < gaussian_delta(EPSILON - 0.1, MULTIPLIER)
    less, more = likelihoods
    wrong = 0.001 / 24
    proved = []
    for threshold in np.linspace(-1.0, 3.5, 12):
        hits, alarms = int((more > threshold).sum()), int((less > threshold).sum())
        least = beta.ppf(wrong, hits, RUNS - hits + 1) if hits else 0.0
        most = beta.ppf(1 - wrong, alarms + 1, RUNS - alarms) if alarms < RUNS else 1.0
        proved.append(math.log(max(least - DELTA, 1e-300) / most))
    assert max(proved) <= EPSILON
    assert max(proved) > 2, "an attack that proves nothing would pass whatever the noise"


# ---- naming items ------------------------------------------------------------------------------------------
def chance_of_naming(threshold: float, deviation: float, items: int) -> float:
    """That any of a user's private items, each of weight 1/√items, exceeds the threshold with its noise."""
    tail = 0.5 * math.erfc((threshold - 1 / math.sqrt(items)) / (deviation * math.sqrt(2)))
    return -math.expm1(items * math.log1p(-tail))


@pytest.mark.parametrize(("multiplier", "delta"), [(0.7, 1e-4), (1.5, 1e-6), (0.15, 1e-5), (4.0, 1e-9)])
def test_the_threshold_spends_half_of_delta_and_not_more(multiplier: float, delta: float) -> None:
    """Over every number of private items: the largest chance is δ/2 (to a thousandth), by another formula."""
    common = np.ones((4000, 3), np.float32)
    told = private._released(Sums.of(sp.csr_array(common)), multiplier, delta, False, None, False)
    assert told.threshold is not None
    deviation = multiplier / math.sqrt(SHARES["items"])
    chances = [chance_of_naming(told.threshold, deviation, k) for k in range(1, MOST_ITEMS + 1)]
    assert 0.999 * delta / 2 < max(chances) <= 1.000001 * delta / 2


def _with_private_items(items: int, empty: int) -> Sums:
    """50 users of two items, one with so many private ones, and so many columns that nobody has."""
    row = np.concatenate([np.repeat(np.arange(50), 2), np.full(items, 50)])
    column = np.concatenate([np.tile([0, 1], 50), 2 + np.arange(items)])
    log = sp.csr_array((np.ones(len(row)), (row, column)), shape=(51, 2 + items + empty))
    ids = (Vocabulary.numbered(each) for each in log.shape)
    return Sums.of(dp_sums.shortened(log, *ids))


def test_private_items_of_one_user_are_named_with_chance_delta() -> None:
    """A user with 100,000 private items, 2,000 more columns that nobody has: 1,500 releases with δ/2 = 0.05.

    Of the private items 2,000 count, for which the threshold is made: 75 ± 8.4 runs name one; four deviations
    are allowed. Without a bound, or with noise on empty columns, nearly all or twice as many runs would.
    """
    sums = _with_private_items(100_000, 2_000)
    assert (sums.items > 0).sum() == 2 + MOST_ITEMS
    named = 0
    for secret in range(1500):
        told = dp_sums.release(sums, 0.5, secret=secret, threshold_delta=0.05)
        assert sums.items[told.items].all(), "a column that nobody has was named"
        named += int((told.items >= 2).any())
    assert abs(named - 75) < 4 * math.sqrt(1500 * 0.05 * 0.95)


def test_empty_columns_change_nothing() -> None:
    """Items that stand in a test part alone: with or without their columns the same is released."""
    few, many = (_with_private_items(30, empty) for empty in (0, 500))
    for secret in range(20):
        one, other = (dp_sums.release(s, 0.5, secret=secret, threshold_delta=0.05) for s in (few, many))
        for name in ("activity", "items", "weights", "together"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
