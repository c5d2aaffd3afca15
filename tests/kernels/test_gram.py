"""However the products are formed (blocks, sparse or dense, one or many threads), the kernel is the same."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from infrec import machine
from infrec.kernels import gram
from infrec.kernels.ntk import NTK


def rows(n: int, d: int, density: float, seed: int = 0, weighted: bool = False) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    values = (rng.random((n, d)) < density).astype(np.float32)
    return sp.csr_array(values * rng.random((n, d), dtype=np.float32) if weighted else values)


@pytest.fixture(params=[(0.03, 0.03), (0.03, 0.8), (0.8, 0.03), (0.8, 0.8)], ids=lambda p: f"{p[0]} × {p[1]}")
def pair(request: pytest.FixtureRequest) -> tuple[sp.csr_array, sp.csr_array]:
    return rows(301, 170, request.param[0]), rows(143, 170, request.param[1], seed=1)


def test_gram_of_binary_rows_is_exact(pair: tuple[sp.csr_array, sp.csr_array]) -> None:
    x, y = pair
    np.testing.assert_array_equal(gram.kernel_matrix(gram.Linear(), x, y), x.toarray() @ y.toarray().T)
    np.testing.assert_array_equal(gram.kernel_matrix(gram.Linear(), x), x.toarray() @ x.toarray().T)


def test_blocked_is_full(pair: tuple[sp.csr_array, sp.csr_array], monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 16 rows (the least) on 4 threads, against the formula on everything at once."""
    monkeypatch.setattr(gram, "_CACHE_BYTES", 1)
    monkeypatch.setattr(machine, "cores", lambda: 4)
    x, y = pair
    products = x.toarray() @ y.toarray().T
    full = NTK(2).from_gram(products, gram.squared_norms(x), gram.squared_norms(y), d=170)
    np.testing.assert_allclose(gram.kernel_matrix(NTK(2), x, y), full, rtol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_dense_is_sparse(weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = rows(80, 60, 0.3, weighted=weighted), rows(50, 60, 0.3, seed=1, weighted=weighted)
    answers = []
    for share in (0.0, 1.0):  # everything counts as dense, nothing does
        monkeypatch.setattr(gram, "DENSE", share)
        answers.append((gram.kernel_matrix(NTK(), x, y), gram.kernel_matrix(NTK(), x)))
    for dense, sparse in zip(*answers, strict=True):
        np.testing.assert_allclose(dense, sparse, rtol=2e-6)


def test_without_y_it_is_symmetric_and_the_same() -> None:
    x = rows(200, 90, 0.05)
    k = gram.kernel_matrix(NTK(2), x)
    np.testing.assert_array_equal(k, k.T)
    np.testing.assert_allclose(k, gram.kernel_matrix(NTK(2), x, x), rtol=1e-6)


def test_float32_against_float64() -> None:
    """Relative error at most 1e-6 (8 units in the last place) for binary rows, whatever their likeness."""
    x = rows(300, 120, 0.08)
    x = sp.vstack([x, x[:40]]).tocsr()  # identical rows too
    for depth in (1, 2, 3):
        single, double = gram.kernel_matrix(NTK(depth), x), gram.kernel_matrix(NTK(depth), x, dtype="float64")
        assert single.dtype == np.float32
        assert double.dtype == np.float64
        assert (np.abs(single - double) / double).max() < 1e-6


def test_products_with_a_sparse_side() -> None:
    rng = np.random.default_rng(3)
    dense, sparse = rng.random((500, 300), dtype=np.float32), rows(300, 410, 0.05)
    np.testing.assert_allclose(
        gram.times_sparse(dense, sparse), dense @ sparse.toarray(), rtol=1e-5, atol=1e-6
    )
    other = rng.random((410, 290), dtype=np.float32)
    np.testing.assert_allclose(
        gram.sparse_times(sparse, other), sparse.toarray() @ other, rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("n", [1, 511, 512, 513, 1300])
def test_mirror(n: int) -> None:
    a = np.random.default_rng(0).random((n, n))
    expected = np.triu(a) + np.triu(a, 1).T
    gram.mirror(a)
    np.testing.assert_array_equal(a, expected)


def test_empty_rows_and_no_rows() -> None:
    x = sp.csr_array((3, 10), dtype=np.float32)
    np.testing.assert_allclose(
        gram.kernel_matrix(NTK(), x), np.full((3, 3), NTK().diagonal(np.zeros(1), d=10)[0]), rtol=1e-6
    )
    assert gram.kernel_matrix(NTK(), x[:0], x).shape == (0, 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_centres_give_the_kernel_however_long_the_histories_are(depth: int, dtype: type) -> None:
    """Short histories are looked up, long ones multiplied; an empty one and weights are no exceptions."""
    rng = np.random.default_rng(5)
    rows = sp.csr_array((rng.random((30, 50)) < 0.2) * rng.random((30, 50)), dtype=np.float32)
    centres = gram.Centres.of(rows, dtype)
    for share in (0.0, 0.02, 0.9):
        x = sp.csr_array(rng.random((7, 50)) < share, dtype=np.float32)
        expected = gram.kernel_matrix(NTK(depth), x, rows, dtype=dtype)
        found = centres.kernel_rows(NTK(depth), x)
        assert found.dtype == dtype and found.shape == (7, 30)
        np.testing.assert_allclose(found, expected, rtol=2e-6)


def test_degrees_are_sums_but_for_columns_of_tiny_weights() -> None:
    """Columns: the usual weight 2, twice; 0.5; faded to 1e-5; nobody's."""
    x = sp.csr_array(np.array([[2, 2, 0.5, 1e-5, 0], [2, 2, 0, 1e-5, 0], [2, 2, 0, 1e-5, 0]], np.float32))
    np.testing.assert_array_equal(gram.degrees(x), [6, 6, 0.5, 6, 0])
    assert gram.degrees(x).dtype == np.float32
    for same in (rows(30, 40, 0.2), rows(30, 40, 0.2, weighted=True)):
        np.testing.assert_array_equal(gram.degrees(same), same.sum(axis=0))


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_float64_means_float64_where_rows_are_weighted(depth: int) -> None:
    """Rows that are alike, of weights that float32 rounds: Θ is made of the gap between ⟨x, x⟩ and ⟨x, y⟩,
    so norms in float32 would leave four of its digits (the tolerance is the root of float64's)."""
    rng = np.random.default_rng(0)
    weights = (rng.random((30, 40)) < 0.3) * rng.lognormal(size=(30, 40))
    x = sp.csr_array(weights.astype(np.float32))
    norms = (x.toarray().astype(np.float64) ** 2).sum(axis=1)
    np.testing.assert_allclose(gram.squared_norms(x, np.float64), norms, rtol=1e-14)
    own = NTK(depth).diagonal(norms, d=40)
    same = np.diagonal(gram.kernel_matrix(NTK(depth), x, x.copy(), dtype=np.float64))
    np.testing.assert_allclose(same, own, rtol=1e-7)
    looked_up = gram.Centres.of(x, np.float64).kernel_rows(NTK(depth), x[:1])
    np.testing.assert_allclose(looked_up[0, 0], own[0], rtol=1e-7)
