"""Several processes distil together: the summary of one process; their interruptions and faults.

Real processes and real sockets (gloo), on small data.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from infrec.checkpoints import asked_to_stop
from infrec.cli import distributed
from infrec.cli.launchers import Place
from infrec.cli.reading import Reading, Source
from infrec.data import Summary
from infrec.data.partition_writer import prepare
from infrec.data.sources import TableSource
from infrec.data.synthetic import generate
from infrec.progress import Progress
from tests.cli.conftest import Infrec

pytestmark = pytest.mark.usefixtures("compiled_quickly")  # in the processes, too

SENTENCE = "another of the processes has ended or cannot be reached"
SIZE = ("--users", "20", "--set", "batch=101", "--set", "validate_every=10")  # 101: not divisible by two


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = generate(300, 80, 5_000, seed=3).to_table()
    return prepare(TableSource(table, "log"), tmp_path_factory.mktemp("data") / "log")


@pytest.fixture(scope="module")
def environment(compiled_quickly: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Compiled quickly, and where possible once: most of the time goes there."""
    kept = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path_factory.mktemp("compiled"))}
    kept |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1"}
    return {**os.environ, "OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu", **kept}


class Two:
    """Two processes of a distillation."""

    def __init__(self, environment: dict[str, str], *words: object) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        meet = ("--distributed", "--coordinator", f"127.0.0.1:{port}", "--processes", 2, "--json")
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-m", "infrec", "distill", *map(str, (*words, *meet, "--index", index))],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for index in range(2)
        ]

    def until(self, checkpoint: Path, step: int, seconds: float = 300) -> None:
        """Wait until the checkpoint is of this step or a later one."""
        until = time.monotonic() + seconds
        while step_of(checkpoint) < step:
            assert all(process.poll() is None for process in self.processes), self.ended()
            assert time.monotonic() < until
            time.sleep(0.02)

    def ended(self, seconds: float = 300) -> list[tuple[int, dict[str, Any] | None]]:
        """The exit code and the document of each; on standard error stands the progress alone."""
        try:
            told = [process.communicate(timeout=seconds) for process in self.processes]
        finally:
            for process in self.processes:
                process.kill()
        assert all(line.startswith("distil: step") for _, err in told for line in err.splitlines()), told
        return [
            (process.returncode, json.loads(out) if out else None)
            for process, (out, _) in zip(self.processes, told, strict=True)
        ]


def step_of(checkpoint: Path) -> int:
    try:
        return int(json.loads((checkpoint / "manifest.json").read_text())["state"]["track"]["step"])
    except (OSError, ValueError):
        return -1


def test_killed_then_resumed_two_processes_make_the_summary_of_one(
    infrec: Infrec, prepared: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    words = (prepared, *SIZE, "--mode", "discrete", "--steps", 30, "--no-card", "--out", tmp_path / "two")
    checkpoint = tmp_path / "two.run" / "checkpoint"
    two = Two(environment, *words)
    two.until(checkpoint, 0)  # the first of them: the steps are being compiled then
    two.processes[1].kill()
    (code, told), _ = two.ended()
    assert code == 1 and told is not None and SENTENCE in told["error"]["message"]
    assert not (tmp_path / "two").exists() and 0 <= step_of(checkpoint) < 30

    (code, told), second = Two(environment, *words, "--resume").ended()
    assert code == 0 and told is not None, told
    assert second == (0, None), "only the first one tells"
    assert [one["index"] for one in told["processes"]] == [0, 1]
    assert all(one["peak_rss_mb"] > 0 for one in told["processes"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["two"], "nothing is left of the run"

    one = infrec("distill", *words[:-1], tmp_path / "one", "--json").document
    # Sums are rounded in another order, which 0/1 rows remember: with one thread of BLAS instead of several,
    # one of the 240 interactions differs.
    ours, theirs = (interactions(tmp_path / name) for name in ("two", "one"))
    assert len(ours - theirs) <= 0.02 * len(theirs)  # 7 % without the other process
    rows, of_one = (Counter(user for user, _ in found) for found in (ours, theirs))
    assert rows == of_one and sum(rows.values()) == told["interactions"] == 240
    two_items, items = (pq.read_table(tmp_path / name / "items.parquet") for name in ("two", "one"))
    assert two_items.equals(items) and items.num_rows == 80
    for name in ("users", "interactions", "steps", "best_step", "reg"):
        assert told[name] == one[name]
    assert told["validation"] == pytest.approx(one["validation"], rel=0.01)


def interactions(summary: Path) -> set[tuple[Any, Any]]:
    rows = pq.read_table(summary / "interactions.parquet")
    assert set(rows["weight"].to_pylist()) == {1.0}
    return set(zip(rows["user"].to_pylist(), rows["item"].to_pylist(), strict=True))


def wait(how: str, progress: Progress) -> str:
    """Work that ends when it is asked to."""
    with asked_to_stop() as stop:
        progress("ready", 1)
        if how == "deaf":
            time.sleep(600)
        assert stop.wait(300)
    return "saved"


def test_a_signal_to_the_parent_stops_the_child() -> None:
    def tell(stage: str, done: float, total: float | None = None, **facts: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    with asked_to_stop(distributed.end_children) as stop:
        told = distributed.run_member(partial(wait, "well"), Place(0, 2, "here:1"), tell)
    assert told == "saved" and stop.is_set()


def test_a_second_interrupt_is_not_waited_for() -> None:
    def tell(stage: str, done: float, total: float | None = None, **facts: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), asked_to_stop(distributed.end_children):
        distributed.run_member(partial(wait, "deaf"), Place(0, 2, "here:1"), tell)
    assert time.monotonic() - began < 300


def test_what_cannot_be_asked(infrec: Infrec, prepared: Path, tmp_path: Path) -> None:
    def said(*words: object) -> str:
        ran = infrec("distill", prepared, *words, "-o", tmp_path / "s", "--json")
        assert ran.code == 2
        return str(ran.document["error"]["message"])

    assert "go with --distributed" in said("--index", 1)
    assert "no launcher tells it" in said("--distributed")
    assert "do not know where to meet" in said("--distributed", "--processes", 2, "--index", 0)
    assert "makes one summary" in said("--distributed", "--search")
    assert "makes one summary" in said("--distributed", "--target", 0.9)
    assert "cannot keep a guarantee" in said("--distributed", "--epsilon", 3, "--delta", 1e-6)
    assert list(tmp_path.iterdir()) == []


def test_a_summary_that_is_continued_travels_to_the_child(prepared: Path) -> None:
    log = generate(6, 80, 90, seed=1)
    source = Source(str(prepared), Reading(), Summary.of(log, about={"reg": 1.0}), None, 42)
    there = pickle.loads(pickle.dumps(source)).previous
    assert (there.matrix != log.matrix).nnz == 0 and there.items == log.items and there.reg == 1.0
