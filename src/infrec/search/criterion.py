"""How good a candidate is: which users judge it, and by what.

The users are those with something held out, or a fixed random part of them where there are many: the same for
every candidate. Strategies differ in the metric and in how many judge:

    choosing settings     HR     20,000 users at most, fewer where they have over 50,000 items each to rank;
                                 one without a held-out item counts 0, as published
    early stopping        NDCG    2,000 at most, which look at the top of the list and deep into it
    a ladder              both    4,000 at most (`infrec.models.infinite_ae_plus_trial`)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.data import Interactions
from infrec.errors import DataError
from infrec.metrics.ranking import hit_rate_at, hits, top_k, truncated_ndcg, truncated_recall
from infrec.randomness import generator

if TYPE_CHECKING:
    from infrec.kernels.scores_gpu import ScoresThere

Metric = Literal["HR", "NDCG", "both"]

JUDGES = 20_000  # users at most who judge settings
_SCORES, _ENOUGH = 1_000_000_000, 2000  # of each candidate at most: of a large catalogue, fewer judge
_BLOCK = 512  # of them whose scores exist at a time
_EARLY_STOPPING = 2000, 16_000_000  # users and scores at most that early stopping looks at


class Scorer(ABC):
    """A fitted model as a criterion sees it."""

    @property
    @abstractmethod
    def log(self) -> Interactions:
        """The log that the model was fitted on: its vocabularies and histories."""

    @abstractmethod
    def fitted_scores(self, rows: slice | NDArray[np.integer]) -> NDArray[np.float32]:
        """The scores of training users for their own training histories.

        Args:
            rows: Row numbers of the training users.
        """

    @abstractmethod
    def score(self, histories: sp.csr_array, *, users: Sequence[object] | None = None) -> NDArray[np.float32]:
        """A score for every item, given histories as CSR rows over the model's items; higher is better.

        Args:
            histories: CSR rows over the model's items.
            users: Ids of the rows' users: for those it was trained on, a model may use what it has learnt for
                them beside their history. All others are judged by their history alone, and so are all users
                where the model was trained on a summary or a sample, whose users are not the ones asked
                about.
        """

    def score_there(self, histories: sp.csr_array, size: int) -> ScoresThere | None:
        """Scores that stay on an accelerator; None where there is none, or the model has no way to it.

        Args:
            histories: CSR rows over the model's items, at most `size`.
            size: Rows of every block, which is filled up to it.
        """
        return None

    def fitted_scores_there(self, rows: NDArray[np.integer], size: int) -> ScoresThere | None:
        """`fitted_scores` that stay on an accelerator, or None.

        Args:
            rows: Row numbers of the training users, at most `size`.
            size: Rows of every block.
        """
        return None


Judge = Callable[[Any], float]  # from a fitted model to its quality in percent


@dataclass(frozen=True)
class Candidate:
    """A variant that was tried: its settings, its validation HR@100 in percent, or why there is none.

    Args:
        settings: The settings that were tried.
        score: Validation HR@100 in percent (NDCG@100 of one trained by epochs); None where there is none.
        error: Why there is no score.
        seconds: Time it took.
        rungs: Of one trained by epochs: (epochs, best score so far) at each comparison.
        dropped: Why its training went no further.
    """

    settings: Mapping[str, Any]
    score: float | None = None
    error: str | None = None
    seconds: float = 0.0
    rungs: Sequence[tuple[int, float]] = ()
    dropped: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "rungs", tuple((int(epochs), score) for epochs, score in self.rungs))


@dataclass(frozen=True, eq=False)
class Criterion:
    """A function from a fitted model to how well it ranks what was held out, in percent.

    Args:
        held_out: Users × items; row u is user u of the log, or of `context`.
        context: The histories of these users where they are not the users of the log (a summary's model).
        metric: HR, NDCG, or the mean of both; of HR the mean is over all users, else over the judges.
        most: So many users judge at most; `JUDGES` unless given, fewer where there are over 50,000 items.
        stream: Name of the random stream that draws them.
        block: Judges whose scores exist at a time.
    """

    held_out: sp.csr_array
    context: sp.csr_array | None = None
    metric: Metric = "HR"
    most: int | None = None
    stream: str = "judges"
    block: int = _BLOCK

    @cached_property
    def judges(self) -> NDArray[np.integer]:
        """The rows of the users who judge."""
        able = np.flatnonzero(np.diff(self.held_out.indptr))
        most = min(JUDGES, max(_ENOUGH, _SCORES // max(1, self.held_out.shape[1])))
        return draw_judges(able, most if self.most is None else self.most, self.stream)

    def __call__(self, model: Scorer) -> float:
        seen = model.log.matrix if self.context is None else self.context
        values = []
        for start in range(0, len(self.judges), self.block):
            some = self.judges[start : start + self.block]
            values.append(quality(self._scores(model, some), seen[some], self.held_out[some], self.metric))
        if self.metric != "HR":
            return 100.0 * float(np.concatenate(values).mean())
        share = np.count_nonzero(np.diff(self.held_out.indptr)) / max(1, self.held_out.shape[0])
        return 100.0 * share * sum(float(part.sum()) for part in values) / max(1, len(self.judges))

    def _scores(self, model: Scorer, rows: NDArray[np.integer]) -> NDArray[np.float32] | ScoresThere:
        """The scores of some judges, where the model has them."""
        if self.context is None:
            there = model.fitted_scores_there(rows, self.block)
            return model.fitted_scores(rows) if there is None else there
        histories = self.context[rows]
        there = model.score_there(histories, self.block)
        return model.score(histories) if there is None else there


def early_stopping(
    train: Interactions, validation: Interactions, context: sp.csr_array | None = None
) -> Criterion:
    """The criterion by which training stops, and by which successive halving compares."""
    validate_alignment(train, validation, known_users=context is None)
    users, scores = _EARLY_STOPPING
    most = min(users, max(100, scores // validation.n_items))
    return Criterion(validation.matrix, context, "NDCG", most, "watched users", block=most)


def draw_judges(able: NDArray[np.integer], most: int, stream: str, *, seed: int = 0) -> NDArray[np.integer]:
    """At most so many of the users who could judge, in order."""
    if len(able) <= most:
        return able
    return np.sort(generator(seed, stream).choice(able, most, replace=False))


def quality(
    scores: NDArray[np.floating[Any]] | ScoresThere,
    seen: sp.csr_array,
    held_out: sp.csr_array,
    metric: Metric,
) -> NDArray[np.float64]:
    """Quality of each row's list, 0 to 1, without the items seen; 0 where nothing is held out."""
    k, held = cutoff(held_out.shape[1]), np.diff(held_out.indptr)
    if isinstance(scores, np.ndarray):
        if metric == "HR":
            return hit_rate_at(scores, seen, held_out, k)
        hit = hits(top_k(scores, k, exclude=seen), held_out)
    else:
        hit = scores.hits(k, held_out, seen)
    if metric == "HR":
        return truncated_recall(hit, held)
    return truncated_ndcg(hit, held) if metric == "NDCG" else ndcg_and_hit_rate(hit, held)


def ndcg_and_hit_rate(hit: NDArray[np.bool_], held: NDArray[np.integer]) -> NDArray[np.float64]:
    """The mean of NDCG and HR of each list: what is found, and in which order."""
    return 0.5 * (truncated_ndcg(hit, held) + truncated_recall(hit, held))


def cutoff(n_items: int) -> int:
    """The list length of the criterion: the paper's 100, or a fifth of the items where those are fewer.

    With 60 items, every variant would reach 100 % at 100 and the choice would be left to chance.
    """
    return min(100, max(1, n_items // 5))


def validate_alignment(train: Interactions, validation: Interactions, *, known_users: bool = True) -> None:
    """Both must be over the same items, and over the same users where rows are matched by number."""
    if validation.items != train.items:
        raise DataError(
            "the validation data has other items than the training data; expected the same, in order."
        )
    if known_users and validation.users != train.users:
        raise DataError(
            "the validation data has other users than the training data; expected the same, in order."
        )
