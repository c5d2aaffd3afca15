"""`infrec evaluate --search` over a model trained by epochs, and `--save-selection`."""

from __future__ import annotations

from pathlib import Path

import pytest

from infrec.models import create
from infrec.search import committed
from tests.cli.conftest import Infrec


def test_a_search_is_told_saved_and_read(infrec: Infrec, ratings: Path, tmp_path: Path) -> None:
    fixed = ("--set", "latent=4", "--set", "epochs=5")
    words = ("evaluate", ratings, "-m", "mf", *fixed, "--search", 0.001, "--save-selection", tmp_path / "out")
    document = infrec(*words, "--json").document
    assert document["search"]["criterion"] == "NDCG@100"
    assert document["search"]["of"] == 9  # three rates, three shares of dropout; latent is fixed
    assert document["search"]["tried"] == len(document["candidates"]) == 1
    candidate = document["candidates"][0]
    assert set(candidate) == {"settings", "score", "error", "rungs", "dropped", "seconds"}
    assert "latent" not in candidate["settings"]
    assert candidate["rungs"][-1] == [5, candidate["score"]]

    found = committed.read(str(ratings), "mf", tmp_path / "out")
    assert found is not None
    assert found.settings == document["selected"]
    assert found.settings["latent"] == 4
    assert create("mf", **found.settings).selected == found.settings
    assert found.score == pytest.approx(candidate["score"], abs=1e-4)
    assert found.search["seed"] == 42
    assert found.search["candidates"][0]["settings"] == candidate["settings"]
    assert "--set latent=4 --set epochs=5 --search 0.001 --seed 42" in found.made["command"]
    assert {"infrec", "python", "jax", "optax"} <= set(found.made["versions"])
    assert found.made["date"] and found.made["device"]


def test_without_a_search_nothing_is_found_that_could_be_saved(
    infrec: Infrec, ratings: Path, tmp_path: Path
) -> None:
    ran = infrec("evaluate", ratings, "-m", "ease", "--save-selection", tmp_path)
    assert ran.code == 2
    assert "--search SECONDS" in ran.err


def test_a_closed_form_model_has_a_selection_too(infrec: Infrec, ratings: Path, tmp_path: Path) -> None:
    document = infrec(
        "evaluate", ratings, "-m", "ease", "--search", 60, "--save-selection", tmp_path, "--json"
    ).document
    found = committed.read(str(ratings), "ease", tmp_path)
    assert found is not None
    assert found.settings == document["selected"]
    assert document["search"]["tried"] == document["search"]["of"] == 10


def test_the_score_on_record_is_that_of_what_was_chosen(tmp_path: Path) -> None:
    """∞-AE-plus leaves its settings only for ones that are better by more than chance: the second here was
    tried and not taken."""
    tried = [({"reg": 5.0, "depth": 1}, 31.25), ({"reg": 10.0, "depth": 1}, 31.5), ({"reg": 20.0}, None)]
    document = {
        "dataset": "log.csv",
        "model": "infinite-ae-plus",
        "selected": {"reg": 5.0, "depth": 1, "seed": 42},
        "search": {"seconds": 60.0},
        "candidates": [{"settings": settings, "score": score, "error": None} for settings, score in tried],
        "protocol": "paper-code",
        "metrics": {"HR@10": 1.0},
    }
    committed.save_search(document, tmp_path, (), 42)
    found = committed.read("log.csv", "infinite-ae-plus", tmp_path)
    assert found is not None and found.score == 31.25
