"""The loss and its hand-written gradient, against a dense float64 reference and against autodiff."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

from infrec.distillation import objective
from infrec.distillation.batches import Users
from infrec.distillation.objective import Form
from infrec.kernels.ntk import NTK

pytestmark = pytest.mark.usefixtures("compiled_quickly")

N, D, MU = 23, 31, 6
RNG = np.random.default_rng(1)
X = (RNG.random((N, D)) < 0.3).astype(np.uint8)
X_HAT = RNG.random((MU, D)).astype(np.float32)
KEY = jnp.asarray([1, 2], jnp.uint32)


def _users(blocks: int, rows: int, x: np.ndarray = X) -> Users:
    padded = np.zeros((blocks * rows, D), x.dtype)
    padded[:N] = x
    user = np.zeros(blocks * rows, np.uint32)
    user[:N] = np.arange(N)
    weight = (np.arange(blocks * rows) < N).astype(np.float32)
    shape = (blocks, rows)
    return Users(
        jnp.asarray(padded.reshape(*shape, D)),
        jnp.asarray(user.reshape(shape)),
        jnp.asarray(weight.reshape(shape)),
        jnp.float32(N),
    )


def _scores(given: np.ndarray, x_hat: np.ndarray, reg: float) -> np.ndarray:
    """∞-AE on the summary in float64 numpy."""
    squares = (x_hat**2).sum(1)
    k = NTK().from_gram(x_hat @ x_hat.T, squares, squares, d=D)
    np.fill_diagonal(k, NTK().diagonal(squares, d=D))
    alpha = np.linalg.solve(k + reg * np.trace(k) / MU * np.eye(MU), x_hat)
    return NTK().from_gram(given @ x_hat.T, (given**2).sum(1), squares, d=D) @ alpha


def _reference(x_hat: np.ndarray, reg: float, form: Form, x: np.ndarray = X) -> float:
    x_hat = x_hat.astype(np.float64)
    given, target, hide = objective._given_and_target(
        jnp.asarray(x), jnp.arange(N, dtype=jnp.uint32), KEY, form
    )
    given, target = np.asarray(given, np.float64), np.asarray(target, np.float64)
    s = _scores(given, x_hat, reg)
    free = (given == 0) if hide else np.ones_like(given, bool)
    weight = np.maximum(target.sum(1), 1) ** -form.user_power
    if form.loss == "binary":
        edge = 1e-3

        def minus_log(p):
            return np.where(p > edge, -np.log(np.maximum(p, edge)), -np.log(edge) - (p - edge) / edge)

        each = np.where(free, target * minus_log(s) + (1 - target) * minus_log(1 - s), 0)
        return float((weight * each.sum(1)).mean())
    if form.loss in ("standardised", "correlation"):
        mean = np.array([s[u, free[u]].mean() for u in range(N)])[:, None]
        var = np.array([s[u, free[u]].var() for u in range(N)])[:, None]
        s = (s - mean) / np.sqrt(var + 1e-8)
    if form.loss == "correlation":
        with np.errstate(invalid="ignore"):  # nothing is asked of somebody of whom nothing is hidden
            each = [np.corrcoef(s[u, free[u]], target[u, free[u]])[0, 1] for u in range(N)]
        return float(-(weight * target.sum(1) * np.nan_to_num(each)).mean())
    s = form.sharpness * s
    logs = s - logsumexp(np.where(free, s, -np.inf), axis=1, keepdims=True)
    return float(-(weight * (target * logs).sum(1)).mean())


FORMS = [
    Form(loss, hidden, sharpness, power)
    for loss in ("multinomial", "standardised", "correlation", "binary")
    for hidden, sharpness, power in (
        (0.0, 1.0, 0.0),
        (0.3, 0.25, 0.5),
        (0.2, 20.0, 1.0),
    )
]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_against_a_dense_reference(form: Form) -> None:
    found = objective.total(jnp.asarray(X_HAT), jnp.float32(0.5), _users(1, N), KEY, form)
    assert float(found) == pytest.approx(_reference(X_HAT, 0.5, form), rel=2e-5)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_gradient_against_differences_of_the_reference(form: Form) -> None:
    """In three random directions, central differences in float64."""
    slope = jax.grad(lambda x: objective.total(x, jnp.float32(0.5), _users(4, 6), KEY, form))(
        jnp.asarray(X_HAT)
    )
    for seed in range(3):
        direction = np.random.default_rng(seed).normal(size=X_HAT.shape)
        up, down = (_reference(X_HAT + e * direction, 0.5, form) for e in (1e-5, -1e-5))
        assert float((slope * direction).sum()) == pytest.approx((up - down) / 2e-5, rel=2e-3, abs=1e-3)


def test_blocks_do_not_matter() -> None:
    form = Form("standardised", 0.3, 0.25, 0.5)

    def both(users: Users):
        return jax.value_and_grad(lambda x: objective.total(x, jnp.float32(0.5), users, KEY, form))(
            jnp.asarray(X_HAT)
        )

    (whole, slope), (blocked, slopes) = both(_users(1, N)), both(_users(5, 5))
    assert float(blocked) == pytest.approx(float(whole), rel=1e-6)
    np.testing.assert_allclose(slopes, slope, rtol=1e-4, atol=1e-6)


def test_weights_are_values() -> None:
    weighted = X.astype(np.float32) * RNG.random(X.shape).astype(np.float32) * 3
    form = Form("multinomial")
    found = objective.total(jnp.asarray(X_HAT), jnp.float32(0.5), _users(1, N, weighted), KEY, form)
    assert float(found) == pytest.approx(_reference(X_HAT, 0.5, form, weighted), rel=2e-5)


@pytest.mark.parametrize("loss", ["multinomial", "standardised", "correlation", "binary"])
def test_what_is_shown_is_masked_whatever_its_weight(loss: str) -> None:
    """Weights below 1 as well: a shown item is not asked for."""
    weighted = X.astype(np.float32) * RNG.uniform(0.1, 0.9, X.shape).astype(np.float32)
    form = Form(loss, 0.5, 1.0, 0.5)
    found = objective.total(jnp.asarray(X_HAT), jnp.float32(0.5), _users(1, N, weighted), KEY, form)
    assert float(found) == pytest.approx(_reference(X_HAT, 0.5, form, weighted), rel=2e-5)


def test_l1_counts_row_sums() -> None:
    form, users = Form(), _users(1, N)
    plain = objective.total(jnp.asarray(X_HAT), jnp.float32(0.5), users, KEY, form)
    more = objective.total(
        jnp.asarray(X_HAT), jnp.float32(0.5), users, KEY, form, l1=10.0, mean_interactions=4.0
    )
    assert float(more - plain) == pytest.approx(10 * X_HAT.sum(1).mean() / 4, rel=1e-4)


def test_masks_hide_the_share_and_are_fresh() -> None:
    """0.3 of 4,000 items within 5 standard deviations; other users and other keys see other masks."""
    x = jnp.ones((2, 2000), jnp.uint8)
    form = Form(hidden=0.3)
    given, target, _ = objective._given_and_target(x, jnp.asarray([4, 5], jnp.uint32), KEY, form)
    np.testing.assert_array_equal(given + target, x)
    assert float(target.mean()) == pytest.approx(0.3, abs=5 * np.sqrt(0.21 / 4000))
    assert not np.array_equal(target[0], target[1])
    again, _, _ = objective._given_and_target(x, jnp.asarray([4, 5], jnp.uint32), KEY + 1, form)
    assert not np.array_equal(again, given)


def test_gradients_are_finite_at_identical_and_empty_rows() -> None:
    """Duplicate synthetic users, empty ones, and synthetic users equal to real ones: c = 1 in the kernel."""
    x_hat = X[:MU].astype(np.float32)
    x_hat[1], x_hat[2] = x_hat[0], 0
    ours = (Form(loss, 0.3, 0.25, 0.5) for loss in ("standardised", "correlation"))
    for form in (Form(), *ours, Form("binary")):
        slope = jax.grad(lambda x, f=form: objective.total(x, jnp.float32(1.0), _users(1, N), KEY, f))(
            jnp.asarray(x_hat)
        )
        assert np.isfinite(np.asarray(slope)).all()


def test_reg_has_the_gradient_of_the_loss() -> None:
    users, form = _users(1, N), Form()
    slope = jax.grad(lambda reg: objective.total(jnp.asarray(X_HAT), reg, users, KEY, form))(jnp.float32(0.5))
    up, down = (_reference(X_HAT, reg, form) for reg in (0.5 + 1e-4, 0.5 - 1e-4))
    assert float(slope) == pytest.approx((up - down) / 2e-4, rel=1e-2)


@pytest.mark.parametrize("loss", ["multinomial", "standardised", "correlation", "binary"])
def test_who_is_shown_every_item_has_no_say(loss: str) -> None:
    """Nothing is asked of such a user; nor may what is shown overflow where the rest is nearly constant."""
    scores = jnp.asarray([[0.1, 0.9, 0.4, 0.2], [50.0, 0.5, 0.5, 0.5], [0.3, 0.1, 0.7, 0.2]], jnp.float32)
    given = jnp.asarray([[1, 1, 1, 1], [1, 0, 0, 0], [0, 1, 0, 0]], jnp.float32)
    target = jnp.asarray([[0, 0, 0, 0], [0, 1, 0, 0], [1, 0, 0, 1]], jnp.float32)
    form = Form(loss, 0.3, sharpness=0.25, user_power=0.5)

    def of(rows: slice) -> tuple[jax.Array, jax.Array]:
        n = len(scores[rows])
        return objective._loss(scores[rows], given[rows], target[rows], jnp.ones(n), form, True)

    (value, slope), (others, slopes) = of(slice(0, 3)), of(slice(1, 3))
    assert np.isfinite(float(value)) and float(value) == pytest.approx(float(others), rel=1e-6)
    np.testing.assert_array_equal(slope[0], 0)
    np.testing.assert_allclose(slope[1:], slopes, rtol=1e-6)
    np.testing.assert_array_equal(np.asarray(slope)[np.asarray(given) > 0], 0)
