"""`infrec evaluate` with several models, some of which cannot run, and the words above its table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from infrec import machine
from infrec.cli import evaluate
from infrec.models import ease
from infrec.report import numbers
from tests.cli.conftest import Infrec


@pytest.fixture
def wide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """30,000 items of one or two users, for which EASE would need 13.4 GiB, on a machine of 8 GiB."""
    monkeypatch.setattr(machine, "memory_available", lambda: 8 * machine.GIB)
    lines = (f"{user},{(2 * user + place) % 30_000}\n" for user in range(15_000) for place in range(3))
    (tmp_path / "wide.csv").write_text("user,item\n" + "".join(lines))
    return tmp_path / "wide.csv"


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two users with the same train part, of whom ∞-AE with λ = 0 has no solution; EASE has one."""
    path = tmp_path_factory.mktemp("data") / "twins.csv"
    histories = ["ab", "ab", "bc", "cd", "da", "a", "d"]
    lines = [f"{user},{item},train" for user, items in enumerate(histories) for item in items]
    path.write_text("user,item,split\n" + "\n".join([*lines, "0,c,test", "1,d,test", "2,d,val"]) + "\n")
    return path


def test_memory_of_all_is_checked_before_the_first_is_fitted(infrec: Infrec, wide: Path) -> None:
    ran = infrec("evaluate", wide, "-m", "poprec", "-m", "ease", "--sample-users", 50, "--json")
    assert ran.code == 1
    fitted, refused = ran.document["results"]
    assert fitted["model"] == "poprec" and "HR@10" in fitted["metrics"]
    assert refused["model"] == "ease" and refused["error"]["type"] == "MemoryBudgetError"
    assert "30,000 items" in refused["error"]["message"] and "metrics" not in refused
    assert "--min-item 2: at most " in refused["error"]["message"]
    said = ran.err.splitlines()
    assert said[0].startswith("EASE cannot run, the others do: ") and said[1].startswith("PopRec: HR@10 ")
    assert said[0].endswith(
        f"With it: infrec evaluate {wide} -m poprec -m ease --sample-users 50 --json --min-item 2"
    )


def test_what_takes_very_long_is_refused_before_anything_is_fitted(
    infrec: Infrec, ratings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Choosing λ of EASE; with λ given, or nothing to choose, it runs."""
    monkeypatch.setattr(ease, "_RATE", 1.0)
    ran = infrec("evaluate", ratings, "-m", "poprec", "-m", "ease", "--json")
    fitted, refused = ran.document["results"]
    assert "HR@10" in fitted["metrics"] and "metrics" not in refused
    assert re.search(r"takes about [\d,]+ minutes on \d+ cores; .*--set reg=300", refused["error"]["message"])
    for words in (("--set", "reg=300"), ("--no-search",), ("--search", "60")):
        assert infrec("evaluate", ratings, "-m", "ease", *words, "--json").code == 0


def test_of_very_many_scores_a_sample_of_users_is_measured(
    infrec: Infrec, ratings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = infrec("evaluate", ratings, "-m", "poprec", "--json").document["users"]
    items = infrec("datasets", "stats", ratings, "--json").document["items"]
    monkeypatch.setattr(evaluate, "SCORES", 7 * items)
    ran = infrec("evaluate", ratings, "-m", "poprec", "--json")
    assert ran.document["users"] == every | {"measured": 7}
    assert f"measured on 7 of {every['of']} users, drawn at random" in ran.err
    ran = infrec("evaluate", ratings, "-m", "poprec", "--sample-users", every["of"], "--json")
    assert ran.document["users"] == every and "at random" not in ran.err


def test_a_failure_on_the_way_loses_no_other_result(infrec: Infrec, twins: Path) -> None:
    words = ("evaluate", twins, "-m", "infinite-ae", "-m", "ease", "--set", "reg=0")
    shown = infrec(*words)
    assert shown.code == 1
    assert "HR@10" in shown.out and "EASE" in shown.out and "∞-AE could not run:" in shown.out
    assert "∞-AE failed: " in shown.err
    failed, measured = infrec(*words, "--json").document["results"]
    assert failed["error"]["type"] == "SolveError" and measured["metrics"]["AUC"] > 0
    # Each result is said as soon as it is known, in the order of the models.
    value = numbers.number("HR@10", measured["metrics"]["HR@10"])
    assert shown.err.splitlines()[-1].startswith(f"EASE: HR@10 {value}, AUC ")


def test_one_model_alone_fails_as_any_command_does(infrec: Infrec, wide: Path) -> None:
    ran = infrec("evaluate", wide, "-m", "ease", "--json")
    assert ran.code == 1 and set(ran.document) == {"error"}


def test_the_header_says_how_many_can_be_judged(infrec: Infrec, tmp_path: Path) -> None:
    lines = [f"{user},{item}" for user in range(6) for item in range(5 if user < 4 else 2)]
    (tmp_path / "log.csv").write_text("user,item\n" + "\n".join(lines) + "\n")
    ran = infrec("evaluate", tmp_path / "log.csv", "-m", "poprec")
    assert "6 users (4 of them can be judged)" in " ".join(ran.out.split())
    document = infrec("evaluate", tmp_path / "log.csv", "-m", "poprec", "--json").document
    assert document["users"] == {"measured": 4, "of": 4, "judged": 4}


def test_the_table_names_what_was_trained_on(infrec: Infrec, ratings: Path, tmp_path: Path) -> None:
    infrec("sample", ratings, "--strategy", "user-rns", "--users", "9", "-o", tmp_path / "few")
    words = ("evaluate", ratings, "--train-on", tmp_path / "few", "-m", "poprec")
    said = " ".join(infrec(*words).out.split()).replace(" ", "")
    assert f"fittedon{tmp_path}/few,9users" in said
    assert infrec(*words, "--json").document["train_on"] == str(tmp_path / "few")


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six users of five items each, at different moments, with a split of their own."""
    path = tmp_path_factory.mktemp("data") / "timed.csv"
    rows = [
        f"{user},{(user + place) % 8},{1000 * place + user},{'test' if place == 1 else 'train'}"
        for user in range(6)
        for place in range(5)
    ]
    path.write_text("user,item,time,split\n" + "\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize("how", ["leave-last-out", "by-time", "random"])
def test_a_split_that_is_asked_for_goes_before_that_of_the_data(
    infrec: Infrec, timed: Path, how: str
) -> None:
    from infrec.data import Interactions
    from infrec.splits import by_time, leave_last_out

    ran = infrec("evaluate", timed, "-m", "poprec", "--split", how, "--json")
    assert ran.document["split"] == {"random": "holdout (seed 42)"}.get(how, how)
    log = Interactions.read(timed)
    if how != "random":
        split = (leave_last_out if how == "leave-last-out" else by_time)(log)
        assert ran.document["users"]["judged"] == (split.test.user_counts > 0).sum()
    assert infrec("evaluate", timed, "-m", "poprec", "--json").document["split"] == "own"


def test_a_split_by_time_asks_for_the_column_of_times(infrec: Infrec, ratings: Path) -> None:
    ran = infrec("evaluate", ratings, "-m", "poprec", "--split", "by-time")
    assert ran.code == 1 and "--time COLUMN" in ran.err
    ran = infrec("evaluate", ratings, "--split", "bytime", "--json")
    says = "Invalid value for '--split': 'bytime' is not one of"
    assert ran.code == 2 and says in ran.document["error"]["message"]
    ran = infrec("evaluate", ratings, "--split", "by-time", "--train-on", "summary")
    assert ran.code == 2 and "exclude each other" in ran.err


def test_the_cost_of_diverse_lists(infrec: Infrec, tmp_path: Path) -> None:
    page = tmp_path / "lists.html"
    words = ("evaluate", "demo", "-m", "ease", "--set", "reg=500", "--diversity", "0.3")
    ran = infrec(*words, "--report", page, "--json")
    assert ran.code == 0, ran.err
    trade = ran.document["trade"]
    assert (trade["k"], trade["users"], len(trade["steps"])) == (10, 1000, 4)
    first, last = trade["steps"][0], trade["steps"][-1]
    assert first["metrics"]["NDCG@10"] == pytest.approx(ran.document["metrics"]["NDCG@10"], rel=1e-6)
    assert last["diversity"] == 0.3 and last["metrics"]["coverage@10"] > first["metrics"]["coverage@10"]
    assert "<svg" in page.read_text(encoding="utf-8")
    shown = infrec(*words)
    assert "EASE with diversity 0.3: NDCG@10 " in shown.out and "by scores alone" in shown.out


def test_a_report_needs_a_wish(infrec: Infrec, tmp_path: Path) -> None:
    ran = infrec("evaluate", "demo", "--report", tmp_path / "lists.html")
    assert ran.code == 2 and "give --diversity or --popularity" in ran.err
    ran = infrec("evaluate", "demo", "--diversity", "0.3", "--report", tmp_path / "no" / "lists.html")
    assert ran.code == 2 and "lies in a folder that does not exist" in ran.err


def test_cold_items(infrec: Infrec) -> None:
    words = ("evaluate", "demo", "-m", "ease", "--set", "reg=1000", "--cold-items", "0.1")
    ran = infrec(*words, "--features", "genres", "--json")
    assert ran.code == 0, ran.err
    record = ran.document["cold_items"]
    assert (ran.document["model"], record["items"], record["features"]) == ("ease", 50, ["genres"])
    assert record["metrics"]["ease"]["NDCG@10"] > 2 * record["metrics"]["random"]["NDCG@10"]
    shown = infrec(*words)
    assert (
        "50 items held out whole" in shown.out
        and "content alone" in shown.out
        and "genres, year" in shown.out
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--cold-items", "0"), "the share of cold items is 0"),
        (("--features", "genres"), "give --cold-items SHARE too"),
        (("--cold-items", "0.1", "--diversity", "0.3"), "--cold-items goes with"),
        (("--cold-items", "0.1", "--features", "studio"), "no column 'studio'"),
    ],
)
def test_cold_items_that_cannot_be_measured(infrec: Infrec, words: tuple[str, ...], sentence: str) -> None:
    ran = infrec("evaluate", "demo", "-m", "ease", *words)
    assert ran.code in (1, 2) and sentence in ran.err
