"""What weights count for is chosen where it matters, and only there."""

from __future__ import annotations

import numpy as np

from infrec.data import Interactions
from infrec.models import EASE
from infrec.search.strength import choose
from infrec.splits import holdout


def listening(small_log: Interactions, *, telling: bool) -> Interactions:
    """Counts over five orders of magnitude: much what one's own group likes, or just noise."""
    rng = np.random.default_rng(4)
    matrix = small_log.matrix.tocsr().copy()
    row = np.repeat(np.arange(120), np.diff(matrix.indptr))
    own = row // 30 == matrix.indices // 15
    matrix.data = np.exp(rng.normal(1, 2.5, matrix.nnz) + 3 * own * telling).astype(np.float32)
    return small_log.with_matrix(matrix)


def test_counts_that_tell_something_are_used(small_log: Interactions) -> None:
    choice = choose(EASE(reg=20.0), holdout(listening(small_log, telling=True)))
    assert choice.strength.how != "none"
    assert choice.scores[choice.strength.how] > choice.scores["none"]


def test_noise_is_left_out(small_log: Interactions) -> None:
    split = holdout(listening(small_log, telling=False))
    choice = choose(EASE(reg=20.0), split)
    assert choice.strength.how == "none" and set(choice.scores) == {"none", "log1p", "quantile", "cap:10"}
    assert choose(EASE(reg=20.0), split.train).scores.keys() == choice.scores.keys()


def test_where_nothing_can_be_held_out_they_are_none() -> None:
    alone = choose(EASE(reg=20.0), Interactions.from_csr(np.diag([1.0, 7.0, 900.0])))
    assert alone.strength.how == "none" and not alone.scores
