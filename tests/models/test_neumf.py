"""NeuMF: its scores against the formula written pair by pair."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from infrec.data import Interactions
from infrec.errors import ConfigError
from infrec.models import NeuMF
from tests.models.contract import RecommenderContract


class TestNeuMF(RecommenderContract):
    checkerboard_hits = 20
    small_log_hr10 = (42.0, 56.0)
    scores_are_relative = True

    def make(self) -> NeuMF:
        return NeuMF(latent=8, epochs=20)


def test_the_formula(small_log: Interactions) -> None:
    """b_i + h · (p ⊙ q) + g · MLP([p', q']), with the first layer's matrix put together from its halves."""
    model = NeuMF(latent=8, layers=2, epochs=2).fit(small_log)
    p, scores = model.parameters, model.fitted_scores(slice(None))
    first = np.vstack([p["user1"], p["item1"]])
    for user, item in ((0, 0), (17, 59), (119, 30)):
        own, other = np.split(p["users"][user], 2)
        hidden = np.maximum(np.concatenate([other, p["items_mlp"][item]]) @ first + p["bias1"], 0)
        hidden = np.maximum(hidden @ p["layer2"] + p["bias2"], 0)
        expected = p["bias"][item] + p["product"] @ (own * p["items"][item]) + p["network"] @ hidden
        assert scores[user, item] == pytest.approx(expected, abs=1e-5)


def test_without_jax_the_scores_are_the_same(
    small_log: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = NeuMF(latent=8, epochs=2).fit(small_log)
    compiled = model.score(small_log.matrix)
    monkeypatch.delitem(sys.modules, "jax")
    np.testing.assert_allclose(model.score(small_log.matrix), compiled, atol=1e-5)


def test_bad_settings() -> None:
    with pytest.raises(ConfigError, match="layers is 0; expected"):
        NeuMF(layers=0)


def test_a_network_of_many_layers_ends_in_one_unit(small_log: Interactions) -> None:
    """Seven halvings of 64 leave none: the network would say nothing, whatever it learnt."""
    model = NeuMF(layers=7, epochs=1).fit(small_log)
    assert model.parameters["network"].shape == (1,)
    assert model.parameters["layer7"].shape == (1, 1)
