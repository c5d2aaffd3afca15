"""A real server process, and the smallest of HTTP clients."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pytest

from infrec.data import Interactions, Summary
from infrec.models import InfiniteAE

pytest.importorskip("uvicorn", reason="needs the extra `serve`: pip install 'infrec[serve]'")


Found = TypeVar("Found")
PATIENCE = 60.0  # seconds; a loaded machine is slow, and only a fault waits as long


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of an error; that it has the one shape is part of asking."""
        error = self.json
        assert set(error) == {"error"} and set(error["error"]) == {"code", "message"}, error
        assert error["error"]["message"].endswith(".") and "Traceback" not in error["error"]["message"]
        return str(error["error"]["code"])


@dataclass
class Running:
    """A server that runs: where it is, and how to ask it."""

    process: subprocess.Popen[str]
    port: int
    started: dict[str, Any]
    log: Path
    token: str | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        host: str | None = None,
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.putrequest(method, path, skip_host=host is not None, skip_accept_encoding=True)
            if host is not None:
                connection.putheader("Host", host)
            for name, value in {**self.headers, **(headers or {})}.items():
                connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **more: Any) -> Answer:
        return self.ask("GET", path, **more)

    def post(self, path: str, document: Any, headers: dict[str, str] | None = None, **more: Any) -> Answer:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        return self.ask("POST", path, body, {"Content-Type": "application/json", **(headers or {})}, **more)

    def recommend(self, **request: Any) -> Answer:
        return self.post("/v1/recommend", request)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def raw(self, data: bytes) -> bytes:
        """All that comes back for these bytes until the server closes the connection, which it must."""
        with self.connect() as link:
            link.sendall(data)
            got = b""
            while chunk := link.recv(65536):
                got += chunk
            return got

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def until(self, condition: Callable[[], Found]) -> Found:
        """Wait until a condition holds, for what it found; the log is shown when that never comes."""
        end = time.monotonic() + PATIENCE
        while not (found := condition()):
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.02)
        return found

    def wait_for(self, told: str, times: int = 1) -> None:
        """Until the log has said so, or so many times."""
        self.until(lambda: self.log.read_text().count(told) >= times)


@contextmanager
def serving(log: Path, *arguments: object, env: dict[str, str] | None = None) -> Iterator[Running]:
    """`infrec serve …` as a process, ready."""
    words = [sys.executable, "-m", "infrec", "serve", *map(str, arguments), "--port", "0", "--json"]
    with log.open("w") as errors:
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=errors, text=True, env={**os.environ, **(env or {})}
        )
    assert process.stdout is not None
    try:
        text = ""
        for line in process.stdout:
            text += line
            if line.startswith("}"):
                break
        else:
            pytest.fail(f"the server did not start:\n{text}\n{log.read_text()}")
        started = json.loads(text)
        yield Running(process, int(started["url"].rsplit(":", 1)[1].strip("/")), started, log)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture(scope="session")
def films() -> Interactions:
    """90 users over 40 films in four genres; ids are numbers, titles are awkward."""
    rng = np.random.default_rng(3)
    taste = np.full((90, 40), 0.08)
    for group in range(4):
        taste[group::4, group::4] = 0.6
    likes = rng.random(taste.shape) < taste
    likes[np.arange(90), rng.integers(0, 40, 90)] = True
    titles = [f"Film {n}" for n in range(40)]
    titles[3], titles[4], titles[5] = "<script>alert(1)</script>", 'Amélie & "Zoë" \\ ', "The Film, Again"
    log = Interactions.from_csr(likes, items=list(range(100, 140)), titles=titles)
    genres = [("Drama", "Crime", "Comedy|Drama", "")[n % 4] for n in range(40)]
    assert log.item_info is not None
    info = log.item_info.append_column("genres", pa.array(genres))
    return Interactions(log.matrix, log.users, log.items, item_info=info)


@pytest.fixture(scope="session")
def model(films: Interactions) -> InfiniteAE:
    return InfiniteAE(reg=1).fit(films)


@pytest.fixture(scope="session")
def folders(films: Interactions, model: InfiniteAE, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`full`, a saved model of all users; `small`, a summary: 12 of them that pass for synthetic."""
    folder = tmp_path_factory.mktemp("served")
    model.save(folder / "full")
    Summary.of(films.select_users(np.arange(12)), about={"reg": 1.0}).save(folder / "small")
    return folder
