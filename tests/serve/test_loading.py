"""A model that is copied file by file is loaded once it is whole; nothing that goes wrong ends the watch."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import socket
from pathlib import Path

import pytest

from infrec.data import Interactions
from infrec.models import InfiniteAE
from infrec.serve import loading, server
from infrec.serve.loading import Reloader, Source
from infrec.serve.metrics import Counters
from infrec.serve.served_model import Served
from infrec.serve.settings import Settings


class Noted(Counters):
    """Counters that keep what was counted, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def add(self, name: str, amount: float = 1) -> None:
        self.names.append(name)


@pytest.fixture
def folder(folders: Path, tmp_path: Path) -> Path:
    """A copy of a model, for the test to replace."""
    shutil.copytree(folders / "full", tmp_path / "model")
    return tmp_path / "model"


def test_a_directory_that_is_copied_slowly_is_loaded_when_its_last_file_has_come(
    folder: Path, films: Interactions, tmp_path: Path
) -> None:
    InfiniteAE(reg=20).fit(films).save(tmp_path / "new")
    served: list[Served] = []
    counted = Noted()
    reloader = Reloader([Source("m", folder)], served.append, counted)
    reloader.load_all()
    for file in sorted(folder.iterdir()):
        file.unlink()
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert names[-1] > "manifest.json"  # so that the manifest is not the last to come
    for name in names:
        shutil.copy2(tmp_path / "new" / name, folder / name)
        reloader.check()
    assert counted.names == ["failed_reloads"] * names[::-1].index("manifest.json") + ["reloads"]
    assert [one.model.selected["reg"] for one in served] == [1, 20]
    reloader.check()
    assert len(served) == 2  # once


@pytest.mark.parametrize("where", ["load", "put"])
def test_whatever_goes_wrong_leaves_the_old_one_and_the_watch(
    folder: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    counted = Noted()
    broken = False

    def put(_: Served) -> None:
        if broken and where == "put":
            raise OSError("no space left on the device")

    def load(_: Source) -> Served:
        raise KeyError("a field that another version writes")

    reloader = Reloader([Source("m", folder)], put, counted)
    reloader.load_all()
    broken = True
    if where == "load":
        monkeypatch.setattr(loading, "load", load)
    reloader.check(everything=True)
    assert counted.names == ["failed_reloads"]
    broken = False
    monkeypatch.undo()
    reloader.check(everything=True)
    assert counted.names == ["failed_reloads", "reloads"]


def test_a_worker_that_dies_as_it_starts_is_replaced_by_and_by(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has left before the models are sent to it: the pipe is broken."""

    spawn = multiprocessing.get_context("spawn")

    class Dying:
        Pipe = staticmethod(spawn.Pipe)

        @staticmethod
        def Process(**_: object) -> multiprocessing.process.BaseProcess:
            return spawn.Process(target=os._exit, args=(7,))

    with socket.create_server(("127.0.0.1", 0)) as bound:
        supervisor = server.Supervisor([Source("m", folder)], Settings(workers=1), bound, tmp_path)
        supervisor.reloader.load_all()
        monkeypatch.setattr(server, "_spawn", Dying)
        first = supervisor._start(0)
        first[0].join(30)
        assert first[0].exitcode == 7
        supervisor._workers = [first]
        supervisor._each_second()
        second = supervisor._workers[0]
        second[0].join(30)
        assert second[0] is not first[0] and second[0].exitcode == 7
        for _, pipe in (first, second):
            pipe.close()
