"""implicit's models as experiments ask them."""

from __future__ import annotations

import numpy as np
import pytest

from infrec.data import Interactions
from infrec.errors import ConfigError
from infrec.paper import weighted
from infrec.splits import holdout

pytest.importorskip("implicit")


@pytest.fixture
def two_groups() -> Interactions:
    """Two groups of people, each with the items of its own half."""
    rng = np.random.default_rng(0)
    group = np.arange(60) % 2
    own = (np.arange(20)[None, :] < 10) == (group[:, None] == 0)
    return Interactions.from_csr((own & (rng.random((60, 20)) < 0.7)).astype(np.float32))


@pytest.mark.parametrize("name", weighted.PEERS)
def test_a_history_says_which_half_is_liked(name: str, two_groups: Interactions) -> None:
    split = holdout(two_groups, seed=1)
    model, tried = weighted.Peer.best(name, split.train, split, 42)
    history = np.zeros((2, 20), np.float32)
    history[0, :3] = history[1, 10:13] = 1
    first, second = model.score(Interactions.from_csr(history).matrix)
    assert first[3:10].min() > first[10:].max()
    assert second[13:].min() > second[:10].max()
    values = weighted.GRIDS[name].values()
    assert len(tried) == np.prod([len(each) for each in values])
    assert model.selected == max(tried, key=lambda one: one.score or 0.0).settings


def test_without_implicit_it_says_so(two_groups: Interactions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weighted, "installed", lambda: False)
    with pytest.raises(ConfigError, match="pip install implicit"):
        weighted.Peer(weighted.ALS, two_groups, 42)
