"""The blocked ridge is the plain one, whatever the tiles, for one λ after the other."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from infrec.kernels import devices, gram, ridge, ridge_gpu


@pytest.fixture(scope="module")
def x() -> sp.csr_array:
    return sp.csr_array((np.random.default_rng(0).random((150, 90)) < 0.05).astype(np.float32))


@pytest.mark.parametrize(("tile", "columns"), [(32, 40), (64, 90), (160, 90)], ids=str)
def test_blocked_is_plain(x: sp.csr_array, tile: int, columns: int) -> None:
    """Tiles that do and do not divide 150 rows; λ = 5, 1 and 5 again: a factor does not spoil the kernel."""
    held = ridge_gpu.TiledRidge(x, tile=tile, columns=columns)
    plain = devices._on_cpu(x, 1, "float32")
    for reg in (5.0, 1.0, 5.0):
        pivots = held.factorise(ridge.shift(held.diagonal, reg=reg, scale="mean_diagonal"))
        assert pivots.shape == (150,) and (pivots > 0).all()
        expected = plain(reg)
        assert expected is not None
        np.testing.assert_allclose(held.solve(), expected, atol=4e-5 * np.abs(expected).max())


@pytest.mark.parametrize("weighted", [False, True])
def test_its_kernel_is_the_kernel(x: sp.csr_array, weighted: bool) -> None:
    """Rows that bfloat16 holds exactly go through it; others must not."""
    rows = sp.csr_array(x * np.float32(0.3)) if weighted else x
    assert ridge_gpu.is_exact_in_bfloat16(rows.data) != weighted
    held = ridge_gpu.TiledRidge(rows, tile=64)
    found = np.triu(np.asarray(held._k)[:150, :150], 1)
    for i in range(3):
        some = slice(64 * i, min(150, 64 * i + 64))
        found[some, some] = np.asarray(held._diagonal[i])[: some.stop - some.start, : some.stop - some.start]
    expected = gram.kernel(rows)
    upper = np.triu(np.ones_like(expected, bool))
    np.testing.assert_allclose(found[upper], expected[upper], atol=2e-6)


@pytest.mark.parametrize("n", [1, 31, 4096, 4097, 100_000, 476_001])
def test_tiles_divide_with_little_padding(n: int) -> None:
    tile = ridge_gpu.tile_for(n)
    tiles = -(-n // tile)
    assert tile <= ridge_gpu.TILE
    assert tiles * tile - n < 32 * tiles
