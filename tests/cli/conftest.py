"""Run the command line inside the test's process, on small files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infrec.cli.app import run


@dataclass(frozen=True)
class Ran:
    """What a command line did."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """Standard output as exactly one JSON document: `json.loads` refuses anything beside it."""

        def refuse(word: str) -> None:
            raise AssertionError(f"{word} in JSON")

        found = json.loads(self.out, parse_constant=refuse)
        assert isinstance(found, dict)
        return found


Infrec = Callable[..., Ran]


@pytest.fixture
def infrec(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Infrec:
    monkeypatch.delenv("INFREC_DEBUG", raising=False)
    monkeypatch.setenv("COLUMNS", "120")

    def call(*words: object) -> Ran:
        capfd.readouterr()
        code = run([str(word) for word in words])
        out, err = capfd.readouterr()
        assert "Traceback" not in out + err
        return Ran(code, out, err)

    return call


def rows() -> list[tuple[str, str, int]]:
    """40 users with ids like 007, 24 items with ids of words, two tastes, ratings 1 to 5."""
    rng = np.random.default_rng(11)
    out = []
    for user in range(40):
        liked = rng.permutation(np.arange(24)[np.arange(24) % 2 == user % 2])[:8]
        for item in liked:
            out.append((f"{user:03}", f"film {chr(97 + item)}", int(rng.integers(3, 6))))
        out.append((f"{user:03}", f"film {chr(97 + int(rng.integers(0, 24)))}", int(rng.integers(1, 3))))
    return out


@pytest.fixture(scope="session")
def ratings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "ratings.csv"
    lines = "".join(f"{user},{item},{rating}\n" for user, item, rating in rows())
    path.write_text("userId,movieId,rating\n" + lines)
    return path


@pytest.fixture(scope="session")
def model(ratings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """∞-AE fitted on `ratings` through the command line."""
    out = tmp_path_factory.mktemp("models") / "ae"
    assert run(["fit", str(ratings), "-o", str(out), "--json"]) == 0
    return out
