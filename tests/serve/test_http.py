"""The addresses over real HTTP: answers, refusals, and everything that is no proper request."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.serve.conftest import Running, serving

TIMEOUT = 1.0  # seconds a request may take to arrive


@pytest.fixture(scope="module")
def server(folders: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    log = tmp_path_factory.mktemp("http") / "log"
    words = (folders / "full", f"small={folders / 'small'}", "--timeout", TIMEOUT, "--connections", 60)
    with serving(log, *words, "--cors", "https://friend.example") as running:
        yield running
        assert running.process.poll() is None, "the server died under the tests"


def test_recommendations_carry_the_models_hash(server: Running) -> None:
    answer = server.recommend(history=[100, 104], k=3)
    assert answer.status == 200 and answer.headers["content-type"] == "application/json"
    first = server.started["models"][0]
    assert answer.headers["x-infrec-model"] == first["hash"] == answer.json["model"]["hash"]
    assert [item["rank"] for item in answer.json["items"]] == [1, 2, 3]
    other = server.recommend(model="small", history=[100, 104], k=3)
    assert other.json["model"]["name"] == "small" and other.json["model"]["hash"] != first["hash"]


def test_two_requests_at_once_equal_two_apart(server: Running) -> None:
    requests: list[dict[str, Any]] = [{"history": [100 + n, 101 + 2 * n], "k": 12} for n in range(12)]
    apart = [server.recommend(**request).body for request in requests]
    with ThreadPoolExecutor(12) as pool:
        at_once = list(pool.map(lambda request: server.recommend(**request).body, requests))
    assert at_once == apart


def test_the_other_addresses(server: Running) -> None:
    models = server.get("/v1/models").json["models"]
    assert [(model["name"], model["summary"], model["default"]) for model in models] == [
        ("full", False, True),
        ("small", True, False),
    ]
    found = server.get("/v1/items?q=zoe").json["items"]
    assert [item["title"] for item in found] == ['Amélie & "Zoë" \\ ']
    assert (
        server.get("/v1/items?q=%3Cscript&limit=1").json["items"][0]["title"] == "<script>alert(1)</script>"
    )
    like = server.get("/v1/similar?item=104&k=3&model=small").json
    assert like["item"] == 104 and [item["rank"] for item in like["items"]] == [1, 2, 3]
    assert 104 not in [item["item"] for item in like["items"]]
    assert server.get("/v1/similar?item=none").json["error"]["code"] == "unknown_item"
    assert [model["named"] for model in models] == [True, False]
    told = server.post("/v1/explain", {"history": [100], "item": 104, "model": "small"})
    assert told.status == 200 and told.json["users"] and told.headers["x-infrec-model"]
    assert server.get("/v1/summary?model=small").json["original_users"] == 90
    assert server.get("/v1/summary").code == "not_a_summary"
    assert server.get("/healthz").json == {"status": "ok"}
    assert server.get("/readyz").json == {"status": "ready"}


def test_the_page_runs_nothing_inline_and_asks_nobody_else(server: Running) -> None:
    page = server.get("/")
    policy = page.headers["content-security-policy"]
    assert page.status == 200 and page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy and page.headers["x-content-type-options"] == "nosniff"
    for path in ("/static/../app.py", "/static/%2e%2e%2fapp.py", "/static/", "/static/index.html%00.js"):
        assert server.get(path).status in (400, 404), path


def test_the_documentation_names_every_address_field_and_error(server: Running) -> None:
    root = Path(__file__).parents[2]
    text = (root / "docs" / "serve.md").read_text(encoding="utf-8")
    description = server.get("/openapi.json").json
    for path in description["paths"]:
        assert path in text, path
    for kind in ("RecommendRequest", "ExplainRequest"):
        for field in description["components"]["schemas"][kind]["properties"]:
            assert f"`{field}`" in text, field
    source = "".join(file.read_text() for file in (root / "src" / "infrec" / "serve").glob("*.py"))
    codes = set(re.findall(r'Problem\(\s*\d{3},\s*"(\w+)"', source))
    assert {"overloaded", "invalid", "timeout"} <= codes
    assert not [code for code in codes if code not in text]


def test_metrics_count(server: Running) -> None:
    def counted() -> dict[str, float]:
        text = server.get("/metrics").body.decode()
        lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in lines}

    before = counted()
    server.recommend(history=[100])
    server.recommend(history=[100], k=0)
    after = counted()
    for status in ("200", "422"):
        name = f'infrec_requests_total{{route="/v1/recommend",status="{status}"}}'
        assert after[name] == before.get(name, 0) + 1
    assert after["infrec_batched_total"] == before["infrec_batched_total"] + 1
    assert after['infrec_request_seconds_count{route="/v1/recommend"}'] >= 2
    assert after["infrec_resident_bytes"] > 1e7


def test_the_log_has_no_history_and_no_query(server: Running) -> None:
    server.recommend(history=[100, "secret-item-7391"])
    server.get("/v1/items?q=secret-search-7391")
    server.get("/secret-path-7391")
    server.wait_for("GET other 404")
    log = server.log.read_text()
    assert "POST /v1/recommend 200" in log and "7391" not in log


# ---- what is wrong with a request -----------------------------------------------------------------
BAD: list[tuple[str, bytes, int, str]] = [
    ("malformed", b'{"history": [1', 400, "bad_json"),
    ("empty", b"", 400, "bad_json"),
    ("not UTF-8", b'{"history": ["\xff\xfe"]}', 400, "bad_json"),
    ("UTF-16", '{"history": [1]}'.encode("utf-16"), 400, "bad_json"),
    ("deeply nested list", b"[" * 100_000, 400, "bad_json"),
    ("deeply nested history", b'{"history": ' + b"[" * 50_000 + b"]" * 50_000 + b"}", 400, "bad_json"),
    ("deeply nested object", b'{"a":' * 50_000, 400, "bad_json"),
    ("NaN", b'{"history": [NaN]}', 422, "invalid"),
    ("infinity as k", b'{"history": [], "k": Infinity}', 422, "invalid"),
    ("a number", b"3", 422, "invalid"),
    ("null", b"null", 422, "invalid"),
    ("nobody", b"{}", 422, "invalid"),
    ("two people", b'{"history": [1], "user": 2}', 422, "invalid"),
    ("k is 0", b'{"history": [1], "k": 0}', 422, "invalid"),
    ("k is 1001", b'{"history": [1], "k": 1001}', 422, "invalid"),
    ("k is text", b'{"history": [1], "k": "3"}', 422, "invalid"),
    ("k is true", b'{"history": [1], "k": true}', 422, "invalid"),
    ("k is 10^400", b'{"history": [1], "k": 1' + b"0" * 400 + b"}", 422, "invalid"),
    ("a fraction as an id", b'{"history": [1.5]}', 422, "invalid"),
    ("an object as an id", b'{"history": [{}]}', 422, "invalid"),
    ("a history as text", b'{"history": "1,2"}', 422, "invalid"),
    ("10,001 items", json.dumps({"history": [1] * 10_001}).encode(), 422, "invalid"),
    ("an endless id", b'{"history": ["' + b"x" * 2000 + b'"]}', 422, "invalid"),
    ("an unknown field", b'{"history": [1], "url": "http://example.org"}', 422, "invalid"),
    ("an unknown model", b'{"history": [1], "model": "../full"}', 404, "unknown_model"),
    ("an unknown genre", b'{"history": [1], "genres": ["Jazz"]}', 422, "invalid"),
    ("no genre", b'{"history": [1], "genres": []}', 422, "invalid"),
    ("nothing in only", b'{"history": [1], "only": []}', 422, "invalid"),
    ("reasons for 101 items", b'{"history": [1], "explain": 1, "k": 101}', 422, "invalid"),
    ("six reasons", b'{"history": [1], "explain": 6}', 422, "invalid"),
]


@pytest.mark.parametrize(("body", "status", "code"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_bodies_get_one_sentence(server: Running, body: bytes, status: int, code: str) -> None:
    answer = server.post("/v1/recommend", body)
    assert (answer.status, answer.code) == (status, code)
    assert len(answer.body) < 1000


def test_the_largest_proper_request_is_answered(server: Running) -> None:
    history = [f"unknown-{n}" for n in range(9_990)] + list(range(100, 110))
    answer = server.recommend(history=history, k=1000)
    assert answer.status == 200 and len(answer.json["items"]) == 30
    assert len(answer.json["unknown"]) == 9_990
    strange = server.recommend(history=[10**400, "", "\u0000", "💥", -1])
    assert strange.status == 200 and strange.json["source"] == "popular"


def test_other_methods_and_addresses(server: Running) -> None:
    assert server.get("/v1/recommend").code == "method_not_allowed"
    assert server.ask("DELETE", "/v1/models").code == "method_not_allowed"
    assert server.get("/docs").code == server.get("/etc/passwd").code == "not_found"
    assert server.get("/v1/items?limit=0").code == server.get("/v1/items?limit=x").code == "invalid"
    assert server.post("/v1/recommend", {"history": []}, {"Content-Type": "text/plain"}).code == "not_json"
    assert server.post("/v1/explain", {"history": [100], "item": "x"}).code == "unknown_item"


def test_requests_in_a_row_on_one_connection_are_answered_in_order(server: Running) -> None:
    def request(method: bytes, path: bytes, body: bytes = b"") -> bytes:
        head = b"%b %b HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % (method, path, server.port)
        head += b"" if body or method == b"HEAD" else b"Connection: close\r\n"  # behind the last one
        return head + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    told = server.raw(
        request(b"POST", b"/v1/recommend", b'{"history": [100], "k": 1}')
        + request(b"HEAD", b"/healthz")  # an answer without a body
        + request(b"POST", b"/v1/recommend", b"nonsense")
        + request(b"GET", b"/healthz")
    )
    lines = [line for line in told.split(b"\r\n") if b"HTTP/1.1 " in line]
    assert [line.split(b"HTTP/1.1 ")[1][:3] for line in lines] == [b"200", b"405", b"400", b"200"], told
    assert told.endswith(b'{"status":"ok"}')


def test_a_client_that_waits_to_be_told_to_go_on(server: Running) -> None:
    body = b'{"history": [100], "k": 1}'
    with server.connect() as link:
        link.sendall(b"POST /v1/recommend HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % server.port)
        link.sendall(b"Content-Type: application/json\r\nExpect: 100-continue\r\n")
        link.sendall(b"Content-Length: %d\r\n\r\n" % len(body))
        assert link.recv(4096).startswith(b"HTTP/1.1 100")
        link.sendall(body)
        assert link.recv(65536).startswith(b"HTTP/1.1 200")


def test_oversized_bodies_are_refused_by_their_length_and_by_count(server: Running) -> None:
    head = b"POST /v1/recommend HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % server.port
    head += b"Content-Type: application/json\r\n"
    told = server.raw(head + b"Content-Length: 1000001\r\n\r\n")
    assert told.startswith(b"HTTP/1.1 413") and b'"too_large"' in told and b"connection: close" in told
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    with server.connect() as link:
        link.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
        with suppress(OSError):  # refused while we are still sending
            for _ in range(40):  # 2.6 MB, of which 1 MB is read
                link.sendall(chunk)
        with suppress(ConnectionResetError):
            assert link.recv(65536).startswith(b"HTTP/1.1 413")
    assert server.get("/healthz").status == 200


def test_slow_bodies_and_slow_heads_time_out(server: Running) -> None:
    line = b"POST /v1/recommend HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % server.port
    whole_head = line + b"Content-Type: application/json\r\nContent-Length: 50\r\n\r\n"

    def waited(beginning: bytes) -> tuple[bytes, float]:
        began = time.monotonic()
        return server.raw(beginning), time.monotonic() - began

    with ThreadPoolExecutor(3) as pool:
        for told, seconds in pool.map(waited, (whole_head + b'{"hist', line, b"GE")):
            assert told.startswith(b"HTTP/1.1 408") and b'"timeout"' in told
            assert seconds >= TIMEOUT - 0.1


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64,
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n bad folding\x00: 1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 70_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
    ids=["TLS", "no version", "bad header", "smuggling", "negative", "bytes in path", "header", "path"],
)
def test_what_is_no_http_gets_the_same_shape(server: Running, data: bytes) -> None:
    told = server.raw(data)
    head, _, body = told.partition(b"\r\n\r\n")
    assert head.split(b" ")[1] in (b"400", b"421", b"431"), told[:200]
    assert set(json.loads(body)["error"]) == {"code", "message"}


def test_more_connections_than_allowed_are_told_so(server: Running) -> None:
    links = [server.connect() for _ in range(70)]
    try:
        told = links[-1].recv(4096)
        assert told.startswith(b"HTTP/1.1 503") and b"retry-after: 1" in told
    finally:
        for link in links:
            link.close()
    server.until(lambda: server.get("/healthz").status == 200)
