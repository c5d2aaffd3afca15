"""Who judges a candidate, and by what: the same users for every one, counted as published."""

from __future__ import annotations

import numpy as np
import pytest

from infrec.data import Interactions
from infrec.metrics.ranking import hits, top_k, truncated_ndcg, truncated_recall
from infrec.models import PopRec
from infrec.search import criterion
from infrec.search.criterion import Candidate, Criterion, Metric, draw_judges, early_stopping
from infrec.search.tune import best_first
from infrec.splits import Split, holdout


@pytest.fixture(scope="module")
def split(small_log: Interactions) -> Split:
    return holdout(small_log, seed=42)


@pytest.mark.parametrize("metric", ["HR", "NDCG", "both"])
def test_each_metric_is_the_mean_of_its_formula(split: Split, metric: Metric) -> None:
    model, held = PopRec().fit(split.train), np.diff(split.val.matrix.indptr)
    top = top_k(model.score(split.train.matrix), 12, exclude=split.train.matrix)  # a fifth of 60 items
    hit = hits(top, split.val.matrix)
    recall, ndcg = truncated_recall(hit, held), truncated_ndcg(hit, held)
    expected = {
        "HR": recall.mean(),  # users with nothing held out count 0
        "NDCG": ndcg[held > 0].mean(),
        "both": 0.5 * (ndcg + recall)[held > 0].mean(),
    }
    for block in (7, 512):
        assert Criterion(split.val.matrix, metric=metric, block=block)(model) == pytest.approx(
            100 * expected[metric]
        )


def test_some_judge_where_there_are_many_and_they_are_always_the_same() -> None:
    able = np.arange(0, 100, 2)
    some = draw_judges(able, 10, "judges")
    assert len(set(some)) == 10 and set(some) <= set(able) and (np.diff(some) > 0).all()
    np.testing.assert_array_equal(some, draw_judges(able, 10, "judges"))
    assert list(some) != list(draw_judges(able, 10, "watched users"))
    np.testing.assert_array_equal(draw_judges(able, 50, "judges"), able)


def test_of_a_large_catalogue_fewer_judge(split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    able = np.flatnonzero(np.diff(split.val.matrix.indptr))
    np.testing.assert_array_equal(Criterion(split.val.matrix).judges, able)
    monkeypatch.setattr(criterion, "_ENOUGH", 5)
    monkeypatch.setattr(criterion, "_SCORES", 7 * split.val.n_items)
    assert len(Criterion(split.val.matrix).judges) == 7
    assert len(Criterion(split.val.matrix, most=9).judges) == 9
    monkeypatch.setattr(criterion, "_SCORES", split.val.n_items)
    assert len(Criterion(split.val.matrix).judges) == 5


def test_other_histories_are_judged_by_their_own(split: Split) -> None:
    """A model of the first 60 users, asked with everybody's history: seen items are those of the history."""
    few = PopRec().fit(split.train.select_users(np.arange(60)))
    asked = early_stopping(few.log, split.val, split.train.matrix)
    top = top_k(few.score(split.train.matrix), 12, exclude=split.train.matrix)
    held = np.diff(split.val.matrix.indptr)
    ndcg = truncated_ndcg(hits(top, split.val.matrix), held)[held > 0]
    assert asked(few) == pytest.approx(100 * ndcg.mean())


def test_the_last_of_equals_comes_first() -> None:
    tried = [Candidate({"reg": reg}, score) for reg, score in ((0, None), (1, 5.0), (5, 7.0), (20, 7.0))]
    assert [one.settings["reg"] for one in best_first(tried)] == [20, 5, 1]
