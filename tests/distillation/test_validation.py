"""The validator's ranks by counting, against the lists of `metrics`."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp

from infrec.distillation import objective
from infrec.distillation.validation import CRITERIA, Validator
from infrec.errors import ConfigError, DataError, SolveError
from infrec.kernels.ntk import NTK
from infrec.metrics.ranking import hit_rate_at, top_k

pytestmark = pytest.mark.usefixtures("compiled_quickly")


@pytest.fixture(scope="module")
def logs() -> tuple[sp.csr_array, sp.csr_array, np.ndarray]:
    """300 users × 150 items; some users have no held-out item, some held-out items are in train."""
    rng = np.random.default_rng(3)
    train = sp.csr_array((rng.random((300, 150)) < 0.1).astype(np.float32))
    held = rng.random((300, 150)) < 0.03
    held[::7] = False
    x_hat = (rng.random((20, 150)) < 0.2).astype(np.float32)
    return train, sp.csr_array(held.astype(np.float32)), x_hat


def _scores(train: sp.csr_array, x_hat: np.ndarray, reg: float) -> np.ndarray:
    x, alpha = train.toarray(), np.asarray(objective.fit(jnp.asarray(x_hat), reg, NTK()))
    k = NTK().from_gram(x @ x_hat.T, (x * x).sum(1), (x_hat * x_hat).sum(1), d=150)
    return (k @ alpha).astype(np.float32)


def test_against_metrics(logs) -> None:
    train, held, x_hat = logs
    table = Validator(train, held, NTK()).table(x_hat, (0.1, 5.0))
    for row, reg in enumerate((0.1, 5.0)):
        scores = _scores(train, x_hat, reg)
        for column, k in ((0, 10), (1, 100)):
            expected = 100 * hit_rate_at(scores, train, held, k).mean()
            assert table[row, column] == pytest.approx(expected, abs=0.02)
        top = top_k(scores, 10, exclude=train)
        wanted = held.toarray() > 0
        gains = np.take_along_axis(wanted, np.maximum(top, 0), 1) / np.log2(np.arange(2, 12))
        ideal = np.append(0, np.cumsum(1 / np.log2(np.arange(2, 12))))[np.minimum(wanted.sum(1), 10)]
        expected = 100 * np.divide(gains.sum(1), ideal, where=ideal > 0, out=np.zeros(300)).mean()
        assert table[row, 2] == pytest.approx(expected, abs=0.02)


def test_equal_scores_rank_in_the_order_of_the_items() -> None:
    """The one synthetic user has every item, so all scores are equal: item 8 is the 8th that is left."""
    train = sp.csr_array(np.eye(2, 30, dtype=np.float32))  # user 0 has item 0, user 1 item 1
    held = sp.csr_array((np.ones(2, np.float32), ([0, 1], [8, 25])), shape=(2, 30))
    hr10, hr100, ndcg10, _ = Validator(train, held, NTK()).table(np.ones((1, 30), np.float32), (1.0,))[0]
    assert (hr10, hr100) == (50.0, 100.0)
    assert ndcg10 == pytest.approx(50 / np.log2(9), rel=1e-5)


def test_picks_the_best_of_the_grid(logs) -> None:
    train, held, x_hat = logs
    for criterion in CRITERIA:
        judge = Validator(train, held, NTK(), criterion=criterion)
        grid = (0.001, 0.1, 5.0, 50.0)
        verdict = judge(x_hat, grid)
        column = judge.table(x_hat, grid)[:, CRITERIA.index(criterion)]
        assert verdict.value == pytest.approx(column.max())
        assert verdict.reg == grid[int(column.argmax())]
        assert verdict.metrics[criterion] == verdict.value


def test_a_solve_that_fails_never_wins(logs) -> None:
    """Two equal synthetic users at λ = 0 have no solution; alone in the grid that is an error, not a NaN."""
    train, held, x_hat = logs
    twins = np.stack([x_hat[0], x_hat[0], x_hat[1]])
    judge = Validator(train, held, NTK())
    assert (judge.table(twins, (0.0, 1.0)) < 0).all(axis=1).tolist() == [True, False]
    assert judge(twins, (0.0, 1.0)).reg == 1.0
    with pytest.raises(SolveError, match="no finite solution"):
        judge(twins, (0.0,))


def test_bad_input(logs) -> None:
    train, held, _ = logs
    with pytest.raises(ConfigError, match="criterion is 'luck'"):
        Validator(train, held, NTK(), criterion="luck")
    with pytest.raises(DataError, match="no user has a validation item"):
        Validator(train, sp.csr_array(train.shape), NTK())


def test_a_sample_of_validation_users_estimates_the_same(logs) -> None:
    """100 of 257 users: the mean is near that of all (its spread is about 4 points)."""
    train, held, x_hat = logs
    full = Validator(train, held, NTK()).table(x_hat, (1.0,))[0, 1]
    part = Validator(train, held, NTK(), max_users=100).table(x_hat, (1.0,))[0, 1]
    assert part != full
    assert part == pytest.approx(full, abs=15)
