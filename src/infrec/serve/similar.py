"""Items like one item, as an answer: its shape for OpenAPI, and its bytes."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict

from infrec.serve.errors import Problem
from infrec.serve.schemas import ITEM, MODEL, Id, Item, Label
from infrec.serve.served_model import Served, compact

EXAMPLE: dict[str, Any] = {
    "model": MODEL,
    "item": 50,
    "items": [{**ITEM, "popularity": 41, "rank": 1, "score": 0.31}],
}


class Similar(Item):
    rank: int
    score: float


class SimilarAnswer(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})
    model: Label
    item: Id
    items: list[Similar]


def similar(served: Served, item: str, k: int) -> bytes:
    """The k items most like one, as JSON, best first.

    Args:
        served: The model that is asked.
        item: The text of the item's id.
        k: How many.
    """
    catalogue = served.catalogue
    at = catalogue.position.get(item)
    if at is None:
        raise Problem(404, "unknown_item", f"the model {served.name!r} has no item {item[:100]!r}.")
    rows = served.model.similar(served.log.items.ids[at].as_py(), k).table
    columns = pc.index_in(rows.column("item"), served.log.items.ids).to_pylist()
    listed = [
        {
            **catalogue.facts(column),
            "popularity": int(catalogue.counts[column]),
            "rank": rank,
            "score": float(f"{score:.6g}"),
        }
        for rank, (column, score) in enumerate(zip(columns, rows.column("score").to_pylist(), strict=True), 1)
    ]
    return compact({"model": served.label, "item": catalogue.ids[at], "items": listed})
