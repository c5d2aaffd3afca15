"""Items placed by features: held out whole (`evaluate --cold-items`), or new (`fit --new-items`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from infrec.cli import console
from infrec.cli.options import Answer
from infrec.progress import Progress
from infrec.report import numbers

if TYPE_CHECKING:
    from infrec.data import Interactions
    from infrec.models import Recommender

WAYS = {
    "content": "content alone",
    "popularity": "popularity, foretold",
    "random": "random",
}


def measure(
    data: str,
    log: Interactions,
    models: Sequence[Recommender],
    share: float,
    columns: Sequence[str] | None,
    seed: int,
    progress: Progress,
) -> Answer:
    """The document of each model, and a table for each."""
    from infrec.evaluation.cold_items import evaluate_cold_items

    documents = []
    for model in models:
        found = evaluate_cold_items(model, log, share, columns=columns, seed=seed, progress=progress)
        record = found.as_dict()
        documents.append({"dataset": data, "model": record.pop("model"), "cold_items": record})
    document = documents[0] if len(documents) == 1 else {"dataset": data, "results": documents}
    return document, partial(show, documents)


def show(documents: Sequence[dict[str, Any]]) -> None:
    """How each model places the items held out, beside content alone, popularity and chance."""
    from infrec.report import terminal
    from infrec.report.document import Table, Value

    for document in documents:
        record, model = document["cold_items"], document["model"]
        ways = record["metrics"]
        head = ("", *(numbers.label(model) if way == model else WAYS[way] for way in ways))
        rows = [(metric, *(Value(metric, ways[way][metric]) for way in ways)) for metric in ways[model]]
        caption = (
            f"{document['dataset']}: {record['items']:,} items held out whole, lists of these alone for "
            f"{record['users']:,} users who have some; placed by {', '.join(record['features'])} "
            f"({numbers.settings(record['selected'])})"
        )
        console.out().print(terminal.table(Table(caption, head, rows)))


def with_new_items(
    model: Recommender, columns: Sequence[str] | None, seed: int, progress: Progress
) -> Recommender:
    """A fitted model with a place for the items of its log that nobody has, and a word about them.

    Args:
        model: The model.
        columns: The columns of the table about items that place them; None: all that say something.
        seed: Of the items that are held out whole to choose how far likeness reaches.
        progress: Called while it works.
    """
    import numpy as np

    from infrec.evaluation.cold_items import choose
    from infrec.models.new_items import Features
    from infrec.splits.new_items import with_items

    log, known = model.log, np.flatnonzero(model.log.item_counts)
    if len(known) == log.n_items:
        console.note("somebody has each item of the table about items; there are no new ones.")
        return model
    features = Features(log.item_info, columns)
    unfitted = model.with_settings()
    settings = choose(unfitted, with_items(log, known), features, known, seed=seed, progress=progress)
    placed = model.with_new_items(columns, settings)
    facts = placed.about["new_items"]
    console.note(
        f"{facts['items']:,} items that nobody has are placed by {', '.join(facts['columns'])} "
        f"({numbers.settings(settings.to_dict())}, chosen on others held out whole)."
    )
    return placed
