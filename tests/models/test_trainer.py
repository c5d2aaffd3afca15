"""The trainer: losses by hand and by finite differences, pausing, resuming, early stopping."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from infrec.data import Interactions
from infrec.errors import ArtifactError, ConfigError, SolveError
from infrec.models import MF, MVAE, BiasOnly, LightGCN, NeuMF, sampling, trainer
from infrec.models.checkpoint import Interrupted
from infrec.models.sampling import Batch, Pairs
from infrec.models.trained import Trained
from infrec.models.trainer import Step, bpr, penalty
from infrec.randomness import generator
from infrec.splits import holdout


def small_mf(**settings: Any) -> MF:
    return MF(**{"latent": 8, "epochs": 12, **settings})


# ---- losses ------------------------------------------------------------------------------------------------
def test_bpr_and_penalty_by_hand() -> None:
    """Two users, three items, two pairs of weight ½: −½ Σ log σ(difference), ½ · ½ Σ of three squares."""
    scores = jnp.array([[1.0, 0.0, 2.0], [0.5, 0.5, -1.0]])
    pairs = Pairs(jnp.array([0, 1]), jnp.array([2, 0]), jnp.array([1, 2]), jnp.array([0.5, 0.5]))
    expected = 0.5 * (np.log1p(np.exp(-2.0)) + np.log1p(np.exp(-1.5)))
    assert float(bpr(scores, pairs)) == pytest.approx(expected, rel=1e-6)
    users, items = jnp.array([[1.0, 2.0], [3.0, 0.0]]), jnp.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    assert float(penalty(users, items, pairs)) == pytest.approx(0.25 * ((5 + 2 + 4) + (9 + 1 + 2)))


MODELS: list[Callable[[], Trained]] = [
    lambda: BiasOnly(solver="epochs"),
    lambda: MF(latent=3, l2=0.1),
    lambda: NeuMF(latent=4, layers=2, l2=0.1),
    lambda: LightGCN(latent=3, l2=0.1),
    lambda: MVAE(latent=3, hidden=6, dropout=0.3, l2=0.01),
]


@pytest.mark.parametrize("make", MODELS, ids=["bias-only", "mf", "neumf", "lightgcn", "mvae"])
def test_gradients_against_finite_differences(make: Callable[[], Trained], small_log: Interactions) -> None:
    """The slope along a random direction of each parameter, in float64."""
    with jax.enable_x64(True):
        _check_gradient(make(), small_log)


def _check_gradient(model: Trained, small_log: Interactions) -> None:
    program = model.program(small_log)
    sizes, arrays = sampling.on_device(small_log)
    users = jnp.arange(sizes.batch)
    batch = Batch(users, (users < small_log.n_users).astype(jnp.float32), jnp.int32(5000))
    constants = program.constants(sizes, small_log)
    hyper = {name: jnp.float64(value) for name, value in model.hyper(small_log).items()}
    start = program.start(sizes, small_log, generator(1, "test"))
    rng = np.random.default_rng(0)
    params = {
        name: jnp.asarray(array + 0.1 * rng.standard_normal(array.shape)) for name, array in start.items()
    }

    @jax.jit
    def loss(params: dict[str, Any]) -> Any:
        return program.loss(params, Step(batch, jax.random.key(0), arrays, constants, sizes), hyper)

    gradient = jax.jit(jax.grad(loss))(params)
    for name in params:
        direction = rng.standard_normal(params[name].shape)
        direction /= np.linalg.norm(direction)
        slope, h = float((gradient[name] * direction).sum()), 1e-6
        ahead, behind = (loss({**params, name: params[name] + s * h * direction}) for s in (1, -1))
        assert float(ahead - behind) / (2 * h) == pytest.approx(slope, rel=1e-3, abs=1e-7), name


@pytest.mark.parametrize("make", MODELS[1:], ids=["mf", "neumf", "lightgcn", "mvae"])
def test_padding_stays_out(make: Callable[[], Trained], small_log: Interactions) -> None:
    """Columns beyond the latent size are 0 after training as before it."""
    training = make().training(small_log).run(3)
    params = training._state.params
    latent = training._model.settings.latent
    for name in ("users", "items", "users_mlp", "items_mlp"):
        if name in params:
            assert float(jnp.abs(params[name][:, latent:]).max()) == 0
    if "decoder0.weight" in params:
        assert float(jnp.abs(params["mean.weight"][:, latent:]).max()) == 0
        assert float(jnp.abs(params["decoder0.weight"][latent:]).max()) == 0


# ---- pausing and resuming ----------------------------------------------------------------------------------
def same(one: Trained, other: Trained) -> bool:
    return all(np.array_equal(one.parameters[name], other.parameters[name]) for name in one.parameters)


def test_pausing_changes_nothing(small_log: Interactions) -> None:
    straight = small_mf(dropout=0.3).training(small_log).run()
    paused = small_mf(dropout=0.3).training(small_log)
    for until in (1, 4, 5, 12):
        paused.run(until)
        assert paused.epoch == until
    assert same(straight.model(), paused.model())
    assert straight.done
    assert not same(straight.model(), small_mf(dropout=0.3, seed=1).training(small_log).run().model())


def test_a_killed_training_goes_on_to_the_same_bits(small_log: Interactions, tmp_path: Path) -> None:
    """kill -9 in the middle of a process that trains; the next call resumes from its last checkpoint."""
    split = holdout(small_log, seed=42)
    script = f"""
import os, signal
from tests.models.test_trainer import small_mf, scripted
from infrec.models import trainer
import tests.conftest as c
log = c.small_log.__wrapped__()
from infrec.splits import holdout
trainer.SECONDS_BETWEEN_CHECKPOINTS = 0
def progress(stage, done, total=None, **facts):
    if done == 8:
        os.kill(os.getpid(), signal.SIGKILL)
training = small_mf().training(holdout(log, seed=42).train, checkpoint={str(tmp_path / "run")!r})
training.run(None, scripted([3, 9, 4]), progress)
"""
    root = Path(__file__).parents[2]
    ran = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True)
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    resumed = small_mf().training(split.train, checkpoint=tmp_path / "run")
    began: list[float] = []
    resumed.run(None, scripted([9, 4]), lambda stage, done, total=None, **facts: began.append(done))
    assert began[0] == 8  # seven were done
    straight = small_mf().training(split.train).run(None, scripted([3, 9, 4]))
    assert same(resumed.model(), straight.model())
    assert same(resumed.best, straight.best)
    assert resumed.scores == straight.scores


def scripted(values: list[float]) -> Callable[[Any], float]:
    """A validation that says what it is told to, one value after the other."""
    rest = iter(values)
    return lambda model: next(rest)


def test_asked_to_stop_it_saves_and_says_so(small_log: Interactions, tmp_path: Path) -> None:
    def stop(stage: str, done: float, total: float | None = None, **facts: object) -> None:
        if done == 3:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Interrupted, match="stopped at epoch 3 of 12"):
        small_mf().training(small_log, checkpoint=tmp_path / "run").run(progress=stop)
    resumed = small_mf().training(small_log, checkpoint=tmp_path / "run").run()
    assert same(resumed.model(), small_mf().training(small_log).run().model())
    with pytest.raises(ConfigError, match=r"rate = 0\.006, this one has 0\.01"):
        small_mf(rate=0.01).training(small_log, checkpoint=tmp_path / "run").run()
    (tmp_path / "run" / "checkpoint" / "arrays.safetensors").write_bytes(b"damaged")
    with pytest.raises(ArtifactError, match="damaged"):
        small_mf().training(small_log, checkpoint=tmp_path / "run").run()


def test_fit_resumes_too(small_log: Interactions, tmp_path: Path) -> None:
    """Both trainings of a fit without validation: the one that finds the epochs, and the final one."""

    def cut(after: int) -> Callable[..., None]:
        calls = iter(range(after))

        def progress(stage: str, done: float, total: float | None = None, **facts: object) -> None:
            if next(calls, None) is None:
                raise KeyboardInterrupt

        return progress

    for after in (6, 40):
        with pytest.raises(KeyboardInterrupt):
            small_mf(epochs="auto").fit(small_log, checkpoint=tmp_path / "fit", progress=cut(after))
    resumed = small_mf(epochs="auto").fit(small_log, checkpoint=tmp_path / "fit")
    straight = small_mf(epochs="auto").fit(small_log)
    assert resumed.selected == straight.selected
    assert same(resumed, straight)


def test_a_checkpoint_belongs_to_its_validation_data(small_log: Interactions, tmp_path: Path) -> None:
    split = holdout(small_log, seed=42)
    model = small_mf(epochs="auto").fit(split.train, validation=split.val, checkpoint=tmp_path / "fit")
    again = small_mf(epochs="auto").fit(split.train, validation=split.val, checkpoint=tmp_path / "fit")
    assert same(model, again)
    with pytest.raises(ConfigError, match=r"a run with validation = .* choose another directory"):
        small_mf(epochs="auto").fit(split.train, validation=split.test, checkpoint=tmp_path / "fit")


# ---- early stopping ----------------------------------------------------------------------------------------
def test_the_best_is_kept_and_patience_ends_it(small_log: Interactions) -> None:
    training = small_mf(epochs="auto").training(small_log)
    training.run(None, scripted([1, 5, 2, 5, 3, 4, 4, 4, 9]))
    assert training.best_epoch == 2 * training.every  # of equals the first
    assert training.epoch == (2 + training.patience) * training.every
    assert training.done
    exact = small_mf(epochs=training.best_epoch).training(small_log).run()
    assert same(training.best, exact.model())
    assert training.best.selected["epochs"] == training.best_epoch


def test_early_stopping_looks_at_validation(small_log: Interactions) -> None:
    split = holdout(small_log, seed=42)
    model = MF().fit(split.train, validation=split.val)
    assert 1 <= model.selected["epochs"] < MF.most_epochs
    again = MF(**model.selected).fit(split.train)
    assert same(model, again)


def test_the_next_fit_looks_at_its_own_data(small_log: Interactions, checkerboard: Interactions) -> None:
    split = holdout(small_log, seed=42)
    first = MF().fit(split.train, validation=split.val)
    again = first.with_settings(epochs="auto").fit(checkerboard)
    assert same(again, MF().fit(checkerboard))


def test_users_of_a_context_are_judged_by_their_history(small_log: Interactions) -> None:
    """Trained on some users, stopped early on others: validation rows are not the training rows."""
    split = holdout(small_log, seed=42)
    half = split.train.select_users(np.arange(0, 120, 2))
    model = MF().watched(split.val, split.train.matrix).fit(half)
    assert model.log.n_users == 60
    assert 1 <= model.selected["epochs"] < MF.most_epochs


def test_nothing_to_hold_out() -> None:
    log = Interactions.from_csr(np.eye(4, dtype=bool))
    assert MF().fit(log).selected["epochs"] == MF.fallback_epochs


def test_a_loss_that_explodes_is_an_error(small_log: Interactions) -> None:
    with pytest.raises(SolveError, match=r"not finite.*smaller rate"):
        small_mf(rate=1e30).fit(small_log)


# ---- compilation -------------------------------------------------------------------------------------------
def test_a_search_compiles_once(small_log: Interactions) -> None:
    small_mf().training(small_log).run(1)
    before = trainer._epoch._cache_size()
    for changes in (
        {"latent": 4},
        {"latent": 64},
        {"rate": 0.01},
        {"dropout": 0.5},
        {"l2": 0.3},
        {"seed": 1},
    ):
        small_mf(**changes).training(small_log).run(1)
    assert trainer._epoch._cache_size() == before
