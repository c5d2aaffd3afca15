"""Work in a watched child: its result, its progress, its error; and a sentence when it just ends."""

from __future__ import annotations

import os
import signal
from functools import partial
from typing import Any

import pytest

from infrec.cli import distributed
from infrec.cli.launchers import Place
from infrec.errors import DataError, InfrecError
from infrec.progress import Progress


def work(how: str, progress: Progress) -> str:
    os.write(1, b"noise of a C++ library\n")
    if how == "abort":
        os.abort()
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "fail":
        raise DataError("the data is bad.")
    progress("stage", 1, 2, loss=0.5)
    if how == "abort later":  # JAX's runtime ends a process that is left alone like this
        os.abort()
    return "done"


def run(how: str, told: list[Any] | None = None) -> str:
    def progress(*words: Any, **facts: Any) -> None:
        (told if told is not None else []).append((words, facts))

    return distributed.run_member(partial(work, how), Place(0, 2, "here:1"), progress)


def test_a_result_and_its_progress(capfd: pytest.CaptureFixture[str]) -> None:
    told: list[Any] = []
    assert run("well", told) == "done"
    assert told == [(("stage", 1, 2), {"loss": 0.5})]
    assert capfd.readouterr() == ("", "")
    assert "MALLOC_ARENA_MAX" not in os.environ


@pytest.mark.parametrize(
    ("how", "kind", "words"),
    [
        ("fail", DataError, "the data is bad"),
        ("abort", InfrecError, "did not meet the others at here:1"),
        ("abort later", InfrecError, "another of the processes has ended or cannot be reached"),
        ("kill", InfrecError, "killed, most likely for lack of memory"),
    ],
)
def test_an_end_is_told_in_a_sentence(how: str, kind: type, words: str) -> None:
    with pytest.raises(kind, match=words):
        run(how)
