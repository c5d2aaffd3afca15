"""Strata: the bins are a partition, and their parts add up to the whole."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infrec.errors import ConfigError
from infrec.evaluation import Evaluation, by_item_coldness, by_user_coldness


def evaluation(user_counts: list[int], rate: list[float]) -> Evaluation:
    return Evaluation(
        protocol="paper-code",
        split="toy",
        n_users=len(rate),
        k=(10,),
        metrics={"HR@10": float(np.mean(rate))},
        per_user={"HR@10": np.array(rate, float)},
        user_counts=np.array(user_counts),
        item_counts=np.array([0, 9, 1, 5, 7]),
        exposure={10: np.zeros(5, np.int64)},
        item_hits={10: np.array([0, 3, 0, 1, 0])},
        item_held_out=np.array([2, 4, 2, 2, 0]),
    )


def test_users_by_hand() -> None:
    cold, warm = by_user_coldness(evaluation([5, 1, 2, 9], [40, 0, 10, 60]), bins=2)
    assert (cold.label, cold.size, cold.metrics["HR@10"]) == ("1–2", 2, 5)
    assert (warm.label, warm.size, warm.metrics["HR@10"]) == ("5–9", 2, 50)
    assert warm.intervals["HR@10"] == (40, 60)


def test_equal_users_share_a_bin() -> None:
    strata = by_user_coldness(evaluation([1, 1, 1, 1, 1, 2], [0, 0, 0, 0, 0, 6]), bins=3)
    assert [(stratum.label, stratum.size) for stratum in strata] == [("1", 5), ("2", 1)]


def test_items_by_hand() -> None:
    cold, warm = by_item_coldness(evaluation([1], [0]), bins=2)  # item 4 was held out for nobody
    assert (cold.label, cold.size, cold.metrics["found@10"]) == ("0–1", 2, 0)
    assert (warm.label, warm.size) == ("5–9", 2)
    assert warm.metrics["found@10"] == pytest.approx(100 * 4 / 6)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60), st.integers(1, 8))
@settings(deadline=None, max_examples=60)
def test_bins_are_an_ordered_partition(counts: list[int], bins: int) -> None:
    rate = np.linspace(0, 100, len(counts)).tolist()
    strata = by_user_coldness(evaluation(counts, rate), bins=bins)
    assert 1 <= len(strata) <= bins
    assert sum(stratum.size for stratum in strata) == len(counts)
    assert all(a.high < b.low for a, b in pairwise(strata))
    total = sum(stratum.size * stratum.metrics["HR@10"] for stratum in strata) / len(counts)
    assert total == pytest.approx(np.mean(rate))
    if len(set(counts)) == len(counts):
        sizes = [stratum.size for stratum in strata]
        assert max(sizes) - min(sizes) <= 1


def test_no_bins_is_refused() -> None:
    with pytest.raises(ConfigError, match="0 bins"):
        by_user_coldness(evaluation([1], [0]), bins=0)
