"""The trainer: pausing, resuming, early stopping, compiling once."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from infrec import machine, models
from infrec.checkpoints import Interrupted
from infrec.data import Interactions
from infrec.errors import ArtifactError, ConfigError, DataError, MemoryBudgetError, SolveError
from infrec.models import MF, batches, trainer
from infrec.models.gradient_model import GradientModel
from infrec.splits import holdout
from tests import hostile


def small_mf(**settings: Any) -> MF:
    return MF(**{"latent": 8, "epochs": 12, **settings})


# ---- pausing and resuming ----------------------------------------------------------------------------------
def same(one: GradientModel, other: GradientModel) -> bool:
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
from infrec import checkpoints
import tests.conftest as c
log = c.small_log.__wrapped__()
from infrec.splits import holdout
checkpoints.SECONDS_BETWEEN_CHECKPOINTS = 0
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
    assert began[:2] == [7, 8]  # seven were done
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
    model = MF().early_stop_on(split.val, split.train.matrix).fit(half)
    assert model.log.n_users == 60
    assert 1 <= model.selected["epochs"] < MF.most_epochs


def test_nothing_to_hold_out() -> None:
    log = Interactions.from_csr(np.eye(4, dtype=bool))
    assert MF().fit(log).selected["epochs"] == MF.fallback_epochs


def test_a_loss_that_explodes_is_an_error(small_log: Interactions) -> None:
    with pytest.raises(SolveError, match=r"not finite.*smaller rate"):
        small_mf(rate=1e30).fit(small_log)


DAMAGE: list[Callable[[Path], None]] = [
    lambda place: hostile.reseal(place, lambda d: d["state"].update(loss=float("inf"))),
    lambda place: hostile.reseal(place, lambda d: d["state"].update(epoch=10**6)),
    lambda place: hostile.reseal(place, lambda d: d["state"].update(epoch=0)),
    lambda place: hostile.reseal(place, lambda d: d["state"].update(scores=[[1]])),
    lambda place: hostile.reseal(place, lambda d: d["state"].update(best_score=1.0)),
    lambda place: hostile.reseal(place, lambda d: d.pop("state")),
    lambda place: hostile.change_array(place, "now.params.items", lambda found: found[:-1]),
    lambda place: hostile.change_array(place, "now.adam.mu.users", lambda found: found.fill(np.inf)),
    lambda place: hostile.change_array(place, "now.adam.nu.bias", lambda found: found.fill(-1)),
]


def test_a_checkpoint_whose_hashes_fit_and_whose_contents_do_not(
    small_log: Interactions, tmp_path: Path
) -> None:
    small_mf(epochs=1).training(small_log, checkpoint=tmp_path / "run").run()
    place = tmp_path / "run" / "checkpoint"
    honest = shutil.copytree(place, tmp_path / "honest")
    for damage in DAMAGE:
        shutil.rmtree(place)
        shutil.copytree(honest, place)
        damage(place)
        with pytest.raises(ArtifactError, match=r"is no sound|holds NaN|no manifest"):
            small_mf(epochs=1).training(small_log, checkpoint=tmp_path / "run").run()


# ---- shapes ------------------------------------------------------------------------------------------------
def wide_log(users: int, items: int) -> Interactions:
    rows = np.repeat(np.arange(users), 5)
    matrix = sp.csr_array((np.ones(5 * users), (rows, np.arange(5 * users))), shape=(users, items))
    return Interactions.from_csr(matrix)


@pytest.mark.parametrize("name", ["mf", "neumf", "lightgcn", "mvae"])
def test_a_log_that_cannot_be_learnt_from_is_refused_before_anything_is_compiled(name: str) -> None:
    with pytest.raises(DataError, match="cannot learn 1,000,000 items from 3 users; expected"):
        models.create(name).fit(wide_log(3, 1_000_000))
    with pytest.raises(DataError, match="cannot learn"):
        models.create(name, epochs=1).training(wide_log(3, 30_001))  # type: ignore[attr-defined]
    models.create(name).check_size(wide_log(3, 30_000))
    models.create("bias-only").fit(wide_log(3, 1_000_000))


@pytest.mark.parametrize(("name", "numbers"), [("mf", 64), ("neumf", 128), ("lightgcn", 64), ("mvae", 1200)])
def test_a_model_that_does_not_fit_in_memory_is_refused(
    name: str, numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At least 16 bytes for each number that Adam trains, of which there are so many for each item."""
    log = wide_log(20, 100_000)
    monkeypatch.setattr(machine, "memory_available", lambda: 16 * numbers * log.n_items)
    with pytest.raises(MemoryBudgetError, match=f"training {name} on 20 users × 100,000 items needs"):
        models.create(name).fit(log)


def test_a_few_users_of_many_items_are_not_padded_to_many() -> None:
    """A padded user would cost a row of scores; with fewer items, shapes are as they were."""
    sizes, _ = batches.on_device(wide_log(10, 70_000), batch=128)
    assert (sizes.users, sizes.batch, sizes.blocks) == (16, 16, 1)
    sizes, _ = batches.on_device(wide_log(10, 60_000), batch=128)
    assert (sizes.users, sizes.batch, sizes.blocks) == (128, 128, 1)


def test_progress_is_told_before_the_first_epoch_is_compiled(small_log: Interactions) -> None:
    told: list[float] = []
    small_mf(epochs=2).training(small_log).run(progress=lambda stage, done, *_, **__: told.append(done))
    assert told == [0, 1, 2]


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
