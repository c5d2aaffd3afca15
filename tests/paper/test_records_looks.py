"""Records that must not be mixed: of quick looks, of other settings, of files that share a name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infrec.data import Interactions
from infrec.data.export import export
from infrec.paper import appendix, get, measure, runner, site
from infrec.paper.cells import Cell, Data, pairs
from infrec.paper.experiment import Plan
from infrec.paper.records import LOOK, Records
from infrec.paper.results import Results
from infrec.report.document import Value
from tests.paper.made import record, write

DEPTH = get("depth")


@pytest.fixture(scope="module")
def dataset(small_log: Interactions, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("data") / "small.parquet"
    export(small_log, path, "parquet")
    return str(path)


def plan(dataset: str, *, quick: bool) -> Plan:
    return Plan((dataset,), (42,), {dataset: 120}, quick=quick)


def values(root: Path, name: str, metric: str = "HR@10") -> list[float]:
    return [row.value for row in Results.at(root, name).rows if row.metric == metric]


# ---- quick looks -------------------------------------------------------------------------------------------
def test_a_quick_look_leaves_its_mark_on_every_cell_but_not_on_a_hash(dataset: str) -> None:
    """Closed forms are the same cells in both: a look must not make them others."""
    quick, real = DEPTH.cells(plan(dataset, quick=True)), DEPTH.cells(plan(dataset, quick=False))
    assert all(cell.quick_look and not cell.quick for cell in quick)
    assert not any(cell.quick_look for cell in real)
    assert {cell.hash for cell in quick} < {cell.hash for cell in real}


def test_a_quick_look_at_closed_forms_decides_nothing_on_the_pages(dataset: str, tmp_path: Path) -> None:
    runner.run(DEPTH.cells(plan(dataset, quick=True)), tmp_path / "depth")
    found, results = site.read(tmp_path, DEPTH)
    assert results.quick_datasets()
    assert {one.verdict for one in found.claims} == {"cannot be tested here"}


def test_a_run_in_earnest_takes_over_what_a_look_has_measured(
    dataset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = DEPTH.cells(plan(dataset, quick=True))
    real = DEPTH.cells(plan(dataset, quick=False))[:2]
    looked = runner.run(quick, tmp_path / "depth").records
    assert all(one[LOOK] for one in looked)
    shared = {cell.hash for cell in quick} & {cell.hash for cell in real}
    begun: list[str] = []
    real_run = measure.measure_cell

    def counted(cell: Cell, *rest: Any) -> Any:
        begun.append(cell.hash)
        return real_run(cell, *rest)

    monkeypatch.setattr(measure, "measure_cell", counted)
    records = runner.run(real, tmp_path / "depth").records
    assert shared and not set(begun) & shared  # measured once
    assert not any(LOOK in one for one in records)
    # Depth 4 is in the look alone: it steps aside, and the pages are no quick look any more.
    kept = Results.at(tmp_path, "depth")
    assert {one["cell"] for one in kept.records} == {cell.hash for cell in real}
    assert not kept.quick_datasets()
    # Another look changes nothing of what is there.
    before = Records(tmp_path / "depth").path.read_bytes()
    runner.run(quick[:1], tmp_path / "depth")
    assert Records(tmp_path / "depth").path.read_bytes() == before


def test_what_a_look_copies_from_another_experiment_stays_a_look_there(dataset: str, tmp_path: Path) -> None:
    (real, *_), (quick, *_) = (DEPTH.cells(plan(dataset, quick=which)) for which in (False, True))
    runner.run([real], tmp_path / "depth")
    (copied,) = runner.run([quick], tmp_path / "beside").records
    assert copied[LOOK] and Results.at(tmp_path, "beside").quick_datasets()
    assert not Results.at(tmp_path, "depth").quick_datasets()
    (real_copy,) = runner.run([real], tmp_path / "third").records
    assert LOOK not in real_copy


def test_quick_records_of_trained_models_step_aside_where_nothing_is_distilled(tmp_path: Path) -> None:
    """`cold` has no summaries: five epochs of MF must not be averaged with all of them."""
    bins = {"low": 1, "high": 2, "size": 9, "interval": None}
    for value, quick, epochs in ((60.0, False, 90), (10.0, True, 5)):
        strata = {kind: [{**bins, "value": value}] for kind in ("users", "items")}
        settings = {"epochs": epochs}
        write(tmp_path, "cold", record("ml-1m", "mf", value, quick=quick, strata=strata, settings=settings))
    results = Results.at(tmp_path, "cold")
    assert [row.value for row in appendix.bins(results, "users")["mf"]] == [60.0]
    assert values(tmp_path, "cold") == [60.0]


def test_samples_of_a_quick_grid_are_not_in_the_real_one_s_curves(tmp_path: Path) -> None:
    """25 users are a quick look's budget: their one seed must not become a point of the figure."""
    small = {**record("ml-1m", "infinite-ae", 1.0, data=Data("user-rns", 25)), LOOK: True}
    write(tmp_path, "sample-efficiency", small)
    assert values(tmp_path, "sample-efficiency") == [1.0]
    write(tmp_path, "sample-efficiency", record("ml-1m", "infinite-ae", 9.0, data=Data("user-rns", 50)))
    assert values(tmp_path, "sample-efficiency") == [9.0]


def test_the_real_plan_of_a_command_has_no_mark(dataset: str, tmp_path: Path) -> None:
    experiment = get("transfer-ease")
    for quick in (False, True):
        made = runner.plan(experiment, [dataset], root=tmp_path, quick=quick)
        assert {cell.quick_look for cell in experiment.cells(made)} == {quick}


# ---- settings ----------------------------------------------------------------------------------------------
def test_coldness_is_that_of_the_settings_committed_last(tmp_path: Path) -> None:
    bins = {"low": 1, "high": 2, "size": 9, "interval": None}
    for latent, seed, value in ((8, 42, 10.0), (64, 42, 30.0), (64, 1, 50.0)):
        strata = {kind: [{**bins, "value": value}] for kind in ("users", "items")}
        made = record("ml-1m", "mf", value, seed=seed, strata=strata, settings={"latent": latent})
        write(tmp_path, "cold", made)
    (row,) = appendix.bins(Results.at(tmp_path, "cold"), "users")["mf"]
    assert (row.value, row.seeds) == (40.0, 2)


def test_models_may_have_been_measured_in_different_bins(tmp_path: Path) -> None:
    for model, ranges in (("ease", [(1, 2), (3, 9)]), ("mf", [(1, 2), (3, 4), (5, 9)])):
        bins = [{"low": a, "high": b, "size": 5, "interval": None, "value": 10.0 * b} for a, b in ranges]
        write(tmp_path, "cold", record("ml-1m", model, 30.0, strata={"users": bins, "items": bins}))
    results = Results.at(tmp_path, "cold")
    rows = [row for row in get("cold").rows(results) if row["of"] == "users"]
    assert [(row["model"], row["train_interactions"], row["value"]) for row in rows] == [
        ("mf", [1, 2], 20.0), ("mf", [3, 4], 40.0), ("mf", [5, 9], 90.0),
        ("ease", [1, 2], 20.0), ("ease", [3, 9], 90.0),
    ]  # fmt: skip
    table, _ = get("cold").findings(results).tables
    assert table.head == ("model", "1–2 (5)", "3–4 (5)", "3–9 (5)", "5–9 (5)")
    assert [[cell.value for cell in line[1:] if isinstance(cell, Value)] for line in table.rows] == [
        [20.0, 40.0, None, 90.0], [20.0, None, 90.0, None],
    ]  # fmt: skip


# ---- names -------------------------------------------------------------------------------------------------
def test_files_that_share_a_name_are_two_datasets(tmp_path: Path) -> None:
    one, other = (str(tmp_path / place / "log.parquet") for place in ("a", "b"))
    write(tmp_path, "depth", record(one, "ease", 10.0), record(other, "ease", 30.0))
    assert sorted(values(tmp_path, "depth")) == [10.0, 30.0]
    assert Results.at(tmp_path, "depth").datasets() == [one, other]
    # Alone, the short name is enough; a registered one of that name is another dataset.
    assert Results([record(one, "ease", 1.0)], lambda _: Results.at(tmp_path, "depth")).datasets() == ["log"]
    mixed = Results(
        [record("magazine", "ease", 1.0), record(str(tmp_path / "magazine.csv"), "ease", 2.0)],
        lambda _: Results.at(tmp_path, "depth"),
    )
    assert [row.value for row in mixed.rows if row.metric == "HR@10"] == [1.0, 2.0]


def test_a_mode_is_not_averaged_with_another(tmp_path: Path) -> None:
    for mode, value in (("soft", 10.0), ("published", 20.0), ("discrete", 30.0)):
        settings = pairs() if mode == "discrete" else pairs(mode=mode)
        made = record("ml-1m", "infinite-ae", value, data=Data("distill-cf", 500, settings=settings))
        write(tmp_path, "table1", made)
    assert values(tmp_path, "table1") == [10.0, 20.0, 30.0]
