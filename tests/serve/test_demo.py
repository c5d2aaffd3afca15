"""`infrec demo --serve`: what it fits, the server can load; and the server is a process without JAX."""

from __future__ import annotations

import importlib.util
import os
import socket
import sys
from pathlib import Path

import pytest

from infrec.cli import app, demo
from infrec.cli.reading import Reading
from infrec.serve.loading import load, sources


class Replaced(Exception):
    """Instead of becoming another program."""


def test_the_demo_becomes_a_server_of_two_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    became: list[str] = []

    def replace(program: str, words: list[str]) -> None:
        assert program == sys.executable
        became.extend(words)
        raise Replaced

    monkeypatch.setattr(os, "execv", replace)
    monkeypatch.setattr(demo, "SYNTHETIC", 5)
    monkeypatch.setattr(demo, "STEPS", 2)
    app.run(["demo", "--serve", "--port", "0", "--json", "--out", str(tmp_path)])
    assert became[1:4] == ["-m", "infrec", "serve"] and "--json" in became
    full, distilled = (load(source) for source in sources(became[4:6]))
    assert (full.name, distilled.name) == ("full", "distilled")
    assert full.log.n_users == 1000 and distilled.log.n_users == 5
    assert distilled.synthetic and not full.synthetic and distilled.explorable
    assert full.log.items == distilled.log.items


def test_what_stands_in_the_way_of_the_server_is_said_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(*_: object, **__: object) -> None:
        raise Replaced  # by what would come after it

    monkeypatch.setattr(Reading, "load", work)
    words = ["demo", "--serve", "--json", "--out", str(tmp_path / "out"), "--port"]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert app.run([*words, str(taken.getsockname()[1])]) == 2
    assert "cannot listen" in capsys.readouterr().out
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert app.run([*words, "0"]) == 2
    assert "infrec[serve]" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()
