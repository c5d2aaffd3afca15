"""Scores that stay on an accelerator answer as those in main memory do; JAX runs on what there is."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp

from infrec import metrics
from infrec.errors import SolveError
from infrec.kernels import gram, scores_gpu
from infrec.kernels.ntk import NTK
from infrec.kernels.scores_gpu import KernelScorer, ScoresThere
from infrec.metrics.ranking import hits


def some(rng: np.random.Generator, users: int, items: int, share: float) -> sp.csr_array:
    return sp.csr_array((rng.random((users, items)) < share).astype(np.float32))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("few", [True, False], ids=["ties", "all different"])
def test_lists_and_auc_are_those_in_main_memory(seed: int, few: bool) -> None:
    """Zeros of either sign, users who have seen nearly all, held-out items that were seen."""
    rng = np.random.default_rng(seed)
    users, items, padded = 23, 60, 32
    exclude = sp.csr_array((rng.random((users, items)) < rng.choice([0.2, 0.97], (users, 1))).astype("f4"))
    held = some(rng, users, items, 0.1)
    scores = rng.choice([-2.0, -0.0, 0.0, 1.0], (padded, items)) if few else rng.normal(size=(padded, items))
    scores = scores.astype(np.float32)
    scores[users:] = np.nan  # the padding is nobody's
    there, here = ScoresThere(jnp.asarray(scores), users), scores[:users]
    for k in (1, 10, 100):
        lists = metrics.top_k(here, k, exclude=exclude)
        np.testing.assert_array_equal(there.top_k(k, exclude), lists)
        np.testing.assert_array_equal(there.hits(k, held, exclude)[:, : lists.shape[1]], hits(lists, held))
    expected = metrics.user_auc(here, held, exclude)
    np.testing.assert_allclose(there.user_auc(held, exclude), expected, rtol=1e-12)
    rows, columns = rng.integers(0, users, 77), rng.integers(0, items, 77)
    np.testing.assert_array_equal(there.at(rows, columns), here[rows, columns])
    assert there.at(rows[:0], columns[:0]).shape == (0,)


def test_more_pairs_than_are_ranked_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scores_gpu, "_PAIRS", 16)
    rng = np.random.default_rng(1)
    scores = rng.normal(size=(40, 30)).astype("f4")
    held, exclude = some(rng, 40, 30, 0.3), some(rng, 40, 30, 0.2)
    found = ScoresThere(jnp.asarray(scores), 40).user_auc(held, exclude)
    np.testing.assert_allclose(found, metrics.user_auc(scores, held, exclude), rtol=1e-12)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_scores_that_are_no_numbers_are_refused(wrong: float) -> None:
    scores = np.zeros((4, 5), np.float32)
    scores[2, 3] = wrong
    with pytest.raises(SolveError, match="NaN or infinite"):
        ScoresThere(jnp.asarray(scores), 3)
    ScoresThere(jnp.asarray(scores), 2)


@pytest.mark.parametrize("weight", [1.0, 0.3], ids=["exact in bfloat16", "not"])
def test_a_block_of_scores(weight: float) -> None:
    """The histories are not rows of X, so that no angle is 0 (see `test_infinite_ae_plus_trial_gpu`)."""
    rng = np.random.default_rng(2)
    x, histories = (some(rng, n, 40, 0.3) * np.float32(weight) for n in (50, 7))
    alpha: Any = rng.normal(size=(50, 40)).astype(np.float32)
    scores = KernelScorer(x, NTK(), alpha).scores(histories, 8)
    expected = gram.kernel_matrix(NTK(), histories, x, dtype=np.float64) @ alpha
    assert scores.shape == (8, 40)
    np.testing.assert_allclose(scores[:7], expected, atol=2e-5 * np.abs(expected).max())
    into, back = rng.normal(size=(40, 6)).astype("f4"), rng.normal(size=(6, 40)).astype("f4")
    scores = scores_gpu.add_through(scores, histories, into, back)
    columns, weights = np.array([3, 9, 30]), rng.normal(size=(3, 3)).astype("f4")
    scores = scores_gpu.add_between(scores, histories, columns, weights)
    expected = expected + histories @ into @ back
    expected[:, columns] += histories.toarray()[:, columns] @ weights
    np.testing.assert_allclose(scores[:7], expected, atol=2e-5 * np.abs(expected).max())
