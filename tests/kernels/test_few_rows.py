"""Up to `gram.FEW` rows: what a row gets does not depend on who else is there, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from infrec.kernels import gram, resident
from infrec.kernels.ntk import NTK

SIZES = [(7, 13), (90, 40), (500, 301), (1500, 300)]  # around and above what BLAS calls small


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("n", "items"), SIZES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_product_row_in_any_company_and_place(
    dtype: str, n: int, items: int, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident, "_SLAB", 1 << 16)  # several of the larger ones
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((gram.FEW, n)).astype(dtype)
    matrix = np.asarray(rng.standard_normal((n, items)), dtype, order=order)
    alone = np.concatenate([resident.few_rows_times(row[None], matrix) for row in rows])
    bound = n * np.finfo(dtype).eps * (np.abs(rows) @ np.abs(matrix)).max()
    np.testing.assert_allclose(alone, rows.astype(np.float64) @ matrix, rtol=0, atol=bound)
    for count in range(2, gram.FEW + 1):
        some = rng.permutation(gram.FEW)[:count]
        np.testing.assert_array_equal(resident.few_rows_times(rows[some], matrix), alone[some])


def weighted(rng: np.random.Generator, rows: int, items: int, share: float) -> sp.csr_array:
    """Rows whose sums are rounded: weights that are no whole numbers."""
    return sp.csr_array(((rng.random((rows, items)) < share) * rng.random((rows, items))).astype(np.float32))


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("share", [0.02, 0.3], ids=["sparse centres", "full centres"])
def test_a_kernel_row_in_any_company(share: float, depth: int) -> None:
    """Short and long histories: alone one is looked up, the other multiplied; together all go one way."""
    rng = np.random.default_rng(1)
    centres = gram.Centres.of(weighted(rng, 70, 200, share))
    asked = sp.csr_array(sp.vstack([weighted(rng, 5, 200, some) for some in (0.01, 0.1, 0.9)]))
    alone = np.concatenate([centres.kernel_rows(NTK(depth), asked[[row]]) for row in range(15)])
    for count in (2, 5, 15):
        some = rng.permutation(15)[:count]
        np.testing.assert_array_equal(centres.kernel_rows(NTK(depth), asked[some]), alone[some])


def test_a_history_that_is_a_centres_own_is_known_exactly() -> None:
    """⟨x, x⟩ − ⟨x, y⟩ is 0 where x = y, whatever the weights; rounding would show as its root, 1e-4 of Θ."""
    centres = weighted(np.random.default_rng(2), 40, 300, 0.05)
    own = np.diagonal(gram.kernel_matrix(NTK(), centres, dtype=np.float32))
    found = np.diagonal(gram.Centres.of(centres).kernel_rows(NTK(), centres))
    np.testing.assert_allclose(found, own, rtol=3e-6)
