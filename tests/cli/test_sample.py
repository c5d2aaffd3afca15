"""`infrec sample`: train part only, every item kept, and models train on it."""

from __future__ import annotations

import shlex
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from infrec import artifacts, samplers
from infrec.cli.sample import sample
from infrec.data import Interactions
from infrec.splits import holdout
from tests.cli.conftest import Infrec

pytestmark = pytest.mark.usefixtures("compiled_quickly")

SAID = (*samplers.PLAIN, *(name for name in samplers.STRATEGIES if name not in samplers.PLAIN.values()))
NAMED = ", ".join(SAID[:-1]) + f" or {SAID[-1]}."
STRATEGIES = ("interaction-rns", "user-rns", "head-user", "svp-cf")


def test_the_help_names_every_strategy() -> None:
    """By hand, because help is shown without the arrays that samplers need."""
    assert sample.__annotations__["strategy"].__metadata__[0].help == NAMED


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_sample_is_a_part_of_the_train_part_over_all_items(
    strategy: str, infrec: Infrec, ratings: Path, tmp_path: Path
) -> None:
    ran = infrec("sample", ratings, "--strategy", strategy, "--users", 10, "--out", tmp_path / "s", "--json")
    assert ran.code == 0
    document = ran.document
    split = holdout(Interactions.read(ratings), seed=42)
    train = {(row["user"], row["item"]) for row in split.train.to_table().to_pylist()}
    rows = pq.read_table(tmp_path / "s" / "interactions.parquet").to_pylist()
    assert {(row["user"], row["item"]) for row in rows} <= train
    assert all(row["weight"] == 1 for row in rows)
    assert document["interactions"] == len(rows)
    assert document["users"] == len({row["user"] for row in rows})
    if strategy == "interaction-rns":
        assert document["interactions"] == round(len(train) * 10 / split.train.n_users)
    else:
        assert document["users"] == 10
    items = pq.read_table(tmp_path / "s" / "items.parquet")["item"].to_pylist()
    assert items == split.train.items.ids.to_pylist(), "the kernel divides by the number of all items"
    found = artifacts.read(tmp_path / "s", kind="sample")
    assert found.manifest["strategy"] == strategy and found.manifest["seed"] == 42


def test_a_generator_makes_users_over_all_items(
    infrec: Infrec, ratings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from infrec.samplers import ar_cf

    small = partial(ar_cf.draw, hidden=32, latent=8, profile=8, epochs=2)
    found = replace(samplers.SAMPLERS["ar-cf"], draw=small)
    monkeypatch.setitem(samplers.SAMPLERS, "ar-cf", found)
    ran = infrec("sample", ratings, "--strategy", "ar-cf", "--users", 10, "--out", tmp_path / "s", "--json")
    assert ran.code == 0
    assert (ran.document["strategy"], ran.document["users"]) == ("ar-cf", 10)
    split = holdout(Interactions.read(ratings), seed=42)
    rows = pq.read_table(tmp_path / "s" / "interactions.parquet").to_pylist()
    assert {row["user"] for row in rows} == set(range(10)), "they are nobody: numbered, not named"
    assert (
        pq.read_table(tmp_path / "s" / "items.parquet")["item"].to_pylist()
        == split.train.items.ids.to_pylist()
    )
    evaluated = infrec("evaluate", ratings, "--train-on", tmp_path / "s", "--model", "ease", "--json")
    assert evaluated.code == 0


def test_percent_is_of_the_interactions(infrec: Infrec, ratings: Path, tmp_path: Path) -> None:
    options = ("--strategy", "interaction-rns", "--percent", 25, "--out", tmp_path / "s", "--json")
    document = infrec("sample", ratings, *options).document
    assert document["percent"] == pytest.approx(25, abs=0.5)
    assert set(document) == {
        *(
            "dataset",
            "strategy",
            "users",
            "items",
            "interactions",
            "percent",
            "seed",
            "out",
            "bytes",
            "seconds",
        ),
    }


def test_models_train_on_a_sample(infrec: Infrec, ratings: Path, tmp_path: Path) -> None:
    infrec("sample", ratings, "--strategy", "user-rns", "--users", 12, "--out", tmp_path / "s")
    ran = infrec("evaluate", ratings, "--train-on", tmp_path / "s", "--json")
    assert ran.code == 0
    assert ran.document["metrics"]["HR@10"] > 40
    tried = [candidate["settings"]["reg"] for candidate in ran.document["candidates"]]
    assert tried == artifacts.read(tmp_path / "s").manifest["reg_grid"], "the λ grid is the sample's own"
    fixed = infrec("evaluate", ratings, "--train-on", tmp_path / "s", "--set", "reg=3", "--json").document
    assert fixed["selected"]["reg"] == 3
    ease = infrec("evaluate", ratings, "--train-on", tmp_path / "s", "--model", "ease", "--json").document
    assert len(ease["candidates"]) != len(tried), "EASE keeps its own grid"


def test_what_is_proposed_next_reads_and_splits_the_data_alike(
    infrec: Infrec, ratings: Path, tmp_path: Path
) -> None:
    """With another seed the sample holds what is measured: never proposed, and told when done."""
    reading = (ratings, "--positive", "rating >= 3", "--duplicates", "sum", "--strict", "--seed", 7)
    ran = infrec("sample", *reading, "--strategy", "user-rns", "--users", 30, "--out", tmp_path / "s")
    words = shlex.split(ran.out.partition("Next: infrec ")[2])
    assert words == ["evaluate", *map(str, reading), "--train-on", str(tmp_path / "s")]
    alike = infrec(*words, "--model", "poprec", "--json")
    assert alike.code == 0 and "made with seed" not in alike.err
    other = infrec(*words, "--seed", 42, "--model", "poprec", "--json")
    assert other.code == 0 and "was made with seed 7" in other.err and "--seed 7" in other.err


def test_nobody_is_asked_about_who_stands_for_others(infrec: Infrec, ratings: Path, tmp_path: Path) -> None:
    infrec("sample", ratings, "--strategy", "user-rns", "--users", 12, "--out", tmp_path / "s")
    ran = infrec("fit", tmp_path / "s", "--out", tmp_path / "m")
    words = shlex.split(ran.out.partition("Next: infrec ")[2])
    assert words[:3] == ["recommend", str(tmp_path / "m"), "--history"]
    assert "popular" not in {row["source"] for row in infrec(*words, "--json").document["recommendations"]}


def test_the_same_seed_makes_the_same_sample(infrec: Infrec, ratings: Path, tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        infrec(
            "sample",
            ratings,
            "--strategy",
            "user-rns",
            "--users",
            10,
            "--seed",
            seed,
            "--out",
            tmp_path / name,
        )
    a, b, c = ((tmp_path / name / "interactions.parquet").read_bytes() for name in "abc")
    assert a == b != c


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--strategy", "user-rms", "--users", 5), "Did you mean user-rns"),
        (("--strategy", "user-rns"), "exactly one of --percent or --users"),
        (("--strategy", "user-rns", "--users", 5, "--percent", 5), "exactly one of --percent or --users"),
        (("--strategy", "user-rns", "--users", 0), "users is 0; expected at least 1"),
        (("--strategy", "user-rns", "--users", 41), "41 users were asked for, but the log has 40"),
        (
            ("--strategy", "user-rns", "--percent", 101),
            "percent is 101; expected more than 0 and at most 100",
        ),
    ],
)
def test_wrong_usage_is_told(
    options: tuple[object, ...], words: str, infrec: Infrec, ratings: Path, tmp_path: Path
) -> None:
    ran = infrec("sample", ratings, *options, "--out", tmp_path / "s", "--json")
    assert ran.code == 2
    assert words in ran.document["error"]["message"]
    assert not (tmp_path / "s").exists()


def test_nothing_else_is_replaced(infrec: Infrec, ratings: Path, model: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("precious")
    (tmp_path / "file").write_text("precious")
    for place, words in (
        (model, "is a model, not a sample"),
        (tmp_path / "mine", "directory of something else"),
        (tmp_path / "file", "is a file"),
    ):
        ran = infrec("sample", ratings, "--strategy", "user-rns", "--users", 5, "--out", place, "--json")
        assert ran.code == 2
        assert words in ran.document["error"]["message"]
    assert (tmp_path / "mine" / "letter.txt").read_text() == "precious"
