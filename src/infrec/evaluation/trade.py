"""Lists that are not all alike, and their cost: accuracy against coverage, distance in lists, novelty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from infrec import metrics
from infrec.errors import ConfigError
from infrec.metrics.intervals import Interval, intervals_of
from infrec.models.balance import Balance
from infrec.models.reranking import Reranker
from infrec.progress import Progress, silent
from infrec.randomness import generator

if TYPE_CHECKING:
    from infrec.models import Recommender
    from infrec.splits import Split

SHARES = (0.0, 1 / 3, 2 / 3, 1.0)  # of the wish, each of which is measured
_BATCH_SCORES = 4 << 20  # that exist at a time


@dataclass(frozen=True)
class Step:
    """Lists under one wish.

    Args:
        diversity, popularity: The wish; 0 and 0 are lists by scores alone.
        metrics: Name → value: hit rate, NDCG, coverage and distance in percent, novelty in bits.
        intervals: Name → (low, high), 95 %, by resampling users; not for coverage, which is no mean.
    """

    diversity: float
    popularity: float
    metrics: Mapping[str, float]
    intervals: Mapping[str, Interval] = field(default_factory=dict)


@dataclass(frozen=True)
class Trade:
    """One model's lists, from those by scores alone to those of the whole wish.

    Args:
        model: Its name.
        k: Length of the lists.
        users: How many users were measured.
        steps: The lists under growing parts of the wish.
    """

    model: str
    k: int
    users: int
    steps: tuple[Step, ...]

    def as_dict(self) -> dict[str, Any]:
        """The trade as JSON can hold it."""
        return asdict(self)


def trade(
    model: Recommender,
    split: Split,
    balance: Balance,
    *,
    protocol: metrics.Protocol = "paper-code",
    seed: int = 42,
    sample_users: int | None = None,
    progress: Progress = silent,
) -> Trade:
    """Measure the lists of a fitted model under thirds of a wish, on the test part of a split.

    The distance of two items is 1 − the cosine of their columns of the train part, whatever the model thinks.

    Args:
        model: A model fitted on the train part.
        split: The split.
        balance: The wish.
        protocol: The hit rate and NDCG, and the length of the lists (the protocol's first).
        seed: Of the bootstrap and of `sample_users`.
        sample_users: Measure on so many users, drawn at random.
        progress: Called with how many users are done.
    """
    if balance.neutral:
        raise ConfigError("diversity and popularity are 0; expected a wish, such as diversity=0.3.")
    users = np.arange(split.train.n_users)
    if protocol == "graph":
        users = np.flatnonzero(split.test.user_counts)
    if sample_users is not None and sample_users < len(users):
        users = np.sort(generator(seed, "evaluated users").choice(users, sample_users, replace=False))
    k, both = metrics.LENGTHS[protocol][0], (balance.diversity, balance.popularity)
    wishes = [Balance(*(round(share * wish, 6) + 0.0 for wish in both)) for share in SHARES]
    tallies = [_Tally(split, protocol, k) for _ in wishes]
    rerankers = [Reranker.of(model.traits, wish, None) for wish in wishes]
    step = max(1, _BATCH_SCORES // split.train.n_items)
    for start in range(0, len(users), step):
        some = users[start : start + step]
        context = split.test_context[some]
        scores = model.score(context, users=split.train.users.take(some))
        for reranker, tally in zip(rerankers, tallies, strict=True):
            if reranker is None:
                tally.add(some, metrics.top_k(scores, k, exclude=context))
            else:
                tally.add(some, reranker.best(scores, context, k, exclude=context))
        progress("lists", start + len(some), len(users))
    found = [tally.step(wish, seed) for wish, tally in zip(wishes, tallies, strict=True)]
    return Trade(model.name, k, len(users), tuple(found))


class _Tally:
    """Figures of the lists under one wish, a batch of users at a time."""

    def __init__(self, split: Split, protocol: metrics.Protocol, k: int) -> None:
        self.split, self.protocol, self.k = split, protocol, k
        self.counts = split.train.item_counts
        self.columns = metrics.unit_columns(split.train.matrix)
        self.exposure = np.zeros(split.train.n_items, np.int64)
        self.batches: list[dict[str, Any]] = []

    def add(self, users: np.ndarray, top: np.ndarray) -> None:
        held_out, k = self.split.test.matrix[users], self.k
        weights = np.ones(len(self.counts))  # of PSP, which is not shown
        values = metrics.ranking_metrics(top, held_out, weights, k=(k,), protocol=self.protocol)
        hit_rate = f"{metrics.HIT_RATE[self.protocol]}@{k}"
        kept = {name: 100.0 * values[name] for name in (hit_rate, f"NDCG@{k}")}
        kept[f"distance@{k}"] = 100.0 * metrics.intra_list_distance(top, self.columns)
        kept[f"novelty@{k}"] = metrics.novelty(top, self.counts, self.split.train.n_users)
        self.exposure += metrics.exposure(top, len(self.exposure))
        self.batches.append(kept)

    def step(self, wish: Balance, seed: int) -> Step:
        """The means, with their intervals."""
        per_user = {name: np.concatenate([batch[name] for batch in self.batches]) for name in self.batches[0]}
        means = {name: float(values.mean()) for name, values in per_user.items()}
        means[f"coverage@{self.k}"] = 100.0 * metrics.coverage(self.exposure)
        bounds = intervals_of(per_user, seed=seed)
        return Step(wish.diversity, wish.popularity, means, bounds)
