"""How well items are recommended that nobody has yet: held out whole, placed by their features.

Settings of the features are chosen on validation items, held out whole of what is left. Everybody who has a
held-out item gets a list of held-out items alone: where they stand among the known ones depends on both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from infrec import metrics
from infrec.errors import DataError
from infrec.models.new_items import Features, NewItemsSettings
from infrec.progress import Progress, silent
from infrec.randomness import generator
from infrec.splits.new_items import ItemSplit, hold_out_items

if TYPE_CHECKING:
    from infrec.data import Interactions
    from infrec.models import Recommender

K = (10, 100)
CRITERION = "NDCG@100"
NOBODY = "nobody has an item that was held out; expected a larger share, or another seed."


@dataclass(frozen=True)
class ColdItems:
    """How one model places items that it has never seen.

    Args:
        model: Its name.
        items: How many items were held out.
        users: How many users have one of them.
        features: The columns that place them.
        selected: The settings chosen on validation items.
        metrics: Way of placing → metric → value in percent: the model; content alone, which adds up
            likenesses to the items of a history; the popularity that features foretell; random.
    """

    model: str
    items: int
    users: int
    features: tuple[str, ...]
    selected: Mapping[str, float]
    metrics: Mapping[str, Mapping[str, float]]

    def as_dict(self) -> dict[str, Any]:
        """The record as JSON can hold it."""
        return asdict(self)


def evaluate_cold_items(
    model: Recommender,
    log: Interactions,
    share: float = 0.1,
    *,
    columns: Sequence[str] | None = None,
    seed: int = 42,
    progress: Progress = silent,
) -> ColdItems:
    """Hold out items whole, fit the model on the others, and measure where features place those held out.

    Args:
        model: An unfitted model; its open settings are chosen on the known items.
        log: The interactions, with a table about the items.
        share: Share of the items that is held out.
        columns: Columns of that table; by default all that say what kind of item it is.
        seed: Of both draws of items, and of the random lists.
        progress: Called while it works.
    """
    features = Features(log.item_info, columns)
    outer = hold_out_items(log, share, seed=seed)
    if not outer.held_out.nnz:
        raise DataError(NOBODY)
    fitted = model.with_settings().fit(outer.train, progress=progress)
    settings = {name: fitted.selected[name] for name in fitted.selected if name in model.auto_settings}
    smaller = model.with_settings(**settings)
    chosen = choose(smaller, outer.train, features, outer.known, share, seed=seed + 1, progress=progress)
    weights = features.weights(outer.known, outer.new, chosen)
    scores = fitted.score(outer.train.matrix)
    content = features.kernel(outer.known, outer.new, chosen.length)
    popularity = fitted.popularity @ weights
    ways = {
        model.name: scores @ weights,
        "content": outer.train.matrix @ content,
        "popularity": np.repeat(popularity[None, :], log.n_users, axis=0),
        "random": generator(seed, "random lists").random((log.n_users, len(outer.new))),
    }
    found = {name: _measured(values, outer) for name, values in ways.items()}
    users = int(np.count_nonzero(np.diff(outer.held_out.indptr)))
    names = tuple(column.name for column in features.columns)
    return ColdItems(model.name, len(outer.new), users, names, chosen.to_dict(), found)


def choose(
    model: Recommender,
    log: Interactions,
    features: Features,
    rows: NDArray[np.integer],
    share: float = 0.1,
    *,
    seed: int = 42,
    progress: Progress = silent,
) -> NewItemsSettings:
    """The settings of features that place items best which are held out whole of a log, by NDCG@100.

    Args:
        model: An unfitted model, its settings fixed.
        log: The log; every item of it is in somebody's history.
        features: The features of its items, and of others.
        rows: The row of each of its items among the features.
        share: Share of the items that is held out.
        seed: Seed of that draw.
        progress: Called while it works.
    """
    split = hold_out_items(log, share, seed=seed)
    if not split.held_out.nnz:
        raise DataError(NOBODY)
    fitted = model.fit(split.train, progress=progress)
    scores, known, new = fitted.score(split.train.matrix), rows[split.known], rows[split.new]
    space = NewItemsSettings.search_space()
    candidates = [NewItemsSettings(*values) for values in product(space["length"], space["reg"])]
    quality = []
    for at, candidate in enumerate(candidates):
        weights = features.weights(known, new, candidate)
        quality.append(_measured(scores @ weights, split)[CRITERION])
        progress("features", at + 1, len(candidates))
    return candidates[int(np.argmax(quality))]


def _measured(scores: np.ndarray, split: ItemSplit) -> dict[str, float]:
    """HR and NDCG in percent, over the users who have one of the items held out."""
    users = np.flatnonzero(np.diff(split.held_out.indptr))
    held_out = split.held_out[users]
    top = metrics.top_k(np.asarray(scores, np.float32)[users], min(max(K), scores.shape[1]))
    lists = np.full((len(users), max(K)), -1, np.int64)
    lists[:, : top.shape[1]] = top
    weights = np.ones(scores.shape[1])
    values = metrics.ranking_metrics(lists, held_out, weights, k=K, protocol="paper-code")
    return {name: 100.0 * float(value.mean()) for name, value in values.items() if not name.startswith("PSP")}
