"""Several processes fit one model: the scores of one process, half of the data each; and their faults.

Real processes and real sockets (gloo), on small data.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from infrec.data import Interactions
from infrec.data.partition_writer import prepare
from infrec.data.partitioned import PartitionedLog
from infrec.data.sources import TableSource
from infrec.data.synthetic import generate
from infrec.models import InfiniteAE
from tests.cli.conftest import Infrec

pytestmark = pytest.mark.usefixtures("compiled_quickly")  # in the processes, too

SENTENCE = "another of the processes has ended or cannot be reached"


@pytest.fixture(scope="module")
def log() -> Interactions:
    return generate(600, 120, 12_000, seed=3)


@pytest.fixture(scope="module")
def prepared(log: Interactions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(TableSource(log.to_table(), "log"), tmp_path_factory.mktemp("data") / "log")


def start(
    data: Path, out: Path, *, slurm: bool = False, terminal: int = subprocess.PIPE
) -> list[subprocess.Popen[str]]:
    """Two processes of a fit. terminal: where the first one draws its progress."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = []
    for index in range(2):
        words = ["fit", str(data), "--distributed", "--centres", "100", "-o", str(out), "--json"]
        env = {**os.environ, "OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}
        if slurm:
            # The port of a job is a function of its number.
            env |= {"SLURM_PROCID": str(index), "SLURM_NTASKS": "2", "SLURM_JOB_ID": str(port)}
            env |= {"SLURM_STEP_NODELIST": "localhost"}
        else:
            words += ["--coordinator", f"127.0.0.1:{port}", "--processes", "2", "--index", str(index)]
        command = [sys.executable, "-m", "infrec", *words]
        errors = subprocess.PIPE if index else terminal
        started.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=errors, text=True))
    return started


def ended(processes: list[subprocess.Popen[str]], seconds: float = 300) -> list[tuple[str, str]]:
    try:
        return [process.communicate(timeout=seconds) for process in processes]
    finally:
        for process in processes:
            process.kill()


def test_two_processes_find_what_one_finds_and_read_half_each(
    log: Interactions, prepared: Path, tmp_path: Path
) -> None:
    processes = start(prepared, tmp_path / "model", slurm=True)
    (first, second) = ended(processes)
    assert [process.returncode for process in processes] == [0, 0], (first, second)
    assert second[0] == "" and first[1] == second[1] == ""
    told = json.loads(first[0])
    assert told["about"]["launcher"] == "Slurm" and told["users"] == 600
    rows = [one["rows"] for one in told["about"]["processes"]]
    assert sum(rows) == 12_000 and max(rows) < 0.55 * 12_000
    assert all(one["of_rows"] == 12_000 and one["peak_rss_mb"] > 0 for one in told["about"]["processes"])
    alone = InfiniteAE(centres=100).fit_prepared(PartitionedLog.open(prepared))
    model = InfiniteAE.load(tmp_path / "model")
    assert model.selected == alone.selected and model.centres.users == alone.centres.users
    np.testing.assert_allclose(model.score(log.matrix), alone.score(log.matrix), atol=1e-5)
    for one, other in zip(model.candidates, alone.candidates, strict=True):
        assert one.score == pytest.approx(other.score, abs=0.2)


@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")
def test_a_killed_process_is_noticed_by_the_others(prepared: Path, tmp_path: Path) -> None:
    """Killed as soon as the bars of the first one say that the two have met."""
    ours, theirs = os.openpty()
    processes = start(prepared, tmp_path / "model", terminal=theirs)
    os.close(theirs)
    told = b""
    while b"meet the other processes" not in told:
        told += os.read(ours, 4096)  # an error when nobody holds the other end any more
    processes[1].send_signal(signal.SIGKILL)
    while True:  # a terminal that nobody reads would stop the first one
        try:
            os.read(ours, 4096)
        except OSError:
            break
    os.close(ours)
    (left, _) = ended(processes)
    assert processes[0].returncode == 1
    assert SENTENCE in json.loads(left[0])["error"]["message"]
    assert not (tmp_path / "model").exists() and not list(tmp_path.glob(".model*"))


def test_a_damaged_partition_is_named_and_nothing_is_written(log: Interactions, tmp_path: Path) -> None:
    prepare(TableSource(log.to_table(), "log"), tmp_path / "log")
    bad = tmp_path / "log" / "part-00009.parquet"  # one of the second process's
    bad.write_bytes(bad.read_bytes()[:-1] + b"?")
    processes = start(tmp_path / "log", tmp_path / "model")
    (first, second) = ended(processes)
    assert [process.returncode for process in processes] == [1, 1]
    assert "part-00009.parquet is damaged" in json.loads(second[0])["error"]["message"]
    assert SENTENCE in json.loads(first[0])["error"]["message"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log"]


def test_what_cannot_be_asked(infrec: Infrec, prepared: Path, ratings: Path, tmp_path: Path) -> None:
    def said(*words: object) -> str:
        ran = infrec("fit", *words, "-o", tmp_path / "m", "--json")
        assert ran.code == 2
        return str(ran.document["error"]["message"])

    assert "not a prepared dataset" in said(ratings, "--distributed")
    assert "no launcher tells it" in said(prepared, "--distributed")
    assert "go with --distributed" in said(prepared, "--processes", 2)
    assert "fits infinite-ae on all" in said(prepared, "--distributed", "-m", "ease")
    one = ("--processes", 1, "--index", 0)
    assert "'exact', which needs all users" in said(prepared, "--distributed", *one, "--set", "solver=exact")


def test_one_process_streams(infrec: Infrec, prepared: Path, tmp_path: Path) -> None:
    ran = infrec(
        "fit",
        prepared,
        "--distributed",
        "--processes",
        1,
        "--index",
        0,
        "--centres",
        60,
        "-o",
        tmp_path / "m",
    )
    assert ran.code == 0, ran.err
    assert "process 0: read 12,000 of 12,000 interactions" in " ".join(ran.out.split())
    assert infrec("recommend", tmp_path / "m", "--history", "17", "--json").document["recommendations"]
    asked = ("recommend", tmp_path / "m", "--data", prepared)
    every = infrec(*asked, "--all", "-k", 3, "--out", tmp_path / "all.parquet", "--json").document
    assert (every["users"], every["rows"]) == (600, 1800)
    rows = pq.read_table(tmp_path / "all.parquet").to_pylist()
    told = infrec(*asked, "--user", "417", "--user", "nobody", "--user", "3", "-k", 3, "--json").document
    assert told["unknown"] == ["nobody"]
    for user in ("417", "3"):
        mine, theirs = (
            [(r["item"], r["source"]) for r in some if str(r["user"]) == user]
            for some in (told["recommendations"], rows)
        )
        assert mine == theirs and len(mine) == 3 and mine[0][1] == "model"
    assert {r["source"] for r in told["recommendations"] if r["user"] == "nobody"} == {"popular"}
