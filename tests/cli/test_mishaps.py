"""Command lines that once did something else than they said: nothing is lost, nothing is ignored."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from infrec.data import Interactions
from infrec.models import PopRec
from tests.cli.conftest import Infrec


@pytest.fixture
def films(tmp_path: Path) -> Path:
    """Twelve people who like half of eight films, whose titles look like markup."""
    path = tmp_path / "films [x].csv"
    titles = ["[rec] (2007)", "Broken [/b] tag", "x [bold]y", *(f"Film {n}" for n in range(5))]
    lines = ["who,what,rating,title"]
    for user in range(12):
        for item in range(8):
            rating = 5 if (user + item) % 2 == 0 else 2
            lines.append(f'u{user},i{item},{rating},"{titles[item]}"')
    path.write_text("\n".join(lines) + "\n")
    return path


COLUMNS = ("--user", "who", "--item", "what", "--positive", "rating >= 4")


def test_brackets_in_titles_and_paths_are_shown_as_they_are(infrec: Infrec, films: Path) -> None:
    out = films.with_name("out [a]")
    ran = infrec("fit", films, *COLUMNS, "--model", "poprec", "--out", out)
    assert ran.code == 0 and "out [a]" in ran.out.replace("\n", "")
    ran = infrec("recommend", out, "--history", "i0", "--include-seen", "-k", 8)
    assert ran.code == 0
    for title in ("[rec] (2007)", "Broken [/b] tag", "x [bold]y"):
        assert title in ran.out
    ran = infrec("evaluate", films, *COLUMNS, "--model", "poprec")
    assert ran.code == 0 and "[x].csv: 12 users" in " ".join(ran.out.split())
    assert infrec("datasets", "stats", films, *COLUMNS).code == 0


def test_a_model_never_takes_the_place_of_something_else(infrec: Infrec, films: Path) -> None:
    prepared = films.with_name("prepared")
    assert infrec("datasets", "prepare", films, *COLUMNS, "--out", prepared).code == 0
    before = (prepared / "manifest.json").read_bytes()
    ran = infrec("fit", films, *COLUMNS, "--model", "poprec", "--out", prepared)
    assert ran.code == 2 and "is a dataset, not a model" in ran.err
    assert (prepared / "manifest.json").read_bytes() == before


def test_a_file_of_ones_own_in_a_model_is_not_lost(infrec: Infrec, films: Path) -> None:
    out = films.with_name("model")
    assert infrec("fit", films, *COLUMNS, "--model", "poprec", "--out", out).code == 0
    assert infrec("fit", films, *COLUMNS, "--model", "poprec", "--out", out).code == 0, "ours may be replaced"
    (out / "mine.csv").write_text("item\ni1\n")
    ran = infrec("fit", films, *COLUMNS, "--model", "poprec", "--out", out)
    assert ran.code == 2 and "also holds 'mine.csv'" in " ".join(ran.err.split())
    assert (out / "mine.csv").read_text() == "item\ni1\n"


def test_a_folder_beside_the_summary_is_not_removed(infrec: Infrec, ratings: Path, tmp_path: Path) -> None:
    mine = tmp_path / "s.run"
    mine.mkdir()
    (mine / "notes.txt").write_text("mine")
    ran = infrec("distill", ratings, "--users", 4, "--steps", 2, "--no-card", "--out", tmp_path / "s")
    assert ran.code == 2 and "notes.txt" in ran.err
    assert (mine / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--set", "seed=7"), "use --seed"),
        (("--set", "users=3"), "use --users"),
        (("--set", "mode=soft"), "use --mode"),
        (("--set", "reg_grid=1,x"), "reg_grid is '1,x'; expected one or more"),
    ],
)
def test_options_of_distill_that_would_be_ignored(
    infrec: Infrec, ratings: Path, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    ran = infrec("distill", ratings, *words, "--out", tmp_path / "s")
    assert ran.code == 2 and said in " ".join(ran.err.split())


def test_a_sample_cannot_be_continued(infrec: Infrec, ratings: Path, tmp_path: Path) -> None:
    words = ("--strategy", "user-rns", "--users", 5, "--out", tmp_path / "sample")
    assert infrec("sample", ratings, *words).code == 0
    ran = infrec("distill", ratings, "--continue", tmp_path / "sample", "--out", tmp_path / "s")
    assert ran.code == 2 and "the sample to continue does not tell how it was distilled" in ran.err


def test_what_train_on_names_is_read_with_the_same_options(infrec: Infrec, films: Path) -> None:
    alone = infrec("evaluate", films, *COLUMNS, "--model", "poprec", "--json")
    others = films.with_name("others.csv")
    others.write_text(films.read_text().replace("\nu", "\nv"))
    both = infrec("evaluate", films, *COLUMNS, "--model", "poprec", "--train-on", others, "--json")
    assert (alone.code, both.code) == (0, 0), both.err
    assert both.err.count("not rating >= 4") == 2  # the data, and what is fitted on
    itself = infrec("evaluate", films, *COLUMNS, "--model", "poprec", "--train-on", films)
    assert itself.code == 1 and "the model was fitted on" in itself.err


def test_unknown_users_of_a_prepared_dataset(infrec: Infrec, films: Path) -> None:
    prepared, model = films.with_name("prepared"), films.with_name("model")
    assert infrec("datasets", "prepare", films, *COLUMNS, "--out", prepared).code == 0
    assert infrec("fit", prepared, "--centres", 4, "--set", "reg=5", "--out", model).code == 0
    asked = ("recommend", model, "--data", prepared, "--user", "nobody")
    ran = infrec(*asked, "--on-unknown", "error")
    assert ran.code == 1 and "has no user 'nobody'" in ran.err
    assert infrec(*asked, "--json").document["unknown"] == ["nobody"]


def test_recommendations_need_a_file(infrec: Infrec, films: Path) -> None:
    model = films.with_name("model")
    assert infrec("fit", films, *COLUMNS, "--model", "poprec", "--out", model).code == 0
    for out, said in (
        (films.parent, "is a directory"),
        (films.with_name("no") / "x.parquet", "does not exist"),
    ):
        ran = infrec("recommend", model, "--all", "--out", out)
        assert ran.code == 2 and said in " ".join(ran.err.split())


def test_the_seed_reaches_the_model(infrec: Infrec, ratings: Path, tmp_path: Path) -> None:
    for seed, set_, expected in ((7, (), 7), (7, ("--set", "seed=3"), 3)):
        words = (
            "--model",
            "mf",
            "--set",
            "epochs=1",
            *set_,
            "--seed",
            seed,
            "--out",
            tmp_path / "m",
            "--json",
        )
        assert infrec("fit", ratings, *words).document["selected"]["seed"] == expected


def test_a_report_needs_a_directory_of_records(infrec: Infrec, tmp_path: Path) -> None:
    ran = infrec("reproduce", "all", "--report-only", "--records", tmp_path / "typo")
    assert ran.code == 2 and "there is no directory" in ran.err
    assert not (tmp_path / "typo").exists()


def test_people_of_whom_nothing_is_known_are_skipped_for_everybody_too(
    infrec: Infrec, tmp_path: Path
) -> None:
    """`--all` gave them the popular items, whatever --on-unknown said."""
    log = Interactions.from_csr(np.array([[1, 1, 0], [0, 0, 0], [0, 1, 0]]))
    PopRec().fit(log).save(tmp_path / "model")
    out = tmp_path / "recs.parquet"
    for mode, users in (("popular", [0, 1, 2]), ("skip", [0, 2])):
        words = ("recommend", tmp_path / "model", "--all", "--out", out, "-k", 1, "--on-unknown", mode)
        assert infrec(*words).code == 0
        assert pq.read_table(out)["user"].to_pylist() == users
