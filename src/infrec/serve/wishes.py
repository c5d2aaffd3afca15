"""What a request may hold, for reading it and for the OpenAPI description; what is wrong, in one sentence.

pydantic's compiled reader takes the bytes themselves, so that a request costs microseconds.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from infrec.serve.answering import Wish
from infrec.serve.problems import Problem
from infrec.serve.settings import MAX_HISTORY, MAX_K

Text = Annotated[StrictStr, Field(max_length=1000)]
ItemId = Annotated[StrictInt | Text, Field(description="An id as the data had it; matched on its text.")]
Ids = Annotated[list[ItemId], Field(max_length=MAX_HISTORY)]
ModelName = Annotated[Text | None, Field(description="A name from /v1/models; the first one when left out.")]
MOST_EXPLAINED = 100
Asked = TypeVar("Asked", bound=BaseModel)


class _Person(BaseModel):
    """Somebody: by what they chose, or by the id of a user the model was fitted on."""

    model_config = ConfigDict(extra="forbid")

    model: ModelName = None
    history: Annotated[Ids | None, Field(description="What somebody chose; may be empty.")] = None
    user: Annotated[ItemId | None, Field(description="A user the model was fitted on.")] = None

    def _check(self) -> None:
        if (self.history is None) == (self.user is None):
            raise PydanticCustomError("who", "expected exactly one of `history` and `user`")


class RecommendRequest(_Person):
    """A history or a user, how many items, and which may be among them."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"history": [1, 50, 181], "k": 5}, {"user": 17, "genres": ["Drama"]}]
        },
    )

    k: Annotated[StrictInt, Field(ge=1, le=MAX_K, description="How many items.")] = 10
    exclude_seen: Annotated[StrictBool, Field(description="Leave out what the history holds.")] = True
    only: Annotated[Ids | None, Field(description="Nothing but these items.")] = None
    exclude: Annotated[Ids | None, Field(description="None of these items.")] = None
    genres: Annotated[
        list[Text] | None, Field(min_length=1, max_length=100, description="Only items with one of these.")
    ] = None
    explain: Annotated[StrictInt, Field(ge=0, le=5, description="How many reasons for each item.")] = 0

    def _check(self) -> None:
        super()._check()
        if self.explain and self.k > MOST_EXPLAINED:
            raise PydanticCustomError("many", f"`explain` is for lists of at most {MOST_EXPLAINED} items")

    def wish(self) -> Wish:
        return Wish(
            self.history,
            self.user,
            self.k,
            self.exclude_seen,
            self.only,
            self.exclude,
            self.genres,
            self.explain,
        )


class ExplainRequest(_Person):
    """A history or a user, and the item whose score is to be explained."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"history": [1, 50, 181], "item": 100}]}
    )

    item: ItemId

    def wish(self) -> Wish:
        return Wish(self.history, self.user)


def read(kind: type[Asked], body: bytes) -> Asked:
    """A request from its bytes, or what is wrong with it."""
    try:
        asked = kind.model_validate_json(body)
        if isinstance(asked, _Person):
            asked._check()
        return asked
    except ValidationError as failure:
        raise invalid(failure.errors(include_url=False, include_context=False)) from None
    except PydanticCustomError as failure:
        raise Problem(422, "invalid", f"{failure.message()}.") from None


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
    found = first.get("input")
    shown = f" (found {found!r:.60})" if isinstance(found, str | int | float | bool | None) else ""
    return Problem(422, "invalid", f"{where or 'the request'}: {what}{shown}.")
