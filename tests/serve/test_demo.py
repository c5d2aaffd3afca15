"""`infrec demo --serve`: what it fits, the server can load; and the server is a process without JAX."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from infrec.cli import app, demo
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
    assert became[1:4] == ["-m", "infrec.cli", "serve"] and "--json" in became
    full, distilled = (load(source) for source in sources(became[4:6]))
    assert (full.name, distilled.name) == ("full", "distilled")
    assert full.log.n_users == 1000 and distilled.log.n_users == 5
    assert distilled.synthetic and not full.synthetic and distilled.explorable
    assert full.log.items == distilled.log.items
