"""∞-AE: theorems about the closed form, explanations that add up, refusals."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from infrec.data import Interactions, Vocabulary
from infrec.errors import ConfigError, DataError, MemoryBudgetError, SolveError
from infrec.kernels import devices, gram, resident
from infrec.kernels.ntk import NTK
from infrec.models import InfiniteAE, infinite_ae
from infrec.search import tune
from infrec.splits import holdout
from tests.models.contract import RecommenderContract


class TestInfiniteAE(RecommenderContract):
    checkerboard_hits = 20
    small_log_hr10 = (61.0, 66.0)

    def make(self) -> InfiniteAE:
        return InfiniteAE()


class TestDeepInfiniteAE(RecommenderContract):
    checkerboard_hits = 20
    small_log_hr10 = (56.0, 61.0)

    def make(self) -> InfiniteAE:
        return InfiniteAE(depth=3, dtype="float64")


def test_depth_zero_is_linear_ridge_with_a_bias(small_log: Interactions) -> None:
    """Θ⁰ = 2⟨x, y⟩/d + 0.01 is linear in (√(2/d) x, 0.1): its ridge is the primal least-squares problem."""
    x = small_log.matrix.toarray().astype(np.float64)
    model = InfiniteAE(depth=0, reg=2.0, dtype="float64").fit(small_log)
    features = np.hstack([np.sqrt(2 / 60) * x, np.full((120, 1), 0.1)])
    shift = 2.0 * (features**2).sum(axis=1).mean()
    stacked = np.vstack([features, np.sqrt(shift) * np.eye(61)])
    primal, *_ = np.linalg.lstsq(stacked, np.vstack([x, np.zeros((61, 60))]), rcond=None)
    np.testing.assert_allclose(model.score(small_log.matrix), features @ primal, atol=1e-6)
    assert model.state.shift == pytest.approx(shift)


def test_at_zero_reg_it_reproduces_what_it_was_fitted_on(checkerboard: Interactions) -> None:
    distinct = checkerboard.select_users(np.arange(0, 20))
    model = InfiniteAE(reg=0, dtype="float64").fit(distinct)
    np.testing.assert_allclose(model.score(distinct.matrix), distinct.matrix.toarray(), atol=1e-4)
    np.testing.assert_array_equal(model.fitted_scores(slice(None)), distinct.matrix.toarray())


def test_an_accelerator_scores_as_the_cpu_does(
    small_log: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Products with α are formed there (JAX's CPU here), also with the α of a second fit, and in batches."""
    model = InfiniteAE(reg=5.0).fit(small_log)
    here = [
        model.score(small_log.matrix),
        model.with_settings(reg=1.0).fit(small_log).score(small_log.matrix),
    ]
    monkeypatch.setattr(devices, "_WORTH_IT", 20)
    monkeypatch.setattr(resident, "_ROWS_WORTH_IT", 20)
    monkeypatch.setattr(devices, "device", lambda: "a GPU")
    monkeypatch.setattr(infinite_ae, "_BATCH", 50)
    for reg, expected in zip((5.0, 1.0), here, strict=True):
        model = model.with_settings(reg=reg).fit(small_log)
        scores = model.score(small_log.matrix)
        np.testing.assert_allclose(scores, expected, atol=2e-5)
    assert model.state.alpha._there is not None
    twice = resident.ResidentMatrix(2 * model.alpha)  # another α is another product
    double = replace(model.state, alpha=twice)
    other = model.with_fit(replace(model.fitted, state=double))
    np.testing.assert_allclose(other.score(small_log.matrix), 2 * scores, rtol=1e-5)


def test_a_large_reg_shrinks_to_the_kernel_average(small_log: Interactions) -> None:
    """λ → ∞: α → X / (λ m), so λ m · score → Θ(x, X) X."""
    model = InfiniteAE(reg=1e6, dtype="float64").fit(small_log)
    expected = gram.kernel_matrix(NTK(), small_log.matrix, dtype="float64") @ small_log.matrix.toarray()
    np.testing.assert_allclose(model.state.shift * model.score(small_log.matrix), expected, rtol=1e-3)


def test_float32_against_float64(small_log: Interactions) -> None:
    """At λ = 1 the system's condition is at most n + 1 = 121: 121 · 1.2e-7 < 2e-5 of the largest score."""
    single, double = (
        InfiniteAE(reg=1, dtype=d).fit(small_log).score(small_log.matrix) for d in ("float32", "float64")
    )
    assert np.abs(single - double).max() < 2e-5 * np.abs(double).max()


def test_the_order_of_users_does_not_matter(small_log: Interactions) -> None:
    order = np.random.default_rng(0).permutation(120)
    one, other = InfiniteAE(reg=5).fit(small_log), InfiniteAE(reg=5).fit(small_log.select_users(order))
    np.testing.assert_allclose(one.score(small_log.matrix), other.score(small_log.matrix), atol=1e-5)


def test_a_path_is_the_same_as_separate_fits(small_log: Interactions) -> None:
    variants = [{"reg": 0.5}, {"reg": 5}, {"reg": 5, "depth": 2}, {"reg": 0}]
    for changes, fitted in InfiniteAE().path(small_log, variants):
        assert isinstance(fitted, InfiniteAE)
        alone = InfiniteAE(**changes).fit(small_log)
        np.testing.assert_allclose(
            fitted.alpha, alone.alpha, rtol=1e-4, atol=1e-4 * np.abs(alone.alpha).max()
        )


def test_a_path_shares_nothing_between_other_centres_and_solvers(small_log: Interactions) -> None:
    variants = [
        {"solver": "nystrom", "centres": 20},
        {"solver": "nystrom", "centres": 60},
        {"solver": "nystrom", "centres": 60, "seed": 1},
        {"solver": "nystrom", "centres": small_log.select_users(np.arange(60))},
        {"solver": "nystrom", "centres": small_log.select_users(np.arange(60, 120))},
        {"solver": "nystrom", "centres": 60},
        {"solver": "exact"},
    ]
    for changes, fitted in InfiniteAE(reg=5).path(small_log, variants):
        assert isinstance(fitted, InfiniteAE)
        alone = InfiniteAE(reg=5, **changes).fit(small_log)
        assert fitted.selected == alone.selected and fitted.about == alone.about
        assert fitted.centres.users == alone.centres.users
        np.testing.assert_array_equal(fitted.fitted_scores(np.arange(9)), alone.fitted_scores(np.arange(9)))


def test_reg_zero_does_not_win_by_the_order_of_the_items() -> None:
    """Histories by popularity alone, the popular items first: ties in column order look like a good ranking.

    λ = 0 gives the histories back, so every item held out scores 0.
    """
    likes = np.random.default_rng(0).random((200, 300)) < 0.45 / np.sqrt(1 + np.arange(300))
    split = holdout(Interactions.from_csr(likes), seed=42)
    model = InfiniteAE().fit(split.train, validation=split.val)
    zero = model.candidates[0]
    assert zero.settings == {"reg": 0} and zero.score is None
    assert zero.error is not None and "reproduces the histories" in zero.error
    assert model.selected["reg"] > 0
    asked = tune(InfiniteAE(), split, space={"reg": [0]})  # the only one there is: used, and not judged
    assert asked.selected["reg"] == 0 and asked.candidates[0].score is None
    elsewhere = tune(InfiniteAE(), (split.train, split.val), context=split.train.matrix)
    assert elsewhere.candidates[0].score is not None, "histories that were not fitted are scored"


def test_with_only_its_centres_it_still_knows_what_is_popular(
    small_log: Interactions, tmp_path: Path
) -> None:
    small = InfiniteAE(reg=5, solver="nystrom", centres=20).fit(small_log).with_only_centres()
    small.save(tmp_path / "model")
    for model in (small, InfiniteAE.load(tmp_path / "model")):
        assert model.log.n_users == 20
        np.testing.assert_array_equal(model.popularity, small_log.item_counts)


# ---- failures ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_duplicate_users_at_zero_reg_are_named(small_log: Interactions, dtype: str) -> None:
    twice = small_log.select_users(np.r_[0:120, 0:41])
    with pytest.raises(SolveError, match=rf"n=161, reg=0, {dtype}\): 41 users have the history of another"):
        InfiniteAE(reg=0, dtype=dtype).fit(twice)


def test_a_failing_candidate_is_recorded_and_skipped(small_log: Interactions) -> None:
    twice = small_log.select_users(np.r_[0:120, 0:41])
    # What is seen is masked: all score 0, and the most regularised of equals wins.
    model = InfiniteAE().fit(twice, validation=twice)
    assert [c.settings["reg"] for c in model.candidates] == [0, 1, 5, 20, 50, 100]
    assert model.candidates[0].score is None
    assert "41 users" in (model.candidates[0].error or "")
    assert model.selected["reg"] == 100


def test_when_every_candidate_fails(small_log: Interactions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InfiniteAE, "search_space", {"reg": (0, 1e-12)})
    twice = small_log.select_users(np.r_[0:120, 0:41])
    with pytest.raises(SolveError, match=r"all 2 candidate settings of infinite-ae failed.*41 users"):
        InfiniteAE().fit(twice, validation=twice)


def test_too_many_users_are_refused_at_once() -> None:
    """480,000 users: 1.8 TB. Refused in under a second, and before memory grows (50 MB is noise)."""
    n, items = 480_000, 17_770
    matrix = sp.csr_array((np.ones(n, np.float32), np.arange(n) % items, np.arange(n + 1)), shape=(n, items))
    log = Interactions(matrix, Vocabulary.numbered(n), Vocabulary.numbered(items))
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    with pytest.raises(
        MemoryBudgetError,
        match=r"480,000 users needs .* GiB .*solver='nystrom'.* would fit\): a sample .* the model 'ease'",
    ):
        InfiniteAE(solver="exact").fit(log)
    assert time.perf_counter() - start < 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"reg": -1}, "reg is -1"),
        ({"reg": "lots"}, "reg is 'lots'"),
        ({"reg": float("nan")}, "reg is nan"),
        ({"depth": -1}, "depth is -1"),
        ({"depth": 1.5}, "depth is 1.5"),
        ({"depth": "auto"}, "depth is 'auto'"),
        ({"dtype": "float16"}, "dtype is 'float16'"),
    ],
)
def test_bad_settings(settings: dict, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        InfiniteAE(**settings)


# ---- explanations --------------------------------------------------------------------------------------
@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("history", [["i00", "i03", "i20"], ["i41"], []], ids=len)
def test_contributions_add_up_to_the_score(small_log: Interactions, depth: int, history: list[str]) -> None:
    model = InfiniteAE(reg=2, depth=depth, dtype="float64").fit(small_log)
    told = model.explain(history, "i05")
    score = model.score(small_log.histories([history])[0])[0, 5]
    assert told.score == pytest.approx(score, abs=1e-6)
    assert sum(told.users["contribution"]) == pytest.approx(score, abs=1e-6)
    assert told.baseline + sum(told.items["contribution"]) == pytest.approx(score, abs=1e-6)
    assert sorted(told.items["item"]) == history
    assert len(told.users) == 120


def test_contributions_add_up_for_a_training_user(small_log: Interactions) -> None:
    """There the kernel has its kink: the end of the path is a row of the training data."""
    model = InfiniteAE(reg=1).fit(small_log)
    history = small_log.items.take(small_log.matrix[[8]].indices).to_pylist()
    told = model.explain(history, "i40")
    assert told.baseline + sum(told.items["contribution"]) == pytest.approx(told.score, abs=1e-4)


def test_an_explanation_points_at_the_right_items(small_log: Interactions) -> None:
    """i05 belongs to the first quarter of the items: of these, its own quarter's item raised it most."""
    told = InfiniteAE(reg=5).fit(small_log).explain(["i03", "i20", "i35", "i50"], "i05")
    assert told.items["item"][0] == "i03"
    assert told.items["title"][0] == "Item 3"
    contributions = told.items["contribution"]
    assert contributions == sorted(contributions, reverse=True)
    assert contributions[0] > 0


def test_items_that_act_the_same_are_told_the_same() -> None:
    """Items 0 and 1 always come together, so neither may get more than the other."""
    likes = np.random.default_rng(0).random((40, 12)) < 0.4
    likes[:, 1] = likes[:, 0]
    told = InfiniteAE(reg=1, dtype="float64").fit(Interactions.from_csr(likes)).explain([0, 1, 5], 7)
    by_item = dict(zip(told.items["item"], told.items["contribution"], strict=True))
    assert by_item[0] == pytest.approx(by_item[1], abs=1e-12)


def test_what_cannot_be_explained(small_log: Interactions) -> None:
    model = InfiniteAE(reg=5).fit(small_log)
    with pytest.raises(DataError, match=r"does not know.*'nope'"):
        model.explain(["nope"], "i05")
    with pytest.raises(DataError, match="'nope' is not among"):
        model.explain(["i05"], "nope")


def test_similar_items_come_from_the_same_quarter(small_log: Interactions) -> None:
    found = InfiniteAE(reg=5).fit(small_log).similar("i05", k=8)["item"]
    assert sum(item < "i15" for item in found) >= 7


def test_few_users_are_stored_without_alpha_and_many_with_it(
    small_log: Interactions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = InfiniteAE(reg=5).fit(small_log)
    model.save(tmp_path / "few")
    with monkeypatch.context() as patched:
        patched.setattr(infinite_ae, "_SOLVE_AGAIN", 100)
        model.save(tmp_path / "many")
    assert not (tmp_path / "few" / "arrays.safetensors").exists()
    assert (tmp_path / "many" / "arrays.safetensors").exists()
    for name in ("few", "many"):
        loaded = InfiniteAE.load(tmp_path / name)
        np.testing.assert_array_equal(loaded.alpha, model.alpha)
        assert loaded.explain(["i01"], "i05").score == model.explain(["i01"], "i05").score


def test_of_few_users_and_far_more_items_the_inverse_is_kept_instead_of_alpha(
    small_log: Interactions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20 users, 60 items: scores, reasons and what validation ranks are those of a dense α; so is a copy."""
    log = small_log.select_users(np.arange(20))
    model = InfiniteAE(reg=5).fit(log)
    monkeypatch.setattr(infinite_ae, "_SOLVE_AGAIN", 10)
    model.save(tmp_path / "model")
    loaded = InfiniteAE.load(tmp_path / "model")
    monkeypatch.setattr(devices, "_FAR_MORE", 4)
    dense = InfiniteAE(reg=5).fit(log)
    assert [next(iter(one._arrays())) for one in (model, loaded, dense)] == ["inverse", "inverse", "alpha"]
    assert model._arrays()["inverse"].shape == (20, 20)
    rows = small_log.matrix[20:70]
    expected = dense.explain(["i01"], "i05")
    for one in (model, loaded):
        np.testing.assert_allclose(one.alpha, dense.alpha, atol=1e-5)
        np.testing.assert_allclose(one.score(rows), dense.score(rows), atol=1e-5)
        assert one.explain(["i01"], "i05").score == pytest.approx(expected.score, abs=1e-5)
    some = np.array([3, 0, 19])
    np.testing.assert_allclose(model.fitted_scores(some), dense.fitted_scores(some), atol=1e-5)


def test_items_of_the_same_users_are_stored_once(small_log: Interactions, tmp_path: Path) -> None:
    """Every item twice: half of α is on disk, and what is loaded has all of it, bit for bit."""
    twice = Interactions.from_csr(sp.csr_array(sp.hstack([small_log.matrix, small_log.matrix])))
    model = InfiniteAE(reg=5, solver="nystrom", centres=30).fit(twice)
    model.state.alpha.here[:, 60:] = model.alpha[:, :60]  # as equal as BLAS may leave them
    model.save(tmp_path / "model")
    assert {name: array.shape for name, array in model._arrays().items()}["alpha"] == (30, 60)
    loaded = InfiniteAE.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.alpha, model.alpha)
    np.testing.assert_array_equal(loaded.score(twice.matrix), model.score(twice.matrix))


def test_neither_fitting_nor_serving_on_the_cpu_imports_jax(tmp_path: object) -> None:
    code = (
        "import sys, numpy as np\n"
        "from infrec import Interactions, InfiniteAE, load\n"
        "log = Interactions.from_csr(np.random.default_rng(0).random((40, 30)) < 0.3)\n"
        f"InfiniteAE().fit(log).save({str(tmp_path)!r} + '/m')\n"
        f"model = load({str(tmp_path)!r} + '/m')\n"
        "model.recommend([1]); model.explain([1, 2], 3); model.similar(4)\n"
        "print('jax' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_weights_that_overflow_are_named_as_such() -> None:
    """Times in milliseconds for weights: no two users are the same, and no reg would help; float64 does."""
    likes = np.random.default_rng(4).random((30, 20)) < 0.3
    log = Interactions.from_csr(likes * np.linspace(1.6e12, 1.7e12, 20))
    with pytest.raises(SolveError, match=r"weights of up to 1\.7e\+12 overflow; use smaller ones or float64"):
        InfiniteAE(reg=5).fit(log)
    assert np.isfinite(InfiniteAE(reg=5, dtype="float64").fit(log).score(log.matrix)).all()
