"""Requests, declared once: read from bytes, described in OpenAPI, answered. What is wrong, in one sentence.

pydantic's compiled reader takes the bytes themselves, so that a request costs microseconds.

The shapes of answers are for the OpenAPI description only: answers are written as bytes, not through them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
)
from pydantic_core import ErrorDetails

from infrec.models.balance import Balance
from infrec.serve.settings import MAX_HISTORY, MAX_K

# ---- errors: {"error": {"code", "message"}} ---------------------------------------------------------------
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


# ---- requests ---------------------------------------------------------------------------------------------
MOST_EXPLAINED = 100

MODEL = {"name": "summary", "hash": "5d1f0c7be2a94410"}
ITEM = {"item": 7, "title": "Paper Orbit (2001)", "ambiguous": False, "genres": ["Sci-Fi"]}
REASON = {"item": 50, "title": "The Quiet Harvest (1994)", "contribution": 0.041}
PERSON = {"user": 12, "contribution": 0.062, "likes": ["The Quiet Harvest (1994)", "Paper Orbit (2001)"]}

Text = Annotated[StrictStr, Field(max_length=1000)]
ItemId = Annotated[StrictInt | Text, Field(description="An id as the data had it; matched on its text.")]
Ids = Annotated[list[ItemId], Field(max_length=MAX_HISTORY)]
ModelName = Annotated[Text | None, Field(description="A name from /v1/models; the first one when left out.")]


def _wish(name: str) -> Any:
    """A field of a request that is a setting of lists: its default, range and meaning."""
    declared = Balance.__dataclass_fields__[name]
    limits, text = declared.metadata, f"{declared.metadata['help']}."
    return Field(declared.default, ge=limits["least"], le=limits["most"], description=text.capitalize())


class PersonRequest(BaseModel):
    """Somebody: by what they chose, or by the id of a user the model was fitted on."""

    model_config = ConfigDict(extra="forbid")

    model: ModelName = None
    history: Ids | None = Field(None, description="What somebody chose; may be empty.")
    user: ItemId | None = Field(None, description="A user the model was fitted on.")

    def _check(self) -> None:
        if (self.history is None) == (self.user is None):
            raise Problem(422, "invalid", "expected exactly one of `history` and `user`.")


class RecommendRequest(PersonRequest):
    """A history or a user, how many items, and which may be among them."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"history": [1, 50, 181], "k": 5}, {"user": 17, "genres": ["Drama"]}]
        },
    )

    k: StrictInt = Field(10, ge=1, le=MAX_K, description="How many items.")
    exclude_seen: StrictBool = Field(True, description="Leave out what the history holds.")
    only: Ids | None = Field(None, description="Nothing but these items.")
    exclude: Ids | None = Field(None, description="None of these items.")
    genres: list[Text] | None = Field(
        None, min_length=1, max_length=100, description="Only items with one of these."
    )
    diversity: StrictFloat = _wish("diversity")
    popularity: StrictFloat = _wish("popularity")
    max_per: dict[Text, Annotated[StrictInt, Field(ge=1)]] | None = Field(
        None,
        min_length=1,
        max_length=10,
        description="How many items may have the same value of a column of the items table.",
        examples=[{"genre": 3}],
    )
    explain: StrictInt = Field(0, ge=0, le=5, description="How many reasons for each item.")

    def _check(self) -> None:
        super()._check()
        if self.explain and self.k > MOST_EXPLAINED:
            raise Problem(422, "invalid", f"`explain` is for lists of at most {MOST_EXPLAINED} items.")

    @property
    def filtered(self) -> bool:
        """Whether the list is restricted to some of the items."""
        return self.only is not None or self.exclude is not None or self.genres is not None

    @property
    def balanced(self) -> bool:
        """Whether anything counts in the list beside the scores."""
        return bool(self.diversity or self.popularity or self.max_per)


class ExplainRequest(PersonRequest):
    """A history or a user, and the item whose score is to be explained."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"history": [1, 50, 181], "item": 100}]}
    )

    item: ItemId


AnyRequest = TypeVar("AnyRequest", bound=PersonRequest)


def read(kind: type[AnyRequest], body: bytes) -> AnyRequest:
    """A request from its bytes, or the `Problem` that says what is wrong with it."""
    try:
        request = kind.model_validate_json(body)
    except ValidationError as failure:
        raise invalid(failure.errors(include_url=False, include_context=False)) from None
    request._check()
    return request


def invalid(errors: list[ErrorDetails] | list[Any]) -> Problem:
    """The first thing that is wrong, in words: where, what was found, what was expected."""
    first = errors[0]
    if first["type"] == "json_invalid":
        reason = str(first["msg"]).removeprefix("Invalid JSON: ")
        return Problem(400, "bad_json", f"the body is not JSON ({reason}); expected a JSON object.")
    if first["type"] in ("model_type", "model_attributes_type"):
        return Problem(
            422, "invalid", "the body is not a JSON object; expected one with `history` or `user`."
        )
    place = [str(part) for part in first["loc"] if part not in ("body", "query")]
    # A union names its branches last (`history.3.int`); the reader asked about history, place 3.
    where = "".join(
        f"[{part}]" if part.isdigit() else f".{part}" if at else part
        for at, part in enumerate(place)
        if part.isdigit() or not at
    )
    what = str(first["msg"])
    what = what[:1].lower() + what[1:]
    if first["type"] == "extra_forbidden":
        return Problem(422, "invalid", f"there is no field {where[:100]!r}; /openapi.json lists the fields.")
    if len({error["loc"][: len(first["loc"]) - 1] for error in errors}) == 1 and len(errors) > 1:
        what = "input should be a string or a whole number"
    value = first.get("input")
    shown = f" (found {value!r:.60})" if isinstance(value, str | int | float | bool | None) else ""
    return Problem(422, "invalid", f"{where or 'the request'}: {what}{shown}.")


# ---- answers ----------------------------------------------------------------------------------------------
Id = int | str


def _example(value: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [value]})


class ErrorText(BaseModel):
    code: str = Field(description="For programs; stable.")
    message: str = Field(description="One sentence: what was found, what was expected.")


class Error(BaseModel):
    """Every error has this shape."""

    model_config = _example({"error": {"code": "invalid", "message": "k: input should be at most 1000."}})
    error: ErrorText


class Label(BaseModel):
    """Which model answered; the hash is of everything in its directory."""

    model_config = _example(MODEL)
    name: str
    hash: str = Field(pattern="^[0-9a-f]{16}$")


class ItemReason(BaseModel):
    item: Id
    title: str
    contribution: float


class UserReason(BaseModel):
    user: Id | None = Field(description="A synthetic user's id; null for a real one.")
    contribution: float
    likes: list[str] = Field(description="What a synthetic user is best described by.")


class Because(BaseModel):
    """Items add up to score − baseline, users to score but for what comes from no user: of infinite-ae-plus
    what its item side gives, of a fit with few centres (Nyström) what dislikes take away. The largest
    contributions are shown."""

    score: float
    baseline: float
    items: list[ItemReason]
    users: list[UserReason]


class _Titled(BaseModel):
    item: Id
    title: str
    ambiguous: bool = Field(description="Whether another item has this title.")
    genres: list[str]


class Recommended(_Titled):
    rank: int
    score: float
    because: Because | None = None


class RecommendAnswer(BaseModel):
    model_config = _example(
        {"model": MODEL, "source": "model", "items": [{**ITEM, "rank": 1, "score": 0.21}], "unknown": []}
    )
    model: Label
    source: Literal["model", "popular"] = Field(description="`popular` when nothing is known of the person.")
    items: list[Recommended]
    unknown: list[Id] = Field(description="Ids that the model does not know.")


class ExplainAnswer(BaseModel):
    model_config = _example(
        {
            "model": MODEL,
            "item": 7,
            "title": "Paper Orbit (2001)",
            "score": 0.21,
            "baseline": 0.05,
            "items": [REASON],
            "users": [PERSON],
            "unknown": [],
        }
    )
    model: Label
    item: Id
    title: str
    score: float
    baseline: float
    items: list[ItemReason]
    users: list[UserReason]
    unknown: list[Id]


class Item(_Titled):
    popularity: int


class ItemsAnswer(BaseModel):
    model_config = _example({"model": MODEL, "items": [{**ITEM, "popularity": 41}]})
    model: Label
    items: list[Item]


class Similar(Item):
    rank: int
    score: float


class SimilarAnswer(BaseModel):
    model_config = _example(
        {
            "model": MODEL,
            "item": 50,
            "items": [{**ITEM, "popularity": 41, "rank": 1, "score": 0.31}],
        }
    )
    model: Label
    item: Id
    items: list[Similar]


class Model(Label):
    model_config = _example(
        {
            **MODEL,
            "type": "infinite-ae",
            "settings": {"reg": 1.0, "depth": 1, "dtype": "float32"},
            "users": 50,
            "items": 400,
            "interactions": 2000,
            "kind": "summary",
            "summary": True,
            "discrete": True,
            "genres": ["Drama", "Sci-Fi"],
            "titles": True,
            "explains": True,
            "explorable": True,
            "named": False,
            "default": True,
        }
    )
    type: str
    settings: dict[str, Any]
    users: int
    items: int
    interactions: int
    kind: Literal["log", "summary", "sample"] = Field(
        description="What it was fitted on, as far as is known."
    )
    summary: bool = Field(description="Whether its users are synthetic.")
    discrete: bool
    genres: list[str]
    titles: bool
    explains: bool
    explorable: bool
    named: bool = Field(description="Whether real users can be asked for by their ids.")
    default: bool


class ModelsAnswer(BaseModel):
    models: list[Model]


class SummaryUser(BaseModel):
    user: Id
    size: int
    items: list[int] = Field(description="Places in `items`, the most telling first.")
    weights: list[float] | None = None
    likes: list[str]


class SummaryItem(_Titled):
    popularity: int = Field(description="How many synthetic users have it.")
    original: int | None = Field(description="How many users of the original log have it.")


class SummaryAnswer(BaseModel):
    model_config = _example(
        {
            "model": MODEL,
            "summary_users": 1,
            "original_users": 1000,
            "users": [{"user": 0, "size": 1, "items": [0], "likes": ["Paper Orbit (2001)"]}],
            "items": [{**ITEM, "popularity": 1, "original": 41}],
        }
    )
    model: Label
    summary_users: int
    original_users: int | None
    users: list[SummaryUser]
    items: list[SummaryItem]


class Health(BaseModel):
    model_config = _example({"status": "ok"})
    status: str


REASONS = {413: "Content Too Large", 422: "Unprocessable Content"}  # RFC 9110's; Python's from 3.13 on


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors that an address may answer with, beside those that any may."""
    every = sorted({400, 401, 403, 404, 405, 421, 431, *statuses})
    return {one: {"model": Error, "description": REASONS.get(one) or HTTPStatus(one).phrase} for one in every}
