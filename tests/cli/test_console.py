"""Standard error: live bars for a terminal, lines for a pipe; standard output: JSON that is JSON."""

from __future__ import annotations

import io
import json
import logging
import re
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from infrec.cli import console
from infrec.progress import silent


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_bars_are_drawn_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    with console.bars() as progress:
        progress("choose settings", 1, 6, reg=5, score=58.2329)
        progress("choose settings", 6, 6, reg=100, score=41.9)
    assert "choose settings" in terminal.getvalue()


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The time between two lines is over at once; the volume is as usual before and after."""
    monkeypatch.setattr(console, "SECONDS_BETWEEN_LINES", 0.0)
    console.begin()
    yield
    console.begin()


@pytest.mark.usefixtures("at_once")
def test_progress_in_a_pipe_is_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with console.bars() as progress:
        progress("choose settings", 1, 6, reg=5, score=58.2329)
        progress("reading", 1_200_000)
        progress("cells", 2, 3, words="ease on ml-1m")
    assert capsys.readouterr().err.splitlines() == [
        "choose settings: 1 of 6  reg 5  score 58.23", "reading: 1,200,000", "cells: 2 of 3  ease on ml-1m"
    ]  # fmt: skip


def test_what_is_soon_done_leaves_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    with console.bars() as progress:
        progress("choose settings", 1, 6)
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("at_once")
def test_quiet_leaves_warnings_alone(capsys: pytest.CaptureFixture[str]) -> None:
    console.set_volume(quiet=True)
    console.note("a note")
    console.warn("a warning")
    with console.bars() as progress, console.live_distillation("distil") as steps:
        assert progress is silent
        steps("distil", 1, 2, loss=4.5)
    assert capsys.readouterr().err == "a warning\n"


@pytest.mark.usefixtures("at_once")
def test_verbose_says_what_the_library_logs(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("infrec.search.tune")
    logger.debug("before")
    console.set_volume(verbose=True)
    logger.debug("tried %s", {"reg": 5})
    console.set_volume()
    logger.debug("after")
    assert re.fullmatch(r" +0\.\d\d s  tried \{'reg': 5\}\n", capsys.readouterr().err)


def test_words_between_colons_are_no_pictures(capsys: pytest.CaptureFixture[str]) -> None:
    console.say(console.plain("Item :smile: [1]"))
    console.table([(":heart:",)], ("title",))
    assert capsys.readouterr().out.split() == ["Item", ":smile:", "[1]", "title", ":heart:"]


def test_json_has_no_nan_and_no_numpy(capsys: pytest.CaptureFixture[str]) -> None:
    console.emit({"a": np.float32(1.5), "b": float("nan"), "c": (np.int64(2), None), "ü": np.bool_(True)})
    text = capsys.readouterr().out
    assert json.loads(text) == {"a": 1.5, "b": None, "c": [2, None], "ü": True}
    assert "NaN" not in text
