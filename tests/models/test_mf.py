"""MF: what was learnt for known users, and how others are folded in."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from infrec.data import Interactions, Summary
from infrec.errors import ConfigError
from infrec.models import MF, load
from infrec.models.gradient_model import DROPOUT, LATENT, RATE
from tests.models.contract import RecommenderContract


class TestMF(RecommenderContract):
    checkerboard_hits = 20
    small_log_hr10 = (48.0, 60.0)
    scores_are_relative = True

    def make(self) -> MF:
        return MF(latent=8, epochs=20)


@pytest.fixture(scope="module")
def fitted(small_log: Interactions) -> MF:
    return MF(latent=8, epochs=20).fit(small_log)


def test_the_formula(fitted: MF, small_log: Interactions) -> None:
    p = fitted.parameters
    expected = p["users"] @ p["items"].T + p["bias"]
    known = fitted.score(small_log.matrix, users=small_log.users.ids)
    np.testing.assert_allclose(known, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(fitted.fitted_scores(slice(None)), known)


def test_a_known_user_needs_no_history_and_a_stranger_has_only_that(fitted: MF) -> None:
    nothing = sp.csr_array((2, 60), dtype=np.float32)
    by_name = fitted.score(nothing, users=["u003", "nobody"])
    np.testing.assert_allclose(by_name[0], fitted.fitted_scores(np.array([3]))[0], rtol=1e-5)
    # Another row of a product of another shape: a sum of 8 terms below 1 and a bias, right to 9 eps.
    np.testing.assert_allclose(by_name[1], fitted.score(nothing)[0], rtol=1e-5, atol=1e-6)


def test_folding_in_is_ridge_on_what_was_learnt(fitted: MF, small_log: Interactions) -> None:
    """The map by another road: augmented least squares instead of the normal equations."""
    p = fitted.parameters
    x = small_log.matrix.toarray().astype(np.float64)
    said = np.hstack([x @ p["items"] / np.sqrt(x.sum(1, keepdims=True)), np.ones((120, 1))])
    added = 1e-3 * (said**2).sum() / 9
    tall = np.vstack([said, np.sqrt(added) * np.eye(9)])
    fold = np.linalg.lstsq(tall, np.vstack([p["users"], np.zeros((9, 8))]), rcond=None)[0]
    expected = said @ fold @ p["items"].T + p["bias"]
    np.testing.assert_allclose(fitted.score(small_log.matrix), expected, atol=1e-3)


def test_an_item_that_nobody_had_says_nothing_of_a_stranger(small_log: Interactions) -> None:
    """A history with it is scored as the history without it, to the last bit: its vector is left out."""
    likes = small_log.matrix.toarray()
    likes[:, 7] = 0
    model = MF(latent=8, epochs=2).fit(Interactions.from_csr(likes))
    without, with_it = likes[:5].copy(), likes[:5].copy()
    with_it[:, 7] = 1
    np.testing.assert_array_equal(*(model.score(sp.csr_array(rows)) for rows in (without, with_it)))


def test_folding_in_is_nearly_as_good(fitted: MF, small_log: Interactions) -> None:
    learnt, folded = fitted.fitted_scores(slice(None)), fitted.score(small_log.matrix)
    same = [np.corrcoef(one, other)[0, 1] for one, other in zip(learnt, folded, strict=True)]
    assert np.median(same) > 0.9


def test_on_a_summary_no_user_is_stored(small_log: Interactions, tmp_path) -> None:
    model = MF(latent=8, epochs=5).fit(Summary.of(small_log))
    assert not model.knows_users
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert "users" not in loaded.parameters
    assert not loaded.knows_users
    rows = small_log.matrix[:3]
    np.testing.assert_array_equal(loaded.score(rows, users=["u003", "u004", "u005"]), model.score(rows))


def test_a_user_without_training_history_is_folded_in(small_log: Interactions) -> None:
    """Nothing was learnt for them: what they bring now decides."""
    likes = small_log.matrix.toarray()
    likes[7] = 0
    model = MF(latent=8, epochs=5).fit(small_log.with_matrix(sp.csr_array(likes)))
    row = small_log.matrix[[7]]
    np.testing.assert_array_equal(model.score(row, users=["u007"]), model.score(row))


def test_the_papers_search_space() -> None:
    assert MF.search_space == {"latent": LATENT, "rate": RATE, "dropout": DROPOUT}
    assert LATENT == (4, 8, 16, 32, 50, 64, 128)
    assert MF().variants() == [{}]  # nobody runs it by accident
    assert len(MF().variants(MF.search_space)) == 63


@pytest.mark.parametrize(
    "changes",
    [
        {"latent": 0},
        {"latent": 2.5},
        {"rate": 0},
        {"rate": True},
        {"dropout": 1.0},
        {"l2": -1},
        {"epochs": "x"},
    ],
)
def test_bad_settings(changes: dict) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(changes))} is .*; expected"):
        MF(**changes)


def test_a_seed_of_any_length(small_log: Interactions) -> None:
    model = MF(seed=2**70, latent=4, epochs=1).fit(small_log)
    assert np.isfinite(model.score(small_log.matrix)).all()
    for wrong in (float("nan"), float("inf"), 10**400):
        with pytest.raises(ConfigError, match="rate is"):
            MF(rate=wrong)
