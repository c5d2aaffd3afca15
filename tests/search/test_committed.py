"""Selections on disk: written whole, read back equal, absent ones are no error, damaged ones say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from infrec import models
from infrec.errors import ArtifactError, DataError
from infrec.search import committed
from infrec.search.committed import Selected

ROOT = Path(__file__).parent.parent.parent
FOUND = Selected(
    "ml-1m",
    "ease",
    {"reg": 500},
    58.0,
    search={"seed": 42, "seconds": 60.0, "candidates": [{"settings": {"reg": 500}, "score": 58.0}] * 2},
    made={"date": "2026-01-01", "command": "infrec evaluate ml-1m"},
)


@pytest.mark.parametrize("found", [FOUND, Selected("demo", "ease", {"reg": 1}, None)])
def test_what_is_written_is_read(tmp_path: Path, found: Selected) -> None:
    path = committed.write(found, tmp_path / "deep")
    assert path.name == f"{found.dataset}.ease.json"
    assert committed.read(found.dataset, "ease", tmp_path / "deep") == found
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_candidate_is_a_line(tmp_path: Path) -> None:
    lines = committed.write(FOUND, tmp_path).read_text().splitlines()
    assert sum(line.strip().startswith('{"settings"') for line in lines) == 2


def test_none_is_on_record(tmp_path: Path) -> None:
    assert committed.read("ml-1m", "ease", tmp_path) is None
    assert committed.read("ml-1m", "ease", tmp_path / "nowhere") is None


def test_a_file_of_data_has_the_name_of_the_file(tmp_path: Path) -> None:
    assert committed.path_of("some/where/ratings.csv", "mf", tmp_path) == tmp_path / "ratings.mf.json"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"dataset": "ml-1m"}', '{"model": 3, "weight": 2}'])
def test_a_damaged_file_says_what_to_do(tmp_path: Path, text: str) -> None:
    committed.path_of("ml-1m", "ease", tmp_path).write_text(text)
    with pytest.raises(ArtifactError, match="is no selection of settings for ease; remove it"):
        committed.read("ml-1m", "ease", tmp_path)


def test_a_folder_that_is_a_file_cannot_be_written_into(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        committed.write(FOUND, tmp_path / "file")


def test_the_projects_own_selections_fit_the_models() -> None:
    for path in sorted((ROOT / committed.FOLDER).glob("*.json")):
        dataset, _, model = path.stem.rpartition(".")
        found = committed.read(dataset, model, path.parent)
        assert found is not None
        assert models.create(model, **found.settings).selected == found.settings
        best = max(one["score"] for one in found.search["candidates"] if one["score"] is not None)
        assert found.score == best
        chosen = [one for one in found.search["candidates"] if one["score"] == best]
        assert any(one["settings"].items() <= found.settings.items() for one in chosen)
