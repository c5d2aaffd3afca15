"""Checks of every request (Host, Origin, token, size), and its headers, count and log line on the way out.

The line never holds a history, a query or a body.
"""

from __future__ import annotations

import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from types import MappingProxyType
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from infrec.serve.batching import Service
from infrec.serve.metrics import ROUTES
from infrec.serve.schemas import CLOSE, Problem, internal, too_large
from infrec.serve.settings import MAX_BODY

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Handler = Callable[[Request], Awaitable[Response]]

log = logging.getLogger("infrec.serve")
OPEN = frozenset({"/", "/healthz", "/readyz"})  # answered without a token: the page asks for it itself
_KNOWN = frozenset(ROUTES)
_CSP = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    b"font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
ALWAYS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", _CSP),
]


class SecurityMiddleware:
    """ASGI middleware that checks and counts requests; written by hand because it runs for every one."""

    def __init__(
        self, app: App, service: Service, direct: Mapping[str, Handler] = MappingProxyType({})
    ) -> None:
        """direct: where POST to these addresses goes without the detour through `app`, which costs more
        than a recommendation."""
        settings = service.settings
        self._app, self._service, self._direct = app, service, direct
        self._hosts, self._origins = settings.allowed_hosts(), settings.allowed_origins()
        self._foreign = settings.foreign_origins()
        self._token = None if settings.token is None else settings.token.encode()
        self._logs = settings.log_requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        began, status = time.perf_counter(), 0
        extra: list[tuple[bytes, bytes]] = ALWAYS

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *extra]
            await send(message)

        try:
            origin, refused = self._check(scope)
            if origin in self._foreign:  # they may read what was wrong, too
                extra = [*ALWAYS[:2], *_cors(origin), *ALWAYS[3:]]
            if refused is not None:
                raise refused
            if origin in self._foreign and scope["method"] == "OPTIONS":
                await _respond(answer, 204, b"", [])
                return
            handler = self._direct.get(scope["path"]) if scope["method"] == "POST" else None
            if handler is None:
                await self._app(scope, receive, answer)
            else:
                response = await handler(Request(scope, receive))
                await response(scope, receive, answer)
        except Problem as problem:
            await _respond(answer, problem.status, problem.body, [*problem.headers, _JSON])
        except Exception:
            log.exception("%s %s failed", scope["method"], _path(scope))
            if not status:
                await _respond(answer, 500, internal().body, [_JSON])
        finally:
            path, seconds = _path(scope), time.perf_counter() - began
            self._service.counters.request(path, status or 500, seconds)
            if self._logs and status != 503:  # under overload a line each would make it worse
                log.info("%s %s %d %.1f ms", scope["method"], path, status, 1000 * seconds)

    def _check(self, scope: Scope) -> tuple[bytes | None, Problem | None]:
        """The Origin header, and what else is wrong that can be judged by the headers alone."""
        hosts, origins, token, length = [], [], b"", None
        for name, value in scope["headers"]:
            if name == b"host":
                hosts.append(value)
            elif name == b"origin":
                origins.append(value)
            elif name == b"authorization":
                token = value
            elif name == b"content-length":
                length = value
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            raise Problem(
                421,
                "host_not_allowed",
                "this service does not answer to that Host header; use its printed address, or start it "
                "with --allow-host.",
                CLOSE,
            )
        if origins and (len(origins) != 1 or origins[0].lower() not in self._origins):
            raise Problem(
                403,
                "origin_not_allowed",
                "pages of that origin may not call this service; start it with --cors to allow one.",
                CLOSE,
            )
        origin = origins[0].lower() if origins else None
        if length is not None and (not length.isdigit() or len(length) > 15 or int(length) > MAX_BODY):
            return origin, too_large(MAX_BODY)
        preflight = scope["method"] == "OPTIONS" and origin in self._foreign
        if self._token is None or preflight or _is_open(scope["path"]):
            return origin, None
        scheme, _, given = token.partition(b" ")
        if scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), self._token):
            return origin, None
        return origin, Problem(
            401,
            "token_required",
            "this needs the token that the server was started with: `Authorization: Bearer TOKEN`.",
            [(b"www-authenticate", b"Bearer")],
        )


_JSON = (b"content-type", b"application/json")


def _is_open(path: str) -> bool:
    return path in OPEN or path.startswith("/static/")


def _path(scope: Scope) -> str:
    """A known address; anything else is not worth a line of its own, and may hold anything."""
    path = scope["path"]
    if path in _KNOWN:
        return path
    return "page" if path == "/" or path.startswith("/static/") else "other"


def _cors(origin: bytes | None) -> list[tuple[bytes, bytes]]:
    return [
        (b"access-control-allow-origin", origin or b""),
        (b"access-control-allow-methods", b"GET, POST"),
        (b"access-control-allow-headers", b"authorization, content-type"),
        (b"access-control-expose-headers", b"x-infrec-model, retry-after"),
        (b"cross-origin-resource-policy", b"cross-origin"),
        (b"vary", b"origin"),
    ]


async def _respond(send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    size = [] if status == 204 else [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": [*size, *headers]})
    await send({"type": "http.response.body", "body": body})
