"""Directories are written whole or not at all, and read only when every byte is what was written."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from infrec import artifacts, drafts
from infrec.errors import ArtifactError

CONTENT = {
    "kind": "thing",
    "manifest": {"seed": 42, "settings": {"reg": 5.0, "name": "∞"}},
    "arrays": {
        "a": np.arange(12.0).reshape(3, 4),
        "b": np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3)),
    },
    "tables": {"items": pa.table({"id": ["007", "7"], "n": [1, 2]})},
    "files": {"note.txt": b"hello"},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    artifacts.write(tmp_path / "thing", **CONTENT)
    return tmp_path / "thing"


def test_what_is_written_is_read(folder: Path) -> None:
    found = artifacts.read(folder, kind="thing")
    assert found.kind == "thing"
    assert found.manifest["settings"] == {"reg": 5.0, "name": "∞"}
    for name, array in CONTENT["arrays"].items():
        np.testing.assert_array_equal(found.arrays[name], array)
        assert found.arrays[name].dtype == array.dtype
    assert found.tables["items"].equals(CONTENT["tables"]["items"])
    assert {"infrec", "numpy", "python"} <= set(found.manifest["versions"])
    assert set(found.manifest["files"]) == {"arrays.safetensors", "items.parquet", "note.txt"}
    assert all(len(facts["sha256"]) == 64 for facts in found.manifest["files"].values())


def test_whoever_may_read_one_file_may_read_all(folder: Path) -> None:
    assert len({file.stat().st_mode for file in folder.iterdir()}) == 1


def test_nothing_is_left_beside_it(folder: Path) -> None:
    artifacts.write(folder, **CONTENT)
    assert [entry.name for entry in folder.parent.iterdir()] == ["thing"]


def test_what_somebody_else_put_there_is_not_replaced(folder: Path) -> None:
    (folder / "card.html").write_text("ours")
    (folder / ".DS_Store").write_text("nobody's")
    artifacts.write(folder, **CONTENT)
    (folder / "thoughts.md").write_text("mine")
    with pytest.raises(ArtifactError, match=r"also holds 'thoughts.md', which infrec did not write"):
        artifacts.write(folder, **CONTENT)
    assert (folder / "thoughts.md").read_text() == "mine"
    assert artifacts.read(folder).kind == "thing"


def test_the_same_content_makes_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    artifacts.write(tmp_path / "again", **CONTENT)
    for file in folder.iterdir():
        assert file.read_bytes() == (tmp_path / "again" / file.name).read_bytes()


@pytest.mark.parametrize("name", ["manifest.json", "arrays.safetensors", "items.parquet", "note.txt"])
def test_a_flipped_bit_anywhere_is_refused(folder: Path, name: str) -> None:
    """Every byte of the manifest, and 40 places of each other file."""
    file = folder / name
    whole = file.read_bytes()
    places = (
        range(len(whole)) if name == "manifest.json" else random.Random(0).choices(range(len(whole)), k=40)
    )
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1
        if (
            name == "manifest.json"
            and damaged[place : place + 1].isspace()
            and whole[place : place + 1].isspace()
        ):
            continue  # white space between entries means nothing
        file.write_bytes(damaged)
        with pytest.raises(ArtifactError):
            artifacts.read(folder)
    file.write_bytes(whole)
    artifacts.read(folder)


def test_a_flipped_byte_is_named(folder: Path) -> None:
    file = folder / "items.parquet"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(ArtifactError, match=r"items\.parquet is damaged: its SHA-256"):
        artifacts.read(folder)


def test_a_missing_file(folder: Path) -> None:
    (folder / "arrays.safetensors").unlink()
    with pytest.raises(ArtifactError, match=r"lacks arrays\.safetensors"):
        artifacts.read(folder)


def test_a_half_written_directory(folder: Path) -> None:
    (folder / "manifest.json").unlink()
    with pytest.raises(ArtifactError, match="half-written"):
        artifacts.read(folder)


def test_a_newer_format(folder: Path) -> None:
    document = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(document | {"format_version": 99}))
    with pytest.raises(ArtifactError, match=r"format version 99.*install a newer"):
        artifacts.read(folder)


def test_a_manifest_that_reaches_outside(folder: Path) -> None:
    document = json.loads((folder / "manifest.json").read_text())
    document["files"]["../secret.parquet"] = {"sha256": "0" * 64, "bytes": 1}
    del document["seal"]
    document["seal"] = artifacts.seal(document)
    (folder / "manifest.json").write_text(json.dumps(document))
    with pytest.raises(ArtifactError, match="expected plain file names"):
        artifacts.read(folder)


def test_what_is_not_there_or_something_else(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="there is no directory"):
        artifacts.read(tmp_path / "nowhere")
    with pytest.raises(ArtifactError, match="holds a thing; expected a model"):
        artifacts.read(folder, kind="model")
    with pytest.raises(ArtifactError, match="is a file"):
        artifacts.read(folder / "note.txt")


def test_nothing_of_the_users_is_overwritten(tmp_path: Path) -> None:
    mine = tmp_path / "photos"
    mine.mkdir()
    (mine / "cat.jpg").write_bytes(b"meow")
    with pytest.raises(ArtifactError, match="did not write"):
        artifacts.write(mine, **CONTENT)
    (tmp_path / "notes").write_text("dear diary")
    with pytest.raises(ArtifactError, match="is a file"):
        artifacts.write(tmp_path / "notes", **CONTENT)
    (tmp_path / "empty").mkdir()
    artifacts.write(tmp_path / "empty", **CONTENT)
    assert (mine / "cat.jpg").read_bytes() == b"meow"


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtifactError, match="cannot write"):
        artifacts.write(tmp_path / "file" / "model", **CONTENT)


def test_a_failed_write_leaves_the_old_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(drafts, "sync", full)
    with pytest.raises(ArtifactError, match=r"No space left.*intact"):
        artifacts.write(folder, **(CONTENT | {"manifest": {"seed": 1}}))
    assert artifacts.read(folder).manifest["seed"] == 42
    assert [entry.name for entry in folder.parent.iterdir()] == ["thing"]


def test_where_names_cannot_be_exchanged(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way without renameat2, and a death between its two renames."""
    monkeypatch.setattr(drafts, "_exchange", lambda one, other: False)
    artifacts.write(folder, **(CONTENT | {"manifest": {"seed": 1}}))
    assert artifacts.read(folder).manifest["seed"] == 1
    folder.rename(drafts.aside(folder))
    assert artifacts.read(folder).manifest["seed"] == 1
    artifacts.write(folder, **(CONTENT | {"manifest": {"seed": 2}}))
    assert artifacts.read(folder).manifest["seed"] == 2


WRITER = """
import sys, numpy as np
from infrec import artifacts
print("ready", flush=True)
for number in range(1, 100000):
    artifacts.write(sys.argv[1], kind="thing", manifest={"number": number},
                    arrays={"x": np.full(200_000, number, np.float32)})
"""


def test_a_killed_save_leaves_a_whole_one(tmp_path: Path) -> None:
    """A process that saves over and over is killed at 8 random moments; each time the directory is whole."""
    target = tmp_path / "model"
    artifacts.write(target, kind="thing", manifest={"number": 0}, arrays={"x": np.zeros(200_000, np.float32)})
    moments = random.Random(1)
    for _ in range(8):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(target)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(moments.uniform(0.0, 0.05))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        found = artifacts.read(target, kind="thing")
        assert (found.arrays["x"] == found.manifest["number"]).all()
    artifacts.write(target, **CONTENT)
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]  # the next save swept up
