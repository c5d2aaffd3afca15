"""The part of a log that is more than chance: its leading singular vectors, by block power iteration.

    R̃ = D_U^-½ R D_I^-½           σ > 1/√d_U + 1/√d_I

d_U and d_I are the mean numbers of interactions of users and of items. The right side is the largest singular
value, apart from the trivial one, of a random log with as many interactions (Chung, Lu and Vu, Spectra of
random graphs with given expected degrees, PNAS 2003, for two sides): what lies above it is structure, and
how many vectors are kept follows from the log alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from infrec.kernels import devices, gram
from infrec.kernels.device_arrays import compiled, dense_rows
from infrec.randomness import generator

if TYPE_CHECKING:
    from jaxtyping import Float
    from numpy.typing import NDArray

MOST = 1024  # vectors
_FIRST = 256  # that are looked for before more are
_ROUNDS = 6  # of the power iteration: it is the span that counts, not each vector


def noise_edge(matrix: sp.csr_array) -> float:
    """The largest singular value that a random log of as many interactions has in R̃, apart from the first."""
    sides = (np.diff(matrix.indptr), np.bincount(matrix.indices, minlength=matrix.shape[1]))
    return float(sum(np.sqrt(np.count_nonzero(side) / max(1, matrix.nnz)) for side in sides))


def leading_vectors(matrix: sp.csr_array, *, most: int = MOST) -> Float[np.ndarray, "items k"]:
    """The right singular vectors of R̃ above the noise edge, as orthonormal columns; perhaps none.

    Args:
        matrix: The log.
        most: At most so many of them.
    """
    edge, items = noise_edge(matrix), matrix.shape[1]
    most = min(most, min(matrix.shape) // 2)
    if edge >= 1 or most < 1 or not matrix.nnz:
        return np.zeros((items, 0), np.float32)
    users = np.asarray(matrix.sum(axis=1), np.float64).ravel()
    r = gram.scaled(matrix, _inverse_root(users), _inverse_root(gram.degrees(matrix)))
    wide = r.shape[0] < items  # the vectors of the smaller side are looked for; one product gives the others
    iterate, random = _iteration(sp.csr_array(r.T) if wide else r), generator(0, "leading vectors")
    size = min(_FIRST, most)
    while True:
        basis = random.standard_normal((items, size)).astype(np.float32)
        values, vectors = iterate(gram.sparse_times(r, basis) if wide else basis)  # in any order of users
        above = values > edge**2
        if size == most or np.count_nonzero(above) < 0.9 * size:
            break
        size = min(4 * size, most)
    vectors = np.ascontiguousarray(vectors[:, above])
    if wide:
        vectors = gram.sparse_times(sp.csr_array(r.T), vectors) / np.sqrt(values[above])
    return vectors


def _inverse_root(sums: NDArray[Any]) -> NDArray[np.float64]:
    sums = np.abs(sums.astype(np.float64))
    return np.where(sums > 0, sums, np.inf) ** -0.5


def _iteration(r: sp.csr_array) -> Callable[[NDArray[np.float32]], tuple[NDArray[Any], NDArray[Any]]]:
    """From a random basis to eigenvalues of rᵀr and their vectors, where the products are fastest."""
    if devices.use_accelerator(min(r.shape), "float32") and devices.has_room(12 * r.shape[0] * r.shape[1]):
        dense, on_device = dense_rows(r, r.shape[0], 1), _on_device()

        def there(basis: NDArray[np.float32]) -> tuple[NDArray[Any], NDArray[Any]]:
            values, vectors = on_device(dense, basis)
            return np.asarray(values), np.asarray(vectors)

        return there
    turned = sp.csr_array(r.T)

    def times(vectors: NDArray[Any]) -> NDArray[Any]:
        return gram.sparse_times(turned, gram.sparse_times(r, vectors))

    def iterate(basis: NDArray[np.float32]) -> tuple[NDArray[Any], NDArray[Any]]:
        for _ in range(_ROUNDS):
            basis = _nearly_orthonormal(times(basis))
        return _in_span(times, np.linalg.qr(basis)[0])

    return iterate


def _nearly_orthonormal(basis: Any) -> Any:
    """Another basis of the same span: what is needed on the way, for a quarter of a QR."""
    xp = gram.array_module(basis)
    products = basis.T @ basis
    shift = 1e-6 * xp.trace(products) * xp.eye(len(products), dtype=basis.dtype)
    return basis @ xp.linalg.inv(xp.linalg.cholesky(products + shift)).T


def _in_span(times: Callable[[Any], Any], basis: Any) -> tuple[Any, Any]:
    """Eigenvalues and vectors of a product in the span of an orthonormal basis."""
    values, rotation = gram.array_module(basis).linalg.eigh(basis.T @ times(basis))
    return values, basis @ rotation


@cache
def _on_device() -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    def iterate(r: Any, basis: Any) -> Any:
        def times(vectors: Any) -> Any:
            return r.T @ (r @ vectors)

        with jax.default_matmul_precision("highest"):
            basis = lax.fori_loop(0, _ROUNDS, lambda _, basis: _nearly_orthonormal(times(basis)), basis)
            return _in_span(times, jnp.linalg.qr(basis)[0])

    return compiled(iterate)
