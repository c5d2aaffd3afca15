"""`--negative` on `fit` and `evaluate`: what is said, what is saved, and one sentence where nothing is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from infrec import models
from tests.cli.conftest import Infrec

RULES = ("--positive", "rating >= 4", "--negative", "rating <= 2")


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    """Two tastes: who rates one half of the items high rates the other half low."""
    rng = np.random.default_rng(2)
    lines = ["user,item,rating"]
    for user in range(60):
        for item in np.flatnonzero(rng.random(30) < 0.6):
            own = item % 2 == user % 2
            lines.append(f"u{user},i{item},{rng.integers(3, 6) if own else rng.integers(1, 4)}")
    file = tmp_path / "ratings.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.mark.parametrize("model", ["infinite-ae", "ease"])
def test_fit_chooses_a_weight_and_keeps_dislikes(
    infrec: Infrec, ratings: Path, tmp_path: Path, model: str
) -> None:
    out = tmp_path / "model"
    fitted = infrec("fit", ratings, *RULES, "-m", model, "-o", out, "--json")
    assert fitted.code == 0 and "dislikes count with the weight" in fitted.err
    tried = fitted.document["about"]["dislikes"]
    assert tried[0]["weight"] == 0
    assert fitted.document["selected"]["dislikes"] in [one["weight"] for one in tried]
    saved = models.load(out)
    assert saved.log.dislikes is not None
    lists = infrec("recommend", out, "--user", "u1", "-k", "30", "--json").document
    said = {
        saved.log.items[at]
        for at in saved.log.dislikes.matrix[[saved.log.users.positions(["u1"])[0]]].indices
    }
    assert said and not said & {row["item"] for row in lists["recommendations"]}


def test_a_weight_of_ones_own(infrec: Infrec, ratings: Path, tmp_path: Path) -> None:
    done = infrec("fit", ratings, *RULES, "--set", "dislikes=0.3", "-o", tmp_path / "m", "--json")
    assert done.document["selected"]["dislikes"] == 0.3 and "dislikes" not in done.document["about"]


def test_evaluate_counts_them(infrec: Infrec, ratings: Path) -> None:
    measured = infrec("evaluate", ratings, *RULES, "-m", "infinite-ae", "-m", "poprec", "--json")
    assert measured.code == 0 and "poprec learns nothing from dislikes" in measured.err
    assert all("disliked@10" in one["metrics"] for one in measured.document["results"])
    assert "disliked@10" in infrec("evaluate", ratings, *RULES).out
    plain = infrec("evaluate", ratings, *RULES, "--no-search", "--json").document
    assert plain["selected"]["dislikes"] == 0 and "dislikes" not in plain["about"]
    assert "disliked" not in infrec("evaluate", ratings, *RULES[:2]).out


def test_an_update_takes_dislikes_in(infrec: Infrec, ratings: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.csv"
    more.write_text("user,item,rating\nnew,i1,5\nnew,i2,1\n")
    assert infrec("fit", ratings, *RULES, "-o", tmp_path / "m").code == 0
    assert infrec("fit", "--update", tmp_path / "m", more, *RULES, "-o", tmp_path / "m").code == 0
    log = models.load(tmp_path / "m").log
    assert log.dislikes is not None and log.dislikes.matrix[[log.users.positions(["new"])[0]]].nnz == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["--positive", "rating >= 2", "--negative", "rating <= 2"],
            "(rating >= 2) and dislikes (rating <= 2)",
        ),
        (["--negative", "stars <= 2"], "no column 'stars'"),
        (["--negative", "rating <="], "--negative is 'rating <='"),
        (["--negative", "rating <= 5"], "none of the"),
    ],
)
def test_one_sentence_and_nothing_written(
    infrec: Infrec, ratings: Path, tmp_path: Path, words: list[str], sentence: str
) -> None:
    refused = infrec("fit", ratings, *words, "-o", tmp_path / "m")
    assert refused.code in (1, 2) and sentence in " ".join(refused.err.split()), refused.err
    assert not (tmp_path / "m").exists()


def test_a_prepared_dataset_keeps_none(infrec: Infrec, ratings: Path, tmp_path: Path) -> None:
    (tmp_path / "infrec.toml").write_text('["ratings.csv"]\nnegative = "rating <= 2"\n')
    refused = infrec("datasets", "prepare", ratings, "-o", tmp_path / "prepared")
    assert refused.code == 2 and "keeps no dislikes" in refused.err
