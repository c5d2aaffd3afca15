"""The one shape of every error that leaves the service: {"error": {"code", "message"}}."""

from __future__ import annotations

import json
from collections.abc import Sequence

Headers = Sequence[tuple[bytes, bytes]]


class Problem(Exception):
    """An answer that is an error: a status, a code for programs and a sentence for people."""

    def __init__(self, status: int, code: str, message: str, headers: Headers = ()) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, headers

    @property
    def body(self) -> bytes:
        return json.dumps({"error": {"code": self.code, "message": self.message}}).encode()


def overloaded() -> Problem:
    return Problem(
        503,
        "overloaded",
        "more requests came than can be answered in time; try again in a second.",
        [(b"retry-after", b"1")],
    )


def too_large(limit: int) -> Problem:
    return Problem(
        413,
        "too_large",
        f"the body has more than {limit:,} bytes; send a shorter history.",
        [(b"connection", b"close")],
    )


def too_slow(seconds: float) -> Problem:
    return Problem(
        408,
        "timeout",
        f"the request did not arrive within {seconds:g} s; send it again, faster.",
        [(b"connection", b"close")],
    )


def internal() -> Problem:
    return Problem(
        500, "internal", "something went wrong here, not with the request; the server's log has it."
    )


# What Starlette raises by itself, in our words.
BY_STATUS = {
    404: ("not_found", "there is nothing at this address; /openapi.json lists what there is."),
    405: ("method_not_allowed", "this address does not take that method; /openapi.json lists what it takes."),
}


def of_status(status: int, headers: Headers = ()) -> Problem:
    """The problem that stands for a bare status."""
    code, message = BY_STATUS.get(status, ("bad_request", "the request could not be understood."))
    return Problem(status, code, message, headers)
