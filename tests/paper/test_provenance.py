"""Which code made a record, which users stand in which group, and what a page says of both."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from infrec import paper
from infrec.data import Interactions
from infrec.data.export import export
from infrec.evaluation import evaluate
from infrec.models import EASE, PopRec
from infrec.paper import measure, records, runner, site
from infrec.paper.cells import Cell, Data, Fit, pairs
from infrec.paper.records import GROUPS, PAIRED, groups
from infrec.paper.results import Results
from infrec.report.document import Table, Value
from infrec.splits import holdout
from tests.cli.conftest import Infrec, infrec
from tests.paper.made import record, write

__all__ = ["infrec"]


# ---- the code ----------------------------------------------------------------------------------------------
def test_a_hash_is_that_of_a_room(tmp_path: Path) -> None:
    """A changed line changes its room alone; what only shows numbers changes nothing."""
    for room in (*records.ROOMS, "paper", "report"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "one.py").write_text("x = 1\n")
    for name in (*records.MEASURING, "site.py"):
        (tmp_path / "paper" / name).write_text("x = 1\n")
    (tmp_path / "errors.py").write_text("")
    before = records.fingerprints(tmp_path)
    assert set(before) == {records.GROUND, "paper", *records.ROOMS}
    for path, room in (
        ("models/one.py", "models"),
        ("paper/measure.py", "paper"),
        ("errors.py", records.GROUND),
    ):
        old = (tmp_path / path).read_text()
        (tmp_path / path).write_text("x = 2\n")
        after = records.fingerprints(tmp_path)
        assert {name for name in after if after[name] != before[name]} == {room}
        (tmp_path / path).write_text(old)
    for path in ("report/one.py", "paper/site.py"):
        (tmp_path / path).write_text("x = 2\n")
    assert records.fingerprints(tmp_path) == before


def test_every_file_that_measures_is_there() -> None:
    assert all((records.SOURCE / "paper" / name).is_file() for name in records.MEASURING)
    assert all((records.SOURCE / room).is_dir() for room in records.ROOMS)


def test_records_older_than_the_code_are_counted() -> None:
    now = {"data": "aa", "models": "bb"}
    old, same, other = (record("demo", "ease", 1.0) for _ in range(3))
    same["code"] = {"commit": "1" * 40, "source": now}
    other["code"] = {"commit": "2" * 40, "source": {**now, "models": "cc"}}
    found = records.Outdated.of([old, same, other], now)
    assert found == (3, 1, 1, ("models",))
    assert "1 were made by code that has changed since in models" in str(found)
    assert str(records.Outdated.of([same], now)) == ""
    assert records.makers([old, same, same]) == [
        "commit 11111111 (2 records)",
        "infrec 0.1.0, commit not noted (1 record)",
    ]


def test_reproduce_says_what_is_older_than_the_code(infrec: Infrec, tmp_path: Path) -> None:
    write(tmp_path, "depth", record("ml-1m", "infinite-ae", 30.0, settings={"depth": 1}))
    ran = infrec("reproduce", "depth", "--report-only", "--records", tmp_path, "--json")
    older = ran.document["older_than_the_code"]
    assert older == {"depth": {"records": 1, "unknown": 1, "changed": 0, "rooms": []}}
    assert "do not say which code made them" in ran.err
    page = (tmp_path / "depth" / "README.md").read_text(encoding="utf-8")
    assert "by infrec 0.1.0, commit not noted (1 record)" in page


# ---- groups of users ---------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def dataset(small_log: Interactions, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("data") / "small.parquet"
    export(small_log, path, "parquet")
    return str(path)


def test_a_record_carries_its_code_and_means_of_groups(dataset: str, tmp_path: Path) -> None:
    (made,) = runner.run([Cell(dataset, 42, Data(), (Fit("ease", pairs(reg=5)),))], tmp_path / "x").records
    assert re.fullmatch(r"[0-9a-f]{40}\+?", made["code"]["commit"] or "0" * 40)
    assert made["code"]["source"] == records.fingerprints(records.SOURCE)
    (line,) = made["measured"]
    assert set(line["groups"]) == set(PAIRED)
    assert {len(means) for means in line["groups"].values()} == {GROUPS}


def test_users_have_the_same_group_whatever_is_measured(small_log: Interactions) -> None:
    """Differences of groups are the means of differences: what pairs the users of two records."""
    split = holdout(small_log, seed=42)
    ours, theirs = (evaluate(model.fit(split.train), split) for model in (EASE(reg=5), PopRec()))
    difference = ours.per_user["HR@10"] - theirs.per_user["HR@10"]
    by_group = np.subtract(groups(ours)["HR@10"], groups(theirs)["HR@10"])
    sizes = np.full(GROUPS, split.train.n_users // GROUPS) + (
        np.arange(GROUPS) < split.train.n_users % GROUPS
    )
    assert (by_group * sizes).sum() == pytest.approx(difference.sum())
    assert len(set(np.round(by_group, 6))) > 5  # not all users in one


# ---- data and pages ----------------------------------------------------------------------------------------
def test_a_split_without_validation_gets_one_from_train(tmp_path: Path) -> None:
    """As gowalla's has none: without one, every λ would be as good as another."""
    rng = np.random.default_rng(2)
    rows = [
        {"user": user, "item": int(item), "split": "test" if at == 0 else "train"}
        for user in range(30)
        for at, item in enumerate(rng.choice(20, 8, replace=False))
    ]
    path = tmp_path / "log.parquet"
    parquet.write_table(pa.Table.from_pylist(rows), path)
    split = measure.load(str(path))
    assert (split.train.n_interactions, split.val.n_interactions, split.test.n_interactions) == (180, 30, 30)
    assert "validation from train" in split.name


def test_the_first_page_counts_the_paper_s_claims_on_its_datasets(tmp_path: Path) -> None:
    for dataset, ours in (("ml-1m", 31.0), ("douban-book", 29.0)):
        for model in ("poprec", "bias-only", "mf", "neumf", "lightgcn", "ease", "mvae"):
            write(tmp_path, "table1", record(dataset, model, 30.0))
        write(tmp_path, "table1", record(dataset, "infinite-ae", ours))
    write(tmp_path, "leakage", record("ml-1m", "infinite-ae", 30.0))
    site.build(tmp_path, ["table1"])
    lines = (tmp_path / "README.md").read_text(encoding="utf-8").splitlines()
    (paper_s,) = (line for line in lines if "the paper's claims on the paper's datasets" in line)
    (others,) = (line for line in lines if "the paper's claims on other data" in line)
    # Three of ml-1m, and one line for each of the paper's three datasets without records.
    assert paper_s.startswith("Of 6 verdicts") and "(ml-1m), 1 hold, 0 do not" in paper_s
    assert others.startswith("Of 3 verdicts") and "(douban-book), 0 hold, 1 do not" in others


def test_a_table_says_what_was_designed_with_test_figures_in_view() -> None:
    plain = Table("ml-1m", ("model", "HR@10"), [("EASE", Value("HR@10", 30.0))])
    assert not list(site.remarks(plain))
    for name, words in (("∞-AE-plus", "11,000 runs"), ("∞-AE on Distill-CF (0/1), 500 users", "450 runs")):
        (remark,) = site.remarks(Table("ml-1m", ("model", "HR@10"), [(name, Value("HR@10", 30.0))]))
        assert words in remark
    sample = Table("netflix-sample", ("model", "HR@10"), [("EASE", Value("HR@10", 30.0, paper=29.0))])
    assert list(site.remarks(sample)) == [site.OF_SAMPLES]


def test_the_paper_s_netflix_stands_beside_the_sample() -> None:
    (row,) = (
        row
        for row in Results(
            [record("netflix-sample", "ease", 20.0)], lambda _: Results([], lambda _: None)
        ).rows  # type: ignore[arg-type,return-value]
        if row.metric == "HR@10"
    )
    assert row.paper is not None


@pytest.mark.parametrize("name", ["douban", "netflix-sample", "lastfm-2k", "gowalla"])
def test_every_experiment_takes_every_registered_dataset_by_name(name: str) -> None:
    plan = paper.experiment.Plan((name,), (42,), {name: 2000})
    for each in paper.NAMES:
        assert paper.get(each).cells(plan), each


def test_models_without_committed_settings_are_named(tmp_path: Path) -> None:
    write(
        tmp_path, "table1", record("douban", "mf", 20.0), record("ml-1m", "mf", 20.0, settings={"latent": 8})
    )
    notes = paper.get("table1").findings(Results.at(tmp_path, "table1")).notes
    (note,) = (note for note in notes if "shipped settings" in note)
    assert note.startswith("douban: MF have their shipped settings")


def test_words_joined_by_a_plus_are_all_wanted() -> None:
    cells = [Cell("demo", 42, Data(), (Fit("ease"),)), Cell("demo", 42, Data("user-rns", 5), (Fit("ease"),))]
    assert runner.only(cells, ["full+ease"]) == cells[:1]
    assert runner.only(cells, ["full+ease", "user-rns"]) == cells
