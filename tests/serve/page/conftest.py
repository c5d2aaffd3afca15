"""A real `infrec serve` process on the demo data, and a real Chromium in front of it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pytest

from infrec.data import Summary
from infrec.data.datasets import load
from infrec.models import InfiniteAE
from infrec.samplers import sample
from tests.serve.page import browser as driver
from tests.serve.page.browser import Browser, Page

HOSTILE = (
    "<script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 2'> & Co (1999)",
    "</h3></li><h1 onclick=hack()>Broken \u202eOut",
)


def miss(reason: str) -> None:
    """Skip, unless the machine promised to have what is missing."""
    if os.environ.get("INFREC_REQUIRE_BROWSER"):
        pytest.fail(f"INFREC_REQUIRE_BROWSER is set, but {reason}.")
    pytest.skip(f"the page needs a browser and the service: {reason}")


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    executable = driver.find()
    if executable is None:
        miss("there is no Chromium on the path (apt-get install chromium)")
        return
    with Browser(executable, tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """∞-AE on all demo users, and 60 of them as a summary. The three best known films have hostile titles."""
    folder = tmp_path_factory.mktemp("served")
    log = load("demo")
    assert log.item_info is not None
    titles = log.item_info.column("title").to_pylist()
    for at, title in zip((-log.item_counts).argsort(kind="stable"), HOSTILE, strict=False):
        titles[at] = title
    info = log.item_info.set_column(log.item_info.column_names.index("title"), "title", pa.array(titles))
    log = replace(log, item_info=info)
    InfiniteAE(reg=5).fit(log).save(folder / "full")
    Summary.of(sample(log, strategy="user-rns", users=60, seed=1), about={"reg_grid": [5]}).save(
        folder / "small"
    )
    return [folder / "full", folder / "small"]


class Server:
    """`infrec serve` on one port, which can go away and come back."""

    def __init__(self, models: list[Path], port: int, *options: str) -> None:
        self.models, self.port, self.options = models, port, options
        self.url = f"http://127.0.0.1:{port}/"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [
            sys.executable,
            "-m",
            "infrec",
            "serve",
            *map(str, self.models),
            "--port",
            str(self.port),
        ]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [*command, *self.options], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        until = time.monotonic() + driver.PATIENCE
        while time.monotonic() < until:
            if self._process.poll() is not None:
                assert self._process.stderr is not None
                raise AssertionError(f"infrec serve ended:\n{self._process.stderr.read().decode()}")
            try:
                urllib.request.urlopen(f"{self.url}readyz", timeout=driver.PATIENCE).close()
                return
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)
        raise AssertionError(f"infrec serve did not become ready within {driver.PATIENCE:g} s")

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(driver.PATIENCE)
            assert self._process.stderr is not None
            self._process.stderr.close()
            self._process = None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def servers(served: list[Path]) -> Iterator[type[Server]]:
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        miss("the extra 'serve' is not installed")
    yield Server


@pytest.fixture(scope="session")
def server(chromium: Browser, servers: type[Server], served: list[Path]) -> Iterator[Server]:
    running = servers(served, free_port())
    running.start()
    yield running
    running.stop()


@pytest.fixture
def page(chromium: Browser, server: Server) -> Iterator[Page]:
    """A page that has loaded. In the end: nothing left the origin or complained, no title became markup."""
    opened = chromium.page()
    opened.go(f"{server.url}#beside=none")  # two models would begin side by side
    opened.wait("document.querySelectorAll('#wall button').length > 5")
    yield opened
    assert [url for url in opened.requests if not url.startswith(server.url)] == []
    assert opened.complaints == []
    assert opened.js(
        "window.hacked === undefined && document.querySelectorAll('main img, main script').length === 0"
    )
    opened.close()
