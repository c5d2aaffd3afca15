"""The numbers of the paper's protocol on the authors' own split: what a right implementation prints.

One search per dataset serves every test of this file.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from infrec.data import Interactions
from infrec.evaluation import evaluate
from infrec.models import EASE, MF, InfiniteAE, PopRec
from infrec.models.base import Recommender
from infrec.search import tune
from infrec.splits import Split, holdout

pytestmark = pytest.mark.real_data


@pytest.fixture(scope="module")
def ml_1m(real_data: Path) -> Split:
    return holdout(Interactions.read(real_data / "ml-1m.parquet"))


@pytest.fixture(scope="module")
def magazine(real_data: Path) -> Split:
    return holdout(Interactions.read(real_data / "magazine.parquet"))


@pytest.fixture(scope="module")
def infinite_ae(ml_1m: Split) -> InfiniteAE:
    """Of the grid of λ, the best and the one that comes after it: each takes seconds to solve."""
    model = tune(InfiniteAE(), ml_1m, space={"reg": [5, 20]}).model
    assert isinstance(model, InfiniteAE)
    return model


def metrics(model: Recommender, split: Split) -> dict[str, float]:
    return evaluate(model, split, protocol="paper-code", intervals=False).metrics


def test_ml_1m_chooses_what_was_published(infinite_ae: InfiniteAE) -> None:
    assert infinite_ae.selected["reg"] == 5
    scores = [candidate.score for candidate in infinite_ae.candidates]
    assert scores == pytest.approx([58.23, 53.59], abs=0.01)


def test_ml_1m_golden(infinite_ae: InfiniteAE, ml_1m: Split) -> None:
    found = metrics(infinite_ae, ml_1m)
    golden = {"HR@10": 31.91, "HR@100": 60.91, "NDCG@10": 33.39, "NDCG@100": 43.33, "PSP@10": 3.29}
    assert {name: found[name] for name in golden} == pytest.approx(golden, abs=0.02)
    assert found["AUC"] == pytest.approx(0.946, abs=0.001)


def test_ml_1m_training_users_fold_in(infinite_ae: InfiniteAE, ml_1m: Split) -> None:
    """Θ(x, X) α against X − λ m α in float32: an error of 1e-4 would move no ranking that matters."""
    rows = np.arange(0, 6040, 60)
    folded = infinite_ae.score(ml_1m.train.matrix[rows])
    np.testing.assert_allclose(infinite_ae.fitted_scores(rows), folded, atol=1e-4)


def test_ml_1m_neighbours_make_sense(infinite_ae: InfiniteAE) -> None:
    """Alien (1214): Aliens (1200) first. Toy Story (1): Toy Story 2 (3114) first."""
    assert infinite_ae.similar(1214, k=1)["item"] == [1200]
    assert infinite_ae.similar(1, k=1)["item"] == [3114]


def test_ml_1m_ease_and_popularity(ml_1m: Split) -> None:
    found = metrics(EASE(reg=1000).fit(ml_1m.train), ml_1m)
    golden = {"HR@10": 32.26, "HR@100": 59.98, "NDCG@10": 34.07, "NDCG@100": 43.17}
    assert {name: found[name] for name in golden} == pytest.approx(golden, abs=0.02)
    assert metrics(PopRec().fit(ml_1m.train), ml_1m)["HR@10"] == pytest.approx(13.51, abs=0.05)


def test_magazine_golden(magazine: Split) -> None:
    """1,415 users repeat another's history: λ = 0 fails, is recorded and skipped."""
    model = InfiniteAE().fit(magazine.train, validation=magazine.val)
    assert model.selected["reg"] == 20
    assert "1415 users" in (model.candidates[0].error or "")
    found = metrics(model, magazine)
    golden = {"HR@10": 25.15, "HR@100": 61.09, "NDCG@10": 21.93}
    assert {name: found[name] for name in golden} == pytest.approx(golden, abs=0.1)
    assert metrics(PopRec().fit(magazine.train), magazine)["HR@10"] == pytest.approx(14.43, abs=0.1)


def test_magazine_with_repeats_summed(real_data: Path) -> None:
    split = holdout(Interactions.read(real_data / "magazine.parquet", duplicates="sum"))
    found = metrics(InfiniteAE(reg=20).fit(split.train), split)
    golden = {"HR@10": 25.57, "HR@100": 61.10, "NDCG@10": 22.13}
    assert {name: found[name] for name in golden} == pytest.approx(golden, abs=0.02)


def test_magazine_mf(magazine: Split) -> None:
    """MF with its shipped settings (27.0 / 22.5; the paper's: 18.3 / 13.1), and by history alone."""
    model = MF().fit(magazine.train, validation=magazine.val)
    found = metrics(model, magazine)
    assert found["HR@10"] == pytest.approx(27.0, abs=1.0)
    assert found["NDCG@10"] == pytest.approx(22.5, abs=1.0)
    model.parameters["fold"] = model._fold()
    del model.parameters["users"]
    folded = metrics(model, magazine)
    assert folded["HR@10"] > 24
