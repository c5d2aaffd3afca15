"""Rows that come and go in an exact ridge solution, against a solution from scratch in float64."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from infrec.kernels.gram import kernel_matrix
from infrec.kernels.ntk import NTK
from infrec.kernels.ridge import factorise
from infrec.kernels.ridge_update import Solution


def solved(x: sp.csr_array, shift: float) -> Solution:
    factor = factorise(kernel_matrix(NTK(), x, dtype="float64"), reg=shift, scale="absolute")
    inverse = factor.inverse()
    return Solution(inverse, inverse @ x.toarray(), shift)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(2, 30),
    st.integers(0, 8),
    st.integers(0, 8),
    st.floats(0.01, 3),
)
def test_exchanged_is_solved_from_scratch(seed: int, n: int, new: int, changed: int, shift: float) -> None:
    """float64, cond ≤ 40 · K / 0.01 < 1e5: 1e-9."""
    rng = np.random.default_rng(seed)
    x = sp.csr_array((rng.random((n + new, 12)) < 0.4).astype(np.float64))
    leave = rng.choice(n, min(changed, n - 1), replace=False)
    back = leave[: len(leave) // 2]  # the others are gone
    after = x.toarray()
    after[back] = rng.random((len(back), 12)) < 0.4
    come = np.concatenate([back, np.arange(n, n + new)])
    stay = np.setdiff1d(np.arange(n + new), leave[len(back) :])
    follows = solved(x[:n], shift).exchange(NTK(), sp.csr_array(after), leave, come).keep(stay)
    fresh = solved(sp.csr_array(after[stay]), shift)
    np.testing.assert_allclose(follows.alpha, fresh.alpha, atol=1e-9)
    upper, expected = np.triu(follows.inverse), np.triu(fresh.inverse)
    np.testing.assert_allclose(upper, expected, atol=1e-9 * np.abs(expected).max())
    assert follows.error(NTK(), sp.csr_array(after[stay]), np.arange(len(stay))) < 1e-9


def test_the_error_is_seen() -> None:
    x = sp.csr_array((np.random.default_rng(0).random((9, 7)) < 0.5).astype(np.float64))
    right = solved(x, 0.3)
    wrong = Solution(right.inverse, right.alpha * 1.01, right.shift)
    assert right.error(NTK(), x, np.arange(9)) < 1e-12
    assert wrong.error(NTK(), x, np.arange(9)) > 1e-3
