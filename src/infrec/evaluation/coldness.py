"""For whom and for what a model works: by how cold users and items are, and on items that nobody has yet.

The latter are held out whole and placed by their features, whose settings are chosen on validation items,
held out whole of what is left. Everybody who has a held-out item gets a list of held-out items alone: where
they stand among the known ones depends on both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from infrec import metrics
from infrec.errors import ConfigError, DataError
from infrec.metrics.intervals import Interval, intervals_of
from infrec.models.new_items import Features, NewItemsSettings
from infrec.progress import Progress, silent
from infrec.randomness import generator
from infrec.splits.holdout import ItemSplit, hold_out_items

if TYPE_CHECKING:
    from infrec.data import Interactions
    from infrec.evaluation.evaluate import Evaluation
    from infrec.models import Recommender

Measured = tuple[dict[str, float], dict[str, Interval]]


@dataclass(frozen=True)
class Stratum:
    """Users (or items) with `low` to `high` interactions in train.

    Args:
        low, high: Fewest and most interactions in train.
        size: How many users or items there are.
        metrics: Name → value.
        intervals: Name → (low, high), 95 %.
    """

    low: int
    high: int
    size: int
    metrics: dict[str, float]
    intervals: dict[str, Interval]

    @property
    def label(self) -> str:
        """Such as "3–7", for axes."""
        return f"{self.low}" if self.low == self.high else f"{self.low}–{self.high}"


def by_user_coldness(evaluation: Evaluation, bins: int = 5, *, seed: int = 42) -> list[Stratum]:
    """Every per-user metric in bins of users by their number of train interactions, coldest first.

    Bins are equally large as far as ties allow: users with equally many interactions share a bin, so there
    may be fewer bins than asked for.

    Args:
        evaluation: From `evaluate`.
        bins: How many bins.
        seed: Seed of the intervals.
    """

    def of(inside: NDArray[np.bool_]) -> Measured:
        values = {name: value[inside] for name, value in evaluation.per_user.items()}
        return {name: float(value.mean()) for name, value in values.items()}, intervals_of(values, seed=seed)

    return _strata(evaluation.user_counts, bins, of)


def by_item_coldness(evaluation: Evaluation, bins: int = 5) -> list[Stratum]:
    """The share of held-out interactions that was found, in bins of items by their train interactions.

    The metric `found@k` is hits / held-out interactions over the items of a bin, in percent. Items that were
    held out for nobody are in no bin.

    Args:
        evaluation: From `evaluate`.
        bins: How many bins.
    """
    at = np.flatnonzero(evaluation.item_held_out)
    held, hits = evaluation.item_held_out[at], {k: n[at] for k, n in evaluation.item_hits.items()}

    def of(inside: NDArray[np.bool_]) -> Measured:
        return {
            f"found@{k}": float(100.0 * n[inside].sum() / held[inside].sum()) for k, n in hits.items()
        }, {}

    return _strata(evaluation.item_counts[at], bins, of)


def _strata(
    counts: NDArray[np.int64], bins: int, of: Callable[[NDArray[np.bool_]], Measured]
) -> list[Stratum]:
    """The bins of these counts. of: metrics and intervals of those inside one."""
    bin_of = _bins(counts, bins)
    strata = []
    for number in range(int(bin_of.max(initial=-1)) + 1):
        inside = bin_of == number
        low, high = int(counts[inside].min()), int(counts[inside].max())
        strata.append(Stratum(low, high, int(inside.sum()), *of(inside)))
    return strata


def _bins(counts: NDArray[np.int64], bins: int) -> NDArray[np.int64]:
    """The bin of each, by quantiles of `counts`, numbered without gaps from the smallest."""
    if bins < 1:
        raise ConfigError(f"{bins} bins were asked for; expected 1 or more.")
    if not len(counts):
        return np.zeros(0, np.int64)
    inner = np.quantile(counts, np.arange(1, bins) / bins, method="inverted_cdf")
    return np.unique(np.searchsorted(np.unique(inner), counts, "left"), return_inverse=True)[1]


# ---- items that nobody has yet ----------------------------------------------------------------------------
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
    chosen = choose_features(
        smaller, outer.train, features, outer.known, share, seed=seed + 1, progress=progress
    )
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


def choose_features(
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
