"""LightGCN: propagation against powers of the dense adjacency matrix."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from infrec.data import Interactions
from infrec.errors import ConfigError
from infrec.models import LightGCN, batches, lightgcn
from infrec.models.batches import Batch, Pairs, Step
from infrec.models.trainer import bpr, penalty
from infrec.randomness import generator
from tests.models.contract import RecommenderContract


class TestLightGCN(RecommenderContract):
    checkerboard_hits = 20
    small_log_hr10 = (64.0, 72.0)
    scores_are_relative = True

    def make(self) -> LightGCN:
        return LightGCN(latent=8, epochs=20)


def dense(log: Interactions, users: np.ndarray, items: np.ndarray, layers: int) -> np.ndarray:
    """Final embeddings of users and items, from the definition: the mean over k of Âᵏ E⁽⁰⁾."""
    x = log.matrix.toarray().astype(np.float64)
    n, d = x.shape
    a = np.block([[np.zeros((n, n)), x], [x.T, np.zeros((d, d))]])
    root = 1 / np.sqrt(np.maximum(a.sum(1), 1e-12))
    a = root[:, None] * a * root[None, :]
    first = np.vstack([users, items])
    return np.mean([np.linalg.matrix_power(a, k) @ first for k in range(layers + 1)], axis=0)


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_propagation_is_a_matrix_power(small_log: Interactions, layers: int, weighted: bool) -> None:
    log = small_log
    if weighted:
        matrix = log.matrix.copy()
        matrix.data = np.random.default_rng(1).integers(1, 4, matrix.nnz).astype(np.float32)
        log = log.with_matrix(matrix)
    rng = np.random.default_rng(0)
    users, items = rng.standard_normal((120, 5)), rng.standard_normal((60, 5))
    both = dense(log, users, items, layers)
    trained = {"users": users.astype(np.float32), "items": items.astype(np.float32)}
    model = LightGCN(latent=5, layers=layers).with_parameters(log, trained, 1)
    expected = both[:120] @ both[120:].T
    np.testing.assert_allclose(model.score(log.matrix, users=log.users.ids), expected, atol=1e-4)
    np.testing.assert_allclose(model.fitted_scores(slice(3, 9)), expected[3:9], atol=1e-4)


@pytest.mark.parametrize(
    ("wider", "dense_up_to", "held"),
    [(1, 2**28, {"across", "twice"}), (10, 2**28, {"across"}), (1, 0, {"user", "item", "value"})],
    ids=["dense", "few users", "sparse"],
)
def test_the_loss_sees_the_same_scores(
    small_log: Interactions, wider: int, dense_up_to: int, held: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Matrix products where they fit, sums over segments where not: the loss of the same embeddings."""
    monkeypatch.setattr(lightgcn, "_DENSE", dense_up_to)
    log = Interactions.from_csr(np.tile(small_log.matrix.toarray(), wider))
    program = LightGCN(latent=5).program(log)
    sizes, arrays = batches.on_device(log)
    params = program.start(sizes, log, generator(0, "test"))
    params = {name: 5 * array for name, array in params.items()}
    users = jnp.arange(sizes.batch)
    batch = Batch(users, (users < 120).astype(jnp.float32), jnp.int32(0))
    step = Step(batch, jax.random.key(0), arrays, program.constants(sizes, log), sizes)
    assert {name for name in step.constants if not name.endswith("by_item")} == held
    hyper = {"l2": jnp.float32(0.1)}

    @jax.jit
    def loss_and_pairs(params: dict[str, jax.Array]) -> tuple[jax.Array, Pairs]:
        return program.loss(params, step, hyper), step.pairs()

    found, pairs = loss_and_pairs(params)
    both = dense(log, params["users"][:120, :5], params["items"][: log.n_items, :5], 3)
    scores = np.zeros((sizes.batch, sizes.items), np.float32)
    scores[:120, : log.n_items] = both[:120] @ both[120:].T

    @jax.jit
    def by_definition(scores: jax.Array, users: jax.Array, items: jax.Array) -> jax.Array:
        return bpr(scores, pairs) + 0.1 * penalty(users, items, pairs)

    expected = by_definition(scores, params["users"][np.asarray(users)], params["items"])
    assert float(found) == pytest.approx(float(expected), rel=1e-4)


def test_someone_new_is_the_mean_user_with_their_history(small_log: Interactions) -> None:
    model = LightGCN(latent=8, epochs=3).fit(small_log)
    p = model.parameters
    empty, one = model.score(small_log.histories([[], ["i05"]])[0])
    np.testing.assert_allclose(empty, p["items"] @ p["mean"], atol=1e-5)
    degree = small_log.item_counts[5]
    np.testing.assert_allclose(one, p["items"] @ (p["mean"] + p["spread"][5] / np.sqrt(degree)), atol=1e-5)


def test_bad_settings() -> None:
    with pytest.raises(ConfigError, match="layers is 0; expected"):
        LightGCN(layers=0)
