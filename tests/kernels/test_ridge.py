"""The solve against numpy's, its scale, and its refusals."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from infrec.errors import ConfigError, SolveError
from infrec.kernels import gram
from infrec.kernels.ntk import NTK
from infrec.kernels.ridge import factorise, repeated_rows


@pytest.fixture(scope="module")
def x() -> sp.csr_array:
    return sp.csr_array((np.random.default_rng(0).random((150, 90)) < 0.05).astype(np.float32))


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-4), ("float64", 1e-11)])
def test_solves_the_ridge(x: sp.csr_array, dtype: str, tolerance: float) -> None:
    k = gram.kernel_matrix(NTK(), x, dtype=dtype)
    before = k.copy()
    found = factorise(k, reg=0.5, scale="mean_diagonal").solve(x)
    double = k.astype(np.float64)
    exact = np.linalg.solve(double + 0.5 * np.trace(double) / len(k) * np.eye(len(k)), x.toarray())
    assert found.dtype == dtype
    np.testing.assert_allclose(found, exact, atol=tolerance * np.abs(exact).max())
    np.testing.assert_array_equal(k, before)


def test_the_way_through_the_inverse_is_the_same(x: sp.csr_array) -> None:
    """150 users and 6,000 columns make the explicit inverse the cheaper way; 90 make it the dearer one."""
    wide = sp.csr_array(sp.hstack([x, sp.csr_array((150, 5910), dtype=np.float32)]))
    k = gram.kernel_matrix(NTK(), x)
    by_triangles, by_inverse = factorise(k, reg=1).solve(x), factorise(k, reg=1).solve(wide)
    np.testing.assert_allclose(by_inverse[:, :90], by_triangles, atol=1e-5 * np.abs(by_triangles).max())
    assert not by_inverse[:, 90:].any()


def test_the_scale_is_what_it_says(x: sp.csr_array) -> None:
    k = gram.kernel_matrix(NTK(), x, dtype="float64")
    mean = np.trace(k) / len(k)
    relative = factorise(k, reg=3, scale="mean_diagonal").solve(x)
    np.testing.assert_allclose(relative, factorise(k, reg=3 * mean, scale="absolute").solve(x), rtol=1e-9)
    assert factorise(k, reg=3, scale="absolute").shift == 3
    with pytest.raises(ConfigError, match="scale is 'trace'"):
        factorise(k, reg=1, scale="trace")  # type: ignore[arg-type]


def test_one_factor_serves_every_use_and_a_lent_buffer(x: sp.csr_array) -> None:
    k = gram.kernel_matrix(NTK(), x)
    work = np.empty_like(k)
    factor = factorise(k, reg=2, work=work)
    assert np.shares_memory(factor.upper, work)
    first, second = factor.solve(x), factor.solve(x)
    np.testing.assert_array_equal(first, second)
    inverse = factor.inverse()
    np.testing.assert_allclose(inverse @ x.toarray(), first, atol=1e-4 * np.abs(first).max())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_singular_kernel_is_refused(x: sp.csr_array, dtype: str) -> None:
    twice = sp.vstack([x, x[:3]]).tocsr()
    k = gram.kernel_matrix(NTK(), twice, dtype=dtype)
    with pytest.raises(SolveError, match=f"not positive definite in {dtype}.*larger reg"):
        factorise(k, reg=0)
    assert np.isfinite(factorise(k, reg=0.1).solve(twice)).all()


@pytest.mark.parametrize("seed", range(20))
def test_rows_that_are_the_same_decide_and_not_a_pivot(seed: int) -> None:
    """Weighted rows in any number; what is added is just lost in rounding, or just not (a factor of 2)."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 60)), int(rng.integers(3, 40))
    rows = sp.csr_array(((rng.random((n, d)) < 0.4) * rng.random((n, d)) + 0.01).astype(np.float32))
    rows = sp.csr_array(rows[np.append(rng.permutation(n), 0)])
    assert repeated_rows(rows) == 1
    k = gram.kernel_matrix(NTK(), rows)
    least = 4 * np.sqrt(n + 1) * np.finfo(np.float32).eps * np.diagonal(k).max()
    for reg in (0.0, 0.5 * least):
        with pytest.raises(SolveError, match=f"1 of {n + 1} rows are the same as another one"):
            factorise(k, reg=reg, scale="absolute", rows=rows)
    assert factorise(k, reg=2 * least, scale="absolute", rows=rows).shift > least


@pytest.mark.parametrize("reg", [-1.0, float("nan"), float("inf")])
def test_a_reg_that_cannot_work_is_refused(x: sp.csr_array, reg: float) -> None:
    with pytest.raises(ConfigError, match="expected a finite number of 0 or more"):
        factorise(gram.kernel_matrix(NTK(), x), reg=reg)


def test_float32_against_float64(x: sp.csr_array) -> None:
    """The relative error is at most cond · eps; with reg = 1, cond ≤ n + 1 = 151, so 151 · 1.2e-7 < 2e-5."""
    single = factorise(gram.kernel_matrix(NTK(), x), reg=1).solve(x)
    double = factorise(gram.kernel_matrix(NTK(), x, dtype="float64"), reg=1).solve(x)
    assert np.linalg.norm(single - double) / np.linalg.norm(double) < 2e-5
