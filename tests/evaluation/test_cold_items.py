"""Items held out whole: what the split holds, and that features place them better than chance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from infrec.data import Interactions
from infrec.errors import ConfigError, DataError
from infrec.evaluation.coldness import evaluate_cold_items
from infrec.models import EASE
from infrec.splits.holdout import hold_out_items


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
