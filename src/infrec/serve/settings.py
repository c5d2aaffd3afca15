"""How the service is run, checked when it is made; and which Host and Origin headers follow from it."""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
from dataclasses import dataclass

from infrec import settings
from infrec.errors import ConfigError
from infrec.settings import setting

MAX_BODY = 1_000_000  # bytes
MAX_HISTORY = 10_000
MAX_K = 1_000
MAX_HEAD = 32_768  # bytes of request line and headers
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?|\[[0-9a-f:.]+\](:\d{1,5})?")
_ORIGIN = re.compile(rf"https?://({_NAME.pattern})")


@dataclass(frozen=True)
class Settings(settings.Settings):
    """Settings of the service."""

    host: str = setting("127.0.0.1", "where to listen")
    port: int = setting(8000, "the port; 0 takes a free one", least=0)
    token: str | None = setting(None, "the secret that a client must send")
    hosts: tuple[str, ...] = setting((), "further Host headers to answer to")
    origins: tuple[str, ...] = setting((), "web pages elsewhere that may call (CORS)")
    workers: int = setting(1, "processes", least=1)
    window: float = setting(0.001, "seconds in which requests gather for one batch", least=0, most=1)
    batch: int = setting(32, "the most requests of a batch", least=1)
    queue: int = setting(48, "how many may wait for a model", least=1)
    timeout: float = setting(10.0, "seconds in which a request must arrive", above=0)
    connections: int = setting(1000, "the most at a time, in each process", least=1)
    log_requests: bool = setting(True, "whether each request gets a line")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.host == "localhost":  # a name server has no say in where we listen
            object.__setattr__(self, "host", "127.0.0.1")
        with contextlib.suppress(ValueError):  # as browsers write it: 0:0:0:0:0:0:0:1 is ::1
            object.__setattr__(self, "host", str(ipaddress.ip_address(self.host)))
        if not self.host:
            raise ConfigError("the address is empty; expected one such as 127.0.0.1, or 0.0.0.0 for all.")
        for name in self.hosts:
            if not _NAME.fullmatch(name.lower()):
                raise ConfigError(
                    f"the allowed host is {name!r}; expected NAME or NAME:PORT, without scheme or wildcard."
                )
        for origin in self.origins:
            if not _ORIGIN.fullmatch(origin.lower()):
                raise ConfigError(
                    f"the allowed origin is {origin!r}; expected one such as https://example.org."
                )
        if self.token is not None and not re.fullmatch(r"[\x21-\x7e]{16,512}", self.token):
            raise ConfigError(
                "the token is too short or has spaces; expected 16 to 512 printable characters."
            )
        if self.token is None and not self.loopback:
            raise ConfigError(
                f"the address {self.host} is reachable by others, so a token is needed; "
                "give one or let `infrec serve` make one."
            )

    @property
    def loopback(self) -> bool:
        return is_loopback(self.host)

    @property
    def url(self) -> str:
        """Where a browser on this machine finds it: an address that stands for all of them is no Host."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://{_bracketed(host)}:{self.port}/"

    def allowed_hosts(self) -> frozenset[bytes]:
        """Every Host header that is answered: exact text, lower case."""
        names = {_bracketed(self.host)}
        if self.loopback:
            names.add("localhost")
        if self.host in ("0.0.0.0", "::"):
            names = {"127.0.0.1", "localhost", socket.gethostname().lower()}
            if self.host == "::":
                names.add("[::1]")
        hosts = {f"{name}:{self.port}" for name in names} | (names if self.port == 80 else set())
        return frozenset(host.encode() for host in hosts | {name.lower() for name in self.hosts})

    def allowed_origins(self) -> frozenset[bytes]:
        """Every Origin header that is answered: our own page, and what was asked for."""
        origins = {b"http://" + host for host in self.allowed_hosts()}
        proxied = {f"https://{name}".lower().encode() for name in self.hosts}  # by one that speaks TLS
        return frozenset(origins | proxied | self.foreign_origins())

    def foreign_origins(self) -> frozenset[bytes]:
        """Pages elsewhere that may call and read the answer."""
        return frozenset(origin.lower().encode() for origin in self.origins)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address; a name says nothing about that."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host.lower()
