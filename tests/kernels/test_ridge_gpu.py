"""Ridge in tiles on a device is ridge through LAPACK, for one λ after the other; JAX runs on what there is.

All in float32 at reg = 1 or more, where cond · eps = 151 · 1.2e-7 < 2e-5.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from infrec.errors import SolveError
from infrec.kernels import device_arrays, gram, ridge, ridge_gpu
from infrec.kernels.ntk import NTK
from infrec.kernels.ridge import KernelRidge, LapackRidge
from infrec.kernels.ridge_gpu import TiledItemRidge, TiledRidge


@pytest.fixture(scope="module")
def x() -> sp.csr_array:
    return sp.csr_array((np.random.default_rng(0).random((150, 90)) < 0.05).astype(np.float32))


@pytest.fixture(scope="module")
def weighted() -> sp.csr_array:
    rng = np.random.default_rng(0)
    return sp.csr_array(((rng.random((150, 90)) < 0.1) * rng.uniform(0.5, 2, (150, 1))).astype(np.float32))


def solution(solver: KernelRidge, reg: float, row_scale: np.ndarray | None = None) -> np.ndarray:
    solver.factorise(reg)
    return np.asarray(solver.solve(row_scale))


@pytest.mark.parametrize(
    ("depth", "tile", "columns"), [(0, 32, 40), (1, 64, 90), (1, 160, 90), (2, None, 4096)], ids=str
)
def test_tiled_is_plain(x: sp.csr_array, depth: int, tile: int | None, columns: int) -> None:
    """Tiles that do and do not divide 150 rows; λ = 5, 1 and 5 again: a factor does not spoil the kernel."""
    tiled, plain = (
        TiledRidge(x, NTK(depth), tile=tile, columns=columns),
        LapackRidge(x, NTK(depth), "float32"),
    )
    for reg in (5.0, 1.0, 5.0):
        there, here = solution(tiled, reg), solution(plain, reg)
        assert there.dtype == np.float32
        np.testing.assert_allclose(there, here, atol=4e-5 * np.abs(here).max())


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("through", ["jax", "lapack"])
def test_a_smoother_makes_expectations_of_targets(
    x: sp.csr_array, weighted: sp.csr_array, through: str, binary: bool, few: bool
) -> None:
    """Rows of K (K + λ m)⁻¹, of others and then of training rows, through a solve and through the inverse.

    Binary rows go through bfloat16, which holds them; weighted ones against binary ones must not.
    """
    rows = x if binary else weighted
    mine, other = np.array([149, 3, 70]), sp.csr_array(weighted[: 20 if few else 70] * np.float32(1.3))
    scale = np.linspace(0.5, 2.0, 150)
    solver: KernelRidge = TiledRidge(rows, NTK()) if through == "jax" else LapackRidge(rows, NTK(), "float32")
    solver.factorise(1.0)
    smoother = solver.smoother(mine, other)
    k = gram.kernel_matrix(NTK(), rows, dtype=np.float64)
    between = np.concatenate([gram.kernel_matrix(NTK(), other, rows, dtype=np.float64), k[mine]])
    shifted = k + np.diagonal(k).mean() * np.eye(150)
    expected = np.linalg.solve(shifted, between.T).T
    np.testing.assert_allclose(np.asarray(smoother)[:, :150], expected, atol=5e-5 * np.abs(expected).max())
    scores = expected @ (scale[:, None] * rows.toarray())
    found = np.asarray(solver.expected(smoother, scale))
    np.testing.assert_allclose(found, scores, atol=5e-5 * np.abs(scores).max())


@pytest.mark.parametrize("scaled", [False, True])
def test_its_kernel_is_the_kernel(x: sp.csr_array, scaled: bool) -> None:
    """Rows that bfloat16 holds exactly go through it; others must not."""
    rows = sp.csr_array(x * np.float32(0.3)) if scaled else x
    assert device_arrays.is_exact_in_bfloat16(rows.data) != scaled
    tiled = TiledRidge(rows, NTK(), tile=64)
    upper = np.triu(np.asarray(tiled._k)[:150, :150], 1)
    for i in range(3):
        some = slice(64 * i, min(150, 64 * i + 64))
        upper[some, some] = np.asarray(tiled._diagonal[i])[: some.stop - some.start, : some.stop - some.start]
    expected = gram.kernel_matrix(NTK(), rows)
    known = np.triu(np.ones_like(expected, bool))
    np.testing.assert_allclose(upper[known], expected[known], atol=2e-6)


@pytest.mark.parametrize("kernel", [NTK(1), NTK(2), gram.Linear()], ids=str)
def test_columns_are_predicted_from_the_others(weighted: sp.csr_array, kernel: gram.Kernel) -> None:
    expected = ridge.ItemRidge(weighted).weights(kernel, 0.3)
    there = np.asarray(TiledItemRidge(weighted).weights(kernel, 0.3))
    np.testing.assert_allclose(there, expected, atol=2e-5 * np.abs(expected).max())
    assert not np.diagonal(there).any()


@pytest.mark.parametrize("tile", [32, 64, 160])
def test_its_inverse_is_the_inverse(x: sp.csr_array, tile: int) -> None:
    """Of which only tiles below the diagonal are computed; past the rows it is the unit matrix."""
    solver = TiledRidge(x, NTK(), tile=tile)
    solver.factorise(2.0)
    found = np.asarray(solver.inverse())
    k = gram.kernel_matrix(NTK(), x, dtype=np.float64)
    expected = np.eye(len(found))
    expected[:150, :150] = np.linalg.inv(k + 2 * np.diagonal(k).mean() * np.eye(150))
    np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.parametrize("through", ["jax", "lapack"])
def test_what_has_no_solution_is_refused_not_nan(weighted: sp.csr_array, through: str) -> None:
    twice = sp.csr_array(sp.vstack([weighted[:147], weighted[:3]]))
    columns = sp.csr_array(sp.hstack([weighted[:, :87], weighted[:, :3]]))
    rows = TiledRidge(twice, NTK()) if through == "jax" else LapackRidge(twice, NTK(), "float32")
    items = TiledItemRidge(columns) if through == "jax" else ridge.ItemRidge(columns)
    with pytest.raises(SolveError, match="reg=0 is not positive definite"):
        rows.factorise(0.0)
    with pytest.raises(SolveError, match="reg=0 is not positive definite"):
        items.weights(NTK(), 0.0)


def test_an_overflow_is_refused(weighted: sp.csr_array) -> None:
    with pytest.raises(SolveError, match="overflowed"):
        solution(TiledRidge(weighted, NTK()), 1.0, np.full(150, 3e38))


@pytest.mark.parametrize("n", [1, 31, 4096, 4097, 100_000, 476_001])
def test_tiles_divide_with_little_padding(n: int) -> None:
    tile = ridge_gpu.tile_for(n)
    tiles = -(-n // tile)
    assert tile <= ridge_gpu.TILE
    assert tiles * tile - n < 32 * tiles
