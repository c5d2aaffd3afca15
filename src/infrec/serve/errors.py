"""The one shape of every error that leaves the service: {"error": {"code", "message"}}."""

from __future__ import annotations

import json
from collections.abc import Sequence

Headers = Sequence[tuple[bytes, bytes]]
CLOSE = [(b"connection", b"close")]


class Problem(Exception):
    """An answer that is an error: a status, a code for programs and a sentence for people."""

    def __init__(self, status: int, code: str, message: str, headers: Headers = ()) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, headers

    @property
    def body(self) -> bytes:
        return json.dumps({"error": {"code": self.code, "message": self.message}}).encode()


def overloaded() -> Problem:
    message = "more requests came than can be answered in time; try again in a second."
    return Problem(503, "overloaded", message, [(b"retry-after", b"1")])


def too_large(limit: int) -> Problem:
    message = f"the body has more than {limit:,} bytes; send a shorter history."
    return Problem(413, "too_large", message, CLOSE)


def too_slow(seconds: float) -> Problem:
    message = f"the request did not arrive within {seconds:g} s; send it again, faster."
    return Problem(408, "timeout", message, CLOSE)


def internal() -> Problem:
    message = "something went wrong here, not with the request; the server's log has it."
    return Problem(500, "internal", message)


# What Starlette raises by itself, in our words.
BY_STATUS = {
    404: ("not_found", "there is nothing at this address; /openapi.json lists what there is."),
    405: ("method_not_allowed", "this address does not take that method; /openapi.json lists what it takes."),
}


def of_status(status: int, headers: Headers = ()) -> Problem:
    """The problem that stands for a bare status."""
    code, message = BY_STATUS.get(status, ("bad_request", "the request could not be understood."))
    return Problem(status, code, message, headers)
