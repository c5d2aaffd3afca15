"""MVAE carried on: ADER's weight and loss where they can be worked out by hand, and what they are for."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from infrec.data import Interactions
from infrec.models import batches
from infrec.models.batches import Batch, Log, PaddedSizes, Sizes, Step
from infrec.paper.ader import BASE_WEIGHT, Memory, Rehearsal, Update, UpdatedMVAE, adaptive_weight, share
from infrec.randomness import generator
from infrec.splits import hide

pytestmark = pytest.mark.usefixtures("compiled_quickly")

COUNTS = st.integers(1, 10**6)


# ---- the adaptive weight -----------------------------------------------------------------------------------
def test_the_weight_by_hand() -> None:
    assert adaptive_weight(50, 100, 200, 400) == pytest.approx(0.8 * math.sqrt(0.5 * 0.5))
    assert adaptive_weight(100, 100, 300, 300) == BASE_WEIGHT  # neither items nor interactions have grown


@given(COUNTS, COUNTS)
def test_nothing_new_puts_all_weight_on_the_past_and_no_past_none(items: int, held: int) -> None:
    assert share(adaptive_weight(items, items, held, 0)) == 1.0
    assert adaptive_weight(items, items, 0, held) == adaptive_weight(0, items, held, held) == 0.0
    assert share(0.0) == 0.0


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_the_more_is_new_the_less_the_past_weighs(before: int, more: int, held: int, new: int) -> None:
    weight = adaptive_weight(before, before + more, held, new)
    assert 0 < weight < adaptive_weight(before, before, held, new)
    assert adaptive_weight(before, before + more, held, new + 1) < weight
    assert 0 < share(weight) < 1


# ---- the loss ----------------------------------------------------------------------------------------------
def update_of(log: Interactions, weight: float, before: int) -> Update:
    """Exemplars: the first three users, whose items beyond `before` nobody knew."""
    known = np.arange(log.n_items) < before
    taught = np.where(known, np.arange(1.0, log.n_items + 1), 0.0) * np.ones((3, 1))
    taught /= taught.sum(axis=1, keepdims=True)
    past = Memory(known, exemplars=sp.csr_array(log.matrix[:3]), taught=taught.astype(np.float32))
    return Update(past, np.ones(log.n_items, bool), weight)


def loss_of(log: Interactions, update: Update, **changes: np.ndarray) -> float:
    """With all weights 0 but those that are given."""
    program = UpdatedMVAE(latent=4, hidden=6).with_update(update).program(log)
    sizes, arrays = batches.on_device(log)
    params = {k: np.zeros_like(v) for k, v in program.start(sizes, log, generator(0, "x")).items()}
    for name, value in changes.items():
        params[name.replace("_", ".")][: len(value)] = value
    return float(compiled(program, sizes, params, arrays, program.constants(sizes, log)))


@partial(jax.jit, static_argnums=(0, 1))
def compiled(program: Rehearsal, sizes: Sizes, params: dict, arrays: Log, constants: dict) -> jax.Array:
    users = jnp.arange(sizes.batch)
    batch = Batch(users, (users < arrays.n_users).astype(jnp.float32), jnp.int32(10**6))
    step = Step(batch, jax.random.key(0), arrays, constants, sizes)
    hyper = {"dropout": jnp.float32(0), "l2": jnp.float32(0), "beta": jnp.float32(1)}
    return program.loss(params, step, hyper)


def test_the_loss_by_hand(small_log: Interactions) -> None:
    """Nothing learnt: each item is as likely as any other, of all 60 for new users, of 40 for exemplars."""
    per_user = small_log.n_interactions / small_log.n_users
    new, old = per_user * math.log(60), per_user * math.log(40)
    assert loss_of(small_log, update_of(small_log, 0.0, 40)) == pytest.approx(new, rel=1e-5)
    assert loss_of(small_log, update_of(small_log, math.inf, 40)) == pytest.approx(old, rel=1e-5)
    assert loss_of(small_log, update_of(small_log, 3.0, 40)) == pytest.approx((new + 3 * old) / 4, rel=1e-5)


def test_the_past_is_what_the_model_said(small_log: Interactions) -> None:
    """L_KD is least, the entropy of what was taught, where the model says just that."""
    update = update_of(small_log, math.inf, 60)
    assert update.past.taught is not None
    taught = update.past.taught[0]
    entropy = -float((taught * np.log(taught)).sum()) * small_log.n_interactions / small_log.n_users
    said = loss_of(small_log, update, out_bias=np.log(taught))
    assert said == pytest.approx(entropy, rel=1e-4)
    assert loss_of(small_log, update) > said


# ---- what it is for ----------------------------------------------------------------------------------------
ROOM = PaddedSizes(users=128, interactions=2048, batch=2048, longest=40)


def trained(
    log: Interactions, update: Update, epochs: int = 12
) -> tuple[UpdatedMVAE, dict[str, np.ndarray], int]:
    model = UpdatedMVAE(latent=8, hidden=32, epochs=epochs, rate=0.01).with_update(update)
    training = model.training(log).run()
    return training.best, training.best_parameters, epochs * training.steps  # type: ignore[return-value]


def found(model: UpdatedMVAE, shown: Interactions, hidden: Interactions) -> float:
    """The share of hidden items among the ten best."""
    scores = model.score(shown.matrix) - 1e6 * (shown.matrix.toarray() > 0)
    best = np.argsort(-scores, axis=1)[:, :10]
    return float(np.take_along_axis(hidden.matrix.toarray(), best, axis=1).sum() / hidden.n_interactions)


def test_exemplars_keep_the_past(small_log: Interactions) -> None:
    """Two groups of users, then two others, with other items: replay keeps what was learnt of the first."""
    first, second = (small_log.select_users(np.arange(at, at + 60)) for at in (0, 60))
    shown, hidden = hide(first, seed=1)
    items = np.ones(small_log.n_items, bool)
    model, parameters, steps = trained(shown, Update(Memory(items), items, room=ROOM))
    learnt = found(model, shown, hidden)
    exemplars = shown.matrix[::4]
    forgetful = Memory(items, parameters, steps)
    past = replace(forgetful, exemplars=exemplars, taught=model.probabilities(exemplars))
    weight = adaptive_weight(60, 60, exemplars.nnz, second.n_interactions)
    replayed, _, _ = trained(second, Update(past, items, weight, ROOM))
    forgotten, _, _ = trained(second, Update(forgetful, items, room=ROOM))
    assert learnt > 0.5
    assert found(replayed, shown, hidden) > 0.85 * learnt
    assert found(forgotten, shown, hidden) < found(replayed, shown, hidden) - 0.1


def test_an_update_goes_on_from_what_was_learnt(small_log: Interactions) -> None:
    items = np.ones(small_log.n_items, bool)
    log = small_log.select_users(np.arange(60))
    model, parameters, steps = trained(log, Update(Memory(items), items, room=ROOM))
    on = UpdatedMVAE(latent=8, hidden=32, epochs=12, rate=0.01).with_update(
        Update(Memory(items, parameters, steps), items, room=ROOM)
    )
    np.testing.assert_array_equal(on.training(log).model().score(log.matrix), model.score(log.matrix))


def test_items_never_seen_stay_untouched_and_come_last(small_log: Interactions) -> None:
    """The last five items are in nobody's history: they are learnt nothing about, not even that they lack."""
    known = np.arange(small_log.n_items) < 55
    dense = small_log.matrix.toarray()
    log = small_log.with_matrix(sp.csr_array(dense * known)).select_users(np.arange(60))
    model, parameters, _ = trained(log, Update(Memory(known), known, room=ROOM), epochs=3)
    begun = model.program(log).start(
        batches.on_device(log, room=ROOM)[0], log, generator(42, "start", "mvae")
    )
    for name, at in (
        ("encoder0.weight", np.s_[55:60]),
        ("out.weight", np.s_[:, 55:60]),
        ("out.bias", np.s_[55:60]),
    ):
        np.testing.assert_array_equal(parameters[name][at], begun[name][at])
    assert (parameters["out.bias"][:55] != 0).all()
    scores = model.score(small_log.matrix)
    assert (scores[:, 55:].max(axis=1) < scores[:, :55].min(axis=1)).all()
    np.testing.assert_array_equal(
        scores, model.score(sp.csr_array(dense * known))
    )  # nor do they say anything
    assert model.probabilities(log.matrix)[:, 55:].sum() == 0
    np.testing.assert_allclose(model.probabilities(log.matrix).sum(axis=1), 1, rtol=1e-5)


def test_logs_in_the_same_room_share_shapes(small_log: Interactions) -> None:
    logs = [small_log.select_users(np.arange(n)) for n in (20, 70, 120)]
    room = PaddedSizes.for_all(logs)
    shapes = {batches.on_device(log, room=room)[0] for log in logs}
    assert len(shapes) == 1
    assert next(iter(shapes)) == batches.on_device(small_log)[0]
