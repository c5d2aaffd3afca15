"""A server's life: models replaced under load, damaged ones refused, tokens, processes, a clean end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from infrec.data import Interactions, Summary
from infrec.models import InfiniteAE
from tests.serve.conftest import PATIENCE, Answer, Running, serving

RELOADED = "reloaded"


def small(films: Interactions, folder: Path, first: int) -> None:
    """A summary of twelve users, another one for each `first`."""
    Summary.of(films.select_users(np.arange(first, first + 12)), about={"reg": 1.0}).save(folder)


@contextmanager
def under_load(server: Running, clients: int = 3) -> Iterator[list[Answer | Exception]]:
    """Requests without pause while the block runs; what came back is in the list."""
    got: list[Answer | Exception] = []
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            try:
                got.append(server.recommend(history=[100, 104], k=3))
            except Exception as failure:
                got.append(failure)

    threads = [threading.Thread(target=ask) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield got
    finally:
        over.set()
        for thread in threads:
            thread.join()


def refuses(server: Running) -> bool:
    try:
        server.connect().close()
    except ConnectionRefusedError:
        return True
    return False


def hash_of(server: Running) -> str:
    return str(server.recommend(history=[100]).json["model"]["hash"])


@pytest.fixture(scope="module")
def living(films: Interactions, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Path]]:
    """One server over a directory that the tests replace."""
    folder = tmp_path_factory.mktemp("living")
    small(films, folder / "model", 0)
    with serving(folder / "log", folder / "model") as running:
        yield running, folder / "model"


def test_a_replaced_directory_is_loaded_without_a_failed_request(
    living: tuple[Running, Path], films: Interactions
) -> None:
    server, folder = living
    hashes = [hash_of(server)]
    with under_load(server) as got:
        for first in (20, 40):
            small(films, folder, first)
            server.until(lambda: hash_of(server) != hashes[-1])
            hashes.append(hash_of(server))
        server.until(lambda: len(got) > 20)
    assert all(isinstance(answer, Answer) and answer.status == 200 for answer in got)
    seen = {answer.json["model"]["hash"] for answer in got if isinstance(answer, Answer)}
    assert len(set(hashes)) == 3 and set(hashes[1:]) <= seen <= set(hashes)


def test_an_updated_model_with_new_items_is_taken_without_a_failed_request(
    films: Interactions, tmp_path: Path
) -> None:
    """Film 140 is nobody's and has the genres of every fourth film; later somebody new has it."""
    wider = np.hstack([films.matrix.toarray(), np.zeros((90, 1))])
    log = Interactions.from_csr(wider, items=list(range(100, 141)))
    assert films.item_info is not None
    genres = [*films.item_info["genres"].to_pylist(), "Comedy|Drama"]
    log = replace(log, item_info=pa.table({"title": list(map(str, log.items)), "genres": genres}))
    model = InfiniteAE(reg=1).fit(log).with_new_items(["genres"])
    model.save(tmp_path / "model")

    def scores(server: Running, **who: object) -> dict[int, float]:
        return {row["item"]: row["score"] for row in server.recommend(k=41, **who).json["items"]}

    with serving(tmp_path / "log", tmp_path / "model") as server:
        before, history = hash_of(server), [102, 106, 110]
        told = scores(server, history=history)
        expected = model.recommend(histories=[history], k=41)
        assert told == pytest.approx(dict(zip(expected["item"], expected["score"], strict=True)), abs=1e-5)
        assert told[140] > 0
        reason = server.post("/v1/explain", {"history": history, "item": 140}).json
        assert reason["score"] == pytest.approx(told[140], abs=1e-5)
        with under_load(server) as got:
            model.update(Interactions.from_csr(np.ones((1, 2)), users=[200], items=[140, 103]))
            model.save(tmp_path / "model")
            server.until(lambda: hash_of(server) != before)
            server.until(lambda: len(got) > 20)
        assert all(isinstance(answer, Answer) and answer.status == 200 for answer in got)
        after = model.recommend([200], k=41)
        assert scores(server, user=200) == pytest.approx(
            dict(zip(after["item"], after["score"], strict=True)), abs=1e-5
        )
        assert 140 not in scores(server, user=200)


@pytest.mark.parametrize("damage", ["a byte", "cut off", "no manifest", "another thing", "gone"])
def test_a_damaged_directory_leaves_the_old_model_serving(
    living: tuple[Running, Path], films: Interactions, damage: str
) -> None:
    server, folder = living
    before = hash_of(server)
    log_size = len(server.log.read_text())
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy)
    file = copy / "interactions.parquet"
    data = bytearray(file.read_bytes())
    if damage == "a byte":
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    elif damage == "cut off":
        file.write_bytes(data[:100])
    elif damage == "another thing":
        (copy / "manifest.json").write_text("[]")
    elif damage == "no manifest":
        (copy / "manifest.json").unlink()
    with under_load(server, 1) as got:
        shutil.rmtree(folder)
        if damage != "gone":
            copy.rename(folder)
        server.process.send_signal(signal.SIGHUP)
        server.until(lambda: "stays as it is" in server.log.read_text()[log_size:])
    assert all(isinstance(answer, Answer) and answer.status == 200 for answer in got)
    assert hash_of(server) == before and server.get("/readyz").status == 200
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(copy, ignore_errors=True)
    small(films, folder, 50 + len(damage))  # and a sound one is taken again
    server.until(lambda: hash_of(server) != before)


def test_sighup_loads_again(living: tuple[Running, Path]) -> None:
    server, _ = living
    told = server.log.read_text().count(RELOADED)
    server.process.send_signal(signal.SIGHUP)
    server.wait_for(RELOADED, told + 1)


def test_sigterm_finishes_what_is_in_flight(living: tuple[Running, Path]) -> None:
    """The last test with this server. A request whose body is still on its way is answered all the same."""
    server, _ = living
    body = b'{"history": [100], "k": 2}'
    head = b"POST /v1/recommend HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
    idle = server.connect()
    with server.connect() as link:
        link.sendall(head % server.port + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
        assert link.recv(65536).startswith(b"HTTP/1.1 100")  # it has the head, and reads the body
        link.sendall(body[:10])
        server.process.send_signal(signal.SIGTERM)
        server.until(lambda: refuses(server))  # nobody new is taken
        link.sendall(body[10:])
        told = link.recv(65536)
        assert told.startswith(b"HTTP/1.1 200") and b"connection: close" in told
    assert server.process.wait(PATIENCE) == 0
    idle.close()
    assert "Traceback" not in server.log.read_text()


@pytest.fixture(scope="module")
def several(folders: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Path]]:
    """Two processes over a copy of the full model, with a token from the environment."""
    folder = tmp_path_factory.mktemp("several")
    shutil.copytree(folders / "full", folder / "model")
    words = (folder / "model", "--workers", 2, "--queue", 1, "--window", 50)
    with serving(folder / "log", *words, env={"INFREC_TOKEN": "a-token-of-the-tests"}) as running:
        yield running, folder / "model"


def test_the_token_is_needed_for_everything_but_the_page(several: tuple[Running, Path]) -> None:
    server, _ = several
    assert "a-token" not in str(server.started) + server.log.read_text()
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic a-token-of-the-tests"}):
        for path in ("/v1/models", "/metrics", "/openapi.json", "/v1/items", "/nothing"):
            answer = server.get(path, headers=headers)
            assert (answer.status, answer.code) == (401, "token_required"), path
        assert server.post("/v1/recommend", {"history": [100]}, headers).code == "token_required"
    assert server.get("/").status == server.get("/healthz").status == server.get("/readyz").status == 200
    assert server.get("/static/index.html").status == 200
    assert server.get("/v1/models", headers={"Authorization": "Bearer a-token-of-the-tests"}).status == 200


def test_several_processes_share_weights_counts_and_reloads(
    several: tuple[Running, Path], films: Interactions
) -> None:
    server, folder = several
    server.headers = {"Authorization": "Bearer a-token-of-the-tests"}
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
    if children.exists():
        mapping = [
            Path(f"/proc/{child}/maps").read_text()
            for child in children.read_text().split()
            if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text()
        ]
        assert sum("infrec-serve-" in text and "/model-1" in text for text in mapping) == 2
    before = hash_of(server)
    InfiniteAE(reg=20).fit(films).save(folder)
    server.until(lambda: before not in {hash_of(server) for _ in range(6)})  # every process has the new one
    texts = {server.get("/metrics").body.decode().split("\ninfrec_reloads_total ")[1][:1] for _ in range(6)}
    assert texts == {"1"}


def test_a_full_queue_is_told_at_once_and_all_is_well_afterwards(several: tuple[Running, Path]) -> None:
    """The queue holds one: of many at once some get an answer, the others 503 without waiting."""
    server, _ = several
    server.headers = {"Authorization": "Bearer a-token-of-the-tests"}
    with under_load(server, 12) as got:
        server.until(lambda: {200, 503} <= {each.status for each in got if isinstance(each, Answer)})
    statuses = [answer.status for answer in got if isinstance(answer, Answer)]
    assert len(statuses) == len(got) and set(statuses) == {200, 503}
    refused = next(answer for answer in got if isinstance(answer, Answer) and answer.status == 503)
    assert refused.code == "overloaded" and refused.headers["retry-after"] == "1"
    assert server.recommend(history=[100]).status == 200


def test_a_worker_that_dies_is_replaced_and_all_stop_together(several: tuple[Running, Path]) -> None:
    server, _ = several
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
    if not children.exists():
        pytest.skip("needs /proc to find the workers")
    workers = [
        int(child)
        for child in children.read_text().split()
        if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text()
    ]
    os.kill(workers[0], signal.SIGKILL)
    server.wait_for("starting another")
    assert server.stop(signal.SIGINT) == 0
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)


def test_another_address_makes_a_token_and_says_it_once(folders: Path, tmp_path: Path) -> None:
    with serving(tmp_path / "log", folders / "small", "--host", "0.0.0.0") as server:
        token = server.started["token"]
        assert len(token) >= 32 and token not in server.log.read_text()
        assert server.get("/v1/models").code == "token_required"
        assert server.get("/v1/models", headers={"Authorization": f"Bearer {token}"}).status == 200


def test_what_cannot_be_served_is_said_in_one_sentence(tmp_path: Path, folders: Path) -> None:
    def refused(*words: object, **env: str) -> dict[str, str]:
        run = subprocess.run(
            [sys.executable, "-m", "infrec", "serve", *map(str, words), "--json"],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env={**os.environ, **env},
        )
        assert run.returncode in (1, 2) and "Traceback" not in run.stderr
        error: dict[str, str] = json.loads(run.stdout)["error"]
        return error

    assert "no directory" in refused(tmp_path / "nothing", "--port", 0)["message"]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        told = refused(folders / "small", "--port", taken.getsockname()[1])
        assert "cannot listen" in told["message"]
    told = refused(folders / "small", "--port", 0, INFREC_LOG="verbose")
    assert "INFREC_LOG is 'verbose'; expected DEBUG" in told["message"]
