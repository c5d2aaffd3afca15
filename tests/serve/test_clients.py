"""Clients as they are: they offer other protocols, drip, spell in their own way, read refusals in pages."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.serve.conftest import PATIENCE, Answer, Running, serving

FRIEND = "https://friend.example"
TIMEOUT = 1.0
TOKEN = "a-token/of+the=tests"
BODY = b'{"history": [100], "k": 1}'
OFFER = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n"


@pytest.fixture(scope="module")
def server(folders: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A slow one: a request waits 300 ms for others, and only one may wait."""
    log = tmp_path_factory.mktemp("clients") / "log"
    words = (folders / "small", "--cors", FRIEND, "--timeout", TIMEOUT, "--queue", 1, "--window", 300)
    with serving(log, *words, env={"INFREC_TOKEN": TOKEN}) as running:
        running.headers = {"Authorization": f"Bearer {TOKEN}"}
        yield running
        assert "Traceback" not in log.read_text()


def head(server: Running, line: bytes, more: bytes = b"", length: int | None = None) -> bytes:
    size = b"" if length is None else b"Content-Length: %d\r\n" % length
    token = b"Authorization: Bearer %b\r\n" % TOKEN.encode()
    kind = b"Content-Type: application/json\r\n"
    return (
        b"%b HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % (line, server.port) + token + kind + more + size + b"\r\n"
    )


def statuses(told: bytes) -> list[bytes]:
    return re.findall(rb"HTTP/1\.1 (\d{3})", told)


@pytest.mark.parametrize(
    "how", ["whole", "head first", "byte by byte", "chunked", "websocket", "two in a row"]
)
def test_an_offer_of_another_protocol_changes_nothing(server: Running, how: str) -> None:
    """Java's HTTP client offers HTTP/2 with every request, also with one that has a body."""
    line = b"POST /v1/recommend"
    whole = head(server, line, OFFER, len(BODY)) + BODY
    pieces = {
        "whole": [whole],
        "head first": [whole[: -len(BODY)], BODY],
        "byte by byte": [whole[at : at + 1] for at in range(len(whole))],
        "chunked": [
            head(server, line, OFFER + b"Transfer-Encoding: chunked\r\n")
            + b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
        ],
        "websocket": [whole.replace(b"Upgrade: h2c", b"Upgrade: websocket")],
        "two in a row": [whole + whole],
    }[how]
    with server.connect() as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            link.sendall(piece)
            time.sleep(0.05 if len(pieces) == 2 else 0)
        told, wanted = b"", 2 if how == "two in a row" else 1
        while told.count(b'"unknown":[]}') < wanted:
            chunk = link.recv(65536)
            assert chunk, told
            told += chunk
        assert statuses(told) == [b"200"] * wanted
        link.sendall(head(server, b"GET /readyz"))  # and the connection goes on
        assert link.recv(65536).endswith(b'{"status":"ready"}')


@pytest.mark.parametrize("drip", [b"x", b"\r\n"], ids=["a body that nobody asked for", "empty lines"])
def test_what_drips_in_behind_an_answer_does_not_hold_the_connection(server: Running, drip: bytes) -> None:
    length = 900_000 if drip == b"x" else None
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", server.port), timeout=0.2) as link:
        link.sendall(head(server, b"GET /healthz", length=length))
        told, ended = b"", False
        while not ended and time.monotonic() - began < PATIENCE:
            try:
                chunk = link.recv(65536)
                told, ended = told + chunk, not chunk
            except TimeoutError:
                link.sendall(drip)
            except ConnectionResetError:  # closed with our last drop unread
                ended = True
    assert ended and statuses(told) == [b"200"]


def test_the_status_line_of_what_is_refused_unread_has_the_right_words(server: Running) -> None:
    told = server.raw(b"GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % server.port)
    assert told.startswith(b"HTTP/1.1 408 Request Timeout\r\n")


def test_another_spelling_of_an_address_is_no_address(server: Running) -> None:
    for path in ("/v1/models/", "/healthz/", "/v1/recommend/"):
        assert server.get(path).code == "not_found"
    assert server.post("/v1/recommend/", {"history": [100]}).code == "not_found"
    assert 'status="500"' not in server.get("/metrics").body.decode()


def test_spellings_of_the_token(server: Running) -> None:
    """The scheme's name has no case (RFC 9110, 11.1)."""
    for right in (f"Bearer {TOKEN}", f"bearer {TOKEN}", f"BEARER  {TOKEN}"):
        assert server.get("/v1/models", headers={"Authorization": right}).status == 200, right
    for wrong in ("Bearer", "Bearer ", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}"):
        assert server.get("/v1/models", headers={"Authorization": wrong}).code == "token_required", wrong


def test_a_page_that_may_call_may_read_what_was_wrong(server: Running) -> None:
    """Without the CORS headers a browser tells its page nothing but that something failed."""

    def ask(**headers: str) -> Answer:
        return server.post("/v1/recommend", {"history": [100]}, {"Origin": FRIEND, **headers})

    def refused() -> list[Answer]:
        """Of six at once, those that found the queue full."""
        with ThreadPoolExecutor(6) as pool:
            return [answer for answer in pool.map(lambda _: ask(), range(6)) if answer.status == 503]

    wrong = ask(Authorization="Bearer wrong")
    assert (wrong.code, wrong.headers["access-control-allow-origin"]) == ("token_required", FRIEND)
    answer = server.until(refused)[0]
    assert (answer.code, answer.headers["access-control-allow-origin"]) == ("overloaded", FRIEND)
    assert "retry-after" in answer.headers["access-control-expose-headers"]
