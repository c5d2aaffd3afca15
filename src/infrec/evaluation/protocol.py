"""Model × split → numbers, a batch of users at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from infrec import metrics
from infrec.errors import ConfigError, DataError
from infrec.evaluation.intervals import intervals_of
from infrec.evaluation.result import Evaluation
from infrec.progress import Progress, silent
from infrec.splits import Split, evaluation_negatives

if TYPE_CHECKING:
    import scipy.sparse as sp
    from numpy.typing import NDArray

NEGATIVES = 50
_BATCH_BYTES = 64 << 20  # of float32 scores


class Scorer(Protocol):
    """All that an evaluation asks of a model."""

    def score(self, histories: sp.csr_array, *, users: Any = None) -> Any: ...


def evaluate(
    model: Scorer,
    split: Split,
    *,
    protocol: str = "paper-code",
    k: Sequence[int] = (10, 100),
    seed: int = 42,
    batch: int | None = None,
    intervals: bool = True,
    progress: Progress = silent,
) -> Evaluation:
    """Every metric of a fitted model on the test part of a split.

    The context of a user is train and validation together; its items are masked out of the ranking, not out
    of the AUC. Means are over all users; those with nothing held out count as 0. `paper-code` pools its AUC
    over all users, against 50 random negatives each (seeded); `textbook` takes each user's own, against all.
    batch: how many users are scored at once; as many as fit 64 MB of scores unless told.
    """
    metrics.check_protocol(protocol)
    if not k or min(k) < 1:
        raise ConfigError(f"k is {tuple(k)}; expected list lengths of 1 or more.")
    if not split.test.n_interactions:
        raise DataError("nothing is held out for test; expected a split with test interactions.")
    found = _Tally(split, protocol, tuple(dict.fromkeys(k)), seed)
    context, n = split.test_context, split.train.n_users
    step = batch or max(16, _BATCH_BYTES // (4 * split.train.n_items))
    for start in range(0, n, step):
        stop = min(n, start + step)
        scores = np.asarray(model.score(context[start:stop], users=split.train.users.ids[start:stop]))
        if scores.shape != (stop - start, split.train.n_items):
            raise ConfigError(
                f"the model returned scores of shape {scores.shape}; expected {stop - start} users × "
                f"{split.train.n_items} items: fit it on data over the same items as the split."
            )
        found.add(start, stop, scores, context[start:stop])
        progress("evaluate", stop, n)
    result = found.evaluation()
    return replace(result, intervals=intervals_of(result.contributions, seed=seed)) if intervals else result


class _Tally:
    """What is kept of each batch after its scores are gone."""

    def __init__(self, split: Split, protocol: str, k: tuple[int, ...], seed: int) -> None:
        train, n_items = split.train, split.train.n_items
        self.split, self.protocol, self.k = split, protocol, k
        self.item_counts = train.item_counts
        self.weights = metrics.inverse_propensity(self.item_counts)
        self.held_out = split.test.matrix
        kinds = ("HR", "NDCG", "PSP", "novelty", "popularity")
        self.per_user = {f"{kind}@{length}": np.zeros(train.n_users) for kind in kinds for length in k}
        self.exposure = {length: np.zeros(n_items, np.int64) for length in k}
        self.item_hits = {length: np.zeros(n_items, np.int64) for length in k}
        self.user_auc = np.zeros(train.n_users)
        pooled = protocol == "paper-code"
        self.negatives = evaluation_negatives(split, NEGATIVES, seed=seed) if pooled else None
        self.positive_scores: list[NDArray[Any]] = []
        self.negative_scores: list[NDArray[Any]] = []

    def add(self, start: int, stop: int, scores: NDArray[Any], context: sp.csr_array) -> None:
        held_out, users = self.held_out[start:stop], slice(start, stop)
        top = metrics.top_k(scores, max(self.k), exclude=context)
        values = metrics.ranking_metrics(top, held_out, self.weights, k=self.k, protocol=self.protocol)
        for name, value in values.items():
            self.per_user[name][users] = 100.0 * value
        found = np.where(metrics.hits(top, held_out), top, -1)
        for length in self.k:
            listed = top[:, :length]
            self.per_user[f"novelty@{length}"][users] = metrics.novelty(
                listed, self.item_counts, self.split.train.n_users
            )
            self.per_user[f"popularity@{length}"][users] = metrics.popularity(listed, self.item_counts)
            self.exposure[length] += metrics.exposure(listed, len(self.item_counts))
            self.item_hits[length] += metrics.exposure(found[:, :length], len(self.item_counts))
        if self.negatives is None:
            self.user_auc[users] = metrics.user_auc(scores, held_out, context)
            return
        row = np.repeat(np.arange(stop - start), np.diff(held_out.indptr))
        self.positive_scores.append(scores[row, held_out.indices])
        drawn = self.negatives[users]
        of, place = np.nonzero(drawn >= 0)
        self.negative_scores.append(scores[of, drawn[of, place]])

    def evaluation(self) -> Evaluation:
        train = self.split.train
        contributions = None
        per_user = self.per_user
        if self.negatives is None:
            auc, per_user = float(self.user_auc.mean()), {"AUC": self.user_auc, **per_user}
        else:
            everybody = np.arange(train.n_users)
            auc, contributions = metrics.pooled_auc_by_user(
                np.concatenate(self.positive_scores),
                np.repeat(everybody, np.diff(self.held_out.indptr)),
                np.concatenate(self.negative_scores),
                np.repeat(everybody, np.count_nonzero(self.negatives >= 0, axis=1)),
                train.n_users,
            )
        numbers = {"AUC": auc} | {
            name: float(value.mean()) for name, value in per_user.items() if name != "AUC"
        }
        for length, exposed in self.exposure.items():
            numbers[f"coverage@{length}"] = 100.0 * metrics.coverage(exposed)
            numbers[f"gini@{length}"] = metrics.gini(exposed)
        return Evaluation(
            protocol=self.protocol,
            split=self.split.name,
            n_users=train.n_users,
            k=self.k,
            metrics=numbers,
            per_user=per_user,
            user_counts=train.user_counts,
            item_counts=self.item_counts,
            exposure=self.exposure,
            item_hits=self.item_hits,
            item_held_out=self.split.test.item_counts,
            auc_contributions=contributions,
        )
