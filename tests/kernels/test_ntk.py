"""The closed form against hand-worked values, the textbook formula, wide finite networks, derivatives."""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrec import randomness
from infrec.kernels.ntk import NTK


def theta(xy: float, xx: float, yy: float, d: int, depth: int) -> float:
    one = np.array([[xy]]), np.array([xx]), np.array([yy])
    return float(NTK(depth).from_gram(*one, d=d)[0, 0])


# With d = 1 and W² = 2, b² = 0.01: ⟨x,x⟩ = 0.495 makes q(x,x) = 2 · 0.495 + 0.01 = 1.
# c = 1 (y = x):   q = 1, then 2 · 1/2 + 0.01 = 1.01, then 1.02;   Θ = 1, then 1.01 + 2 · 1 · 1/2 = 2.01,
#                  then 1.02 + 2 · 2.01 · 1/2 = 3.03.
# c = 0 (⟨x,y⟩ = −0.005 makes q = 0):   θ = π/2, κ₁ = 1/(2π);   Θ = 0, then q₁ = 2/(2π) + 0.01 = 0.3283098862.
#                  Depth 2: c = 0.3283099/1.01 = 0.3250593, θ = 1.2397219, sin θ = 0.9456936,
#                  π − θ = 1.9018708, κ₁ = 1.01/(2π) · (0.9456936 + 1.9018708 · 0.3250593) = 0.2513938,
#                  κ₀ = 0.3026921, q₂ = 0.5127875, Θ = 0.5127875 + 2 · 0.3283099 · 0.3026921 = 0.7115411.
# c = −1 (⟨x,y⟩ = −0.505 makes q = −1):  κ₁ = κ₀ = 0, so Θ = b² = 0.01 after one layer.
@pytest.mark.parametrize(
    ("xy", "depth", "expected"),
    [
        (0.495, 0, 1.0),
        (0.495, 1, 2.01),
        (0.495, 2, 3.03),
        (-0.005, 0, 0.0),
        (-0.005, 1, 1 / math.pi + 0.01),
        (-0.005, 2, 0.7115411),
        (-0.505, 1, 0.01),
    ],
)
def test_hand_worked(xy: float, depth: int, expected: float) -> None:
    assert theta(xy, 0.495, 0.495, 1, depth) == pytest.approx(expected, abs=2e-7)


@pytest.mark.parametrize("depth", [0, 1, 2, 5])
def test_the_diagonal_is_the_kernel_of_a_row_with_itself(depth: int) -> None:
    xx = np.array([0.0, 1.0, 7.0, 300.0])
    alone = [theta(v, v, v, 40, depth) for v in xx]
    np.testing.assert_allclose(NTK(depth).diagonal(xx, d=40), alone, rtol=1e-12)


@given(
    x=st.integers(0, 300),
    y=st.integers(0, 300),
    shared=st.floats(0, 1),
    depth=st.integers(0, 4),
    d=st.integers(300, 4000),
)
def test_the_formula_of_the_paper(x: int, y: int, shared: float, depth: int, d: int) -> None:
    """arccos, division and all, in float64; arccos itself is only good to 1e-8 near c = 1."""
    xy = round(shared * min(x, y))
    q, qx, qy = (2 * v / d + 0.01 for v in (xy, x, y))
    expected = q
    for _ in range(depth):
        norm = math.sqrt(qx * qy)
        angle = math.acos(min(1.0, q / norm))
        q = 2 * norm / (2 * math.pi) * (math.sin(angle) + (math.pi - angle) * math.cos(angle)) + 0.01
        expected = q + 2 * expected * (math.pi - angle) / (2 * math.pi)
        qx, qy = qx + 0.01, qy + 0.01
    assert theta(xy, x, y, d, depth) == pytest.approx(expected, rel=1e-6)


def test_float32_keeps_its_digits_where_rows_are_nearly_the_same() -> None:
    """Two users of 500 items who differ in one: the naive 1 − c² would be left with two digits."""
    for depth in (1, 2, 3):
        single = [np.array(v, np.float32) for v in ([[499.0]], [500.0], [499.0])]
        found = NTK(depth).from_gram(*single, d=3706)[0, 0]
        assert found.dtype == np.float32
        assert found == pytest.approx(theta(499, 500, 499, 3706, depth), rel=5e-7)


def finite_network_kernel(x: np.ndarray, width: int, depth: int, trial: int) -> np.ndarray:
    """Θ of one random network of this width: ⟨∂f(x)/∂w, ∂f(y)/∂w⟩ summed over all weights."""
    import jax
    import jax.numpy as jnp

    sizes = [x.shape[1], *[width] * depth, 1]
    keys = iter(jax.random.split(randomness.key(3, "finite network", str(trial)), 2 * len(sizes)))
    weights = [
        (jax.random.normal(next(keys), (b, a)), jax.random.normal(next(keys), (b,)))
        for a, b in pairwise(sizes)
    ]

    def network(weights: list, row: jax.Array) -> jax.Array:
        for at, (w, b) in enumerate(weights):
            row = jnp.maximum(row, 0) if at else row
            row = math.sqrt(2) * w @ row / math.sqrt(w.shape[1]) + 0.1 * b
        return row[0]

    slopes = jax.vmap(jax.grad(network), (None, 0))(weights, jnp.asarray(x))
    flat = [leaf.reshape(len(x), -1) for leaf in jax.tree.leaves(slopes)]
    return np.asarray(sum(jnp.matmul(leaf, leaf.T, precision="highest") for leaf in flat))


@pytest.mark.parametrize("depth", [1, 2])
def test_wide_finite_networks_agree(depth: int) -> None:
    """12 networks of width 1024. An entry's mean over trials differs from Θ by its standard error, a few
    times over 15 entries (5 standard errors: a chance of about 1e-5), and by a bias of order 1/width (1 %
    allowed, 10/width)."""
    x = (np.random.default_rng(5).random((5, 30)) < 0.3).astype(np.float32)
    x[4] = 0  # an empty history
    trials = np.stack([finite_network_kernel(x, 1024, depth, trial) for trial in range(12)])
    gram = x @ x.T
    expected = NTK(depth).from_gram(gram, gram.diagonal(), gram.diagonal(), d=30)
    error = np.abs(trials.mean(0) - expected)
    allowed = 5 * trials.std(0, ddof=1) / math.sqrt(len(trials)) + 0.01 * expected
    assert (error < allowed).all(), error / allowed
    assert (allowed < 0.3 * expected).all()  # the test could fail


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_symmetric_and_positive_semi_definite(depth: int) -> None:
    x = (np.random.default_rng(0).random((60, 25)) < 0.2).astype(np.float64)
    x[:5] = x[5:10]
    gram = x @ x.T
    k = NTK(depth).from_gram(gram, gram.diagonal(), gram.diagonal(), d=25)
    np.testing.assert_array_equal(k, k.T)
    assert np.linalg.eigvalsh(k).min() > -1e-12 * np.trace(k)


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
@pytest.mark.parametrize("against", ["itself", "others"])
def test_gradients_are_finite_at_identical_and_at_empty_rows(depth: int, against: str) -> None:
    import jax
    import jax.numpy as jnp

    x = (np.random.default_rng(1).random((8, 20)) < 0.4).astype(np.float32)
    x[1] = x[0]
    x[2:4] = 0
    x[5] = np.float32(1 - 1e-7) * x[4]  # not the same, but nearly

    def size(rows: jax.Array) -> jax.Array:
        """Σ Θ², of the rows and themselves with the exact diagonal, or of the rows and others."""
        y = rows if against == "itself" else jnp.asarray(x[::-1])
        xx, yy = (rows * rows).sum(1), (y * y).sum(1)
        products = jnp.matmul(rows, y.T, precision="highest")
        if against == "itself":
            return jnp.sum(NTK(depth).matrix(products, xx, d=20) ** 2)
        return jnp.sum(NTK(depth).from_gram(products, xx, yy, d=20) ** 2)

    slope = jax.jit(jax.grad(size))(jnp.asarray(x))
    assert np.isfinite(np.asarray(slope)).all()
    assert np.abs(np.asarray(slope)).max() > 0


def test_compiled_by_jax_it_is_the_same_formula() -> None:
    import jax

    x = (np.random.default_rng(2).random((30, 50)) < 0.3).astype(np.float32)
    gram = (x @ x.T, (x * x).sum(1), (x * x).sum(1))
    for depth in (0, 1, 3):
        expected = NTK(depth).from_gram(*gram, d=50)
        compiled = jax.jit(partial(NTK(depth).from_gram, d=50))(*gram)
        np.testing.assert_allclose(compiled, expected, rtol=1e-6)


def test_the_matrix_of_rows_with_themselves_has_the_exact_diagonal() -> None:
    x = np.random.default_rng(2).random((6, 50)).astype(np.float32)
    products, norms = x @ x.T, (x * x).sum(1)
    k = NTK(2).matrix(products, norms, d=50)
    np.testing.assert_array_equal(np.diagonal(k), NTK(2).diagonal(norms, d=50))
    off = ~np.eye(6, dtype=bool)
    np.testing.assert_array_equal(k[off], NTK(2).from_gram(products, norms, norms, d=50)[off])


@pytest.mark.parametrize("depth", [0, 1, 2, 4])
def test_slopes_are_the_derivatives(depth: int) -> None:
    """Against central differences: error h² ~ 1e-8 and rounding 1e-16/h ~ 1e-12."""
    xy, xx, yy, h = np.array([0.5, 3.0, 7.9]), 8.0, np.array([4.0, 6.0, 9.0]), 1e-4

    def value(a: np.ndarray, b: float) -> np.ndarray:
        return NTK(depth).from_gram(a[None, :], np.array([b]), yy, d=40)[0]

    by_product, by_norm = NTK(depth).slopes(xy, xx, yy, d=40)
    np.testing.assert_allclose(
        by_product, (value(xy + h, xx) - value(xy - h, xx)) / (2 * h), rtol=1e-5, atol=1e-9
    )
    np.testing.assert_allclose(
        by_norm, (value(xy, xx + h) - value(xy, xx - h)) / (2 * h), rtol=1e-5, atol=1e-9
    )
