"""(ε, δ): the accountant, the noise, what one user can change, what is refused, what a resumed run spends."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from infrec.data import Interactions, registry
from infrec.distillation import (
    Summary,
    distill,
    guarantee,
    guaranteed,
    release,
)
from infrec.distillation.checkpoint import Interrupted
from infrec.distillation.config import Config
from infrec.errors import ConfigError, DataError
from infrec.experiments import leakage
from infrec.splits import Split, holdout

pytestmark = pytest.mark.usefixtures("compiled_quickly")

accounted = pytest.importorskip("dp_accounting", reason="the extra `privacy` is not installed")


# ---- the accountant ----------------------------------------------------------------------------------------
def test_the_accountant_against_published_values() -> None:
    """Balle and Wang (ICML 2018): the exact δ of a Gaussian mechanism,

    δ(ε) = Φ(1/(2σ) − εσ) − e^ε Φ(−1/(2σ) − εσ), at σ = 1 and ε = 1: 0.126937.
    """
    assert guarantee.spent(1.0, 0.126937) == pytest.approx(1.0, abs=2e-3)
    # Dwork and Roth's textbook bound √(2 ln(1.25/δ))/ε is never beaten by less noise than the exact one.
    exact = guarantee.multiplier_for(0.9, 1e-5, public_items=True)
    assert exact < math.sqrt(2 * math.log(1.25 / 1e-5)) / 0.9


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_the_noise_gives_the_epsilon_it_was_made_for(epsilon: float) -> None:
    sigma = guarantee.multiplier_for(epsilon, 1e-6, public_items=True)
    assert 0.98 * epsilon < guarantee.spent(sigma, 1e-6) <= epsilon
    half = guarantee.multiplier_for(epsilon, 1e-6, public_items=False)
    assert half > sigma, "half of δ names the items"


def test_epsilon_grows_with_steps_and_t_steps_are_one_with_less_noise() -> None:
    spent = [guarantee.spent(4.0, 1e-6, times=times) for times in (1, 4, 16)]
    assert spent == sorted(spent) and spent[0] < spent[1] < spent[2]
    assert spent[1] == pytest.approx(guarantee.spent(2.0, 1e-6), rel=2e-3)


def test_the_noise_of_the_committed_table_is_that_of_its_epsilon() -> None:
    for epsilon, sigma in leakage.NOISE.items():
        assert 0.98 * epsilon < guarantee.spent(sigma, leakage.DELTA) <= epsilon
    once = round(leakage.NOISE[8] * leakage.GRADIENT_STEPS**0.5, 4)
    assert 7.8 < guarantee.spent(once, leakage.DELTA, times=leakage.GRADIENT_STEPS) <= 8


# ---- what one user can change ------------------------------------------------------------------------------
def test_one_user_moves_each_sum_by_a_norm_of_one_at_most() -> None:
    """Adding a user to a log, noise apart: activity by 1, items by 1, pairs (upper half, √2) by 1."""
    rng = np.random.default_rng(1)
    x = sp.csr_array((rng.random((30, 40)) < 0.3).astype(np.float32))
    for row in (np.ones(40), rng.random(40) < 0.1, np.eye(40)[3]):
        more = sp.csr_array(sp.vstack([x, sp.csr_array(row[None, :].astype(np.float32))]))
        change = np.asarray(release.unit(more).sum(axis=0) - release.unit(x).sum(axis=0))
        assert np.linalg.norm(change) == pytest.approx(1.0)
        grams = [(y.T @ y).toarray() for y in (release.unit(more), release.unit(x))]
        upper = np.triu(grams[0] - grams[1], 1) * math.sqrt(2)
        assert np.linalg.norm(upper) <= 1.0 + 1e-6


def test_the_noise_is_as_large_as_promised() -> None:
    """600 items that nobody has: what is released of them is noise alone, of deviation σ/√share (10 %)."""
    x = np.zeros((2000, 650), np.float32)
    x[:, :50] = np.random.default_rng(2).random((2000, 50)) < 0.3
    told = release.release(sp.csr_array(x), 2.0, secret=5, threshold_delta=None)
    empty = told.items >= 50
    assert empty.sum() > 100
    pairs = told.together[np.ix_(empty, empty)][np.triu_indices(int(empty.sum()), 1)]
    assert pairs.std() == pytest.approx(2.0 / math.sqrt(0.9) / math.sqrt(2), rel=0.03)
    assert told.deviation == pytest.approx(2.0 / math.sqrt(0.9) / math.sqrt(2))
    np.testing.assert_array_equal(told.together, told.together.T)
    assert sum(release.SHARES.values()) == pytest.approx(1.0), "1/σ² = Σ 1/σ_i²"


def test_sums_are_the_same_of_a_few_users_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    x = release.unit(sp.csr_array((np.random.default_rng(2).random((50, 9)) < 0.4).astype(np.float32)))
    monkeypatch.setattr(release, "ROWS_AT_ONCE", 7)
    np.testing.assert_allclose(release._dense_gram(x), x.toarray().T @ x.toarray(), rtol=1e-12)


def test_each_secret_brings_other_noise_to_items_and_activity() -> None:
    """Over 60 secrets, sums far from zero deviate from the true ones by σ/√share (within 8 % and 15 %)."""
    x = np.zeros((3000, 40), np.float32)
    x[:, :10] = 1  # all have ten items or, the first 1,500, five: two bins of activity
    x[:1500, 5:10] = 0
    true = np.asarray(release.unit(sp.csr_array(x)).sum(axis=0)).ravel()[:10]
    told = [release.release(sp.csr_array(x), 2.0, secret=n, threshold_delta=None) for n in range(60)]
    items = np.array([one.weights[np.argsort(one.items)][:10] - true for one in told])
    assert items.std() == pytest.approx(2.0 / math.sqrt(release.SHARES["items"]), rel=0.08)
    activity = np.array([one.activity[[2, 3]] - 1500 for one in told])
    assert activity.std() == pytest.approx(2.0 / math.sqrt(release.SHARES["activity"]), rel=0.15)


def test_items_of_a_single_user_are_not_named() -> None:
    """200 times: 30 items that one user has, 20 that half of 3,000 users have, at a threshold δ of 1e-4."""
    rng = np.random.default_rng(3)
    common = (rng.random((3000, 20)) < 0.5).astype(np.float32)
    x = np.hstack([common, np.zeros((3000, 30), np.float32)])
    x[7, 20:] = 1
    named = 0
    for secret in range(200):
        told = release.release(sp.csr_array(x), 1.5, secret=secret, threshold_delta=1e-4)
        named += int((told.items >= 20).any())
        assert (told.items < 20).sum() == 20
    assert named == 0  # expected: fewer than 200 · 1e-4
    with pytest.raises(DataError, match="items stand out"):
        release.release(sp.csr_array(x[:40]), 50.0, secret=1, threshold_delta=1e-4)


# ---- the whole ---------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def demo() -> Split:
    return holdout(registry.load("demo"))


@pytest.fixture(scope="module", autouse=True)
def quick() -> object:
    """Few factors and steps: what is tested here is what is promised, not how good it is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("infrec.distillation.population.STEPS", 40)
        patch.setattr("infrec.distillation.population.FACTORS", 4)
        yield


SMALL = {"users": 20, "steps": 4, "validate_every": 2, "batch": 400}  # one shape: compiled once
FOR_SUMS = ("validate_every", "batch")
SECRET = 2**31 - 7


@pytest.fixture(scope="module")
def guarded(demo: Split) -> Summary:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("secrets.randbits", lambda bits: SECRET)
        return distill(demo, epsilon=8.0, delta=1e-6, catalogue=demo.train.items, **SMALL)


def test_the_manifest_says_what_is_promised(guarded: Summary, tmp_path: Path) -> None:
    guarded.save(tmp_path / "s")
    promise = Summary.load(tmp_path / "s").about["guarantee"]
    assert (promise["epsilon"], promise["delta"]) == (8.0, 1e-6)
    assert "one user" in promise["relation"] and promise["accountant"].startswith("dp-accounting")
    assert len(promise["not_covered"]) >= 5
    assert any("split" in each for each in promise["not_covered"]), "the demo's split is drawn from one seed"
    assert guarded.n_users == 20 and guarded.discrete


def test_nothing_of_the_real_numbers_stands_in_the_manifest(guarded: Summary, demo: Split) -> None:
    """Neither how many users and interactions there are, nor a secret."""
    text = str({k: v for k, v in guarded.about.items() if k != "guarantee"})
    assert str(demo.train.n_interactions) not in text and "secret" not in text
    sigma = guarantee.multiplier_for(8.0, 1e-6, public_items=True)
    told = release.release(demo.train.matrix, sigma, secret=SECRET, threshold_delta=None)
    assert guarded.about["source"]["users"] == round(told.users) != demo.train.n_users


def test_without_a_catalogue_only_items_that_stand_out_are_named(demo: Split) -> None:
    sigma = guarantee.multiplier_for(20.0, 1e-5, public_items=False)
    told = guaranteed._released(demo.train.matrix, sigma, 1e-5, False, None, False)
    found = guaranteed._log(sp.csr_array(np.eye(len(told.items))), told, demo.train, None)
    assert 2 <= found.n_items < demo.train.n_items
    at = demo.train.items.positions(found.items.ids)
    assert (at >= 0).all() and demo.train.item_counts[at].min() > 10
    assert found.titles is not None and demo.train.titles is not None
    assert found.titles.to_pylist() == [demo.train.titles[n].as_py() for n in at]


def test_ids_that_are_not_named_leave_no_trace() -> None:
    """Two logs, one with somebody's item `abc`: what is named has the same type, order and titles."""
    told = release.Release(np.ones(4), np.array([1, 0, 2]), np.ones(3), np.ones((3, 3), np.float32), 1.0)
    rows = sp.csr_array(np.array([[1, 0, 0], [0, 1, 1]], np.float32))
    made = []
    for ids in ([2, 10, 30, 31], ["10", "2", "30", "abc"]):
        log = Interactions.from_csr(np.ones((2, 4)), items=ids, titles=[f"title {one}" for one in ids])
        where = np.asarray(log.items.positions([2, 10, 30]))[[1, 0, 2]]  # told: 10, 2, 30
        made.append(guaranteed._log(rows, replace(told, items=where), log, None))
    assert made[0].items == made[1].items and made[0].items.ids.to_pylist() == [2, 10, 30]
    np.testing.assert_array_equal(made[0].matrix.toarray(), [[0, 1, 0], [1, 0, 1]])
    np.testing.assert_array_equal(made[0].matrix.toarray(), made[1].matrix.toarray())
    assert made[0].titles == made[1].titles
    words = Interactions.from_csr(np.ones((2, 3)), items=["b", "7", "a"])
    named = guaranteed._log(rows, told, words, None).items.ids.to_pylist()
    assert named == ["7", "a", "b"]


@pytest.mark.parametrize("mechanism", ["sums", "gradients"])
def test_titles_are_those_of_the_catalogue_or_none(mechanism: str, demo: Split) -> None:
    """The log's own would say whether its items are just the public ones."""
    settings = {**SMALL, "noise_multiplier": 1.0, "delta": 1e-6, "mechanism": mechanism}
    if mechanism == "gradients":
        settings = {name: value for name, value in settings.items() if name not in FOR_SUMS}
    public = demo.train.items
    assert demo.train.titles is not None
    assert distill(demo, catalogue=public, **settings).titles is None
    told = pa.table({"title": [f"film {n}" for n in range(len(public))]})
    found = distill(demo, catalogue=public, catalogue_info=told, **settings).titles
    assert found is not None and found.to_pylist() == told.column("title").to_pylist()


def test_it_runs_without_the_accountant(demo: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    known = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda n: None if n == "dp_accounting" else known(n))
    monkeypatch.setitem(__import__("sys").modules, "dp_accounting", None)
    with pytest.raises(ConfigError, match="infrec\\[privacy\\]"):
        distill(demo, epsilon=8.0, delta=1e-6, catalogue=demo.train.items, **SMALL)
    made = distill(demo, noise_multiplier=0.7, delta=1e-6, catalogue=demo.train.items, **SMALL)
    promise = made.about["guarantee"]
    assert promise["epsilon"] is None and promise["noise_multiplier"] == 0.7
    monkeypatch.undo()
    later = guarantee.with_epsilon(promise)
    assert later is not None and 7 < later["epsilon"] < 8


@pytest.mark.parametrize("mechanism", ["sums", "gradients"])
def test_a_resumed_run_spends_what_an_uninterrupted_one_does(
    mechanism: str, demo: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped in the middle and resumed: the noise is drawn once, the result and the claim are the same."""
    monkeypatch.setattr("secrets.randbits", lambda bits: SECRET)  # so that two runs can be compared
    settings = {**SMALL, "epsilon": 8.0, "delta": 1e-6, "catalogue": demo.train.items, "mechanism": mechanism}
    if mechanism == "gradients":
        settings = {name: value for name, value in settings.items() if name not in FOR_SUMS}
    drawn: list[int] = []
    real = guaranteed.release
    monkeypatch.setattr(guaranteed, "release", lambda *a, **k: (drawn.append(1), real(*a, **k))[1])

    def stop(stage: str, at: int, of: int | None, **_: object) -> None:
        if stage in ("distil", "noisy steps") and at == 2:
            raise Interrupted("stopped")

    with pytest.raises(Interrupted):
        distill(demo, run_directory=tmp_path / "run", progress=stop, **settings)
    with pytest.raises(ConfigError, match="resume"):
        distill(demo, run_directory=tmp_path / "run", **settings)
    one = distill(demo, run_directory=tmp_path / "run", resume=True, **settings)
    assert len(drawn) == (1 if mechanism == "sums" else 0)
    whole = distill(demo, run_directory=tmp_path / "other", **settings)
    np.testing.assert_array_equal(one.matrix.toarray(), whole.matrix.toarray())
    assert one.about["guarantee"] == whole.about["guarantee"]
    assert one.about["guarantee"]["epsilon"] == 8.0
    with pytest.raises(ConfigError, match="run"):
        distill(demo, run_directory=tmp_path / "run", resume=True, **{**settings, "epsilon": 4.0})


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"delta": None}, "promises nothing"),
        ({"delta": 0.01}, "at most 0.0001"),
        ({"epsilon": -1.0}, "above 0"),
        ({"epsilon": None}, "exactly one"),
        ({"noise_multiplier": 1.0}, "exactly one"),
        ({"epsilon": None, "noise_multiplier": 0.01}, "promises nothing"),
        ({"start": "users"}, "rows of real people"),
        ({"target": 0.9}, "voids them"),
        ({"percent": 10.0}, "voids them"),
        ({"on_validate": lambda x, grid: None}, "voids them"),
        ({"mechanism": "magic"}, "sums or gradients"),
        ({"mechanism": "gradients"}, "public list of items"),
        ({"config": Config.of("published")}, "rows of real people"),
    ],
)
def test_what_would_void_the_guarantee_is_refused(wrong: dict[str, object], says: str, demo: Split) -> None:
    with pytest.raises(ConfigError, match=says):
        distill(demo, **{"users": 20, "epsilon": 3.0, "delta": 1e-6, **wrong})  # type: ignore[arg-type]


def test_of_data_with_its_own_split_only_the_train_part_is_looked_at(
    demo: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As without a guarantee: what is in the test part stays for testing."""

    class Looked(Exception):
        pass

    def look(train: sp.csr_array, *_: object) -> None:
        raise Looked(train.nnz)

    monkeypatch.setattr("infrec.distillation.guaranteed._released", look)
    parts = {"train": demo.train.matrix, "val": demo.val.matrix, "test": demo.test.matrix}
    whole = sp.csr_array(sum(parts.values()))
    log = Interactions(whole, demo.train.users, demo.train.items, parts=parts)
    with pytest.raises(Looked) as told:
        distill(log, noise_multiplier=1.0, delta=1e-6)
    assert told.value.args == (demo.train.n_interactions,)
