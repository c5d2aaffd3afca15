"""A summary knows its log: how it was read, and that another one is not it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from infrec import artifacts
from infrec.cli.app import run
from infrec.cli.reading import Reading
from infrec.data import Summary
from tests.cli.conftest import Infrec

pytestmark = pytest.mark.usefixtures("compiled_quickly")

QUICK = ("--users", "8", "--steps", "4", "--per-user", "6", "--set", "validate_every=2")
LIKED = ("--positive", "rating >= 3")


@pytest.fixture(scope="module")
def summary(ratings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """8 synthetic users, made of the ratings of at least 3."""
    out = tmp_path_factory.mktemp("provenance") / "summary"
    assert run(["distill", str(ratings), *LIKED, *QUICK, "--no-card", "-o", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def other(ratings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same people and films, but for the last rows."""
    path = tmp_path_factory.mktemp("provenance") / "other.csv"
    path.write_text("".join(ratings.read_text().splitlines(keepends=True)[:-30]))
    return path


def commands(summary: Path, data: Path, tmp_path: Path) -> dict[str, tuple[object, ...]]:
    return {
        "audit": ("audit", summary, "--against", data, "-o", tmp_path / "report"),
        "evaluate": ("evaluate", data, "--train-on", summary, "-m", "poprec"),
        "fit": ("fit", data, "--centres", summary, "--set", "reg=1", "-o", tmp_path / "model"),
    }


@pytest.mark.parametrize("name", ["audit", "evaluate", "fit"])
def test_the_log_is_read_as_it_was_and_another_one_is_refused(
    name: str, infrec: Infrec, summary: Path, ratings: Path, other: Path, tmp_path: Path
) -> None:
    alike = infrec(*commands(summary, ratings, tmp_path)[name], "--json")
    assert alike.code == 0, alike.err
    assert f"as the source of {summary} was: {ratings} --positive 'rating >= 3'" in alike.err
    for words in (
        commands(summary, other, tmp_path)[name],
        (*commands(summary, ratings, tmp_path)[name], "--positive", "rating >= 4"),
    ):
        refused = infrec(*words, "--json")
        assert refused.code == 1 and refused.document["error"]["type"] == "DataError"
        said = refused.document["error"]["message"]
        assert said.startswith(f"{summary} was made from another log than ") and "40 users, 24 items" in said


@pytest.mark.parametrize("command", ["distill", "sample"])
def test_options_in_a_file_are_kept_too(
    command: str, infrec: Infrec, ratings: Path, other: Path, tmp_path: Path
) -> None:
    """The same log elsewhere, without the file beside it, is known again."""
    here, elsewhere, out = tmp_path / "here" / "r.csv", tmp_path / "there" / "r.csv", tmp_path / "release"
    for place in (here, elsewhere):
        place.parent.mkdir()
        place.write_bytes(ratings.read_bytes())
    (here.parent / "infrec.toml").write_text('["r.csv"]\npositive = "rating >= 3"\nmin-item = 2\n')
    how = (*QUICK, "--no-card") if command == "distill" else ("--strategy", "random-users", "--users", "9")
    assert infrec(command, here, *how, "-o", out).code == 0
    assert Summary.load(out).about["reading"] == {"positive": "rating >= 3", "min_item": 2}
    ran = infrec("evaluate", elsewhere, "--train-on", out, "-m", "poprec")
    assert ran.code == 0 and "--positive 'rating >= 3' --min-item 2" in ran.err
    assert infrec("evaluate", other, "--train-on", out, "-m", "poprec").code == 1


def test_rows_in_another_order_are_the_same_log(
    infrec: Infrec, summary: Path, ratings: Path, tmp_path: Path
) -> None:
    head, *lines = ratings.read_text().splitlines()
    turned = tmp_path / "turned.csv"
    turned.write_text("\n".join([head, *reversed(lines)]) + "\n")
    assert infrec("evaluate", turned, "--train-on", summary, "-m", "poprec").code == 0


def test_a_continued_summary_is_read_alike_and_knows_all_its_logs(
    infrec: Infrec, summary: Path, ratings: Path, other: Path, tmp_path: Path
) -> None:
    out = tmp_path / "on"
    ran = infrec("distill", "--continue", summary, other, "--steps", "2", "--no-card", "-o", out)
    assert ran.code == 0 and f"{other} --positive 'rating >= 3'" in ran.err
    assert Summary.load(out).about["reading"] == {"positive": "rating >= 3"}
    for data in (ratings, other):
        assert infrec("evaluate", data, "--train-on", out, "-m", "poprec").code == 0
    strange = tmp_path / "strange.csv"
    strange.write_text("".join(ratings.read_text().splitlines(keepends=True)[:200]))
    assert infrec("evaluate", strange, "--train-on", out, "-m", "poprec").code == 1


def test_an_older_summary_is_audited_with_a_note(
    infrec: Infrec, summary: Path, other: Path, tmp_path: Path
) -> None:
    newer = Summary.load(summary)
    source = {name: newer.about["source"][name] for name in ("users", "items", "interactions")}
    about = {name: value for name, value in newer.about.items() if name != "reading"}
    replace(newer, about={**about, "source": source}).save(tmp_path / "older")
    ran = infrec("audit", tmp_path / "older", "--against", other, *LIKED, "--json")
    assert ran.code == 0, ran.err
    assert f"{tmp_path / 'older'} has no fingerprint of its log" in ran.err


def test_a_guarantee_keeps_no_fingerprint(
    infrec: Infrec, ratings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what is public is compared: the items of the catalogue."""
    monkeypatch.setattr("infrec.distillation.dp_sums.STEPS", 20)
    catalogue, out = tmp_path / "items.csv", tmp_path / "guarded"
    catalogue.write_text("item\n" + "".join(f"film {chr(97 + n)}\n" for n in range(26)))
    words = ("--noise-multiplier", "1", "--delta", "1e-6", "--catalogue", catalogue, "--no-card")
    assert infrec("distill", ratings, *LIKED, *QUICK, *words, "-o", out).code == 0
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    assert set(manifest["source"]) == {"users", "items", "invented_users"}
    assert "fingerprint" not in str(manifest) and manifest["reading"] == {"positive": "rating >= 3"}
    ran = infrec("evaluate", ratings, "--train-on", out, "-m", "poprec")
    assert ran.code == 0 and "only its items were compared (24 of 26 are in" in ran.err
    books = tmp_path / "books.csv"
    books.write_text(
        "user,item,rating\n" + "".join(f"{n},book {n % 5 + m},5\n" for n in range(9) for m in range(4))
    )
    refused = infrec("audit", out, "--against", books, "--json")
    assert refused.code == 1 and "0 of its 26 items" in refused.document["error"]["message"]


def test_a_sample_knows_its_log_too(infrec: Infrec, ratings: Path, other: Path, tmp_path: Path) -> None:
    words = ("--strategy", "user-rns", "--users", "9", "-o", tmp_path / "few")
    assert infrec("sample", ratings, *LIKED, *words).code == 0
    assert str(ratings.parent) not in json.dumps(artifacts.read(tmp_path / "few").manifest)
    assert infrec("audit", tmp_path / "few", "--against", ratings).code == 0
    assert infrec("audit", tmp_path / "few", "--against", other).code == 1


def test_what_a_manifest_keeps_of_reading() -> None:
    assert Reading().kept() == {}
    assert Reading(user="who", strict=True).kept() == {"user": "who", "strict": True}
