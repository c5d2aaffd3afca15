"""`infrec distill`: its document, its card, its ends. What it optimises is tested with the loop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from infrec import artifacts
from infrec.cli.app import run
from infrec.cli.console import live_distillation, reached, step_words
from infrec.data import Summary
from infrec.evaluation.fidelity import Card
from infrec.report import html
from infrec.report.card import document
from tests.cli.conftest import Infrec

pytestmark = pytest.mark.usefixtures("compiled_quickly")

FIDELITY = {"full", "summary", "random", "ratio"}


@pytest.fixture(scope="module")
def summary(ratings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("summaries") / "s"
    words = [
        "distill",
        str(ratings),
        "--users",
        "8",
        "--steps",
        "30",
        "--per-user",
        "5",
        "--out",
        str(out),
        "--json",
    ]
    assert run(words) == 0
    return out


def test_document_and_directory_keep_the_contract(infrec: Infrec, ratings: Path, tmp_path: Path) -> None:
    out = tmp_path / "s"
    ran = infrec("distill", ratings, "--users", 8, "--steps", 30, "--per-user", 5, "--out", out, "--json")
    assert ran.code == 0
    found = ran.document
    rows = pq.read_table(out / "interactions.parquet")
    assert rows.column_names == ["user", "item", "weight"]
    assert len(set(rows["weight"].to_pylist())) <= 16 and min(rows["weight"].to_pylist()) > 0
    assert found["users"] == 8 and found["interactions"] == 40 == rows.num_rows
    assert found["discrete"] is False and found["mode"] == "weighted"
    assert found["start"] in ("users", "popularity")
    assert found["steps"] == 30 and 0 <= found["best_step"] <= 30
    assert found["seconds"] > 0 and found["ms_per_step"] > 0
    assert found["bytes"] == (out / "interactions.parquet").stat().st_size
    assert pq.read_table(out / "items.parquet").num_rows == 24, "the whole vocabulary of the source"
    assert set(found["fidelity"]) == {"infinite-ae", "ease"}
    for name, of_model in found["fidelity"].items():
        assert set(of_model) == FIDELITY | ({"finished"} if name == "infinite-ae" else set())
        assert all(set(metrics) == {"HR@10", "HR@100", "NDCG@10"} for metrics in of_model.values())
        for metric, ratio in of_model["ratio"].items():
            assert ratio == pytest.approx(of_model["summary"][metric] / of_model["full"][metric])
    manifest = artifacts.read(out, kind="summary").manifest
    assert manifest["reg_grid"] and manifest["start"] == found["start"]
    assert not (tmp_path / "s.run").exists(), "nothing is left of the run"


def test_the_card_is_made_of_its_record(summary: Path) -> None:
    record = Card.from_dict(json.loads((summary / "card.json").read_text()))
    assert (summary / "card.html").read_text() == html.render(document(record))
    assert record.full.users == 40 and record.summary.users == 8 and record.random is not None
    assert record.random.users == 8, "compared with as many random users"
    assert [(each.model, each.data) for each in record.fidelity] == [
        *(("infinite-ae", data) for data in ("full", "summary", "finished", "random")),
        *(("ease", data) for data in ("full", "summary", "random")),
    ]
    assert len(record.picture) == 8 and {len(row) for row in record.picture} == {24}
    assert sum(digit != "0" for row in record.picture for digit in row) == record.summary.interactions
    assert "f" in "".join(record.picture), "the largest weight"
    assert record.summary.bytes < record.full.bytes
    assert record.activity[1].facts["mean"] == pytest.approx(5)


def test_models_train_on_a_summary_with_its_own_grid(infrec: Infrec, ratings: Path, summary: Path) -> None:
    ran = infrec("evaluate", ratings, "--train-on", summary, "--json")
    assert ran.code == 0
    tried = [candidate["settings"]["reg"] for candidate in ran.document["candidates"]]
    assert tried == artifacts.read(summary).manifest["reg_grid"]
    record = json.loads((summary / "card.json").read_text())
    on_card = next(each for each in record["fidelity"] if each["data"] == "summary")
    for metric, value in on_card["metrics"].items():
        assert ran.document["metrics"][metric] == pytest.approx(value), "the card says what `evaluate` says"


def test_a_summary_is_data_like_any_other(
    infrec: Infrec, ratings: Path, summary: Path, tmp_path: Path
) -> None:
    """Every command reads it as what it is: all items of the source, and the λ that was chosen with it."""
    stats = infrec("datasets", "stats", summary, "--json")
    assert stats.code == 0 and (stats.document["users"], stats.document["items"]) == (8, 24)
    fitted = infrec("fit", summary, "--out", tmp_path / "model", "--json")
    assert fitted.code == 0 and fitted.document["items"] == 24
    assert [fitted.document["selected"]["reg"]] == artifacts.read(summary).manifest["reg_grid"]
    wrong = infrec("datasets", "stats", tmp_path / "model", "--json")
    assert wrong.code == 1 and "holds a model" in wrong.document["error"]["message"]


def test_a_fit_takes_a_summary_as_its_centres(
    infrec: Infrec, ratings: Path, summary: Path, tmp_path: Path
) -> None:
    out = tmp_path / "model"
    ran = infrec("fit", ratings, "--centres", summary, "--out", out, "--json")
    assert ran.code == 0 and ran.document["users"] == 8
    assert len(ran.document["candidates"]) == 8 and ran.document["selected"]["reg"] > 0
    item = str(pq.read_table(out / "items.parquet").column(0)[0])
    asked = infrec("recommend", out, "--history", item, "--json")
    assert asked.code == 0
    assert infrec("fit", ratings, "--model", "ease", "--centres", summary, "--out", out).code == 2


def test_a_summary_is_exported_with_its_weights(infrec: Infrec, summary: Path, tmp_path: Path) -> None:
    assert infrec("export", summary, "--format", "csv", "--out", tmp_path / "s.csv").code == 0
    lines = (tmp_path / "s.csv").read_text().splitlines()
    assert lines[0].replace('"', "") == "user,item,weight" and len(lines) == 41
    kept = Summary.load(summary).to_table()
    assert [float(line.rpartition(",")[2]) for line in lines[1:]] == pytest.approx(kept["weight"].to_pylist())
    assert infrec("export", summary, "--format", "recbole", "--out", tmp_path / "s.inter").code == 0
    header, *rows = (tmp_path / "s.inter").read_text().splitlines()
    assert header.split("\t") == ["user_id:token", "item_id:token", "weight:float"]
    assert [float(row.split("\t")[2]) for row in rows] == pytest.approx(kept["weight"].to_pylist())


def test_without_a_card_nothing_is_measured(infrec: Infrec, ratings: Path, tmp_path: Path) -> None:
    options = (
        "--users",
        8,
        "--steps",
        5,
        "--mode",
        "soft",
        "--gamma",
        3,
        "--loss",
        "binary",
        "--no-card",
        "--json",
    )
    ran = infrec("distill", ratings, *options, "--out", tmp_path / "s")
    assert ran.code == 0
    assert ran.document["fidelity"] == {} and ran.document["card"] is None
    assert ran.document["discrete"] is False and ran.document["mode"] == "soft"
    assert not (tmp_path / "s" / "card.html").exists()
    settings = artifacts.read(tmp_path / "s").manifest["settings"]
    assert settings["loss"] == "binary" and settings["steps"] == 5


def test_search_tries_the_papers_grid_and_keeps_the_best(
    infrec: Infrec, ratings: Path, tmp_path: Path
) -> None:
    options = ("--users", 4, "--steps", 1, "--tau", 5, "--search", "--no-card", "--json")
    ran = infrec("distill", ratings, *options, "--out", tmp_path / "s")
    assert ran.code == 0
    tried = ran.document["tried"]
    assert [each["settings"] for each in tried] == [{"l1": 1e-3}, {"l1": 10.0}], "τ was fixed"
    kept = artifacts.read(tmp_path / "s").manifest
    assert kept["validation"][kept["criterion"]] == max(each["score"] for each in tried)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--users", 0), "users is 0; expected a whole number of at least 1"),
        (("--users", 41), "41 synthetic users were asked for, but the log has 40"),
        (("--users", 4, "--gamma", 0), "gamma is 0"),
        (("--users", 4, "--tau", -1), "tau is -1.0; expected a number above 0"),
        (("--users", 4, "--hidden", 1), "hidden is 1.0"),
        (("--users", 4, "--per-user", 25), "but there are 24 items"),
        (("--users", 4, "--per-user", 3, "--total", 9), "at most one of them"),
        (("--target", 1.5), "target is 1.5"),
        (("--users", 4, "--target", 0.9), "exclude each other"),
        (("--users", 4, "--mode", "discreet"), "discreet"),
        (("--users", 4, "--set", "ratte=1"), "Did you mean rate?"),
        (("--users", 4, "--set", "patience=never"), "patience is 'never'; expected a whole number"),
    ],
)
def test_wrong_usage_is_one_sentence(
    options: tuple[object, ...], words: str, infrec: Infrec, ratings: Path, tmp_path: Path
) -> None:
    ran = infrec("distill", ratings, *options, "--out", tmp_path / "s", "--json")
    assert ran.code == 2
    assert words in ran.document["error"]["message"]
    assert list(tmp_path.iterdir()) == []


def test_a_log_with_one_user_is_refused(infrec: Infrec, tmp_path: Path) -> None:
    log = tmp_path / "one.csv"
    log.write_text("user,item\n" + "".join(f"me,{item}\n" for item in range(9)))
    ran = infrec("distill", log, "--users", 1, "--out", tmp_path / "s", "--json")
    assert ran.code == 1
    assert "the log has 1 user; expected at least 2" in ran.document["error"]["message"]


# ---- how it ends -----------------------------------------------------------------------------------------
def test_sigterm_saves_a_second_process_is_refused_and_resume_goes_on(
    infrec: Infrec, ratings: Path, tmp_path: Path
) -> None:
    out = tmp_path / "s"
    command = ["distill", str(ratings), "--users", "6", "--steps", "60", "--no-card", "--out", str(out)]
    first = subprocess.Popen(
        [sys.executable, "-m", "infrec", *command],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )
    try:
        wait_for(tmp_path / "s.run" / "checkpoint" / "manifest.json", first)
        first.send_signal(signal.SIGSTOP)  # few steps, and yet it cannot be ready too early
        second = infrec(*command, "--json")
        assert second.code == 1, second.out
        assert "s.run is in use by another distillation" in second.document["error"]["message"]
    finally:
        first.send_signal(signal.SIGTERM)
        first.send_signal(signal.SIGCONT)
        said = first.communicate(timeout=300)[1]
    assert first.returncode == 130, said
    assert "saved: a checkpoint in" in said and "the same command with --resume" in said
    assert not out.exists()

    again = infrec(*command, "--json")
    assert again.code == 2 and "--resume" in again.document["error"]["message"]
    done = infrec(*command, "--resume", "--json")
    assert done.code == 0 and done.document["steps"] == 60
    assert out.is_dir() and not (tmp_path / "s.run").exists()

    whole = tmp_path / "whole"
    assert infrec(*command[:-1], str(whole), "--json").code == 0
    names = ("interactions.parquet", "items.parquet")
    assert [(out / name).read_bytes() for name in names] == [(whole / name).read_bytes() for name in names]


def wait_for(path: Path, process: subprocess.Popen[str], seconds: float = 300) -> None:
    until = time.monotonic() + seconds
    while not path.exists():
        assert process.poll() is None, "the run ended by itself before it could be interrupted"
        assert time.monotonic() < until
        time.sleep(0.02)


# ---- looking on ------------------------------------------------------------------------------------------
def test_a_step_is_told_in_words_and_nan_is_not() -> None:
    facts = {"loss": 5.1234567, "validation": 58.234, "best": 58.5, "best_step": 75, "seconds_left": 12.3}
    assert step_words("distil", "80 of 300", facts) == (
        "step 80 of 300, loss 5.123, validation 58.23, best 58.50 (step 75), 12 s left"
    )
    early = {"loss": float("nan"), "validation": float("nan"), "best": -1.0, "seconds_left": 0.0}
    assert step_words("distil", "1 of 300", early) == "step 1 of 300"
    assert step_words("choose settings", "1 of 6", {"reg": 5}) is None
    tried = {"users": 50, "share": 0.931, "target": 0.95}
    assert reached("target", tried) == "50 users: 93.1 % of full-data quality, not enough"
    assert reached("distil", facts) is None


def test_the_live_view_draws_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "140")
    with live_distillation("distil") as progress:
        progress("choose settings", 1, 6)
        for step in (1, 2):
            progress("distil", step, 2, loss=4.5, validation=50.0, best=51.0, best_step=1, seconds_left=3.0)
    shown = capsys.readouterr().err
    assert "loss 4.5" in shown and "best 51.00 (step 1)" in shown and "3.00 s left" in shown


# ---- carrying a summary on ---------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def november(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Other users, two films that the summary has never seen, and only a part of its films."""
    path = tmp_path_factory.mktemp("later") / "november.csv"
    films = [f"film {letter}" for letter in "abcdefghijklyz"]
    rng = np.random.default_rng(4)
    lines = [f"n{user},{film}\n" for user in range(30) for film in rng.permutation(films)[:6]]
    path.write_text("userId,movieId\n" + "".join(lines))
    return path


def test_a_summary_is_carried_on(infrec: Infrec, summary: Path, november: Path, tmp_path: Path) -> None:
    out = tmp_path / "on"
    ran = infrec("distill", "--continue", summary, november, "--steps", 6, "--out", out, "--json")
    assert ran.code == 0, ran.err
    found = ran.document
    before = artifacts.read(summary).manifest
    assert (found["users"], found["interactions"]) == (before["users"], before["interactions"]) == (8, 40)
    assert found["previous"] == str(summary) and found["start"] == "summary"
    assert found["represents"] == 40 + 30
    assert pq.read_table(out / "items.parquet").num_rows == 24 + 2
    assert set(found["fidelity"]) == {"infinite-ae", "ease"}
    assert "earlier summary" in (out / "card.html").read_text()
    # The new log knows fewer items than the summary: it is measured over those of both.
    measured = infrec("evaluate", november, "--train-on", out, "--json")
    assert measured.code == 0, measured.err
    on_card = json.loads((out / "card.json").read_text())["fidelity"]
    own = next(each for each in on_card if each["data"] == "summary" and each["model"] == "infinite-ae")
    assert measured.document["metrics"]["HR@10"] == pytest.approx(own["metrics"]["HR@10"])


def test_a_summary_may_have_more_users_than_the_new_log(
    infrec: Infrec, summary: Path, november: Path, tmp_path: Path
) -> None:
    """8 synthetic users and 5 new people: on the card, all 5 stand beside them as the random users."""
    few = tmp_path / "few.csv"
    few.write_text("".join(november.read_text().splitlines(keepends=True)[: 1 + 5 * 6]))
    ran = infrec("distill", "--continue", summary, few, "--steps", 1, "--out", tmp_path / "on", "--json")
    assert ran.code == 0, ran.err
    assert ran.document["users"] == 8 and not (tmp_path / "on.run").exists()
    assert json.loads((tmp_path / "on" / "card.json").read_text())["random"]["users"] == 5


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--users", 9), "users is given, but a summary is continued within its size (8 users, 40"),
        (("--per-user", 9), "per_user is given"),
        (("--mode", "soft"), "mode is 'soft', but the summary to continue is 'weighted'"),
        (("--search",), "--continue keeps the settings of its summary"),
    ],
)
def test_what_cannot_be_changed_on_the_way(
    options: tuple[object, ...], words: str, infrec: Infrec, summary: Path, november: Path, tmp_path: Path
) -> None:
    ran = infrec("distill", "--continue", summary, november, *options, "--out", tmp_path / "s", "--json")
    assert ran.code == 2
    assert words in ran.document["error"]["message"]
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_carried_on(
    infrec: Infrec, summary: Path, model: Path, november: Path, tmp_path: Path
) -> None:
    wrong = infrec("distill", "--continue", model, november, "--out", tmp_path / "s", "--json")
    assert wrong.code == 1 and "holds a model; expected a summary" in wrong.document["error"]["message"]
    strange = tmp_path / "strange.csv"
    strange.write_text(
        "user,item\n" + "".join(f"u{n},book {n % 4 + m}\n" for n in range(9) for m in range(4))
    )
    ran = infrec("distill", "--continue", summary, strange, "--out", tmp_path / "s", "--json")
    assert ran.code == 1
    assert "none of the summary's 24 items" in ran.document["error"]["message"]
