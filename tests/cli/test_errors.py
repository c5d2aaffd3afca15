"""Whatever goes wrong: one sentence, the right exit code, never a traceback."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from infrec.cli import console, trial
from infrec.errors import SolveError
from tests.cli.conftest import Infrec


def sentence(text: str) -> str:
    """The error message, and that there is exactly one."""
    lines = [line for line in text.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, text
    return lines[0]


def test_missing_file(infrec: Infrec) -> None:
    ran = infrec("evaluate", "nowhere/ratings.csv")
    assert (ran.code, ran.out) == (1, "")
    assert "ratings.csv" in sentence(ran.err)


def test_empty_file(infrec: Infrec, tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("")
    ran = infrec("fit", tmp_path / "empty.csv", "-o", tmp_path / "model")
    assert ran.code == 1
    assert "empty" in sentence(ran.err)
    assert not (tmp_path / "model").exists()


def test_truncated_gzip(infrec: Infrec, ratings: Path, tmp_path: Path) -> None:
    whole = gzip.compress(ratings.read_bytes())
    cut = tmp_path / "cut.csv.gz"
    cut.write_bytes(whole[: len(whole) // 2])
    ran = infrec("datasets", "stats", cut)
    assert ran.code == 1
    assert "cut.csv.gz" in sentence(ran.err)


def test_missing_column_names_what_is_there(infrec: Infrec, tmp_path: Path) -> None:
    (tmp_path / "odd.csv").write_text("who,what\n1,2\n")
    ran = infrec("datasets", "stats", tmp_path / "odd.csv")
    assert ran.code == 1
    assert "who" in sentence(ran.err)
    assert infrec("datasets", "stats", tmp_path / "odd.csv", "--user", "who", "--item", "what").code == 0


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("evalute", "demo"), "evaluate"),
        (("evaluate", "demo", "--modle", "ease"), "--model"),
        (("evaluate", "demo", "--model", "infinite-a"), "infinite-ae"),
        (("evaluate", "demo", "--model", "eas"), "Did you mean ease"),
        (("evaluate", "demo", "--set", "regg=5"), "reg"),
        (("evaluate", "demo", "--set", "reg"), "key=value"),
        (("evaluate", "demo", "--set", "depth=deep"), "a whole number"),
        (("evaluate", "demo", "--set", "reg=-1"), "reg"),
        (("evaluate", "demo", "--protocol", "paper"), "paper-code"),
        (("evaluate", "demo", "--no-search", "--search", "3"), "--no-search"),
        (("evaluate", "demo", "--positive", "rating is good"), "rating >= 4"),
        (("evaluate", "demo", "--duplicates", "last"), "first"),
        (("evaluate", "demo", "--seed", "-1"), "seed"),
        (("evaluate",), "DATA"),
        (("fit", "demo"), "--out"),
        (("datasets", "download", "ml-1"), "ml-1m"),
        (("recommend", "model"), "--user"),
        (("recommend", "model", "--all"), "--out"),
        (("recommend", "model", "--user", "1", "--history", "2"), "exactly one"),
    ],
)
def test_wrong_usage_is_2_with_a_hint(infrec: Infrec, words: tuple[str, ...], hint: str) -> None:
    ran = infrec(*words)
    assert (ran.code, ran.out) == (2, "")
    assert hint in sentence(ran.err)
    as_json = infrec(*words, "--json")
    assert as_json.code == 2
    assert set(as_json.document) == {"error"}
    assert set(as_json.document["error"]) == {"type", "message"}
    assert hint in as_json.document["error"]["message"]


def test_explained_errors_as_json(infrec: Infrec) -> None:
    ran = infrec("evaluate", "nowhere.csv", "--json")
    assert ran.code == 1
    assert ran.document["error"]["type"] == "DataError"
    assert "error: " not in ran.err


def test_positive_that_keeps_nothing(infrec: Infrec, ratings: Path) -> None:
    ran = infrec("evaluate", ratings, "--positive", "rating >= 9")
    assert ran.code == 1
    assert "rating >= 9" in sentence(ran.err)


def test_positive_on_a_column_that_is_not_there(infrec: Infrec, ratings: Path) -> None:
    ran = infrec("evaluate", ratings, "--positive", "stars >= 4")
    assert ran.code in (1, 2)
    assert "stars" in sentence(ran.err)


def test_not_a_model(infrec: Infrec, tmp_path: Path, ratings: Path) -> None:
    assert infrec("recommend", tmp_path / "nothing", "--user", "1").code == 1
    assert infrec("recommend", ratings, "--user", "1").code == 1
    (tmp_path / "manifest.json").write_text("{")
    ran = infrec("recommend", tmp_path, "--user", "1")
    assert ran.code == 1
    sentence(ran.err)


def test_fit_does_not_write_over_something_else(infrec: Infrec, ratings: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("ten years")
    ran = infrec("fit", ratings, "-o", tmp_path)
    assert ran.code in (1, 2)
    assert "new name" in sentence(ran.err)
    assert (tmp_path / "thesis.txt").read_text() == "ten years"


def broken(error: BaseException) -> Any:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def test_an_unexpected_exception_is_a_sentence(
    infrec: Infrec, ratings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "fit_for", broken(ZeroDivisionError("division by\nzero")))
    ran = infrec("evaluate", ratings)
    assert ran.code == 1
    assert "INFREC_DEBUG=1" in sentence(ran.err)
    assert "division by zero" in ran.err
    assert infrec("evaluate", ratings, "--json").document["error"]["type"] == "ZeroDivisionError"


def test_debug_shows_the_traceback(
    ratings: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from infrec.cli.app import run

    monkeypatch.setenv("INFREC_DEBUG", "1")
    monkeypatch.setattr(trial, "fit_for", broken(SolveError("no")))
    assert run(["evaluate", str(ratings)]) == 1
    assert "Traceback" in capfd.readouterr().err


def test_memory_that_runs_out(infrec: Infrec, ratings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "fit_for", broken(MemoryError()))
    ran = infrec("evaluate", ratings)
    assert ran.code == 1
    assert "memory" in sentence(ran.err)


def test_interrupt_is_130_and_says_what_was_saved(
    infrec: Infrec, ratings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "fit_for", broken(KeyboardInterrupt()))
    ran = infrec("evaluate", ratings)
    assert ran.code == 130
    assert "nothing was saved" in sentence(ran.err)

    def save_then_stop(*_: object, **__: object) -> None:
        console.saved("half/way")
        raise KeyboardInterrupt

    monkeypatch.setattr(trial, "fit_for", save_then_stop)
    ran = infrec("evaluate", ratings, "--json")
    assert ran.code == 130
    assert ran.document["error"]["type"] == "Interrupted"
    assert "half/way" in ran.document["error"]["message"]
