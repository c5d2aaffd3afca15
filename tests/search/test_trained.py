"""The search over models trained by epochs: pausing changes nothing, a seed decides, test data does not."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from infrec.data import Interactions
from infrec.models import create
from infrec.search import tune
from infrec.splits import Split, holdout

SPACE = {"latent": (4, 8), "rate": (0.001, 0.01)}


@pytest.fixture(scope="module")
def split(small_log: Interactions) -> Split:
    return holdout(small_log, seed=42)


def test_the_winner_is_what_a_straight_fit_of_its_settings_gives(split: Split) -> None:
    """Paused at every rung while others trained, and the same to the bit."""
    found = tune(create("mf"), split, space=SPACE)
    straight = create("mf", **{name: found.selected[name] for name in SPACE})
    straight.fit(split.train, validation=split.val)
    assert straight.selected == found.selected
    for name, array in straight._arrays().items():
        np.testing.assert_array_equal(array, found.model._arrays()[name], err_msg=name)
    assert len(found.candidates) == found.size == 5  # the shipped settings, and four of the space
    winner = next(c for c in found.candidates if c.dropped is None)
    assert winner.score == max(c.score for c in found.candidates if c.score is not None)
    assert len(winner.rungs) > 1
    assert found.model.candidates == found.candidates


def test_the_seed_decides_the_order_and_test_data_nothing(split: Split) -> None:
    noise = split.test.with_matrix(sp.csr_array(np.ones(split.test.matrix.shape, np.float32)))
    model = create("mf", epochs=5)
    one = tune(model, split, space=SPACE, seed=1)
    same = tune(model, Split(split.train, split.val, noise), space=SPACE, seed=1)
    other = tune(model, split, space=SPACE, seed=2)
    assert [(c.settings, c.score, c.rungs) for c in one.candidates] == [
        (c.settings, c.score, c.rungs) for c in same.candidates
    ]
    assert [c.settings for c in one.candidates] != [c.settings for c in other.candidates]
    assert one.candidates[0].settings == {"latent": model.selected["latent"], "rate": model.selected["rate"]}
    assert one.selected == other.selected


def test_the_papers_grid_is_searched_only_when_asked(split: Split) -> None:
    model = create("mf", epochs=5)
    plain = tune(model, split)
    assert plain.candidates == []
    assert plain.selected == model.selected
    searched = tune(model, split, seconds=1e-9)
    assert searched.size == 7 * 3 * 3
    assert len(searched.candidates) == 1
    assert searched.selected == model.selected


def test_a_summary_is_judged_by_the_histories_of_real_users(split: Split) -> None:
    few = split.train.select_users(np.arange(60))
    found = tune(create("mf", epochs=5), (few, split.val), context=split.train.matrix, space=SPACE)
    assert found.model.log.n_users == 60
    assert all(c.score is not None for c in found.candidates)


def test_where_nothing_is_open_nothing_is_searched(split: Split) -> None:
    """Bias-only is solved exactly unless told otherwise, and has no grid."""
    found = tune(create("bias-only"), split, seconds=5)
    assert found.candidates == []
    assert found.selected["solver"] == "exact"
    assert tune(create("mf", epochs=5), split, seconds=5, space={}).candidates == []
