"""What answers hold, for the OpenAPI description only: answers are written as bytes, not through these."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Id = int | str


def _example(value: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [value]})


MODEL = {"name": "summary", "hash": "5d1f0c7be2a94410"}
REASON = {"item": 50, "title": "The Quiet Harvest (1994)", "contribution": 0.041}
PERSON = {"user": 12, "contribution": 0.062, "likes": ["The Quiet Harvest (1994)", "Paper Orbit (2001)"]}


class ErrorText(BaseModel):
    code: Annotated[str, Field(description="For programs; stable.")]
    message: Annotated[str, Field(description="One sentence: what was found, what was expected.")]


class Error(BaseModel):
    """Every error has this shape."""

    model_config = _example({"error": {"code": "invalid", "message": "k: input should be at most 1000."}})
    error: ErrorText


class Label(BaseModel):
    """Which model answered; the hash is of everything in its directory."""

    model_config = _example(MODEL)
    name: str
    hash: Annotated[str, Field(pattern="^[0-9a-f]{16}$")]


class ItemReason(BaseModel):
    item: Id
    title: str
    contribution: float


class UserReason(BaseModel):
    user: Annotated[Id | None, Field(description="A synthetic user's id; null for a real one.")]
    contribution: float
    likes: Annotated[list[str], Field(description="What a synthetic user is best described by.")]


class Because(BaseModel):
    """Items add up to score − baseline, users to score (of infinite-ae-plus: to its user side's part of it);
    the largest contributions are shown."""

    score: float
    baseline: float
    items: list[ItemReason]
    users: list[UserReason]


class Recommended(BaseModel):
    item: Id
    title: str
    genres: list[str]
    rank: int
    score: float
    because: Because | None = None


class RecommendAnswer(BaseModel):
    model_config = _example(
        {
            "model": MODEL,
            "source": "model",
            "items": [
                {"item": 7, "title": "Paper Orbit (2001)", "genres": ["Sci-Fi"], "rank": 1, "score": 0.21}
            ],
            "unknown": [],
        }
    )
    model: Label
    source: Annotated[
        Literal["model", "popular"], Field(description="`popular` when nothing is known of the person.")
    ]
    items: list[Recommended]
    unknown: Annotated[list[Id], Field(description="Ids that the model does not know.")]


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


class Item(BaseModel):
    item: Id
    title: str
    genres: list[str]
    popularity: int


class ItemsAnswer(BaseModel):
    model_config = _example(
        {
            "model": MODEL,
            "items": [{"item": 7, "title": "Paper Orbit (2001)", "genres": ["Sci-Fi"], "popularity": 41}],
        }
    )
    model: Label
    items: list[Item]


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
            "default": True,
        }
    )
    type: str
    settings: dict[str, Any]
    users: int
    items: int
    interactions: int
    kind: Annotated[
        Literal["log", "summary", "sample"], Field(description="What it was fitted on, as far as is known.")
    ]
    summary: Annotated[bool, Field(description="Whether its users are synthetic.")]
    discrete: bool
    genres: list[str]
    titles: bool
    explains: bool
    explorable: bool
    default: bool


class ModelsAnswer(BaseModel):
    models: list[Model]


class SummaryUser(BaseModel):
    user: Id
    size: int
    items: Annotated[list[int], Field(description="Places in `items`, the most telling first.")]
    weights: list[float] | None = None
    likes: list[str]


class SummaryItem(BaseModel):
    item: Id
    title: str
    genres: list[str]
    popularity: Annotated[int, Field(description="How many synthetic users have it.")]
    original: Annotated[int | None, Field(description="How many users of the original log have it.")]


class SummaryAnswer(BaseModel):
    model_config = _example(
        {
            "model": MODEL,
            "summary_users": 1,
            "original_users": 1000,
            "users": [{"user": 0, "size": 1, "items": [0], "likes": ["Paper Orbit (2001)"]}],
            "items": [
                {
                    "item": 7,
                    "title": "Paper Orbit (2001)",
                    "genres": ["Sci-Fi"],
                    "popularity": 1,
                    "original": 41,
                }
            ],
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


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors that an address may answer with, beside those that any may."""
    return {status: {"model": Error} for status in sorted({400, 401, 403, 404, 405, 421, 431, *statuses})}
