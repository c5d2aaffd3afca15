"""Settings are chosen on validation, failures recorded, time respected, test never seen."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from infrec.data import Interactions
from infrec.errors import ConfigError, SolveError
from infrec.metrics.ranking import hit_rate_at
from infrec.models import EASE, MF, InfiniteAE, InfiniteAEPlus, PopRec
from infrec.search import tune
from infrec.search.tune import choose_strength
from infrec.splits import Split, holdout


@pytest.fixture(scope="module")
def split(small_log: Interactions) -> Split:
    return holdout(small_log, seed=42)


def test_the_best_on_validation_is_chosen(split: Split) -> None:
    found = tune(InfiniteAE(), split)
    scores = {}
    for reg in InfiniteAE.search_space["reg"][1:]:
        ranked = InfiniteAE(reg=reg).fit(split.train).fitted_scores(slice(None))
        scores[reg] = 100 * hit_rate_at(ranked, split.train.matrix, split.val.matrix, 12).mean()
    assert {c.settings["reg"]: c.score for c in found.candidates[1:]} == pytest.approx(scores)
    assert found.selected["reg"] == max(scores, key=lambda reg: scores[reg])
    assert found.model.log.n_interactions == split.train.n_interactions


def test_fit_chooses_the_same(split: Split) -> None:
    by_fit = EASE().fit(split.train, validation=split.val)
    by_search = tune(EASE(), split)
    assert by_fit.selected == by_search.selected
    assert [c.score for c in by_fit.candidates] == [c.score for c in by_search.candidates]
    histories = split.train.matrix
    np.testing.assert_array_equal(by_fit.score(histories), by_search.model.score(histories))


def test_test_data_changes_nothing(split: Split) -> None:
    rng = np.random.default_rng(0)
    noise = split.test.with_matrix(
        sp.csr_array((rng.random(split.test.matrix.shape) < 0.5).astype(np.float32))
    )
    one, other = tune(InfiniteAE(), split), tune(InfiniteAE(), Split(split.train, split.val, noise))
    assert [c.score for c in one.candidates] == [c.score for c in other.candidates]


def test_fixed_settings_stay_and_a_space_can_be_given(split: Split) -> None:
    assert tune(PopRec(), split).candidates == []
    assert tune(InfiniteAE(reg=20), split).selected["reg"] == 20
    found = tune(InfiniteAE(), split, space={"reg": (2, 3), "depth": (1, 2)})
    assert [dict(c.settings) for c in found.candidates] == [
        {"reg": reg, "depth": depth} for reg in (2, 3) for depth in (1, 2)
    ]
    with pytest.raises(ConfigError, match="no setting 'width'"):
        tune(InfiniteAE(), split, space={"width": (1,)})
    for model in (InfiniteAE(), MF()):
        with pytest.raises(ConfigError, match="no value for 'reg'"):
            tune(model, split, space={"reg": ()})


def test_a_budget_is_kept_and_the_rest_recorded(split: Split) -> None:
    found = tune(EASE(), (split.train, split.val), seconds=1e-9)
    assert found.candidates[0].score is not None
    assert all(c.score is None and "not tried" in (c.error or "") for c in found.candidates[1:])
    assert len(found.candidates) == len(EASE.search_space["reg"])
    with pytest.raises(ConfigError, match="seconds is 0"):
        tune(EASE(), split, seconds=0)


def test_failures_are_recorded(split: Split) -> None:
    twice = np.r_[0 : split.train.n_users, 0:5]
    found = tune(InfiniteAE(), (split.train.select_users(twice), split.val.select_users(twice)))
    assert found.candidates[0].error is not None
    assert found.candidates[0].score is None
    with pytest.raises(SolveError, match="all 1 candidate"):
        tune(
            InfiniteAE(),
            (split.train.select_users(twice), split.val.select_users(twice)),
            space={"reg": (0,)},
        )


def test_a_summary_is_judged_by_the_histories_of_real_users(split: Split) -> None:
    """Fitted on the first 60 users, judged on all 120, given their histories."""
    few = split.train.select_users(np.arange(60))
    found = tune(InfiniteAE(), (few, split.val), context=split.train.matrix)
    model = InfiniteAE(**found.selected).fit(few)
    expected = (
        100 * hit_rate_at(model.score(split.train.matrix), split.train.matrix, split.val.matrix, 12).mean()
    )
    assert max(c.score for c in found.candidates if c.score is not None) == pytest.approx(expected)


def test_progress_is_told(split: Split) -> None:
    told: list[tuple[str, float]] = []
    tune(InfiniteAE(), split, progress=lambda stage, done, total=None, **facts: told.append((stage, done)))
    assert ("choose settings", 6) in told


def test_what_has_its_own_search_takes_no_space(split: Split) -> None:
    with pytest.raises(ConfigError, match=r"infinite-ae-plus .* takes no space; .* InfiniteAEPlus\(reg="):
        tune(InfiniteAEPlus(), split, space={"reg": [1.0, 5.0]})


# ---- what weights count for --------------------------------------------------------------------------------
def listening(small_log: Interactions, *, telling: bool) -> Interactions:
    """Counts over five orders of magnitude: much what one's own group likes, or just noise."""
    rng = np.random.default_rng(4)
    matrix = small_log.matrix.tocsr().copy()
    row = np.repeat(np.arange(120), np.diff(matrix.indptr))
    own = row // 30 == matrix.indices // 15
    matrix.data = np.exp(rng.normal(1, 2.5, matrix.nnz) + 3 * own * telling).astype(np.float32)
    return small_log.with_matrix(matrix)


def test_counts_that_tell_something_are_used(small_log: Interactions) -> None:
    choice = choose_strength(EASE(reg=20.0), holdout(listening(small_log, telling=True)))
    assert choice.strength.how != "none"
    assert choice.scores[choice.strength.how] > choice.scores["none"]


def test_noise_is_left_out(small_log: Interactions) -> None:
    split = holdout(listening(small_log, telling=False))
    choice = choose_strength(EASE(reg=20.0), split)
    assert choice.strength.how == "none" and set(choice.scores) == {"none", "log1p", "quantile", "cap:10"}
    assert choose_strength(EASE(reg=20.0), split.train).scores.keys() == choice.scores.keys()


def test_where_nothing_can_be_held_out_they_are_none() -> None:
    alone = choose_strength(EASE(reg=20.0), Interactions.from_csr(np.diag([1.0, 7.0, 900.0])))
    assert alone.strength.how == "none" and not alone.scores
