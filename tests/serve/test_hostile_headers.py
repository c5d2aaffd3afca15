"""Whoever reaches the port from a browser on another site gets nothing: exact Host and Origin lists."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from infrec.cli import serve as cli
from infrec.errors import ConfigError
from infrec.serve.settings import Settings
from tests.serve.conftest import PATIENCE, Running, serving

FRIEND = "https://friend.example"


@pytest.fixture(scope="module")
def server(folders: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    log = tmp_path_factory.mktemp("hostile") / "log"
    with serving(log, folders / "small", "--cors", FRIEND, "--allow-host", "Recs.example") as running:
        yield running


HOSTS = [
    "",
    "evil.example",
    "evil.example:PORT",
    "localhost",  # the right name without the port
    "localhost:80",
    "localhost:0PORT",
    "localhost:PORT.",
    "localhost.:PORT",
    "localhost.evil.example:PORT",
    "127.0.0.1.nip.example:PORT",
    "127.0.0.1",
    "127.0.0.1:PORT@evil.example",
    "user@127.0.0.1:PORT",
    "127.1:PORT",
    "127.0.0.2:PORT",
    "0.0.0.0:PORT",
    "2130706433:PORT",
    "0x7f000001:PORT",
    "0177.0.0.1:PORT",
    "[::1]:PORT",  # not where we listen
    "[::]:PORT",
    "[::ffff:127.0.0.1]:PORT",
    "[0:0:0:0:0:0:0:1]:PORT",
    "[::1%25lo]:PORT",
    "::1:PORT",
    "http://127.0.0.1:PORT",
    "127.0.0.1:PORT/",
    "127.0.0.1:PORT, evil.example",
    "recs.example:PORT",
    "recs.example.",
    "xrecs.example",
    "*",
]
ORIGINS = [
    "null",
    "",
    "*",
    "http://evil.example",
    "https://evil.example",
    "http://evil.example:PORT",
    "http://localhost",
    "https://localhost:PORT",
    "http://localhost:1",
    "http://127.0.0.1",
    "https://127.0.0.1:PORT",
    "http://127.0.0.1:PORT.evil.example",
    "http://127.0.0.1:PORT/",
    "http://127.0.0.1:PORT@evil.example",
    "http://[::1]:PORT",
    "http://[::ffff:127.0.0.1]:PORT",
    "http://localhost.:PORT",
    "file://",
    "chrome-extension://abcdefghijklmnop",
    "HTTP://EVIL.EXAMPLE",
    "http://127.0.0.1:PORT http://evil.example",
    "http://127.0.0.1:PORT, http://evil.example",
    "http://friend.example",
    "https://friend.example:444",
    "https://friend.example.evil.example",
    "https://xfriend.example",
    "https://sub.friend.example",
    "https://friend.example/",
    "https://friend.example\u00e9",
    "data:text/html,x",
    "http://2130706433:PORT",
    "127.0.0.1:PORT",
]


@pytest.mark.parametrize("host", HOSTS)
def test_hostile_hosts(server: Running, host: str) -> None:
    answer = server.get("/v1/models", host=host.replace("PORT", str(server.port)))
    assert (answer.status, answer.code) == (421, "host_not_allowed")


@pytest.mark.parametrize("origin", ORIGINS)
def test_hostile_origins(server: Running, origin: str) -> None:
    headers = {"Origin": origin.replace("PORT", str(server.port))}
    for answer in (
        server.get("/v1/models", headers=headers),
        server.post("/v1/recommend", {"history": [100]}, headers),
    ):
        assert (answer.status, answer.code) == (403, "origin_not_allowed")
        assert not any(name.startswith("access-control") for name in answer.headers)


def test_no_host_and_two_hosts(server: Running) -> None:
    right = b"Host: 127.0.0.1:%d\r\n" % server.port
    for head in (b"", right + b"Host: evil.example\r\n", right + right):
        told = server.raw(b"GET /v1/models HTTP/1.1\r\nConnection: close\r\n" + head + b"\r\n")
        assert told.startswith(b"HTTP/1.1 4")
    assert b" 421 " in server.raw(b"GET /v1/models HTTP/1.0\r\n\r\n")
    # The target of an absolute request line counts for nothing.
    line = b"GET http://127.0.0.1/v1/models HTTP/1.1\r\n"
    assert b" 421 " in server.raw(line + b"Host: evil.example\r\nConnection: close\r\n\r\n")


def test_those_who_may(server: Running) -> None:
    for host in (f"127.0.0.1:{server.port}", f"LOCALHOST:{server.port}", "recs.example"):
        assert server.get("/v1/models", host=host).status == 200
    own = server.get("/v1/models", headers={"Origin": f"http://127.0.0.1:{server.port}"})
    assert own.status == 200 and "access-control-allow-origin" not in own.headers
    proxied = {"Origin": "https://recs.example"}
    assert server.get("/v1/models", host="recs.example", headers=proxied).status == 200


def test_cors_only_for_the_origin_that_was_asked_for(server: Running) -> None:
    allowed = server.post("/v1/recommend", {"history": [100]}, {"Origin": FRIEND})
    assert allowed.status == 200 and allowed.headers["access-control-allow-origin"] == FRIEND
    assert allowed.headers["vary"] == "origin" and "access-control-allow-credentials" not in allowed.headers
    ask = {"Origin": FRIEND, "Access-Control-Request-Method": "POST"}
    assert server.ask("OPTIONS", "/v1/recommend", headers=ask).status == 204
    assert server.ask("OPTIONS", "/v1/recommend").code == "method_not_allowed"


def test_ipv6_has_its_own_list(folders: Path, tmp_path: Path) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback address")
    with serving(tmp_path / "log", folders / "small", "--host", "::1") as server:
        for host, status in (
            (b"[::1]", b"200"),
            (b"localhost", b"200"),
            (b"127.0.0.1", b"421"),
            (b"[::ffff:127.0.0.1]", b"421"),
            (b"[0:0:0:0:0:0:0:1]", b"421"),
            (b"[::1%lo]", b"421"),
        ):
            with socket.create_connection(("::1", server.port), timeout=PATIENCE) as link:
                link.sendall(b"GET /v1/models HTTP/1.1\r\nHost: %b:%d\r\n\r\n" % (host, server.port))
                assert link.recv(4096).split(b" ")[1] == status, host


def test_addresses_and_their_lists() -> None:
    assert Settings(host="::1", port=81).allowed_hosts() == {b"[::1]:81", b"localhost:81"}
    assert Settings(port=80).allowed_hosts() >= {b"127.0.0.1", b"localhost"}
    open_ = Settings(host="::", port=81, token="x" * 16, hosts=("A.example",))
    assert {b"[::1]:81", b"a.example"} <= open_.allowed_hosts() and b"[::]:81" not in open_.allowed_hosts()
    assert b"https://a.example" in open_.allowed_origins()


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::", "::1", "0:0:0:0:0:0:0:1", "::0", "fd00:0::7"])
def test_the_printed_address_is_answered_as_browsers_write_it(host: str) -> None:
    settings = Settings(host=host, port=81, token="x" * 16)
    shown = settings.url.removeprefix("http://").removesuffix("/")
    assert shown.encode() in settings.allowed_hosts()
    name = shown.removesuffix(":81")
    if name.startswith("["):  # a browser shortens an IPv6 address
        assert str(ipaddress.ip_address(name.strip("[]"))) == name.strip("[]")
    assert name not in ("0.0.0.0", "[::]")


def test_an_ipv6_address_and_any_token_are_shown_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """Brackets are markup to the terminal's library, and + is a space behind the # of an address."""
    settings = Settings(host="fd00::7", port=81, token="base64+of/something==")
    cli._tell(settings, [], made=True, json=False)
    told = capsys.readouterr().out
    assert "Serving at http://[fd00::7]:81/ " in told
    assert "http://[fd00::7]:81/#token=base64%2Bof%2Fsomething%3D%3D\n" in told


@pytest.mark.parametrize(
    "wrong",
    [
        {"host": "0.0.0.0"},
        {"host": "192.168.1.7"},
        {"host": "example.org"},
        {"host": "::"},
        {"token": "short"},
        {"token": "with a space in it"},
        {"hosts": ("*",)},
        {"hosts": ("http://a.example",)},
        {"origins": ("*",)},
        {"origins": ("a.example",)},
        {"workers": 0},
        {"timeout": 0},
        {"timeout": float("inf")},
        {"host": ""},
    ],
)
def test_unsafe_settings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        Settings(**wrong)  # type: ignore[arg-type]
