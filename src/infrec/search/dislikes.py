"""The weight of dislikes, chosen on validation: fewest of them in lists that find likes as well as before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import scipy.sparse as sp

from infrec.data import Interactions
from infrec.metrics.ranking import hits, top_k, truncated_ndcg
from infrec.progress import Progress, silent
from infrec.search.criterion import JUDGES, cutoff, draw_judges
from infrec.search.tunable import Tunable

M = TypeVar("M", bound=Tunable)
WEIGHTS = (0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.5)
_BLOCK = 512  # judges whose scores exist at a time


@dataclass(frozen=True)
class Tried:
    """NDCG@100 in percent of lists with a weight: of hidden likes, and of hidden dislikes."""

    weight: float
    likes: float
    dislikes: float


def choose(model: M, hidden: Interactions, progress: Progress = silent) -> tuple[M, list[Tried]]:
    """The model with the weight with which hidden dislikes stand lowest, among those with which hidden likes
    stand no lower than with 0; and everything that was tried.

    Args:
        model: The model, fitted on a log with dislikes, which do not count yet.
        hidden: What was held out of the log: likes, and dislikes beside them.
        progress: Called after each weight.
    """
    tried: list[Tried] = []
    variant = model
    for number, weight in enumerate(WEIGHTS):
        variant = (variant if weight else model).with_dislikes(weight, progress)
        tried.append(Tried(weight, *found(variant, hidden)))
        progress("choose the weight of dislikes", number + 1, len(WEIGHTS), dislikes=weight)
    return variant.with_dislikes(chosen(tried).weight), tried


def chosen(tried: list[Tried]) -> Tried:
    """The weight to take, the smallest of equals; `tried` begins with 0.

    Args:
        tried: What was found with each weight.
    """
    return min((one for one in tried if one.likes >= tried[0].likes), key=lambda one: one.dislikes)


def found(model: Tunable, hidden: Interactions) -> tuple[float, float]:
    """NDCG in percent of hidden likes and of hidden dislikes, each over the users who have some.

    Args:
        model: A fitted model; what the users of its log have or dislike is in no list.
        hidden: Hidden likes, with dislikes beside them.
    """
    log = model.log
    assert log.dislikes is not None and hidden.dislikes is not None
    k, values = cutoff(log.n_items), []
    for target in (hidden.matrix, hidden.dislikes.matrix):
        judges = draw_judges(np.flatnonzero(np.diff(target.indptr)), JUDGES, "judges")
        quality = []
        for start in range(0, len(judges), _BLOCK):
            some = judges[start : start + _BLOCK]
            seen = sp.csr_array(log.matrix[some] + log.dislikes.matrix[some])
            top = top_k(model.scores_with_dislikes(some), k, exclude=seen)
            quality.append(truncated_ndcg(hits(top, target[some]), np.diff(target[some].indptr)))
        values.append(100.0 * float(np.concatenate(quality).mean()) if quality else 0.0)
    return values[0], values[1]
