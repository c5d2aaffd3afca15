"""The trial on an accelerator measures what the one in main memory does; JAX runs on what there is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from infrec.data import Interactions
from infrec.errors import SolveError
from infrec.kernels import devices
from infrec.models import InfiniteAEPlus, two_sides
from infrec.models.infinite_ae_plus import LADDERS
from infrec.models.infinite_ae_plus_trial import Trial
from infrec.models.infinite_ae_plus_trial_gpu import DeviceTrial, _Scores
from infrec.search.criterion import quality
from infrec.search.ladder import Climb
from infrec.splits import hide

START = dict(LADDERS.start)
OTHERS = {"low_pass_weight": 1.0, "reg": 1.25, "item_reg": 0.3, "item_power": 0.0, "target_power": 1.0}
SETTINGS = [
    START,
    START | {"item_weight": 0.0, "low_pass_weight": 0.0},
    START | {"item_weight": 2.0, "popularity_power": 0.3},
    START | OTHERS,
    START | {"user_power": 0.0, "item_power": 0.0, "target_power": 0.0, "item_weight": 0.0},
]


@pytest.fixture
def accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX's CPU backend stands in for one that is worth it from 50 rows on."""
    monkeypatch.setattr(devices, "device", lambda: "an accelerator")
    monkeypatch.setattr(devices, "_WORTH_IT", 50)


@pytest.fixture(scope="module")
def pairs(small_log: Interactions) -> Iterator[dict[str, tuple[Trial, DeviceTrial]]]:
    """Judges who are the log's users, and others: with histories that are no rows of the log. On the item
    side are 50 of 60 items."""
    patch = pytest.MonkeyPatch()
    for name in ("MOST_COMPARED", "MOST_THERE"):
        patch.setattr(two_sides, name, 50)
    left, hidden = hide(small_log, seed=3)
    other, of_others = hide(small_log, seed=4)
    own = (left.matrix, hidden.matrix)
    others = (left.matrix, of_others.matrix[:100], other.matrix[:100])
    yield {
        "own users": (Trial(*own), DeviceTrial(*own)),
        "other users": (Trial(*others), DeviceTrial(*others)),
    }
    patch.undo()


@pytest.mark.parametrize("judges", ["own users", "other users"])
@pytest.mark.parametrize("settings", SETTINGS, ids=["start", "users", "wide", "others", "plain"])
def test_both_measure_the_same(
    pairs: dict[str, tuple[Trial, DeviceTrial]], settings: dict[str, Any], judges: str
) -> None:
    """Of users in the log, scores agree to 5e-6 of the largest one: no kernel is needed. Of others, to √eps:

    Θ holds the angle between rows, the root of a difference that is 0 up to eps where a history is that of a
    user in the log; two orders of adding up show as √eps there. A near tie may fall the other way, so nearly
    all judges agree.
    """
    close = 5e-6 if judges == "own users" else float(np.sqrt(np.finfo(np.float32).eps))
    here, there = pairs[judges]
    parts = ["by_users"]
    parts += ["low_pass"] if settings["low_pass_weight"] else []
    parts += ["by_items", "completed"] if settings["item_weight"] else []
    for part in parts:
        a, b = here.part(part, settings), there.part(part, settings)
        both, largest = np.asarray(b.both), np.abs(a.judges).max()
        np.testing.assert_allclose(both[: len(here.rows)], a.judges, rtol=0, atol=close * largest)
        np.testing.assert_allclose(both[-len(here.sample) :], a.sample, rtol=0, atol=5e-6 * largest)
        assert b.spread == pytest.approx(a.spread, rel=1e-5)
    expected, found = here.quality(settings), there.quality(settings)
    assert found.shape == (len(here.rows),)
    assert expected.std() > 5
    assert np.isclose(found, expected).mean() > 0.97


@pytest.mark.parametrize("power", LADDERS.values["popularity_power"])
def test_each_popularity_power(pairs: dict[str, tuple[Trial, DeviceTrial]], power: float) -> None:
    here, there = pairs["own users"]
    settings = START | {"popularity_power": power}
    assert np.isclose(there.quality(settings), here.quality(settings)).mean() > 0.97


@pytest.mark.parametrize("seed", range(5))
def test_ranks_are_those_of_top_k(seed: int) -> None:
    """Scores of few values, so that nearly everything is a tie; with hidden items that were seen as well,
    zeros of either sign, and judges who have seen all but a few items."""
    rng = np.random.default_rng(seed)
    seen = sp.csr_array((rng.random((120, 60)) < rng.choice([0.2, 0.97], (120, 1))).astype(np.float32))
    held = sp.csr_array(rng.random((120, 60)) < 0.2)
    trial = DeviceTrial(seen, held)
    assert len(trial.rows) == 120
    scores = np.zeros((trial._asked.shape[0], 60), np.float32)
    scores[:120] = rng.choice([-2.0, -0.0, 0.0, 1.0], (120, 60))
    expected = quality(scores[:120], seen, held, "both")
    found = trial._judged([(_Scores(scores, 1.0), 1.0)], np.ones(60, np.float32))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_scores_that_are_no_numbers_are_refused(pairs: dict[str, tuple[Trial, DeviceTrial]]) -> None:
    trial = pairs["own users"][1]
    for wrong in (np.nan, np.inf):
        columns = np.ones(60, np.float32)
        columns[7] = wrong
        with pytest.raises(SolveError, match="NaN or infinite"):
            trial._judged([(trial.part("by_users", START), 1.0)], columns)


def test_a_kernel_without_a_factor_is_refused(pairs: dict[str, tuple[Trial, DeviceTrial]]) -> None:
    left = pairs["own users"][0].matrix
    twice = sp.csr_array(sp.vstack([left[:117], left[:3]]))
    trial = DeviceTrial(twice, pairs["own users"][0].hidden)
    with pytest.raises(SolveError, match=r"1 candidate settings failed; .* reg=0 is not positive definite"):
        Climb([trial], LADDERS, START | {"reg": 0.0}).run()
    assert np.isfinite(trial.quality(START)).all()


@pytest.mark.usefixtures("accelerator")
def test_the_search_chooses_the_same(small_log: Interactions, monkeypatch: pytest.MonkeyPatch) -> None:
    there = InfiniteAEPlus().fit(small_log)
    monkeypatch.undo()
    here = InfiniteAEPlus().fit(small_log)
    assert there.selected == here.selected
    assert [c.settings for c in there.candidates] == [c.settings for c in here.candidates]
    scores = [[c.score for c in model.candidates if c.score is not None] for model in (there, here)]
    np.testing.assert_allclose(*scores, atol=0.05)
    expected = here.score(small_log.matrix)
    np.testing.assert_allclose(there.score(small_log.matrix), expected, atol=2e-5 * np.abs(expected).max())


@pytest.mark.usefixtures("accelerator")
def test_who_has_no_room_or_another_precision_stays(
    small_log: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kinds(**settings: Any) -> set[type]:
        return {type(trial) for trial in InfiniteAEPlus(**settings)._trials(small_log, None, None)}

    assert kinds() == {DeviceTrial}
    assert kinds(dtype="float64") == {Trial}
    monkeypatch.setattr(devices, "device_memory", lambda: 100_000_000)
    assert DeviceTrial.fits(120, 60, "float32", trials=1)
    assert not DeviceTrial.fits(120, 60, "float32", trials=100)
    monkeypatch.setattr(devices, "device_memory", lambda: 1_500_000)
    assert kinds() == {Trial}
    found = InfiniteAEPlus().fit(small_log)  # its kernels are solved there all the same
    monkeypatch.setattr(devices, "device", lambda: None)
    expected = InfiniteAEPlus().fit(small_log)
    assert found.selected == expected.selected


@pytest.mark.usefixtures("accelerator")
def test_a_kernel_makes_room_where_two_have_none(
    small_log: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a trial in main memory that solves on the accelerator."""
    monkeypatch.setattr(devices, "device_memory", lambda: 10**9)
    needed = devices.exact_fit_budget(120, 60, "float32")[0]
    trial = Trial(small_log.matrix, small_log.matrix)
    for free, kernels in ((1.5, 1), (2.5, 2)):
        monkeypatch.setattr(devices, "device_memory", lambda free=free: int(free * needed))
        assert trial._kernels_with_room() == kernels
