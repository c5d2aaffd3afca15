"""EASE against its formula written densely, and on real data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from infrec.data import Interactions
from infrec.errors import ConfigError, SolveError
from infrec.kernels import devices
from infrec.models import EASE, ease
from infrec.models.ease import Direct, Factored
from tests.models.contract import RecommenderContract


class TestEASE(RecommenderContract):
    checkerboard_hits = 20
    small_log_hr10 = (62.5, 67.5)

    def make(self) -> EASE:
        return EASE()


@pytest.mark.parametrize("users", [1, 20, 21, None])  # up to 20, the system of the users is the smaller one
@pytest.mark.parametrize("reg", [0.5, 10.0, 300.0])
def test_the_formula(small_log: Interactions, reg: float, users: int | None) -> None:
    log = small_log if users is None else small_log.select_users(np.arange(users))
    x = log.matrix.toarray().astype(np.float64)
    p = np.linalg.inv(x.T @ x + reg * np.eye(60))
    b = np.eye(60) - p / np.diag(p)
    np.fill_diagonal(b, 0)
    model = EASE(reg=reg).fit(log)
    columns = np.stack([model.state.column(item) for item in range(60)], axis=1)
    np.testing.assert_allclose(columns, b, atol=1e-5)
    np.testing.assert_allclose(model.score(log.matrix), x @ b, atol=1e-4)


def test_an_accelerator_gives_the_same_weights(
    small_log: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JAX's CPU stands in; where it has room, no number of items is refused for its time."""
    expected = EASE(reg=10).fit(small_log)
    monkeypatch.setattr(devices, "device", lambda: "a GPU")
    monkeypatch.setattr(devices, "_WORTH_IT", 20)
    there = EASE(reg=10).fit(small_log)
    np.testing.assert_allclose(there.state.weights, expected.state.weights, atol=1e-5)
    np.testing.assert_allclose(there.state.diagonal, expected.state.diagonal, rtol=1e-5)
    monkeypatch.setattr(ease, "_LONGEST", 0)
    EASE().check_time(small_log)
    monkeypatch.setattr(devices, "device", lambda: None)
    with pytest.raises(ConfigError, match="choosing λ of EASE"):
        EASE().check_time(small_log)


def test_few_users_need_nothing_of_the_size_of_items_by_items(
    small_log: Interactions, tmp_path: Path
) -> None:
    """Users × users are learnt and saved; a model of before, which has B, loads too."""
    log = small_log.select_users(np.arange(20))
    model = EASE(reg=3.0).fit(log)
    assert [array.shape for array in model.state.arrays().values()] == [(20, 20), (60,)]
    model.save(tmp_path / "model")
    rows = small_log.matrix[20:40]
    scores = EASE.load(tmp_path / "model").score(rows)
    np.testing.assert_array_equal(scores, model.score(rows))
    columns = np.stack([model.state.column(item) for item in range(60)], axis=1)
    before = model.with_fit(replace(model.fitted, state=Direct(columns)))
    before.save(tmp_path / "before")
    np.testing.assert_allclose(EASE.load(tmp_path / "before").score(rows), scores, atol=1e-5)


@pytest.mark.parametrize("reg", [0.5, 10.0, 300.0])
def test_scores_of_the_logs_own_users_need_a_product_less(small_log: Interactions, reg: float) -> None:
    """XXᵀQX = X − λQX; the rounding errors of both ways are those of the inverse, of about 20/λ."""
    log = small_log.select_users(np.arange(20))
    model = EASE(reg=reg).fit(log)
    assert isinstance(model.state, Factored)
    for rows in (slice(3, 9), np.array([7, 0, 19])):
        np.testing.assert_allclose(model.fitted_scores(rows), model.score(log.matrix[rows]), atol=1e-5)


@pytest.mark.parametrize("items", [2, 6])
def test_without_a_ridge_items_that_nothing_else_explains_are_refused(items: int) -> None:
    """One user with one item, whichever system is solved: 0 / 0 is no answer."""
    with pytest.raises(SolveError, match="larger reg"):
        EASE(reg=0).fit(Interactions.from_csr(sp.csr_array(np.eye(2, items, dtype=np.float32))[[0]]))


def test_each_column_is_the_ridge_of_one_item_on_the_others(small_log: Interactions) -> None:
    """The theorem behind the closed form: column i solves ridge regression of item i on all other items."""
    x = small_log.matrix.toarray().astype(np.float64)
    weights = EASE(reg=7.0).fit(small_log).state.weights
    for item in (0, 17, 59):
        others = np.delete(x, item, axis=1)
        solved = np.linalg.solve(others.T @ others + 7.0 * np.eye(59), others.T @ x[:, item])
        np.testing.assert_allclose(np.delete(weights[:, item], item), solved, atol=1e-5)


def test_the_grid_is_always_searched_and_fine() -> None:
    grid = EASE.search_space["reg"]
    assert len(grid) <= 12
    assert max(np.array(grid[1:]) / np.array(grid[:-1])) <= 10


@pytest.mark.parametrize("reg", [-1, "much", True, float("nan")])
def test_bad_settings(reg: object) -> None:
    with pytest.raises(ConfigError, match="reg is"):
        EASE(reg=reg)  # type: ignore[arg-type]
