"""Nyström with every row a centre is the exact ridge, and blocks add up."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from infrec.errors import ConfigError, SolveError
from infrec.kernels import gram, nystrom


def _problem(n: int = 40, d: int = 25) -> tuple[sp.csr_array, np.ndarray]:
    x = sp.csr_array((np.random.default_rng(0).random((n, d)) < 0.3).astype(np.float64))
    return x, gram.kernel(x, dtype=np.float64)


def test_all_rows_as_centres_is_exact() -> None:
    x, k = _problem()
    sums = nystrom.Sums.empty(40, 25)
    sums.add(k, x, np.diagonal(k))
    exact = np.linalg.solve(k + 2.0 * np.trace(k) / 40 * np.eye(40), x.toarray())
    np.testing.assert_allclose(k @ sums.solve(k, reg=2.0), k @ exact, atol=1e-8)


def test_blocks_add_up_sparse_and_dense() -> None:
    x, k = _problem()
    centres = k[:, :7]
    whole, blocks = nystrom.Sums.empty(7, 25), nystrom.Sums.empty(7, 25)
    whole.add(centres, x.toarray(), np.diagonal(k))
    for rows in (slice(0, 13), slice(13, 40)):
        blocks.add(centres[rows], x[rows], np.diagonal(k)[rows])
    assert blocks.rows == 40
    np.testing.assert_allclose(blocks.solve(k[:7, :7], reg=0.5), whole.solve(k[:7, :7], reg=0.5), rtol=1e-9)


def test_errors() -> None:
    x, k = _problem()
    sums = nystrom.Sums.empty(40, 25)
    with pytest.raises(ConfigError, match="no rows"):
        sums.solve(k, reg=1.0)
    sums.add(k, x, np.diagonal(k))
    with pytest.raises(ConfigError, match="reg is 0"):
        sums.solve(k, reg=0)
    with pytest.raises(SolveError, match="not positive definite"):
        sums.solve(-1e9 * np.eye(40), reg=1.0)
