"""Models trained by epochs on the command line: evaluate, fit, recommend, and going on after a stop."""

from __future__ import annotations

from pathlib import Path

import pytest

from infrec import models
from tests.cli.conftest import Infrec

SMALL = ("--set", "latent=8", "--set", "epochs=3")


def test_evaluate_trains_one_configuration(infrec: Infrec, ratings: Path) -> None:
    """Its grid has 63: nobody runs that by accident."""
    document = infrec("evaluate", ratings, "--model", "mf", *SMALL, "--json").document
    assert document["selected"] == models.create("mf", latent=8, epochs=3).selected
    assert document["candidates"] == []
    assert 0 <= document["metrics"]["HR@10"] <= 100


def test_evaluate_on_a_sample_folds_everybody_in(infrec: Infrec, ratings: Path, tmp_path: Path) -> None:
    sampled = infrec(
        "sample", ratings, "--strategy", "user-rns", "--users", 20, "-o", tmp_path / "s", "--json"
    )
    assert sampled.code == 0
    ran = infrec("evaluate", ratings, "--model", "mf", *SMALL, "--train-on", tmp_path / "s", "--json")
    assert ran.code == 0
    assert ran.document["users"]["measured"] == 40


def test_fit_and_recommend(infrec: Infrec, ratings: Path, tmp_path: Path) -> None:
    place = ("--checkpoint", tmp_path / "run")
    fitted = infrec("fit", ratings, "--model", "mf", *SMALL, *place, "-o", tmp_path / "mf", "--json")
    assert fitted.document["selected"]["epochs"] == 3
    assert (tmp_path / "run" / "fit" / "checkpoint" / "manifest.json").is_file()
    table = infrec("recommend", tmp_path / "mf", "--user", "007", "-k", 3, "--json").document
    known = models.load(tmp_path / "mf").recommend(["007"], k=3)
    assert [row["item"] for row in table["recommendations"]] == known["item"]
    again = infrec("fit", ratings, "--model", "mf", *SMALL, *place, "-o", tmp_path / "again", "--json")
    assert again.code == 0
    assert models.load(tmp_path / "again").recommend(k=3) == models.load(tmp_path / "mf").recommend(k=3)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--model", "ease", "--checkpoint", "x"), "ease is not one of them"),
        (("--model", "mf", "--set", "latent=0"), "latent is 0; expected a whole number of at least 1"),
        (("--model", "mf", "--set", "layers=2"), "has no setting 'layers'"),
    ],
)
def test_wrong_usage(
    infrec: Infrec, ratings: Path, tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    ran = infrec("fit", ratings, *words, "-o", tmp_path / "m", "--json")
    assert ran.code == 2
    assert says in ran.document["error"]["message"]
