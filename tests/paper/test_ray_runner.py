"""A sweep on a local Ray cluster: the records of a run here, also when a worker is killed in the middle."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infrec.data import Interactions
from infrec.data.export import export
from infrec.errors import ConfigError
from infrec.paper import measure, runner
from infrec.paper.cells import Cell, Data, Fit
from infrec.paper.records import FILE, Records
from tests.paper.test_runner import same

if importlib.util.find_spec("ray") is None:
    if os.environ.get("INFREC_REQUIRE_RAY"):
        pytest.fail("INFREC_REQUIRE_RAY is set, but Ray is not installed.", pytrace=False)
    pytest.skip("needs Ray: pip install 'infrec[cluster]'", allow_module_level=True)


@pytest.fixture(scope="module")
def dataset(small_log: Interactions, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("data") / "small.parquet"
    export(small_log, path, "parquet")
    return str(path)


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """One small cluster for all tests: `Ray` uses it and leaves it running."""
    found = runner._ray()
    runner.Ray(processors=2)._join(found)
    yield found
    found.shutdown()


def grid(dataset: str) -> list[Cell]:
    return [
        Cell(dataset, 42, Data(), (Fit("poprec"),)),
        Cell(dataset, 1, Data("user-rns", 30), (Fit("ease"),)),
    ]


def test_a_killed_worker_loses_nothing_and_nothing_is_done_twice(
    dataset: str, tmp_path: Path, ray: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = grid(dataset)
    here = runner.run(cells, tmp_path / "here" / "x").records
    directory = tmp_path / "there" / "x"
    directory.parent.mkdir()
    monkeypatch.setattr(runner, "_work", _killed_once)
    outcome = runner.run(cells, directory, executor=runner.Ray())
    assert _mark(directory).is_file(), "no worker was killed"
    assert not outcome.errors
    assert list(map(same, outcome.records)) == list(map(same, here))
    lines = (directory / FILE).read_text().splitlines()
    assert len(lines) == len(cells) == len(Records(directory).read())
    again = runner.run(cells, directory, executor=runner.Ray())
    assert again.ran == 0 and again.records == outcome.records


def _mark(directory: Path) -> Path:
    return directory.parent / "killed"


def _killed_once(cell: Cell, directory: Path, *_: Any) -> runner.Done:
    """The first worker to come here ends in the middle of its cell: claimed, and not recorded."""
    try:
        _mark(directory).open("x").close()
    except FileExistsError:
        return runner.perform(cell, directory)
    measure.measure_cell = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    return runner.perform(cell, directory)


def test_a_cell_whose_worker_always_dies_is_reported_and_the_others_go_on(
    dataset: str, tmp_path: Path, ray: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = grid(dataset)
    monkeypatch.setattr(runner, "_work", _deadly)
    monkeypatch.setattr(runner, "ATTEMPTS", 2)
    outcome = runner.run(cells, tmp_path / "x", executor=runner.Ray())
    assert [cell for cell, _ in outcome.errors] == [cells[0]]
    assert "died 2 times" in outcome.errors[0][1]
    assert [record["cell"] for record in outcome.records] == [cells[1].hash]


def _deadly(cell: Cell, directory: Path, *_: Any) -> runner.Done:
    if cell.seed == 42:
        os.kill(os.getpid(), signal.SIGKILL)
    return runner.perform(cell, directory)


def test_no_cluster_there(dataset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ray: Any) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setenv("RAY_ADDRESS", address)
    for asked in (address, "auto"):
        with pytest.raises(ConfigError, match=f"no Ray cluster at '{asked}' .*refused"):
            list(runner.Ray(asked).run(grid(dataset), tmp_path))
