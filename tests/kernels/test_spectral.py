"""The leading vectors of a log: those of an exact decomposition, and none where there is only chance."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from infrec.kernels import devices, spectral


def blocks(users: int, items: int, groups: int, seed: int = 0) -> sp.csr_array:
    """A log whose users stay in their group of items, for the most part."""
    rng = np.random.default_rng(seed)
    own = np.arange(users)[:, None] % groups == np.arange(items)[None, :] % groups
    return sp.csr_array((rng.random((users, items)) < np.where(own, 0.6, 0.03)).astype(np.float32))


def whole(matrix: sp.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Singular values and right vectors of R̃, from a dense decomposition."""
    dense = matrix.toarray().astype(np.float64)
    sides = [np.where(side > 0, side, np.inf) ** -0.5 for side in (dense.sum(1), dense.sum(0))]
    _, values, vectors = np.linalg.svd(sides[0][:, None] * dense * sides[1], full_matrices=False)
    return values, vectors.T


@pytest.mark.parametrize("shape", [(300, 90), (90, 300)], ids=["tall", "wide"])
@pytest.mark.parametrize("through", ["here", "device"])
def test_they_are_those_of_a_dense_decomposition(
    shape: tuple[int, int], through: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six groups make six vectors; the projection is compared, since signs and order are free."""
    if through == "device":
        monkeypatch.setattr(devices, "device", lambda: "an accelerator")
        monkeypatch.setattr(devices, "_WORTH_IT", 20)
    matrix = blocks(*shape, groups=6)
    found = spectral.leading_vectors(matrix)
    values, vectors = whole(matrix)
    assert found.shape == (shape[1], 6) == (shape[1], np.count_nonzero(values > spectral.noise_edge(matrix)))
    np.testing.assert_allclose(found @ found.T, vectors[:, :6] @ vectors[:, :6].T, atol=2e-4)


def test_chance_leaves_the_trivial_one() -> None:
    """20 random logs: at most one vector beside the trivial one lies above the asymptotic edge."""
    counts = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        noise = sp.csr_array((rng.random((400, 300)) < 0.05).astype(np.float32))
        counts.append(spectral.leading_vectors(noise).shape[1])
    assert min(counts) == 1
    assert max(counts) <= 2


def test_the_order_of_users_does_not_matter() -> None:
    matrix = blocks(80, 200, groups=4)
    turned = spectral.leading_vectors(sp.csr_array(matrix[::-1]))
    found = spectral.leading_vectors(matrix)
    np.testing.assert_allclose(found @ found.T, turned @ turned.T, atol=1e-4)


def test_a_log_too_thin_for_structure_has_none() -> None:
    """One interaction a user: the edge is above every singular value. Empty users and items are no matter."""
    alone = sp.csr_array((np.ones(30, np.float32), (np.arange(30), np.arange(30) % 10)), shape=(40, 12))
    assert spectral.noise_edge(alone) > 1
    assert spectral.leading_vectors(alone).shape == (12, 0)
    assert spectral.leading_vectors(sp.csr_array((5, 4), dtype=np.float32)).shape == (4, 0)


def test_more_are_looked_for_while_all_are_above(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectral, "_FIRST", 2)
    matrix = blocks(300, 90, groups=6)
    assert spectral.leading_vectors(matrix).shape[1] == 6
    assert spectral.leading_vectors(matrix, most=3).shape[1] == 3
