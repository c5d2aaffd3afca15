"""What stays on the accelerator is what LAPACK computes in main memory; JAX runs on what there is."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from infrec.errors import SolveError
from infrec.kernels import devices, gram, resident, ridge
from infrec.models.ease import zero_diagonal


@pytest.fixture(scope="module")
def x() -> sp.csr_array:
    """150 weighted rows."""
    rng = np.random.default_rng(0)
    return sp.csr_array(((rng.random((150, 90)) < 0.1) * rng.uniform(0.5, 2, (150, 1))).astype(np.float32))


@pytest.fixture(scope="module")
def held(x: sp.csr_array) -> resident.Rows:
    return resident.Rows(x, 1)


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_are_the_ridge(x: sp.csr_array, held: resident.Rows, weighted: bool) -> None:
    """In float32 at reg = 1, where cond · eps < 2e-5. Rows past the last are empty: they predict nothing."""
    rows = np.linspace(0.5, 2.0, 150) if weighted else None
    there, here = np.asarray(held(1.0, rows=rows)), devices._on_cpu(x, 1, "float32")(1.0, rows=rows)
    assert here is not None
    np.testing.assert_allclose(there[:150], here, atol=4e-5 * np.abs(here).max())
    assert not there[150:].any()


@pytest.mark.parametrize("binary", [False, True])
def test_other_rows_are_predicted(x: sp.csr_array, binary: bool) -> None:
    """Binary rows go through bfloat16, which holds them; weighted ones against binary ones must not."""
    other = sp.csr_array(x[:20] * np.float32(1.3))
    rows = sp.csr_array((np.ones_like(x.data), x.indices, x.indptr), shape=x.shape) if binary else x
    held = resident.Rows(rows, 1)
    alpha = held(1.0)
    expected = gram.kernel(other, rows) @ np.asarray(alpha)[:150]
    np.testing.assert_allclose(held.predict(other, alpha), expected, atol=2e-5 * np.abs(expected).max())


@pytest.mark.parametrize("depth", [1, 2])
def test_columns_are_predicted_from_the_others(x: sp.csr_array, depth: int) -> None:
    kernel = gram.kernel(sp.csr_array(x.T), depth=depth)
    expected = zero_diagonal(ridge.factorise(kernel, reg=0.3).inverse())
    there = np.asarray(resident.Columns(x).weights(depth, 0.3))
    np.testing.assert_allclose(there, expected, atol=2e-5 * np.abs(expected).max())
    assert not np.diagonal(there).any()


def test_what_has_no_solution_is_refused(x: sp.csr_array, held: resident.Rows) -> None:
    twice = sp.csr_array(sp.vstack([x[:147], x[:3]]))
    with pytest.raises(SolveError, match="reg=0 is not positive definite"):
        resident.Rows(twice, 1)(0.0)
    with pytest.raises(SolveError, match="reg=0 is not positive definite"):
        resident.Columns(sp.csr_array(sp.hstack([x[:, :87], x[:, :3]]))).weights(1, 0.0)
    with pytest.raises(SolveError, match="overflowed"):
        held(1.0, rows=np.full(150, 1e38))


def test_it_is_only_worth_it_where_there_is_an_accelerator_with_room(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not resident.Columns.fits(6000, 3000)
    monkeypatch.setattr(devices, "device", lambda: "a GPU")
    monkeypatch.setattr(devices, "device_memory", lambda: 2 * resident.Columns.needs(6000, 3000))
    assert resident.Columns.fits(6000, 3000)
    assert not resident.Columns.fits(6000, 1000)
    assert not resident.Columns.fits(6000, 6000)
