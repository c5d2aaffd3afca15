"""Drawing from a log inside compiled code: exact, and never a positive where a negative is wanted."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infrec.data import Interactions
from infrec.models import batches
from infrec.models.batches import Batch, Pairs, padded

_pairs = jax.jit(batches.pairs, static_argnums=(1,))
_order = jax.jit(batches.order, static_argnums=(1,))
_rows = jax.jit(batches.rows, static_argnums=(1,))
_missing = jax.jit(batches.missing_items, static_argnums=(1,))


def whole_batch(log: Interactions) -> tuple[batches.Sizes, batches.Log, Batch]:
    """A mini-batch of the log's first 128 users, in order."""
    sizes, arrays = batches.on_device(log)
    users = jnp.arange(sizes.batch)
    return sizes, arrays, Batch(users, (users < log.n_users).astype(jnp.float32), jnp.int32(0))


def draw(log: Interactions, seed: int) -> Pairs:
    sizes, arrays, batch = whole_batch(log)
    return Pairs(*map(np.asarray, _pairs(arrays, sizes, batch, jax.random.key(seed))))


@settings(max_examples=25, deadline=None)
@given(
    users=st.integers(1, 90), items=st.integers(1, 70), density=st.floats(0.01, 1), seed=st.integers(0, 99)
)
def test_positives_are_positive_and_negatives_are_not(
    users: int, items: int, density: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    likes = rng.random((users, items)) < density
    likes[rng.integers(users), rng.integers(items)] = True
    pairs = draw(Interactions.from_csr(likes), seed)
    full = likes.all(axis=1)
    there = pairs.weight > 0
    assert (there == ~full[np.minimum(pairs.row, users - 1)]).all()  # who has everything has no negatives
    assert likes[pairs.row, pairs.positive].all()
    assert not likes[pairs.row[there], pairs.negative[there]].any()
    assert (pairs.negative < items).all()


def test_every_missing_item_is_equally_likely() -> None:
    """A thousand draws for each of 7 missing items: 5 standard deviations of a binomial count."""
    likes = np.zeros((1, 12), bool)
    likes[0, [0, 3, 4, 8, 11]] = True
    sizes, arrays = batches.on_device(Interactions.from_csr(likes))
    n = 7000
    uniform = jax.random.uniform(jax.random.key(3), (n,))
    items, exists = _missing(arrays, sizes, jnp.zeros(n, jnp.int32), uniform)
    assert np.asarray(exists).all()
    counts = np.bincount(np.asarray(items), minlength=12)
    assert (counts[likes[0]] == 0).all()
    assert np.abs(counts[~likes[0]] - 1000).max() < 5 * np.sqrt(n * (1 / 7) * (6 / 7))


def test_positives_come_in_proportion_to_their_weights() -> None:
    """The draws are spread evenly: each count is what it should be, give or take two."""
    weights = np.array([[1, 0, 4, 0], [0, 2.5, 0, 0], [0.5, 1, 1, 0]], np.float32)
    pairs = draw(Interactions.from_csr(weights), 1)
    found = np.zeros_like(weights)
    np.add.at(found, (pairs.row, pairs.positive), 1)
    np.testing.assert_allclose(found, weights / weights.sum() * len(pairs.row), atol=2)
    assert pairs.weight.sum() == pytest.approx(1, rel=1e-5)  # one mini-batch is the whole log


def test_an_order_holds_every_user_once() -> None:
    rng = np.random.default_rng(0)
    likes = rng.random((300, 20)) < 0.2
    likes[7] = False  # nothing to learn from
    sizes, arrays = batches.on_device(Interactions.from_csr(likes))
    assert sizes.blocks > 1
    users, present = map(np.asarray, _order(arrays, sizes, jax.random.key(0)))
    assert sorted(users[present > 0]) == np.flatnonzero(likes.any(axis=1)).tolist()


def test_rows_are_the_histories() -> None:
    rng = np.random.default_rng(0)
    likes = np.where(rng.random((100, 30)) < 0.3, rng.integers(1, 4, (100, 30)), 0).astype(np.float32)
    sizes, arrays, batch = whole_batch(Interactions.from_csr(likes))
    dense = np.asarray(_rows(arrays, sizes, batch))
    np.testing.assert_array_equal(dense[:100, :30], likes)
    assert dense.sum() == likes.sum()


@given(st.integers(1, 10**7))
def test_padding_is_small_and_sizes_are_few(n: int) -> None:
    assert n <= padded(n) <= n + max(127, n // 16)
    assert padded(padded(n)) == padded(n)


def test_logs_of_about_the_same_size_share_shapes() -> None:
    shapes = set()
    for users, items in ((20, 20), (120, 60), (1, 1), (90, 128)):
        shapes.add(batches.on_device(Interactions.from_csr(np.eye(users, items, dtype=bool)))[0])
    assert len(shapes) == 1
