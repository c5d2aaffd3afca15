"""(ε, δ): the accountant, the noise, what is refused, what a resumed run spends."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from infrec import artifacts
from infrec.checkpoints import Interrupted
from infrec.data import Interactions, Summary, Vocabulary, datasets
from infrec.distillation import distill, dp_accounting, dp_sums, private
from infrec.distillation.dp_sums import Sums
from infrec.distillation.settings import DistillSettings
from infrec.errors import ArtifactError, ConfigError, DataError
from infrec.paper import leakage
from infrec.splits import holdout

pytestmark = pytest.mark.usefixtures("compiled_quickly")

accounted = pytest.importorskip("dp_accounting", reason="the extra `privacy` is not installed")


# ---- the accountant ----------------------------------------------------------------------------------------
def test_the_accountant_against_published_values() -> None:
    """Balle and Wang (ICML 2018): the exact δ of a Gaussian mechanism,

    δ(ε) = Φ(1/(2σ) − εσ) − e^ε Φ(−1/(2σ) − εσ), at σ = 1 and ε = 1: 0.126937.
    """
    assert dp_accounting.spent(1.0, 0.126937) == pytest.approx(1.0, abs=2e-3)
    # Dwork and Roth's textbook bound √(2 ln(1.25/δ))/ε is never beaten by less noise than the exact one.
    exact = dp_accounting.multiplier_for(0.9, 1e-5, public_items=True)
    assert exact < math.sqrt(2 * math.log(1.25 / 1e-5)) / 0.9


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_the_noise_gives_the_epsilon_it_was_made_for(epsilon: float) -> None:
    sigma = dp_accounting.multiplier_for(epsilon, 1e-6, public_items=True)
    assert 0.98 * epsilon < dp_accounting.spent(sigma, 1e-6) <= epsilon
    half = dp_accounting.multiplier_for(epsilon, 1e-6, public_items=False)
    assert half > sigma, "half of δ names the items"


def test_the_noise_of_the_committed_table_is_that_of_its_epsilon() -> None:
    for epsilon, sigma in leakage.NOISE.items():
        assert 0.98 * epsilon < dp_accounting.spent(sigma, leakage.DELTA) <= epsilon


# ---- the noise ---------------------------------------------------------------------------------------------
def test_the_noise_is_as_large_as_promised() -> None:
    """600 items that nobody has: what is released of them is noise alone, of deviation σ/√share (10 %)."""
    x = np.zeros((2000, 650), np.float32)
    x[:, :50] = np.random.default_rng(2).random((2000, 50)) < 0.3
    told = dp_sums.release(Sums.of(sp.csr_array(x)), 2.0, secret=5, threshold_delta=None)
    empty = told.items >= 50
    assert empty.sum() > 100
    pairs = told.together[np.ix_(empty, empty)][np.triu_indices(int(empty.sum()), 1)]
    assert pairs.std() == pytest.approx(2.0 / math.sqrt(0.9) / math.sqrt(2), rel=0.03)
    assert told.deviation == pytest.approx(2.0 / math.sqrt(0.9) / math.sqrt(2))
    np.testing.assert_array_equal(told.together, told.together.T)
    assert sum(dp_sums.SHARES.values()) == pytest.approx(1.0), "1/σ² = Σ 1/σ_i²"


def test_sums_are_the_same_of_a_few_users_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    x = dp_sums.unit(sp.csr_array((np.random.default_rng(2).random((50, 9)) < 0.4).astype(np.float32)))
    monkeypatch.setattr(dp_sums, "ROWS_AT_ONCE", 7)
    np.testing.assert_allclose(dp_sums._dense_gram(x), x.toarray().T @ x.toarray(), rtol=1e-12)


def test_each_secret_brings_other_noise_to_items_and_activity() -> None:
    """Over 60 secrets, sums far from zero deviate from the true ones by σ/√share (within 8 % and 15 %)."""
    x = np.zeros((3000, 40), np.float32)
    x[:, :10] = 1  # all have ten items or, the first 1,500, five: two bins of activity
    x[:1500, 5:10] = 0
    true = np.asarray(dp_sums.unit(sp.csr_array(x)).sum(axis=0)).ravel()[:10]
    told = [dp_sums.release(Sums.of(sp.csr_array(x)), 2.0, secret=n, threshold_delta=None) for n in range(60)]
    items = np.array([one.weights[np.argsort(one.items)][:10] - true for one in told])
    assert items.std() == pytest.approx(2.0 / math.sqrt(dp_sums.SHARES["items"]), rel=0.08)
    activity = np.array([one.activity[[2, 3]] - 1500 for one in told])
    assert activity.std() == pytest.approx(2.0 / math.sqrt(dp_sums.SHARES["activity"]), rel=0.15)


def test_a_log_in_which_nothing_stands_out_is_refused() -> None:
    x = sp.csr_array((np.random.default_rng(3).random((40, 50)) < 0.5).astype(np.float32))
    with pytest.raises(DataError, match="items stand out from a log of about"):
        dp_sums.release(Sums.of(x), 50.0, secret=1, threshold_delta=1e-4)


def test_noise_that_leaves_no_weight_is_refused_with_a_public_list_too() -> None:
    """Logarithms of weights below 0 would be NaN, and shares of nobody no chances."""
    x = sp.csr_array((np.random.default_rng(3).random((40, 50)) < 0.5).astype(np.float32))
    sums = Sums.of(x)
    for less in ({"items": sums.items - 1e6}, {"activity": sums.activity - 1e6}):
        with pytest.raises(DataError, match="items stand out from a log of about"):
            dp_sums.release(replace(sums, **less), 1.0, secret=1, threshold_delta=None)


@pytest.mark.parametrize(("name", "value"), [("activity", -1.0), ("activity", 0.0), ("weights", 0.0)])
def test_kept_sums_that_no_noise_gives_are_refused(name: str, value: float, tmp_path: Path) -> None:
    sums = Sums.of(sp.csr_array((np.random.default_rng(1).random((500, 8)) < 0.5).astype(np.float32)))
    given = (sums, 0.7, 1e-4, True, tmp_path)
    kept = private._released(*given, False)
    facts = artifacts.read(tmp_path / "sums").manifest
    arrays = {each: getattr(kept, each) for each in ("activity", "items", "weights", "together")}
    arrays[name] = np.full_like(arrays[name], value)
    manifest = {each: facts[each] for each in ("identity", "deviation", "threshold")}
    artifacts.write(tmp_path / "sums", kind=private.KIND, manifest=manifest, arrays=arrays)
    with pytest.raises(ArtifactError, match="any weight"):
        private._released(*given, True)


# ---- the whole ---------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def demo() -> Interactions:
    return datasets.load("demo")


@pytest.fixture(scope="module", autouse=True)
def quick() -> object:
    """Few factors and steps: what is tested here is what is promised, not how good it is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("infrec.distillation.dp_sums.STEPS", 40)
        patch.setattr("infrec.distillation.dp_sums.FACTORS", 4)
        yield


SMALL = {"users": 20, "steps": 4, "validate_every": 2, "batch": 400}  # one shape: compiled once
SECRET = 2**31 - 7


@pytest.fixture(scope="module")
def guarded(demo: Interactions) -> Summary:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("secrets.randbits", lambda bits: SECRET)
        return distill(demo, epsilon=8.0, delta=1e-6, catalogue=demo.items, **SMALL)


def test_the_manifest_says_what_is_promised(guarded: Summary, tmp_path: Path) -> None:
    guarded.save(tmp_path / "s")
    promise = Summary.load(tmp_path / "s").about["guarantee"]
    assert (promise["epsilon"], promise["delta"]) == (8.0, 1e-6)
    assert "one user" in promise["relation"] and promise["accountant"].startswith("dp-accounting")
    assert len(promise["not_covered"]) >= 5
    assert guarded.n_users == 20 and guarded.discrete


def test_nothing_of_the_real_numbers_stands_in_the_manifest(guarded: Summary, demo: Interactions) -> None:
    """Neither how many users and interactions there are, nor a secret."""
    text = str({k: v for k, v in guarded.about.items() if k != "guarantee"})
    numbers = re.findall(r"[\d.e-]+", text)  # whole numbers, for a measured time may contain any digits
    assert str(demo.n_interactions) not in numbers and "secret" not in text
    sigma = dp_accounting.multiplier_for(8.0, 1e-6, public_items=True)
    told = dp_sums.release(private.user_sums(demo, demo.items), sigma, secret=SECRET, threshold_delta=None)
    assert guarded.about["source"]["users"] == round(told.users) != demo.n_users


def test_without_a_catalogue_only_items_that_stand_out_are_named(demo: Interactions) -> None:
    sigma = dp_accounting.multiplier_for(20.0, 1e-5, public_items=False)
    told = private._released(private.user_sums(demo, None), sigma, 1e-5, False, None, False)
    found = private._log(sp.csr_array(np.eye(len(told.items))), told, demo, None)
    assert 2 <= found.n_items < demo.n_items
    at = demo.items.positions(found.items.ids)
    assert (at >= 0).all() and demo.item_counts[at].min() > 10
    assert demo.item_info is not None and found.item_info is None, "a title is one user's text"


def test_ids_that_are_not_named_leave_no_trace() -> None:
    """Two logs, one with somebody's item `abc`: what is named has the same type and order."""
    told = dp_sums.Release(np.ones(4), np.array([1, 0, 2]), np.ones(3), np.ones((3, 3), np.float32), 1.0)
    rows = sp.csr_array(np.array([[1, 0, 0], [0, 1, 1]], np.float32))
    made = []
    for ids in ([2, 10, 30, 31], ["10", "2", "30", "abc"]):
        log = Interactions.from_csr(np.ones((2, 4)), items=ids, titles=[f"title {one}" for one in ids])
        where = np.asarray(log.items.positions([2, 10, 30]))[[1, 0, 2]]  # told: 10, 2, 30
        made.append(private._log(rows, replace(told, items=where), log, None))
    assert made[0].items == made[1].items and made[0].items.ids.to_pylist() == [2, 10, 30]
    np.testing.assert_array_equal(made[0].matrix.toarray(), [[0, 1, 0], [1, 0, 1]])
    np.testing.assert_array_equal(made[0].matrix.toarray(), made[1].matrix.toarray())
    words = Interactions.from_csr(np.ones((2, 3)), items=["b", "7", "a"])
    named = private._log(rows, told, words, None).items.ids.to_pylist()
    assert named == ["7", "a", "b"]


def test_titles_are_those_of_the_catalogue_or_none(demo: Interactions) -> None:
    """The log's own would say whether its items are just the public ones."""
    settings = {**SMALL, "noise_multiplier": 1.0, "delta": 1e-6}
    public = demo.items
    assert demo.titles is not None
    assert distill(demo, catalogue=public, **settings).titles is None
    told = pa.table({"title": [f"film {n}" for n in range(len(public))]})
    found = distill(demo, catalogue=public, catalogue_info=told, **settings).titles
    assert found is not None and found.to_pylist() == told.column("title").to_pylist()


def test_it_runs_without_the_accountant(demo: Interactions, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    known = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda n: None if n == "dp_accounting" else known(n))
    monkeypatch.setitem(__import__("sys").modules, "dp_accounting", None)
    with pytest.raises(ConfigError, match="infrec\\[privacy\\]"):
        distill(demo, epsilon=8.0, delta=1e-6, catalogue=demo.items, **SMALL)
    made = distill(demo, noise_multiplier=0.7, delta=1e-6, catalogue=demo.items, **SMALL)
    promise = made.about["guarantee"]
    assert promise["epsilon"] is None and promise["noise_multiplier"] == 0.7
    monkeypatch.undo()
    later = dp_accounting.with_epsilon(promise)
    assert later is not None and 7 < later["epsilon"] < 8


def test_a_resumed_run_spends_what_an_uninterrupted_one_does(
    demo: Interactions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped in the middle and resumed: the noise is drawn once, the result and the claim are the same."""
    monkeypatch.setattr("secrets.randbits", lambda bits: SECRET)  # so that two runs can be compared
    settings = {**SMALL, "epsilon": 8.0, "delta": 1e-6, "catalogue": demo.items}
    drawn: list[int] = []
    real = private.release
    monkeypatch.setattr(private, "release", lambda *a, **k: (drawn.append(1), real(*a, **k))[1])

    def stop(stage: str, at: int, of: int | None, **_: object) -> None:
        if stage == "distil" and at == 2:
            raise Interrupted("stopped")

    with pytest.raises(Interrupted):
        distill(demo, run_directory=tmp_path / "run", progress=stop, **settings)
    with pytest.raises(ConfigError, match="resume"):
        distill(demo, run_directory=tmp_path / "run", **settings)
    one = distill(demo, run_directory=tmp_path / "run", resume=True, **settings)
    assert len(drawn) == 1
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
        ({"settings": DistillSettings.of("published")}, "rows of real people"),
    ],
)
def test_what_would_void_the_guarantee_is_refused(
    wrong: dict[str, object], says: str, demo: Interactions
) -> None:
    with pytest.raises(ConfigError, match=says):
        distill(demo, **{"users": 20, "epsilon": 3.0, "delta": 1e-6, **wrong})  # type: ignore[arg-type]


def test_a_split_is_refused(demo: Interactions) -> None:
    """Its parts may depend on all users at once, as those of `holdout` do: the log itself is asked for."""
    with pytest.raises(ConfigError, match="give the log itself"):
        distill(holdout(demo), noise_multiplier=1.0, delta=1e-6)


def test_all_interactions_count_or_the_train_part_of_the_data_s_own_split(demo: Interactions) -> None:
    """Without a split everything, also of users with one item; with one, the test part stays for testing."""
    assert private.user_sums(demo, None).histories.nnz == demo.n_interactions
    split = holdout(demo)
    parts = {"train": split.train.matrix, "val": split.val.matrix, "test": split.test.matrix}
    log = Interactions(sp.csr_array(sum(parts.values())), split.train.users, split.train.items, parts=parts)
    assert private.user_sums(log, None).histories.nnz == split.train.n_interactions


@pytest.mark.parametrize(("users", "refused"), [(4000, False), (6000, True)])
def test_delta_is_below_one_over_twice_the_number_of_users(users: int, refused: bool, tmp_path: Path) -> None:
    """δ = 1e-4 is fine for 4,000 users and too much for 6,000; their noisy number is off by 30 or so."""
    sums = Sums.of(sp.csr_array((np.random.default_rng(1).random((users, 8)) < 0.5).astype(np.float32)))
    if not refused:
        private._released(sums, 0.7, 1e-4, True, tmp_path, False)
        return
    with pytest.raises(ConfigError, match=r"expected below 8\.[0-9]e-05, one over twice"):
        private._released(sums, 0.7, 1e-4, True, tmp_path, False)
    assert not list(tmp_path.iterdir()), "nothing is kept that a second try would stumble over"
    private._released(sums, 0.7, 8e-5, True, tmp_path, False)


def test_an_item_that_stands_twice_in_a_row_counts_once() -> None:
    """A matrix made by hand may repeat an entry: x / |x| must have norm 1 all the same."""
    twice = sp.csr_array((np.ones(3, np.float32), np.array([0, 0, 1]), np.array([0, 3])), shape=(1, 2))
    log = Interactions(twice, Vocabulary.numbered(1), Vocabulary.numbered(2))
    np.testing.assert_allclose(private.user_sums(log, None).items, [0.5**0.5, 0.5**0.5])


def test_invented_users_do_not_ask_how_often_an_item_meets_itself() -> None:
    """The diagonal of the released pairs says nothing: whatever stands there, the fit is the same."""
    together = np.full((6, 6), 3.0, np.float32)
    activity = np.array([0.0, 20.0, 10.0])
    plain = dp_sums.Release(activity, np.arange(6), np.linspace(9, 4, 6), together, 1.0)
    other = replace(plain, together=together + 50 * np.eye(6, dtype=np.float32))
    one, two = (dp_sums.Population.fit(each, seed=1) for each in (plain, other))
    np.testing.assert_array_equal(one.bias, two.bias)
    np.testing.assert_array_equal(one.factors, two.factors)
