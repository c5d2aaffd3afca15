"""How the service is run, checked when it is made; and which Host and Origin headers follow from it."""

from __future__ import annotations

import contextlib
import ipaddress
import math
import re
import socket
from dataclasses import dataclass

from infrec.errors import ConfigError

MAX_BODY = 1_000_000  # bytes
MAX_HISTORY = 10_000
MAX_K = 1_000
MAX_HEAD = 32_768  # bytes of request line and headers
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?|\[[0-9a-f:.]+\](:\d{1,5})?")
_ORIGIN = re.compile(rf"https?://({_NAME.pattern})")


@dataclass(frozen=True)
class Settings:
    """Settings of the service.

    Args:
        host, port: Where to listen; port 0 takes a free one.
        token: The secret that a client must send, or None.
        hosts: Further Host headers to answer to.
        origins: Web pages elsewhere that may call (CORS).
        workers: Processes.
        window: Seconds in which requests gather for one batch.
        batch: The most requests of a batch.
        queue: How many may wait for a model.
        timeout: Seconds in which a request must arrive.
        connections: The most at a time, in each process.
        log_requests: Whether each request gets a line.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    workers: int = 1
    window: float = 0.001
    batch: int = 32
    queue: int = 48
    timeout: float = 10.0
    connections: int = 1000
    log_requests: bool = True

    def __post_init__(self) -> None:
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
        for name, value, least in (
            ("port", self.port, 0),
            ("workers", self.workers, 1),
            ("batch", self.batch, 1),
            ("queue", self.queue, 1),
            ("connections", self.connections, 1),
        ):
            if value < least:
                raise ConfigError(f"{name} is {value}; expected {least} or more.")
        if not 0 < self.timeout < math.inf or not 0 <= self.window <= 1:
            raise ConfigError(
                f"timeout is {self.timeout} s and window {self.window} s; expected more than 0, and 0 to 1."
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
        origins |= {
            f"https://{name}".lower().encode() for name in self.hosts
        }  # behind a proxy that speaks TLS
        return frozenset(origins | self.foreign_origins())

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
