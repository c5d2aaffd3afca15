"""Standard error: live bars for a terminal, silence for a pipe; standard output: JSON that is JSON."""

from __future__ import annotations

import io
import json
import sys

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


def test_no_bars_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    with console.bars() as progress:
        assert progress is silent
    assert pipe.getvalue() == ""


def test_json_has_no_nan_and_no_numpy(capsys: pytest.CaptureFixture[str]) -> None:
    console.emit({"a": np.float32(1.5), "b": float("nan"), "c": (np.int64(2), None), "ü": np.bool_(True)})
    text = capsys.readouterr().out
    assert json.loads(text) == {"a": 1.5, "b": None, "c": [2, None], "ü": True}
    assert "NaN" not in text
