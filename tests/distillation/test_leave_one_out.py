"""Targets from everybody else: exactly the item model without the user, and nothing of the user in it."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax

from infrec.data import Interactions
from infrec.data.synthetic import generate
from infrec.distillation import batches, distill, leave_one_out, objective
from infrec.distillation.batches import UserBatches
from infrec.distillation.leave_one_out import LeaveOneOutTargets, UserModel
from infrec.distillation.objective import Form
from infrec.distillation.settings import DistillSettings
from infrec.errors import ConfigError, SolveError
from infrec.kernels import kernel_of
from infrec.models import EASE

pytestmark = pytest.mark.usefixtures("compiled_quickly")

RNG = np.random.default_rng(3)
KERNEL = kernel_of(1)


def _matrix(n: int = 40, d: int = 17, share: float = 0.3) -> sp.csr_array:
    x = (RNG.random((n, d)) < share).astype(np.float32)
    x[np.arange(n), RNG.integers(0, d, n)] = 1.0  # nobody has nothing
    return sp.csr_array(x)


def _by_hand(x: np.ndarray, user: int, reg: float, weight: np.ndarray) -> np.ndarray:
    """Fit EASE without the user, score the user, standardise."""
    keep = np.arange(len(x)) != user
    p = np.linalg.inv((x[keep].T * weight[keep]) @ x[keep] + reg * np.eye(x.shape[1]))
    b = -p / np.diag(p)
    np.fill_diagonal(b, 0.0)
    scores = x[user] @ b
    return (scores - scores.mean()) / scores.std()


@pytest.mark.parametrize("weighted", [False, True])
def test_scores_are_those_of_the_model_without_the_user(weighted):
    x = _matrix()
    weights = (0.5 + RNG.random(x.shape[0])).astype(np.float32) if weighted else None
    model = LeaveOneOutTargets.fit(x, weights=weights)
    found = model.scores(x, np.arange(x.shape[0]))
    for user in range(x.shape[0]):
        wanted = _by_hand(x.toarray().astype(np.float64), user, model.reg, model.weight.astype(np.float64))
        np.testing.assert_allclose(found[user], wanted, atol=2e-4)


@pytest.mark.parametrize("scale", [1, 30, 1000])
def test_counts_of_any_size_leave_the_user_out_as_exactly(scale):
    """Plays of songs, more songs than people: with λ of a 0/1 log, one user less is lost in rounding."""
    rng = np.random.default_rng(0)
    x = (rng.random((60, 150)) < 0.2) * np.ceil(scale * rng.lognormal(0, 1.5, (60, 150)))
    counts = sp.csr_array(x.astype(np.float32))
    model = LeaveOneOutTargets.fit(counts, sharpness=0.25)
    found = model.scores(counts, np.arange(60))
    for user in range(0, 60, 7):
        wanted = _by_hand(x, user, model.reg, np.ones(60))
        np.testing.assert_allclose(found[user], wanted, atol=2e-2)


def test_weights_that_float32_cannot_hold_together_are_refused():
    x = np.where(RNG.random((16, 18)) < 0.3, 10.0 ** RNG.uniform(-22, 22, (16, 18)), 0.0)
    with pytest.raises(SolveError, match="--targets own"):
        LeaveOneOutTargets.fit(sp.csr_array(x.astype(np.float32)))


def test_without_leaving_out_it_is_our_ease():
    x = _matrix()
    model = LeaveOneOutTargets.fit(x)
    scores = LeaveOneOutTargets(
        model.inverse, model.items, np.zeros(x.shape[0], np.float32), model.reg
    ).scores(x, np.arange(x.shape[0]))
    log = Interactions.from_csr(x)
    plain = EASE(reg=model.reg).fit(log).score(x)
    plain = (plain - plain.mean(1, keepdims=True)) / plain.std(1, keepdims=True)
    np.testing.assert_allclose(scores, plain, atol=2e-4)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 39), st.integers(0, 16))
def test_an_items_score_does_not_depend_on_having_it(user, item):
    """Whether the user has the item enters neither through the model nor through the user's own history."""
    x = _matrix().toarray()
    model = LeaveOneOutTargets.fit(sp.csr_array(x))
    raw = []
    for has in (0.0, 1.0):
        x[user, item] = has
        p = np.linalg.inv(x.T @ x + model.reg * np.eye(x.shape[1])).astype(np.float32)
        own = sp.csr_array(x[[user]])
        raw.append(
            leave_one_out._without_self(own.toarray(), own @ p, np.diag(p), np.ones(1, np.float32))[0, item]
        )
    assert raw[0] == pytest.approx(raw[1], abs=1e-4)


@pytest.mark.parametrize(("kernel", "exponent"), [(None, None), (kernel_of(1), None), (kernel_of(1), 1.5)])
def test_powers_on_a_device_are_the_same(monkeypatch, kernel, exponent):
    """With a model of items alone, and with one of users, of whom some are no centres."""
    monkeypatch.setattr(leave_one_out, "MOST_CENTRES", 20)
    x = _matrix()
    model = LeaveOneOutTargets.fit(x, kernel=kernel, exponent=exponent)
    who = np.arange(5, 25)
    here = model.powers(x, who)
    monkeypatch.setattr(leave_one_out.devices, "device", lambda: "one")
    there = model.powers(x, who)
    np.testing.assert_allclose(np.asarray(there), here, atol=2e-3)
    assert there.dtype == np.float16


def test_unpopular_items_and_users_beyond_the_limits(monkeypatch):
    x = _matrix(60, 20)
    monkeypatch.setattr(leave_one_out, "MOST_ITEMS", 12)
    monkeypatch.setattr(leave_one_out, "MOST_USERS", 30)
    model = LeaveOneOutTargets.fit(x)
    assert model.inverse.shape == (12, 12) and (model.weight > 0).sum() == 30
    scores = model.scores(x, np.arange(60))
    rest = np.setdiff1d(np.arange(20), model.items)
    counts = np.bincount(x.indices, minlength=20)
    assert counts[model.items].min() >= counts[rest].max()
    assert (
        np.ptp(scores[:, rest], axis=1).max() < 1e-6
    )  # nothing is known of them, whether one has them or not
    assert np.isfinite(scores).all()


def _kernel_ridge(x: np.ndarray, users: np.ndarray, weight: np.ndarray, of: np.ndarray) -> np.ndarray:
    """∞-AE fitted on some users, asked for a row: in float64, standardised."""
    k = KERNEL.matrix(x @ x.T, (x * x).sum(1), d=x.shape[1])
    added = leave_one_out.USER_REG * np.diag(k).mean()
    some = x[users]
    k = k[np.ix_(users, users)] + np.diag(added / weight[users])
    between = KERNEL.from_gram(of @ some.T, (of * of).sum(1), (some * some).sum(1), d=x.shape[1])
    scores = between @ np.linalg.solve(k, some)
    return (scores - scores.mean(1, keepdims=True)) / scores.std(1, keepdims=True)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_model_of_users_is_that_of_all_others(weighted):
    x = _matrix()
    dense = x.toarray().astype(np.float64)
    weight = (0.5 + RNG.random(40)).astype(np.float32) if weighted else np.ones(40, np.float32)
    model = UserModel.fit(x, KERNEL, weight, RNG)
    found = model.scores(x, np.arange(40))
    for user in range(40):
        others = np.delete(np.arange(40), user)
        wanted = _kernel_ridge(dense, others, weight.astype(np.float64), dense[[user]])
        np.testing.assert_allclose(found[[user]], wanted, atol=2e-3)


def test_users_beyond_the_centres_are_scored_by_them(monkeypatch):
    monkeypatch.setattr(leave_one_out, "MOST_CENTRES", 25)
    x = _matrix()
    model = UserModel.fit(x, KERNEL, np.ones(40, np.float32), RNG)
    inside = np.flatnonzero(model.place >= 0)
    outside = np.flatnonzero(model.place < 0)
    assert (len(inside), len(outside)) == (25, 15)
    k = KERNEL.matrix((x @ x.T).toarray(), np.asarray(x.multiply(x).sum(1)).ravel(), d=17)
    added = leave_one_out.USER_REG * np.diag(k)[inside].mean()
    scores = k[np.ix_(outside, inside)] @ np.linalg.solve(
        k[np.ix_(inside, inside)] + added * np.eye(25), x[inside].toarray()
    )
    wanted = (scores - scores.mean(1, keepdims=True)) / scores.std(1, keepdims=True)
    found = model.scores(x, np.arange(40))
    np.testing.assert_allclose(found[outside], wanted, atol=2e-3)
    np.testing.assert_allclose(found[inside], model.scores(x, inside), atol=1e-5)


def test_two_models_have_the_same_say():
    x, who = _matrix(), np.arange(3, 30)
    both = LeaveOneOutTargets.fit(x, kernel=KERNEL)
    assert both.users is not None
    mean = LeaveOneOutTargets.fit(x).scores(x, who) + both.users.scores(x, who)
    wanted = (mean - mean.mean(1, keepdims=True)) / mean.std(1, keepdims=True)
    np.testing.assert_allclose(both.scores(x, who), wanted, atol=1e-4)


def test_settings_are_those_under_which_others_predict_best():
    log = generate(150, 40, 2500, seed=5)
    x = log.matrix.toarray().astype(np.float64)

    def likely(reg: float, beta: float) -> float:
        z = np.array([_by_hand(x, user, reg, np.ones(len(x))) for user in range(len(x))])
        return float(np.mean((x * log_softmax(beta * z, axis=1)).sum(1) / np.sqrt(x.sum(1))))

    values = {
        (reg, 1.0 / t): likely(reg, 1.0 / t) for reg in leave_one_out.GRID for t in leave_one_out.FLATTER
    }
    best = max(values, key=lambda each: values[each])
    assert leave_one_out.GRID[0] < best[0] < leave_one_out.GRID[-1]  # or the test would say little
    assert 1.0 / leave_one_out.FLATTER[-1] < best[1] < 1.0
    model = LeaveOneOutTargets.fit(log.matrix, sharpness=1.0)
    assert (model.reg, model.sharpness) == best


def test_targets_are_spread_over_what_is_not_shown():
    x = (RNG.random((6, 30)) < 0.4).astype(np.uint8)
    wanted = RNG.random((6, 30)).astype(np.float16)
    user, key = jnp.arange(6, dtype=jnp.uint32), jnp.asarray([1, 2], jnp.uint32)
    form = Form("standardised", hidden=0.5)
    given_, own, _ = objective._given_and_target(x, user, key, form)
    same, target, hide = objective._given_and_target(x, user, key, form, jnp.asarray(wanted))
    np.testing.assert_array_equal(given_, same)
    assert hide and not np.asarray(target)[np.asarray(given_) > 0].any()
    np.testing.assert_allclose(target.sum(1), own.sum(1), rtol=1e-5)
    free = np.asarray(given_) == 0
    share = np.where(free, wanted.astype(np.float32), 0)
    expected = share / share.sum(1, keepdims=True) * np.asarray(own).sum(1, keepdims=True)
    np.testing.assert_allclose(target, expected, rtol=1e-4, atol=1e-6)
    _, mixed, _ = objective._given_and_target(
        x, user, key, form._replace(own_share=0.25), jnp.asarray(wanted)
    )
    np.testing.assert_allclose(mixed, 0.25 * np.asarray(own) + 0.75 * expected, rtol=1e-4, atol=1e-6)


def test_powers_of_scores_above_the_mean():
    x, who = _matrix(), np.arange(7)
    model = LeaveOneOutTargets.fit(x, exponent=1.5)
    z = np.maximum(model.scores(x, who), 0.0)
    expected = (z / z.max(1, keepdims=True)) ** 1.5
    np.testing.assert_allclose(model.powers(x, who), expected, atol=1e-3)


def test_where_it_is_the_default_and_where_it_is_refused():
    assert DistillSettings.of("discrete").targets == "others"
    assert DistillSettings.of("published").targets == "own"
    size = {"n_users": 6_000, "n_items": 3_000, "interactions": 800_000}
    own, others = (
        DistillSettings.of("discrete", targets=each).resolved(**size) for each in ("own", "others")
    )
    assert (own.hidden, own.steps) == (0.2, 400) and (others.hidden, others.steps) == (0.4, 200)
    assert DistillSettings.of("discrete", targets="own", hidden=0.5).hidden == 0.5
    assert DistillSettings.of("discrete", loss="binary").targets == "own"
    with pytest.raises(ConfigError, match="expected loss=standardised"):
        DistillSettings.of("published", targets="others")


@pytest.mark.parametrize("users", [2_000, 8_000, 30_000])
def test_who_predicts_what_on_which_logs(users):
    """The length of histories decides, not the number of users."""
    sparse = {"n_users": users, "n_items": 7_000, "interactions": 38 * users}
    short = {"n_users": 3_000, "n_items": 1_000, "interactions": 6_000}
    dense = {"n_users": 6_000, "n_items": 3_000, "interactions": 800_000}
    for log, expected in (
        (sparse, ("both", 0.2, 0.15, "correlation")),
        (dense, ("items", 0.5, 0.25, "standardised")),
        (short, ("items", 0.3, 0.15, "standardised")),
    ):
        settings = DistillSettings.of("weighted").resolved(**log)
        assert (settings.others, settings.hidden, settings.sharpness, settings.loss) == expected
    assert DistillSettings.of("weighted", others="items").resolved(**sparse).others == "items"
    assert DistillSettings.of("weighted", targets="own").resolved(**sparse).loss == "standardised"
    assert DistillSettings.of("discrete").resolved(**sparse).others == "items"


def test_targets_change_the_summary(small_log):
    made = {t: distill(small_log, 8, targets=t, hidden=0.3, steps=6, seed=1) for t in ("own", "others")}
    assert made["own"].about["settings"]["targets"] == "own"
    assert (made["own"].matrix != made["others"].matrix).nnz > 0
    assert made["own"].n_interactions == made["others"].n_interactions


# ---- processors without half precision ---------------------------------------------------------------------
def test_wider_targets_hold_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = _matrix()
    fit = partial(LeaveOneOutTargets.fit, matrix, sharpness=0.5)
    feeds = [UserBatches(matrix, batch=None, seed=3, on_gpu=False, others=fit) for _ in range(2)]
    narrow = feeds[0].at(0).wanted
    monkeypatch.setattr(batches, "half_precision", lambda: np.float32)
    wide = feeds[1].at(0).wanted
    assert narrow is not None and wide is not None
    assert (narrow.dtype, wide.dtype) == (jnp.float16, jnp.float32)
    np.testing.assert_array_equal(np.asarray(narrow, np.float32), np.asarray(wide))


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="other processors have it always")
def test_targets_on_a_processor_without_f16c() -> None:
    """XLA is told to do without it; what it compiles for the step then adds the targets up."""
    code = (
        "import jax, numpy as np, scipy.sparse as sp\n"
        "from functools import partial\n"
        "from infrec.distillation import batches\n"
        "from infrec.distillation.batches import UserBatches\n"
        "from infrec.distillation.leave_one_out import LeaveOneOutTargets\n"
        "x = sp.csr_array((np.random.default_rng(0).random((40, 30)) < 0.3).astype(np.float32))\n"
        "others = partial(LeaveOneOutTargets.fit, x)\n"
        "feed = UserBatches(x, batch=None, seed=3, on_gpu=False, others=others)\n"
        "wanted = feed.at(0).wanted\n"
        "largest = jax.jit(lambda x: x.astype('float32').max(axis=2).sum())(wanted)\n"
        "print(batches.half_precision().__name__, float(largest))\n"
    )
    flags = {**os.environ, "XLA_FLAGS": "--xla_cpu_max_isa=SSE4_2", "JAX_PLATFORMS": "cpu"}
    ran = subprocess.run([sys.executable, "-c", code], env=flags, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, "float32 40.0\n"), ran.stderr
