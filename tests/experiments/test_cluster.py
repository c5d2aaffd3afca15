"""A sweep on a local Ray cluster: the records of a run here, also when a worker is killed in the middle."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infrec.data import Interactions
from infrec.data.export import export
from infrec.errors import ConfigError
from infrec.experiments import cluster, runner
from infrec.experiments.cells import Cell, Data, Fit
from infrec.experiments.records import FILE, Records
from tests.experiments.test_runner import same

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
    found = cluster._ray()
    cluster.Ray(processors=2)._join(found)
    yield found
    found.shutdown()


def grid(dataset: str) -> list[Cell]:
    quick = [Cell(dataset, seed, Data("user-rns", 30), (Fit("ease"),)) for seed in (42, 1, 2)]
    return [*quick, Cell(dataset, 42, Data(), (Fit("poprec"),))]


def test_a_killed_worker_loses_nothing_and_nothing_is_done_twice(
    dataset: str, tmp_path: Path, ray: Any
) -> None:
    cells = grid(dataset)
    here = runner.run(cells, tmp_path / "here" / "x").records
    directory = tmp_path / "there" / "x"
    killed: list[int] = []

    def killer() -> None:
        """Ends the first worker that is seen to hold a claim."""
        claims, until = directory / ".claims", time.monotonic() + 40
        while not killed and time.monotonic() < until:
            begun = claims.is_dir() and any(claims.iterdir())  # looking for the holder takes a processor
            for pid in _holders(claims) if begun else ():
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
                return
            time.sleep(0.002)

    thread = threading.Thread(target=killer)
    thread.start()
    outcome = runner.run(cells, directory, executor=cluster.Ray())
    thread.join()
    assert killed, "no worker was seen at work"
    assert not outcome.errors
    assert list(map(same, outcome.records)) == list(map(same, here))
    lines = (directory / FILE).read_text().splitlines()
    assert len(lines) == len(cells) == len(Records(directory).read())
    again = runner.run(cells, directory, executor=cluster.Ray())
    assert again.ran == 0 and again.records == outcome.records


def _holders(claims: Path) -> list[int]:
    """The processes other than this one that have a claim open."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                links = [str(each.readlink()) for each in (entry / "fd").iterdir()]
            except OSError:
                continue
            if any(link.startswith(str(claims)) for link in links):
                found.append(int(entry.name))
    return found


def test_a_cell_whose_worker_always_dies_is_reported_and_the_others_go_on(
    dataset: str, tmp_path: Path, ray: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = grid(dataset)[:2]
    monkeypatch.setattr(cluster, "_work", _deadly)
    outcome = runner.run(cells, tmp_path / "x", executor=cluster.Ray())
    assert [cell for cell, _ in outcome.errors] == [cells[0]]
    assert "died 3 times" in outcome.errors[0][1]
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
            list(cluster.Ray(asked).run(grid(dataset), tmp_path))
