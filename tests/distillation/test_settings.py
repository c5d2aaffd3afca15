"""Settings are checked when they are made, each with a sentence of its own."""

from __future__ import annotations

import json

import numpy as np
import pytest

from infrec.data import Interactions
from infrec.distillation import DistillSettings, distill, start
from infrec.distillation.settings import MODES
from infrec.errors import ConfigError, DataError

pytestmark = pytest.mark.usefixtures("compiled_quickly")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"users": 0}, "users is 0; expected a whole number of at least 1"),
        ({"users": -3}, "users is -3"),
        ({"tau": 0.0}, "tau is 0.0; expected a number above 0"),
        ({"tau": float("nan")}, "tau is nan"),
        ({"draws": 0}, "draws is 0"),
        ({"mass": -1.0}, "mass is -1.0"),
        ({"per_user": 0.0}, "per_user is 0.0"),
        ({"hidden": 1.0}, "hidden is 1.0; expected a number of at least 0 and below 1"),
        ({"hidden": -0.1}, "hidden is -0.1"),
        ({"steps": 0}, "steps is 0"),
        ({"rate": float("inf")}, "rate is inf"),
        ({"reg_grid": ()}, r"reg_grid is \(\)"),
        ({"reg_grid": (1.0, -1.0)}, r"reg_grid is \(1.0, -1.0\)"),
        ({"reg_grid": 5.0}, "reg_grid is 5.0; expected one or more of: a number of at least 0"),
        ({"start": "heaven"}, "start is 'heaven'; expected 'popularity', 'users'"),
        ({"loss": "hinge"}, "loss is 'hinge'"),
        ({"colour": 3}, "distill has no setting 'colour'"),
        ({"batch": 0}, "batch is 0"),
        ({"depth": 1.5}, "depth is 1.5; expected a whole number of at least 0"),
        ({"seed": 0.5}, "seed is 0.5; expected a whole number"),
        ({"users": 4.0}, "users is 4.0; expected a whole number"),
        ({"users": "4"}, "users is '4'"),
        ({"tau": "warm"}, "tau is 'warm'; expected a number above 0"),
    ],
)
def test_bad_settings(settings: dict, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        DistillSettings.of("discrete", **settings)


def test_unknown_mode() -> None:
    with pytest.raises(ConfigError, match="weighted, discrete, soft, published"):
        DistillSettings.of("cubist")


@pytest.mark.parametrize("mode", MODES)
def test_settings_survive_a_manifest(mode: str) -> None:
    config = DistillSettings.of(mode, users=7, reg_grid=(0.1, 2.0))
    assert DistillSettings.from_dict(config.to_dict()) == config


def test_numbers_of_numpy_are_numbers() -> None:
    """From a sweep over an array: what is made can be saved."""
    config = DistillSettings.of(
        users=np.int64(7), tau=np.float32(0.5), seed=np.int32(3), reg_grid=np.array([0.1, 2.0])
    )
    assert json.loads(json.dumps(config.to_dict())) == config.to_dict()
    assert (config.users, config.tau, config.reg_grid) == (7, 0.5, (0.1, 2.0))


@pytest.mark.parametrize(("given", "kept"), [({"patience": None}, None), ({"batch": None}, 150), ({}, 150)])
def test_early_stopping_can_be_turned_off(small_log: Interactions, given: dict, kept: int | None) -> None:
    made = distill(small_log, 4, mode="published", steps=1, validate_every=1, gamma=2, **given)
    assert made.about["settings"]["patience"] == kept


def test_none_takes_back_what_a_config_has(small_log: Interactions) -> None:
    config = DistillSettings.of("published", users=4, steps=1, validate_every=1, draws=2, batch=50)
    settings = distill(small_log, settings=config, batch=None, seed=None).about["settings"]
    assert settings["batch"] is None and settings["seed"] == config.seed


def test_the_data_fills_the_gaps() -> None:
    config = DistillSettings.of("soft", users=500).resolved(
        n_users=6040, n_items=3706, interactions=6040 * 131
    )
    assert (config.draws, config.mass, config.per_user) == (200, 100, 131)
    few = DistillSettings.of("soft", users=50).resolved(n_users=3000, n_items=1305, interactions=9000)
    assert (few.draws, few.mass, few.per_user) == (100, 100, 10)


class TestBadInput:
    """More synthetic users than users, users = 0, one user, nothing: a sentence each, before any work."""

    def test_more_synthetic_users_than_users(self, small_log: Interactions) -> None:
        with pytest.raises(
            ConfigError, match="500 synthetic users were asked for, but the log has 120 users"
        ):
            distill(small_log, users=500)

    def test_no_users(self, small_log: Interactions) -> None:
        with pytest.raises(ConfigError, match="users is 0"):
            distill(small_log, users=0)

    @pytest.mark.parametrize("gamma", [0, -5])
    def test_gamma(self, small_log: Interactions, gamma: int) -> None:
        with pytest.raises(ConfigError, match=f"mass is {gamma}"):
            distill(small_log, users=5, gamma=gamma)

    def test_tau(self, small_log: Interactions) -> None:
        with pytest.raises(ConfigError, match="tau is -1"):
            distill(small_log, users=5, tau=-1.0)

    def test_one_user(self) -> None:
        with pytest.raises(DataError, match="the log has 1 user"):
            distill(Interactions.from_csr(np.ones((1, 9))), users=1)

    def test_no_interactions(self) -> None:
        with pytest.raises(DataError, match="no interactions"):
            distill(Interactions.from_csr(np.zeros((3, 9))), users=1)

    def test_nothing_to_validate_on(self) -> None:
        with pytest.raises(DataError, match="no user has a validation item"):
            distill(Interactions.from_csr(np.eye(5)), users=2, per_user=1)

    def test_more_interactions_than_items(self, small_log: Interactions) -> None:
        with pytest.raises(ConfigError, match="there are 60 items"):
            distill(small_log, users=5, per_user=61)

    def test_two_sizes(self, small_log: Interactions) -> None:
        with pytest.raises(ConfigError, match="at most one"):
            distill(small_log, users=5, per_user=5, percent=10)

    def test_too_small_a_size(self, small_log: Interactions) -> None:
        with pytest.raises(ConfigError, match="at least one for each"):
            distill(small_log, users=50, total=20)

    def test_target_and_users(self, small_log: Interactions) -> None:
        with pytest.raises(ConfigError, match="both users and target"):
            distill(small_log, users=5, target=0.9)

    def test_target_out_of_range(self, small_log: Interactions) -> None:
        with pytest.raises(ConfigError, match=r"target is 1\.5"):
            distill(small_log, target=1.5)


class TestStarts:
    def test_row_sizes_follow_the_data_and_keep_the_total(self, small_log: Interactions) -> None:
        config = DistillSettings(users=40, per_user=7.25, size_power=1.0)
        sizes = start.row_sizes(small_log.matrix, config)
        assert sizes.sum() == 290
        assert (np.diff(sizes) >= 0).all() and sizes.min() >= 1
        even = start.row_sizes(small_log.matrix, DistillSettings(users=40, per_user=7.25, size_power=0.0))
        assert even.sum() == 290 and set(even) == {7, 8}
        assert sizes.std() > even.std()

    def test_popularity_start_sees_counts_only(self, small_log: Interactions) -> None:
        """Two logs with the same item counts and other users give the same start."""
        rng = np.random.default_rng(0)
        dense = small_log.matrix.toarray()
        shuffled = np.stack([rng.permutation(column) for column in dense.T]).T
        config = DistillSettings(users=10, start="popularity")
        one, other = (start.logits(Interactions.from_csr(x).matrix, config) for x in (dense, shuffled))
        np.testing.assert_array_equal(one, other)

    def test_users_start_is_rows_of_users(self, small_log: Interactions) -> None:
        found = start.logits(small_log.matrix, DistillSettings(users=10, start="users", start_noise=0.0))
        rows = {tuple(row) for row in small_log.matrix.toarray()}
        assert all(tuple(row) in rows for row in found)

    def test_an_item_nobody_has(self) -> None:
        likes = np.random.default_rng(0).random((30, 12)) < 0.4
        likes[:, 3] = False
        found = start.logits(Interactions.from_csr(likes).matrix, DistillSettings(users=5))
        assert np.isfinite(found).all()
