"""Noisy gradients: what one user can change, what is hidden, and what the rows may hold."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp

from infrec.data import Interactions, Vocabulary, registry
from infrec.distillation import clipping, distill, guaranteed, noisy_steps, objective
from infrec.distillation import step as steps
from infrec.distillation.config import Config
from infrec.distillation.objective import Form, Users
from infrec.errors import ConfigError
from infrec.privacy import Released

pytestmark = pytest.mark.usefixtures("compiled_quickly")


@pytest.mark.parametrize(
    "form", [Form(), Form("standardised", 0.3, sharpness=0.5, user_power=0.5, precision="highest")]
)
@pytest.mark.parametrize("clip", [1e9, 0.05])
def test_clipping_is_exact_for_every_user(form: Form, clip: float) -> None:
    """Against a loop over users, each with its own automatic gradient by X̂ and α, clipped by hand."""
    rng = np.random.default_rng(4)
    n, d, mu = 9, 14, 5
    x = (rng.random((n, d)) < 0.4).astype(np.uint8)
    x_hat, alpha = (jnp.asarray(rng.random((mu, d)), jnp.float32) for _ in range(2))
    key = jnp.asarray([3, 4], jnp.uint32)

    def users(rows: np.ndarray, blocks: int) -> Users:
        shape = (blocks, len(rows) // blocks)
        return Users(
            jnp.asarray(x[rows].reshape(*shape, d)),
            jnp.asarray(rows.astype(np.uint32).reshape(shape)),
            jnp.ones(shape, jnp.float32),
            jnp.float32(1),
        )

    one = jax.jit(jax.grad(lambda a, b, who: objective.outer(a, b, who, key, form), argnums=(0, 1)))
    expected = [np.zeros((mu, d)), np.zeros((mu, d))]
    shares = []
    for row in range(n):
        by = [np.asarray(g, np.float64) for g in one(x_hat, alpha, users(np.array([row]), 1))]
        share = min(1.0, clip / max(np.sqrt(sum((g**2).sum() for g in by)), 1e-30))
        shares.append(share)
        expected = [e + share * g for e, g in zip(expected, by, strict=True)]
    found = clipping.clipped_sum(x_hat, alpha, users(np.arange(n), 3), key, form, clip)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(mine), theirs, rtol=2e-4, atol=2e-5 * np.abs(theirs).max())
    assert (min(shares) < 1) == (clip < 1)


def test_without_one_user_the_clipped_sum_changes_by_that_user_alone() -> None:
    """Half of the items hidden: removing the first of 200 users renumbers the others and hides the same."""
    rng = np.random.default_rng(0)
    x = sp.csr_array((rng.random((200, 60)) < 0.2).astype(np.float32))
    x_hat = jnp.asarray(rng.random((8, 60)), jnp.float32)
    alpha = objective.fit(x_hat, 0.1)
    form = Form("standardised", 0.5, sharpness=0.25, user_power=0.5, precision="highest")
    names = guaranteed.names_of(Vocabulary.of([f"user {n}" for n in range(200)]))

    clipped = jax.jit(partial(clipping.clipped_sum, form=form, clip=1.0))

    def total(rows: slice) -> np.ndarray:
        users = noisy_steps.everybody(sp.csr_array(x[rows]), names[rows])
        sums = clipped(x_hat, alpha, users, jnp.asarray([1, 2], jnp.uint32))
        return np.concatenate([np.asarray(one).ravel() for one in sums])

    for without in (slice(1, 200), slice(0, 199)):
        assert 0.1 < np.linalg.norm(total(slice(0, 200)) - total(without)) < 1 + 1e-4


def test_a_users_name_follows_from_the_id_alone() -> None:
    names = guaranteed.names_of(Vocabulary.of(["a", "b", "c"]))
    np.testing.assert_array_equal(guaranteed.names_of(Vocabulary.of(["b", "c"])), names[1:])
    assert len(set(names.tolist())) == 3
    np.testing.assert_array_equal(
        guaranteed.names_of(Vocabulary.of([7])), guaranteed.names_of(Vocabulary.of(["7"]))
    )


@pytest.mark.parametrize("hidden", [0.5, 0.0])
def test_what_is_hidden_follows_from_the_secret(hidden: float) -> None:
    """A step without noise: two secrets make a difference where items are hidden, and there alone."""
    config = Config.of("soft", users=4, steps=1, per_user=10.0, mass=10.0, hidden=hidden).compiled_for()
    rng = np.random.default_rng(5)
    users = noisy_steps.everybody(sp.csr_array((rng.random((30, 60)) < 0.3).astype(np.float32)))
    data = steps.Data(jnp.full(4, 10, jnp.int32), jnp.float32(1), jnp.asarray([1, 2], jnp.uint32))
    state = steps.begin(jnp.asarray(rng.standard_normal((4, 60)), jnp.float32), config.reg)
    moved = [
        np.asarray(
            noisy_steps.noisy_step(
                state, users, data, jnp.uint32(0), jnp.asarray(secret, jnp.uint32), config, 1.0, 0.0
            ).adam.mu[0]
        )
        for secret in ((3, 4), (3, 5))
    ]
    assert np.isfinite(moved[0]).all() and np.array_equal(*moved) == (hidden == 0)


def test_a_user_without_a_finite_norm_has_no_share() -> None:
    """Weights of 1e20 overflow float32: the others' sum stays what it is without that user."""
    rng = np.random.default_rng(6)
    x = (rng.random((5, 14)) < 0.4).astype(np.float32)
    x_hat, alpha = (jnp.asarray(rng.random((3, 14)), jnp.float32) for _ in range(2))
    weighty = x.copy()
    weighty[2] *= 1e20
    missing = x.copy()
    missing[2] = 0
    found, expected = (
        clipping.clipped_sum(
            x_hat,
            alpha,
            noisy_steps.everybody(sp.csr_array(rows)),
            jnp.asarray([3, 4], jnp.uint32),
            Form(),
            1.0,
        )
        for rows in (weighty, missing)
    )
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(mine), np.asarray(theirs), rtol=1e-5, atol=1e-6)


def test_a_step_moves_by_noise_alone_where_nobody_is(small_log: Interactions) -> None:
    """Noisy steps on an empty log: the gradient is clip · σ · noise, whatever the users would have said."""
    config = Config.of("soft", users=4, steps=2, per_user=10.0, mass=10.0)
    nobody = sp.csr_array((30, 60), dtype=np.float32)
    one, other = (noisy_steps.run(nobody, config, 1.0) for _ in range(2))
    assert one.shape == (4, 60) and np.isfinite(one).all()
    assert not np.array_equal(one, other), "the noise is new each time: it has no seed"


def test_weights_do_not_count_under_a_guarantee(monkeypatch: pytest.MonkeyPatch) -> None:
    """One user's weights of 1e20 change nothing: the secret being the same, so is the summary."""
    monkeypatch.setattr("secrets.randbits", lambda bits: 2**31 - 7)
    demo = registry.load("demo")
    matrix = demo.matrix.copy()
    matrix.data = matrix.data.copy()
    matrix.data[: matrix.indptr[1]] = 1e20
    settings = {"users": 4, "noise_multiplier": 5.0, "delta": 1e-6, "steps": 2, "mechanism": "gradients"}
    one, other = (
        distill(log, catalogue=demo.items, **settings).matrix.toarray()
        for log in (demo, demo.with_matrix(matrix))
    )
    np.testing.assert_array_equal(one, other)


def test_rows_of_noisy_gradients_do_not_hold_every_item() -> None:
    rng = np.random.default_rng(7)
    log = Interactions.from_csr((rng.random((50, 30)) < 0.3).astype(np.float32))
    settings = {"users": 4, "noise_multiplier": 1.0, "delta": 1e-6, "mechanism": "gradients"}
    made = distill(log, catalogue=log.items, steps=2, **settings)
    assert made.about["settings"]["per_user"] == 10 and made.about["steps"] == 2
    assert made.matrix.toarray().std() > 0.05
    with pytest.raises(ConfigError, match="there are 30 items"):
        distill(log, catalogue=log.items, per_user=30, **settings)
    remake = Released.summary(made).remake
    assert remake is not None and remake(log, 3).about["steps"] == 2, "a shadow has as many noisy steps"
    assert noisy_steps.default_size(3000) == 100 and noisy_steps.default_size(2) == 1
