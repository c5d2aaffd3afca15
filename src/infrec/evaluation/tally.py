"""Scores of a batch of users, and the figures of them that are kept when they are gone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import scipy.sparse as sp

from infrec import metrics
from infrec.errors import ConfigError
from infrec.splits import Split

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from infrec.kernels.scores_gpu import ScoresThere

NEGATIVES = 50


class Scorer(Protocol):
    """All that an evaluation asks of a model."""

    def score(self, histories: sp.csr_array, *, users: Any = None) -> Any:
        """A score for every item, a row for each history.

        Args:
            histories: What is known of each user, users × items.
            users: Ids of these users, for models that know them.
        """


@dataclass(frozen=True, eq=False)
class ScoresHere:
    """Scores in main memory, with the questions of `kernels.scores_gpu.ScoresThere`."""

    scores: NDArray[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.scores.shape

    def top_k(self, k: int, exclude: sp.csr_array) -> NDArray[np.int64]:
        return metrics.top_k(self.scores, k, exclude=exclude)

    def at(self, rows: NDArray[np.integer], columns: NDArray[np.integer]) -> NDArray[Any]:
        return self.scores[rows, columns]

    def user_auc(self, held_out: sp.csr_array, exclude: sp.csr_array) -> NDArray[np.float64]:
        return metrics.user_auc(self.scores, held_out, exclude)


def scores_of(model: Scorer, histories: sp.csr_array, users: Any, size: int) -> ScoresHere | ScoresThere:
    """Scores where the model has them: a model on an accelerator leaves them there."""
    score_there = getattr(model, "score_there", None)
    there = None if score_there is None else score_there(histories, size)
    scores = ScoresHere(np.asarray(model.score(histories, users=users))) if there is None else there
    if scores.shape != histories.shape:
        raise ConfigError(
            f"the model returned scores of shape {scores.shape}; expected {histories.shape[0]} users × "
            f"{histories.shape[1]} items: fit it on data over the same items as the split."
        )
    return scores


class Tally:
    """Sums and per-user figures that are kept of each batch after its scores are gone."""

    def __init__(
        self,
        split: Split,
        name: str,
        people: NDArray[np.integer] | None,
        protocol: str,
        k: tuple[int, ...],
        seed: int,
    ) -> None:
        n_items = split.train.n_items
        self.split, self.name, self.protocol, self.k = split, name, protocol, k
        self.item_counts = split.train.item_counts
        self.weights = metrics.inverse_propensity(self.item_counts)
        parts = (part.matrix for part in (split.train, split.val, split.test))
        self.train, self.val, self.held_out = (part if people is None else part[people] for part in parts)
        self.n = self.train.shape[0]
        kinds = (metrics.HIT_RATE[protocol], "NDCG", "PSP", "novelty", "popularity")
        self.per_user = {f"{kind}@{length}": np.zeros(self.n) for kind in kinds for length in k}
        self.exposure = {length: np.zeros(n_items, np.int64) for length in k}
        self.item_hits = {length: np.zeros(n_items, np.int64) for length in k}
        self.user_auc = np.zeros(self.n)
        self.pooled = protocol == "paper-code"
        self.negatives = metrics.Negatives(self.train, self.held_out, NEGATIVES, seed=seed)
        self.n_negatives = np.zeros(self.n, np.int32)
        self.said, self.disliked = _dislikes(split, people)
        if self.disliked is not None:
            self.per_user |= {f"disliked@{length}": np.zeros(self.n) for length in k}
        self.positive_scores: list[NDArray[Any]] = []
        self.negative_scores: list[NDArray[Any]] = []

    def add(self, start: int, stop: int, scores: ScoresHere | ScoresThere, context: sp.csr_array) -> None:
        held_out, users = self.held_out[start:stop], slice(start, stop)
        seen = context if self.said is None else sp.csr_array(context + self.said[start:stop])
        top = scores.top_k(max(self.k), seen)
        values = metrics.ranking_metrics(top, held_out, self.weights, k=self.k, protocol=self.protocol)
        values = {name: 100.0 * value for name, value in values.items()}
        hit_items = np.where(metrics.hits(top, held_out), top, -1)
        for length in self.k:
            listed = top[:, :length]
            values[f"novelty@{length}"] = metrics.novelty(listed, self.item_counts, self.split.train.n_users)
            values[f"popularity@{length}"] = metrics.popularity(listed, self.item_counts)
            if self.disliked is not None:
                values[f"disliked@{length}"] = metrics.hits(listed, self.disliked[start:stop]).sum(axis=1)
            self.exposure[length] += metrics.exposure(listed, len(self.item_counts))
            self.item_hits[length] += metrics.exposure(hit_items[:, :length], len(self.item_counts))
        for name, value in values.items():
            self.per_user[name][users] = value
        if not self.pooled:
            self.user_auc[users] = scores.user_auc(held_out, context)
            return
        row = np.repeat(np.arange(stop - start), np.diff(held_out.indptr))
        self.positive_scores.append(scores.at(row, held_out.indices))
        drawn = self.negatives.of(start, stop)
        of, place = np.nonzero(drawn >= 0)
        self.n_negatives[users] = np.count_nonzero(drawn >= 0, axis=1)
        self.negative_scores.append(scores.at(of, drawn[of, place]))

    def figures(self) -> dict[str, Any]:
        """Everything that an `Evaluation` holds, but the intervals."""
        contributions = None
        per_user = self.per_user
        if not self.pooled:
            auc, per_user = float(self.user_auc.mean()), {"AUC": self.user_auc, **per_user}
        else:
            everybody = np.arange(self.n, dtype=np.int32)
            auc, contributions = metrics.pooled_auc_by_user(
                np.concatenate(self.positive_scores),
                np.repeat(everybody, np.diff(self.held_out.indptr)),
                np.concatenate(self.negative_scores),
                np.repeat(everybody, self.n_negatives),
                self.n,
            )
        numbers = {"AUC": auc} | {
            name: float(value.mean()) for name, value in per_user.items() if name != "AUC"
        }
        for length, exposed in self.exposure.items():
            numbers[f"coverage@{length}"] = 100.0 * metrics.coverage(exposed)
            numbers[f"gini@{length}"] = metrics.gini(exposed)
        return {
            "protocol": self.protocol,
            "split": self.name,
            "n_users": self.n,
            "population": self.split.train.n_users,
            "k": self.k,
            "metrics": numbers,
            "per_user": per_user,
            "user_counts": np.diff(self.train.indptr).astype(np.int64),
            "item_counts": self.item_counts,
            "exposure": self.exposure,
            "item_hits": self.item_hits,
            "item_held_out": np.bincount(self.held_out.indices, minlength=len(self.item_counts)),
            "auc_contributions": contributions,
        }


def _dislikes(
    split: Split, people: NDArray[np.integer] | None
) -> tuple[sp.csr_array | None, sp.csr_array | None]:
    """Known dislikes, which are in no list, and those held out for test; None where there are none."""
    parts = [part.dislikes for part in (split.train, split.val, split.test)]
    if parts[2] is None or not parts[2].n_interactions:
        return None, None
    nothing = sp.csr_array(split.train.matrix.shape, dtype=np.float32)
    train, val, test = (nothing if one is None else one.matrix for one in parts)
    rows = slice(None) if people is None else people
    return sp.csr_array(train + val)[rows], test[rows]
