"""Records and the runner: what was measured is never measured twice, never lost, never half there."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infrec.data import Interactions
from infrec.data.export import export
from infrec.errors import ArtifactError
from infrec.paper import measure, runner
from infrec.paper.cells import Cell, Data, Fit, pairs
from infrec.paper.records import FILE, Records

IGNORED = ("seconds", "finished", "device", "versions")


@pytest.fixture(scope="module")
def dataset(small_log: Interactions, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("data") / "small.parquet"
    export(small_log, path, "parquet")
    return str(path)


def grid(dataset: str) -> list[Cell]:
    fits = (Fit("poprec"), Fit("ease"))
    full = [Cell(dataset, 42, Data(), (fit,)) for fit in fits]
    return full + [Cell(dataset, seed, Data("user-rns", 30), (fits[1],)) for seed in (42, 1, 2)]


def same(record: dict[str, Any]) -> dict[str, Any]:
    """Without what differs from run to run: times."""
    rest = {name: value for name, value in record.items() if name not in IGNORED}
    measured = [{k: v for k, v in m.items() if k != "seconds"} for m in record["measured"]]
    return {**rest, "measured": measured}


# ---- cells -------------------------------------------------------------------------------------------------
def test_a_hash_names_the_configuration_and_nothing_else(dataset: str) -> None:
    cell = Cell(dataset, 42, Data("user-rns", 30, 1.0), (Fit("ease", pairs(reg=5)),))
    assert cell.hash == replace(cell).hash
    for change in (
        {"seed": 1},
        {"dataset": "demo"},
        {"data": Data("user-rns", 31, 1.0)},
        {"data": Data("user-rns", 30, 2.0)},
        {"fits": (Fit("ease", pairs(reg=6)),)},
        {"beyond": ("coldness",)},
        {"quick": True},
    ):
        assert replace(cell, **change).hash != cell.hash
    # The same on every machine and in every process: it is written down here.
    assert Cell("demo", 42, Data(), (Fit("ease"),)).hash == "35f18378e4b93e54"


def test_only_chance_asks_for_seeds() -> None:
    assert not Cell("demo", 42, Data(), (Fit("ease"),)).by_chance
    assert not Cell("demo", 42, Data("head-user", 5), (Fit("infinite-ae"),)).by_chance
    assert Cell("demo", 42, Data("user-rns", 5), (Fit("ease"),)).by_chance
    assert Cell("demo", 42, Data(noise=1.0), (Fit("ease"),)).by_chance
    assert Cell("demo", 42, Data(), (Fit("mf"),)).by_chance
    assert Cell("demo", 42, Data("distill-cf", 5), (Fit("ease"),)).by_chance


# ---- records -----------------------------------------------------------------------------------------------
def record(cell: str, value: float = 1.0) -> dict[str, Any]:
    return {"cell": cell, "configuration": {}, "seed": 1, "measured": [{"metrics": {"HR@10": value}}],
            "seconds": {}, "device": "cpu", "versions": {}}  # fmt: skip


def test_a_record_cut_off_anywhere_is_as_if_not_written(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.append(record("one"))
    whole = records.path.read_bytes()
    records.append(record("two", 2.0))
    both = records.path.read_bytes()
    for end in range(len(whole) + 1, len(both) - 1):
        records.path.write_bytes(both[:end])
        assert set(records.read()) == {"one"}
        assert records.damaged == 1
        # What is appended next begins a line of its own.
        records.append(record("three", 3.0))
        assert set(records.read()) == {"one", "three"}
    records.path.write_bytes(both[: len(both) // 3])
    assert records.read() == {}
    records.append(record("one"))
    assert set(records.read()) == {"one"}


def test_a_disk_that_fills_up_is_an_error_and_leaves_no_half_a_line(tmp_path: Path) -> None:
    """A write that does not fit is cut short by the system, first without an error."""
    records = Records(tmp_path)
    records.append(record("one"))
    before = records.path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 20, limits[1]))
    try:
        with pytest.raises(ArtifactError, match="cannot write"):
            records.append(record("two"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert records.path.read_bytes() == before
    records.append(record("two"))
    assert set(records.read()) == {"one", "two"}
    assert records.damaged == 0


def test_a_line_cut_within_a_letter_and_empty_lines_are_no_records(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.append({**record("one"), "device": "∞"})
    whole = records.path.read_bytes()
    inside = whole.index("∞".encode()) + 1
    records.path.write_bytes(b"\n\n" + whole + b"  \n" + whole[:inside])
    assert set(records.read()) == {"one"}
    assert records.damaged == 1
    records.append(record("two"))
    assert set(records.read()) == {"one", "two"}


def test_numbers_that_json_does_not_have_become_null(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.append({**record("one"), "seconds": {"fit": float("nan")}})
    assert records.read()["one"]["seconds"] == {"fit": None}


def test_a_claim_keeps_others_out_and_ends_with_its_process(tmp_path: Path) -> None:
    records = Records(tmp_path)
    with records.claim("cell") as ours:
        assert ours
        with Records(tmp_path).claim("cell") as theirs:
            assert not theirs
        with records.claim("another") as free:
            assert free
    with records.claim("cell") as again:
        assert again
    code = (
        "import sys,time; from infrec.paper.records import Records\n"
        "with Records(sys.argv[1]).claim('cell') as ours: print(ours, flush=True); time.sleep(600)"
    )
    other = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None
        assert other.stdout.readline().strip() == "True"
        with records.claim("cell") as ours:
            assert not ours
    finally:
        other.send_signal(signal.SIGKILL)
        other.wait()
    with records.claim("cell") as ours:
        assert ours


# ---- runs --------------------------------------------------------------------------------------------------
def test_what_is_done_is_not_done_again(
    dataset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = grid(dataset)
    first = runner.run(cells, tmp_path / "one")
    assert first.ran == len(cells)
    assert not first.errors
    assert [record["cell"] for record in first.records] == [cell.hash for cell in cells]
    for got in first.records:
        assert set(got) >= {"configuration", "seed", "measured", "seconds", "device", "versions"}
        measured = got["measured"][0]
        assert set(measured["intervals"]) <= set(measured["metrics"])
        low, high = measured["intervals"]["HR@10"]
        assert low <= measured["metrics"]["HR@10"] <= high
    monkeypatch.setattr(measure, "measure_cell", lambda *_: pytest.fail("a finished cell was run again"))
    again = runner.run(cells, tmp_path / "one")
    assert again.ran == 0
    assert again.records == first.records
    # An experiment beside it takes over what it shares.
    beside = runner.run(cells[:2], tmp_path / "two")
    assert beside.records == first.records[:2]
    assert len((tmp_path / "two" / FILE).read_text().splitlines()) == 2


def test_a_record_cut_off_is_run_again_and_comes_out_the_same(dataset: str, tmp_path: Path) -> None:
    cells = grid(dataset)[:3]
    whole = runner.run(cells, tmp_path / "a").records
    path = tmp_path / "a" / FILE
    text = path.read_bytes()
    path.write_bytes(text[:-40])
    again = runner.run(cells, tmp_path / "a")
    assert again.ran == 1
    assert list(map(same, again.records)) == list(map(same, whole))
    assert Records(tmp_path / "a").read().keys() == {cell.hash for cell in cells}


def test_a_killed_run_continues_to_the_same_records(dataset: str, tmp_path: Path) -> None:
    """A runner is killed with SIGKILL as soon as something is recorded; a second one does the rest."""
    cells = grid(dataset)
    whole = runner.run(cells, tmp_path / "whole" / "x").records
    target = tmp_path / "killed" / "x"
    process = multiprocessing.get_context("spawn").Process(target=_slowly, args=(cells, target))
    process.start()
    until = time.monotonic() + 300
    while not Records(target).read() and time.monotonic() < until:
        time.sleep(0.01)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    done = len(Records(target).read())
    assert 0 < done < len(cells)
    rest = runner.run(cells, target)
    assert rest.ran == len(cells) - done
    assert list(map(same, rest.records)) == list(map(same, whole))


def _slowly(cells: list[Cell], directory: Path) -> None:
    """A runner that gives its killer time."""
    for _ in runner.Here().run(cells, directory):
        time.sleep(60)


def test_two_runners_share_the_work(dataset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = grid(dataset)
    begun: list[str] = []
    real = measure.measure_cell

    def counted(cell: Cell, *rest: Any) -> Any:
        begun.append(cell.hash)
        time.sleep(0.05)
        return real(cell, *rest)

    monkeypatch.setattr(measure, "measure_cell", counted)
    monkeypatch.setattr(runner, "SECONDS_BETWEEN_LOOKS", 0.01)
    outcomes: list[runner.Outcome] = []
    threads = [
        threading.Thread(target=lambda: outcomes.append(runner.run(cells, tmp_path / "shared")))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(begun) == sorted(cell.hash for cell in cells)  # each once, by whichever came first
    assert len((tmp_path / "shared" / FILE).read_text().splitlines()) == len(cells)
    for outcome in outcomes:
        assert [record["cell"] for record in outcome.records] == [cell.hash for cell in cells]
    assert not list((tmp_path / "shared" / ".claims").iterdir())


def test_processes_are_started_anew_and_find_the_same(dataset: str, tmp_path: Path) -> None:
    cells = grid(dataset)[:3]
    here = runner.run(cells, tmp_path / "here" / "x").records
    told: list[tuple[float, float | None]] = []
    there = runner.run(
        cells,
        tmp_path / "there" / "x",
        executor=runner.Processes(2),
        progress=lambda stage, done, total=None, **facts: told.append((done, total)),
    ).records
    assert list(map(same, there)) == list(map(same, here))
    assert told[-1] == (3, 3)


def test_a_cell_that_cannot_be_measured_is_reported_and_the_others_go_on(
    dataset: str, tmp_path: Path
) -> None:
    good = Cell(dataset, 42, Data(), (Fit("poprec"),))
    bad = Cell(dataset, 42, Data("user-rns", 10_000), (Fit("poprec"),))
    outcome = runner.run([bad, good], tmp_path / "x")
    assert [record["cell"] for record in outcome.records] == [good.hash]
    assert outcome.errors[0][0] == bad
    assert "10,000 users" in outcome.errors[0][1]
    assert set(Records(tmp_path / "x").read()) == {good.hash}


def test_records_are_json_lines(dataset: str, tmp_path: Path) -> None:
    runner.run(grid(dataset)[:1], tmp_path / "x")
    line = (tmp_path / "x" / FILE).read_text().splitlines()[0]
    assert json.loads(line)["configuration"]["dataset"] == dataset
