"""AR-CF: losses and gradients on a toy case, users like any sample's, and a generator that has learnt."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from infrec.data import Interactions
from infrec.errors import ConfigError, NotFittedError
from infrec.metrics import co_occurrence_agreement, popularity_distance
from infrec.models.trainer import Training
from infrec.samplers import ar_cf, sample
from infrec.samplers.ar_cf import ARCF

TINY = {"hidden": 32, "latent": 8, "profile": 8}


# ---- the two networks --------------------------------------------------------------------------------------
@pytest.fixture
def toy() -> dict[str, jax.Array]:
    """Two items, one hidden unit: D = 2 (x₁ − x₂ + c) + ½ where the unit is open."""
    return {
        "d.rows": jnp.array([[1.0], [-1.0]]),
        "d.profile": jnp.array([[1.0]]),
        "d.bias1": jnp.zeros(1),
        "d.hidden": jnp.eye(1),
        "d.bias2": jnp.zeros(1),
        "d.out": jnp.array([[2.0]]),
        "d.bias3": jnp.array(0.5),
        "g.noise": jnp.array([[1.0]]),
        "g.profile": jnp.array([[1.0]]),
        "g.bias1": jnp.zeros(1),
        "g.hidden": jnp.eye(1),
        "g.bias2": jnp.zeros(1),
        "g.out": jnp.array([[1.0, -1.0]]),
        "g.items": jnp.array([0.0, 3.0]),
    }


def softplus(x: float) -> float:
    return float(np.log1p(np.exp(x)))


def test_losses_by_hand(toy: dict[str, jax.Array]) -> None:
    """One user, profile 1: D(1, 0) = 2·2 + ½ = 4.5 and D(0, 1) = ½; the slope at (1, 0) is (2, −2)."""
    real, made, given = jnp.array([[1.0, 0.0]]), jnp.array([[0.0, 1.0]]), jnp.ones((1, 1))
    told, fooled = ar_cf.losses(toy, real, made, given, 3.0, jnp.ones(1))
    assert told == pytest.approx(softplus(-4.5) + softplus(0.5) + 0.5 * 3.0 * 8.0, rel=1e-6)
    assert fooled == pytest.approx(softplus(-0.5), rel=1e-6)


def test_users_that_fill_up_a_batch_do_not_count(toy: dict[str, jax.Array]) -> None:
    real, made, given = jnp.eye(2), jnp.eye(2)[::-1], jnp.array([[1.0], [-3.0]])
    alone = ar_cf.losses(toy, real[:1], made[:1], given[:1], 1.0, jnp.ones(1))
    filled = ar_cf.losses(toy, real, made, given, 1.0, jnp.array([1.0, 0.0]))
    np.testing.assert_allclose(alone, filled, rtol=1e-6)


def test_the_generator_by_hand(toy: dict[str, jax.Array]) -> None:
    """z = 2, profile 1: hidden 3, logits (3, 0); with z = −2 the unit is closed, logits (0, 3)."""
    for z, logits in ((2.0, [3.0, 0.0]), (-2.0, [0.0, 3.0])):
        out = ar_cf.generator(toy, jnp.array([[z]]), jnp.ones((1, 1)), jax.nn.relu)
        np.testing.assert_allclose(out, [logits], atol=1e-6)


def test_each_loss_moves_its_own_network(toy: dict[str, jax.Array]) -> None:
    given, z = jnp.ones((1, 1)), jnp.full((1, 1), 2.0)

    @jax.jit
    def both(params: dict[str, jax.Array]) -> tuple[jax.Array, jax.Array]:
        chances = jax.nn.sigmoid(ar_cf.generator(params, z, given, jax.nn.relu))
        made = ar_cf.straight_through(chances, jax.random.key(0))
        return ar_cf.losses(params, jnp.array([[1.0, 0.0]]), made, given, 1.0, jnp.ones(1))

    told, fooled = jax.jit(jax.jacrev(both))(toy)  # of both losses in every parameter
    for name in toy:
        other = fooled if name.startswith("d.") else told
        assert not np.any(other[name]), name
    assert np.any(fooled["g.out"])
    assert np.any(told["d.rows"])


def test_gradients_against_differences(toy: dict[str, jax.Array]) -> None:
    """Of both losses, with the drawn row held fixed: central differences in the parameters."""
    real, given = jnp.array([[1.0, 0.0]]), jnp.full((1, 1), 0.5)

    def told(rows_weight: jax.Array) -> jax.Array:
        params = {**toy, "d.rows": rows_weight}
        return ar_cf.losses(params, real, jnp.array([[0.0, 1.0]]), given, 0.7, jnp.ones(1))[0]

    exact, step = jax.grad(told)(toy["d.rows"]), 1e-2
    for at in range(2):
        shift = jnp.zeros((2, 1)).at[at].set(step)
        slope = (told(toy["d.rows"] + shift) - told(toy["d.rows"] - shift)) / (2 * step)
        assert exact[at, 0] == pytest.approx(float(slope), rel=0.02)

    def fooled(chance: jax.Array) -> jax.Array:
        made = jnp.array([[1.0, 0.0]]) * chance  # as if drawn: the gradient is passed straight through
        return ar_cf.losses(toy, real, made, given, 0.7, jnp.ones(1))[1]

    # d/dp of softplus(−D) = −σ(−D) · ∂D/∂x₁ = −σ(−3.5) · 2
    assert jax.grad(fooled)(jnp.array(1.0)) == pytest.approx(-2 / (1 + np.exp(3.5)), rel=1e-4)


def test_a_drawn_row_is_0_or_1_with_the_gradient_of_its_chances() -> None:
    chances = jnp.full((400, 50), 0.3)
    drawn, back = jax.vjp(lambda p: ar_cf.straight_through(p, jax.random.key(1)), chances)
    rounded = np.round(np.asarray(drawn), 5)
    assert set(np.unique(rounded)) == {0.0, 1.0}
    assert rounded.mean() == pytest.approx(0.3, abs=5 * np.sqrt(0.21 / chances.size))
    np.testing.assert_array_equal(back(jnp.full(chances.shape, 2.5))[0], 2.5)


def test_profiles(small_log: Interactions) -> None:
    found = ar_cf.profiles(small_log, 8)
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(found.std(axis=0), 1, atol=1e-4)
    assert np.corrcoef(found[:, 0], np.log(small_log.user_counts))[0, 1] == pytest.approx(1, abs=1e-5)
    # The four groups of users lie apart: each is nearer to its own mean than to the others'.
    groups = np.repeat(np.arange(4), 30)
    means = np.stack([found[groups == g, 1:5].mean(axis=0) for g in range(4)])
    nearest = ((found[:, None, 1:5] - means) ** 2).sum(axis=2).argmin(axis=1)
    assert (nearest == groups).mean() > 0.9
    assert ar_cf.profiles(Interactions.from_csr(np.eye(3)), 8).shape == (3, 8)


# ---- learning ----------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def world() -> Interactions:
    """120 users in 4 groups over 60 items: each prefers its own quarter, some items more than others."""
    rng = np.random.default_rng(5)
    taste = np.full((4, 30, 4, 15), 0.04)
    for group in range(4):
        taste[group, :, group] = np.linspace(0.95, 0.15, 15)
    likes = rng.random((120, 60)) < taste.reshape(120, 60)
    likes[np.arange(120), np.repeat(np.arange(4), 30) * 15] = True
    return Interactions.from_csr(likes)


@pytest.fixture(scope="module")
def learnt(world: Interactions) -> tuple[ARCF, ARCF]:
    """The same generator before and after 150 epochs."""
    settings = {**TINY, "epochs": 150}
    return Training(ARCF(**settings), world).model(), ARCF(**settings).fit(world)


def test_training_brings_the_users_statistics_to_the_datas(
    world: Interactions, learnt: tuple[ARCF, ARCF]
) -> None:
    """Popularity (total variation) and co-occurrence (1: as in the data), 2,000 users before and after."""
    away, agree = [], []
    for each in learnt:
        made = each.generate(2000).matrix
        away.append(popularity_distance(made, world.matrix))
        agree.append(co_occurrence_agreement(made, world.matrix, items=60))
    assert away[1] < 0.6 * away[0]
    assert abs(agree[0]) < 0.15
    assert agree[1] > 0.9


def test_an_untrained_generator_is_told_apart(world: Interactions, learnt: tuple[ARCF, ARCF]) -> None:
    """Somebody who knows only which quarter of the items a user is mostly in: real users stick to theirs."""

    def stick(rows: np.ndarray) -> float:
        quarters = rows.reshape(len(rows), 4, 15).sum(axis=2)
        return float((quarters.max(axis=1) / np.maximum(1, quarters.sum(axis=1))).mean())

    real = stick(world.matrix.toarray())
    before, after = (stick(each.generate(500).matrix.toarray()) for each in learnt)
    assert after - before > 0.6 * (real - before) > 0.1


def test_a_users_profile_decides_what_is_made(world: Interactions, learnt: tuple[ARCF, ARCF]) -> None:
    given = ar_cf.profiles(world, TINY["profile"])
    z = np.random.default_rng(0).standard_normal((120, TINY["latent"]))
    chances = learnt[1].chances(given, z)
    own = chances.reshape(4, 30, 4, 15).mean(axis=(1, 3))
    assert (own.argmax(axis=1) == np.arange(4)).all()


# ---- the contract of samplers ------------------------------------------------------------------------------
def some(log: Interactions, **size: float) -> Interactions:
    return sample(log, strategy="ar-cf", seed=3, epochs=2, **TINY, **size)  # type: ignore[arg-type]


def test_by_number_of_users(small_log: Interactions) -> None:
    few, more = some(small_log, users=7), some(small_log, users=120)
    assert (few.n_users, more.n_users) == (7, 120)
    assert few.items == small_log.items
    assert not few.weighted
    assert (few.user_counts > 0).all()
    assert few.titles == small_log.titles
    np.testing.assert_array_equal(few.matrix.toarray(), more.matrix[:7].toarray())  # the first of more


@pytest.mark.parametrize("percent", [0.5, 20, 100])
def test_by_percent(small_log: Interactions, percent: float) -> None:
    out, budget = some(small_log, percent=percent), percent / 100 * small_log.n_interactions
    assert out.n_interactions >= budget
    assert out.n_interactions - out.user_counts[-1] < budget


def test_the_seed_decides(small_log: Interactions) -> None:
    one = some(small_log, users=9)
    ar_cf._FITTED.clear()
    again = some(small_log, users=9)
    other = sample(small_log, strategy="ar-cf", seed=4, users=9, epochs=2, **TINY)
    np.testing.assert_array_equal(one.matrix.toarray(), again.matrix.toarray())
    assert (one.matrix != other.matrix).nnz > 0


def test_more_users_than_the_log_has_profiles(small_log: Interactions, learnt: tuple[ARCF, ARCF]) -> None:
    out = learnt[1].generate(ar_cf.BLOCK + 130)
    assert out.n_users == ar_cf.BLOCK + 130
    assert len(np.unique(out.matrix.toarray(), axis=0)) > 400  # profiles come again, users do not


def test_a_generator_does_not_keep_its_log_alive() -> None:
    import gc
    import weakref

    log = Interactions.from_csr(np.eye(12)[:, :10] + np.eye(12)[:, 1:11])
    some(log, users=2)
    gone = weakref.ref(log)
    del log
    gc.collect()
    assert gone() is None or gone() not in ar_cf._FITTED


def test_a_killed_fit_goes_on(small_log: Interactions, tmp_path) -> None:
    whole = ARCF(**TINY, epochs=4).fit(small_log)
    Training(ARCF(**TINY, epochs=4), small_log, checkpoint=tmp_path).run(2)
    resumed = ARCF(**TINY, epochs=4).fit(small_log, checkpoint=tmp_path)
    for name, array in whole.parameters.items():
        np.testing.assert_array_equal(array, resumed.parameters[name])


def test_bad_input(small_log: Interactions) -> None:
    with pytest.raises(ConfigError, match="epochs"):
        ARCF(epochs=0)
    with pytest.raises(ConfigError, match="penalty"):
        ARCF(penalty=-1)
    with pytest.raises(ConfigError, match="no setting 'layers'"):
        sample(small_log, strategy="ar-cf", users=3, layers=3)
    with pytest.raises(NotFittedError, match="fit"):
        ARCF().generate(3)
    with pytest.raises(ConfigError, match="user-rns has no setting 'epochs'"):
        sample(small_log, strategy="user-rns", users=3, epochs=3)
