"""Strata are a partition, and their parts add up to the whole; of items held out whole, what the split holds,
and that features place them better than chance."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infrec.data import Interactions
from infrec.errors import ConfigError, DataError
from infrec.evaluation import Evaluation, by_item_coldness, by_user_coldness
from infrec.evaluation.coldness import evaluate_cold_items
from infrec.models import EASE
from infrec.splits.holdout import hold_out_items


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


@pytest.fixture(scope="module")
def log(small_log: Interactions) -> Interactions:
    assert small_log.item_info is not None
    kinds = [f"k{at // 15}" for at in range(60)]
    return replace(small_log, item_info=small_log.item_info.append_column("kind", pa.array(kinds)))


def test_the_parts_make_the_log_again(log: Interactions) -> None:
    split = hold_out_items(log, 0.2, seed=5)
    assert len(split.new) == 12 and split.train.users == log.users
    assert sorted([*split.new, *split.known]) == list(range(60))
    whole = np.zeros(log.matrix.shape, np.float32)
    whole[:, split.known], whole[:, split.new] = split.train.matrix.toarray(), split.held_out.toarray()
    np.testing.assert_array_equal(whole, log.matrix.toarray())
    assert split.train.items.ids.to_pylist() == [log.items[at] for at in split.known]
    assert split.train.titles is not None
    assert split.train.titles.to_pylist() == [f"Item {at}" for at in split.known]
    assert (hold_out_items(log, 0.2, seed=5).new == split.new).all()
    assert (hold_out_items(log, 0.2, seed=6).new != split.new).any()


@pytest.mark.parametrize("share", [0, 1, -0.1, float("nan"), 2])
def test_shares_that_are_none(log: Interactions, share: float) -> None:
    with pytest.raises(ConfigError, match="expected a number above 0 and below 1"):
        hold_out_items(log, share)


def test_too_few_items(checkerboard: Interactions) -> None:
    with pytest.raises(DataError, match="0 items; expected some to hold out"):
        hold_out_items(checkerboard, 0.01)


def test_features_place_items_that_nobody_has(log: Interactions) -> None:
    """Twelve items of four kinds, of which each person likes one: three of the first four or so are right.

    By chance HR@10 of twelve would be 10/12; NDCG@10 tells more.
    """
    found = evaluate_cold_items(EASE(), log, 0.2, seed=1)
    assert (found.model, found.items, found.features) == ("ease", 12, ("kind",))
    assert found.users == np.count_nonzero(np.diff(hold_out_items(log, 0.2, seed=1).held_out.indptr))
    ndcg = {way: metrics["NDCG@10"] for way, metrics in found.metrics.items()}
    assert list(ndcg) == ["ease", "content", "popularity", "random"]
    assert ndcg["ease"] > ndcg["random"] + 15 and ndcg["ease"] > ndcg["popularity"] + 15
    assert 100 * 0.5 < ndcg["ease"] <= 100 and found.metrics["random"]["HR@100"] == pytest.approx(100)


def test_without_features_it_says_so(small_log: Interactions) -> None:
    with pytest.raises(DataError, match="no column of the items says what kind"):
        evaluate_cold_items(EASE(reg=10), small_log)
