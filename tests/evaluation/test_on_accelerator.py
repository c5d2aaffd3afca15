"""An evaluation whose scores stay on an accelerator gives the figures of one in main memory.

JAX's CPU backend stands in for the accelerator. Two scores that nearly tie may change places: one user of 120
has a hit more or less, at most.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from infrec.data import Interactions
from infrec.errors import DataError
from infrec.evaluation import evaluate
from infrec.kernels import devices
from infrec.kernels.scores_gpu import ScoresThere
from infrec.models import EASE, InfiniteAE, InfiniteAEPlus, lists, two_sides
from infrec.models.base import Recommender
from infrec.models.fitted import Fitted
from infrec.models.infinite_ae_plus import LADDERS
from infrec.search import tune
from infrec.splits import Split, holdout


@pytest.fixture
def split(small_log: Interactions) -> Split:
    return holdout(small_log, seed=3)


def accelerator(patch: pytest.MonkeyPatch, free: int | None = None) -> list[tuple[int, int]]:
    """One that is worth it from 20 rows on; the shapes of the blocks of scores that were left there."""
    blocks: list[tuple[int, int]] = []
    made = ScoresThere.__init__

    def watched(self: ScoresThere, scores: Any, count: int) -> None:
        made(self, scores, count)
        blocks.append(scores.shape)

    patch.setattr(devices, "device", lambda: "an accelerator")
    patch.setattr(devices, "_WORTH_IT", 20)
    patch.setattr(devices, "device_memory", lambda: free)
    patch.setattr(ScoresThere, "__init__", watched)
    return blocks


MODELS = {
    "infinite-ae": lambda: InfiniteAE(reg=3),
    "few centres": lambda: InfiniteAE(reg=3, solver="nystrom", centres=40),
    "plus": lambda: InfiniteAEPlus(**LADDERS.start),
    "users": lambda: InfiniteAEPlus(**LADDERS.start | {"low_pass_weight": 0, "item_weight": 0}),
}


@pytest.mark.parametrize("protocol", ["paper-code", "textbook", "graph"])
@pytest.mark.parametrize("name", MODELS)
def test_the_figures_are_the_same(
    split: Split, monkeypatch: pytest.MonkeyPatch, name: str, protocol: str
) -> None:
    monkeypatch.setattr(two_sides, "MOST_COMPARED", 50)  # of 60 items
    model: Recommender = MODELS[name]().fit(split.train)
    here = evaluate(model, split, protocol=protocol, intervals=False)
    blocks = accelerator(monkeypatch)
    there = evaluate(model, split, protocol=protocol, intervals=False, batch=50)
    assert blocks == [(50, 60)] * -(-here.n_users // 50)
    for metric, values in here.per_user.items():
        assert np.isclose(there.per_user[metric], values, atol=1e-6).mean() > 0.97, metric
    assert there.metrics["AUC"] == pytest.approx(here.metrics["AUC"], abs=1e-4)


@pytest.mark.parametrize("judges", ["log's own", "others"])
def test_settings_are_chosen_there_too(split: Split, monkeypatch: pytest.MonkeyPatch, judges: str) -> None:
    """Every λ is judged without a score or an α that crosses to main memory; α does when it is asked for."""
    context = split.train.matrix if judges == "others" else None
    expected = tune(InfiniteAE(), split, space={"reg": (1, 5, 50)}, context=context)
    blocks = accelerator(monkeypatch)
    found = tune(InfiniteAE(), split, space={"reg": (1, 5, 50)}, context=context)
    assert len(blocks) == 3
    for one, other in zip(found.candidates, expected.candidates, strict=True):
        assert one.settings == other.settings
        assert one.score == (None if other.score is None else pytest.approx(other.score, abs=1e-4))
    assert found.model.state.alpha._here is None
    np.testing.assert_allclose(found.model.alpha, expected.model.alpha, atol=1e-5)


def test_lists_for_everybody_are_made_there(split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the lists cross; what needs all scores here (re-ranking, some items alone) stays."""
    model = InfiniteAE(reg=3).fit(split.train)
    expected = {seen: model.recommend(k=7, exclude_seen=seen).table.to_pydict() for seen in (True, False)}
    monkeypatch.setattr(lists, "_BATCH_SCORES", 60 * 50)
    blocks = accelerator(monkeypatch)
    for seen in (True, False):
        found = model.recommend(k=7, exclude_seen=seen).table.to_pydict()
        np.testing.assert_allclose(found.pop("score"), expected[seen].pop("score"), atol=1e-5)
        assert found == expected[seen]
    assert blocks == [(50, 60)] * 6
    model.recommend(k=7, diversity=0.3)
    model.recommend(k=7, only=["i00", "i03"])
    assert len(blocks) == 6


def test_what_has_no_room_or_no_way_there_stays(split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    plus = InfiniteAEPlus(**LADDERS.start)
    models = [InfiniteAE(reg=3), InfiniteAE(reg=3, dtype="float64"), plus, EASE(10)]
    fitted = [model.fit(split.train) for model in models]
    expected = [evaluate(model, split, intervals=False).metrics for model in fitted]
    blocks = accelerator(monkeypatch, free=10_000)
    assert [evaluate(model, split, intervals=False).metrics for model in fitted] == expected
    monkeypatch.setattr(devices, "device_memory", lambda: None)
    for model in (fitted[1], fitted[3]):
        evaluate(model, split, intervals=False)
    monkeypatch.setattr(Fitted, "adjusts_scores", True)  # dislikes or new items
    for model in (fitted[0], fitted[2]):
        evaluate(model, split, intervals=False)
    assert not blocks


def test_a_model_over_other_items_is_refused_as_in_main_memory(
    split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted = InfiniteAE(reg=3).fit(Interactions.from_csr(split.train.matrix[:, :50]))
    accelerator(monkeypatch)
    with pytest.raises(DataError, match="the histories have 60 columns; the model has 50 items"):
        evaluate(fitted, split, intervals=False)
