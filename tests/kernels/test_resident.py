"""A matrix that moves between main memory and an accelerator stays the same matrix; JAX's CPU stands in."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp

from infrec.kernels import devices, gram, resident
from infrec.kernels.resident import FactoredMatrix, ResidentMatrix


@pytest.fixture
def accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "device", lambda: "a GPU")
    monkeypatch.setattr(devices, "_WORTH_IT", 30)
    monkeypatch.setattr(resident, "_ROWS_WORTH_IT", 40)
    monkeypatch.setattr(resident, "_ROWS_THERE", 20)


def matrices(seed: int, *shapes: tuple[int, int]) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("there", [False, True])
def test_products_are_the_same_there(there: bool, request: pytest.FixtureRequest) -> None:
    a, b = matrices(0, (45, 30), (30, 30))
    if there:
        request.getfixturevalue("accelerator")
    right = ResidentMatrix(b)
    for some in (a, a[:35], a):  # all of it there, too few of it, there again
        np.testing.assert_allclose(right.left_multiply(some), (a @ b)[: len(some)], rtol=1e-5, atol=1e-4)
    assert (right._there is not None) is there


def test_two_factors_are_the_matrix_that_they_make() -> None:
    """Rows, columns and products; of few rows each one's bits are those that it has alone."""
    left, rows = matrices(3, (40, 40), (gram.FEW + 8, 40))
    sparse = sp.csr_array((np.random.default_rng(4).random((40, 300)) < 0.05).astype(np.float32))
    factored, whole = FactoredMatrix(left, sparse), left @ sparse.toarray()
    at = np.array([7, 0, 39])
    assert factored.shape == whole.shape
    for found, expected in (
        (factored.here, whole),
        (factored.rows(at), whole[at]),
        (factored.columns(at), whole[:, at]),
        (factored.left_multiply(rows), rows @ whole),
    ):
        np.testing.assert_allclose(found, expected, atol=1e-4)
    alone = np.concatenate([factored.left_multiply(row[None]) for row in rows[:9]])
    np.testing.assert_array_equal(factored.left_multiply(rows[:9]), alone)


def wherever(matrix: np.ndarray, place: str) -> ResidentMatrix:
    return ResidentMatrix(jnp.asarray(matrix) if place == "there" else matrix.copy())


@pytest.mark.usefixtures("accelerator")
@pytest.mark.parametrize("columns", [np.arange(30), np.array([0, 3, 4, 29])], ids=["all", "some"])
@pytest.mark.parametrize("of_right", ["here", "there"])
@pytest.mark.parametrize("place", ["here", "there"])
def test_it_is_changed_where_it_is(place: str, of_right: str, columns: np.ndarray) -> None:
    """α ← α · c, then α ← α + ½ α_S B on some columns S: 45 rows in blocks of 20 there."""
    a, b = matrices(1, (45, 30), (len(columns), len(columns)))
    expected = a * np.linspace(1, 2, 30, dtype=np.float32)
    expected[:, columns] += 0.5 * expected[:, columns] @ b
    matrix = wherever(a, place)
    matrix.scale_columns(np.linspace(1, 2, 30))
    matrix.add_product(wherever(b, of_right), 0.5, columns)
    assert (matrix._here is None) is (place == "there")
    np.testing.assert_allclose(matrix.rows(np.array([44, 0])), expected[[44, 0]], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(matrix.here, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(np.asarray(matrix.there), expected, rtol=1e-5, atol=1e-5)
    assert matrix.is_finite
    rows = sp.csr_array((np.random.default_rng(2).random((50, 45)) < 0.2).astype(np.float32))
    np.testing.assert_allclose(matrix.times_histories(rows), rows @ expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
@pytest.mark.parametrize("place", ["here", "there"])
def test_what_is_no_number_is_seen(place: str, wrong: float) -> None:
    (a,) = matrices(3, (5, 4))
    a[3, 2] = wrong
    assert not wherever(a, place).is_finite
