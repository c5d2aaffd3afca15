"""What distillation is for: a summary is a small log on which ∞-AE is better than on as many random users."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow.parquet as pq
import pytest

from infrec.data import Interactions, Summary, datasets
from infrec.distillation import distill, size
from infrec.distillation.pipeline import held_out
from infrec.distillation.settings import DistillSettings
from infrec.distillation.validation import Validator
from infrec.errors import ArtifactError, DataError
from infrec.kernels.ntk import NTK
from infrec.models import InfiniteAE
from infrec.samplers import sample
from infrec.splits import Split, holdout
from tests.conftest import quick_compilation


@pytest.fixture(scope="module")
def demo() -> Split:
    return holdout(datasets.load("demo"))


@pytest.fixture(scope="module")
def summary(demo: Split) -> Summary:
    return distill(demo, users=50, steps=200, batch=400)


def _test_quality(demo: Split, log: Interactions, grid: tuple[float, ...]) -> np.ndarray:
    """HR@10, HR@100, NDCG@10, NDCG@100 on test, the best over the grid: in favour of the random users."""
    return Validator(demo.test_context, demo.test.matrix, NTK()).table(log.matrix.toarray(), grid).max(axis=0)


def test_beats_random_users_of_the_same_number(demo: Split, summary: Summary) -> None:
    """50 synthetic users: at least 8 points of HR@10 and HR@100 above the best of three draws."""
    ours = _test_quality(demo, summary, (summary.reg,))
    random = np.max(
        [
            _test_quality(
                demo, sample(demo.train, strategy="user-rns", users=50, seed=seed), summary.reg_grid
            )
            for seed in (1, 2, 3)
        ],
        axis=0,
    )
    assert summary.weighted and summary.n_users == 50
    assert ours[0] > random[0] + 8
    assert ours[1] > random[1] + 8


def test_soft_is_near_the_full_data(demo: Split) -> None:
    soft = distill(demo, users=50, mode="soft", steps=75, batch=400)
    ours = _test_quality(demo, soft, (soft.reg,))
    full = InfiniteAE().fit(demo.train, validation=demo.val)
    theirs = _test_quality(demo, demo.train, (float(full.selected["reg"]),))
    assert ours[0] > 0.93 * theirs[0]


def test_models_fit_a_summary_as_they_fit_a_log(demo: Split, summary: Summary) -> None:
    model = InfiniteAE().fit(summary)
    assert model.settings.reg == summary.reg, "λ was chosen together with the summary"
    assert InfiniteAE(reg=7).fit(summary).settings.reg == 7
    scores = model.score(demo.train.matrix[:5])
    assert scores.shape == (5, demo.train.n_items)
    assert np.isfinite(scores).all()


def test_finishing_on_all_data_is_better(demo: Split, summary: Summary) -> None:
    """Nyström with the synthetic users as centres: its test HR@100 is above that of the summary alone."""
    best = 0.0
    for reg in (0.1, 1.0, 5.0):
        model = InfiniteAE(reg=reg, centres=summary).fit(demo.train)
        scores = model.score(demo.test_context)
        scores[demo.test_context.nonzero()] = -np.inf
        top = np.argpartition(-scores, 100, axis=1)[:, :100]
        hits = np.take_along_axis(demo.test.matrix.toarray(), top, 1).sum(1)
        best = max(best, float(100 * (hits / np.minimum(demo.test.user_counts, 100)).mean()))
    assert best > _test_quality(demo, summary, (summary.reg,))[1]


def test_finishing_chooses_its_own_regularisation(demo: Split, summary: Summary) -> None:
    """On validation where there is one, else on a part of the log that is then used as well."""
    model = InfiniteAE(centres=summary).fit(demo.train, validation=demo.val)
    scores = [candidate.score or 0.0 for candidate in model.candidates]
    assert len(scores) == 8 and max(scores) > min(scores)
    assert model.settings.reg == model.candidates[int(np.argmax(scores))].settings["reg"]
    alone = InfiniteAE(centres=summary).fit(demo.train)
    same = InfiniteAE(reg=float(alone.settings.reg), centres=summary).fit(demo.train)
    np.testing.assert_array_equal(alone.alpha, same.alpha)


def test_finished_models_are_saved_with_their_alpha(demo: Split, summary: Summary, tmp_path: Path) -> None:
    model = InfiniteAE(reg=1.0, centres=summary).fit(demo.train).with_only_centres()
    model.save(tmp_path / "m")
    again = InfiniteAE.load(tmp_path / "m")
    np.testing.assert_allclose(
        again.score(demo.train.matrix[:4]), model.score(demo.train.matrix[:4]), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(
        again.fitted_scores(slice(0, 4)), again.score(summary.matrix[:4]), rtol=1e-4, atol=1e-5
    )


def test_finishing_refuses_other_items(summary: Summary, small_log: Interactions) -> None:
    with pytest.raises(DataError, match=r"the centres have .* items and the log"):
        InfiniteAE(centres=summary).fit(small_log)


class TestSummary:
    def test_round_trip(self, summary: Summary, tmp_path: Path) -> None:
        summary.save(tmp_path / "s")
        again = Summary.load(tmp_path / "s")
        np.testing.assert_array_equal(again.matrix.toarray(), summary.matrix.toarray())
        assert again.items == summary.items and again.users == summary.users
        assert again.titles is not None and again.titles.equals(summary.titles)
        assert again.reg_grid == summary.reg_grid and again.reg == summary.reg
        assert again.about["start"] == "popularity" and "no single user" in again.about["start_meaning"]
        assert again.about["settings"] == summary.about["settings"]

    def test_files(self, summary: Summary, demo: Split, tmp_path: Path) -> None:
        summary.save(tmp_path / "s")
        table = pq.read_table(tmp_path / "s" / "interactions.parquet")
        assert table.column_names == ["user", "item", "weight"]
        assert table.num_rows == summary.n_interactions
        assert len(set(table["weight"].to_pylist())) <= 16
        assert pq.read_table(tmp_path / "s" / "items.parquet").num_rows == demo.train.n_items
        assert (tmp_path / "s" / "interactions.parquet").stat().st_size == summary.bytes
        assert summary.bytes < 3 * summary.n_interactions  # less than three bytes an interaction

    def test_any_reader_reads_it(self, summary: Summary, tmp_path: Path) -> None:
        summary.save(tmp_path / "s")
        log = Interactions.read(tmp_path / "s" / "interactions.parquet")
        assert log.n_interactions == summary.n_interactions

    def test_string_ids_and_weights(self, small_log: Interactions, tmp_path: Path) -> None:
        soft = Summary.of_array(
            np.random.default_rng(0).random((3, 60)).astype(np.float32), small_log, {"reg": 0.1}
        )
        soft.save(tmp_path / "s")
        again = Summary.load(tmp_path / "s")
        assert not again.discrete
        np.testing.assert_array_equal(again.matrix.toarray(), soft.matrix.toarray())
        assert again.items == small_log.items

    def test_a_sample_is_saved_the_same_way(self, small_log: Interactions, tmp_path: Path) -> None:
        chosen = sample(small_log, strategy="user-rns", users=7)
        chosen.save(tmp_path / "s")
        again = Summary.load(tmp_path / "s")
        assert again.kind == "sample" and again.about["strategy"] == "user-rns"
        assert again.users == chosen.users

    def test_another_kind_is_refused(self, demo: Split, tmp_path: Path) -> None:
        InfiniteAE(reg=1).fit(demo.train.select_users(np.arange(10))).save(tmp_path / "m")
        with pytest.raises(ArtifactError, match="expected a summary or a sample"):
            Summary.load(tmp_path / "m")


@pytest.fixture(scope="class")
def few_steps() -> Iterator[None]:
    with quick_compilation():
        yield


@pytest.mark.usefixtures("few_steps")
class TestSizes:
    OPTIONS: ClassVar[dict[str, int]] = {"users": 10, "steps": 1, "validate_every": 1}

    def test_total(self, small_log: Interactions) -> None:
        assert distill(small_log, total=83, **self.OPTIONS).n_interactions == 83

    def test_percent(self, small_log: Interactions) -> None:
        split = holdout(small_log)
        found = distill(split, percent=5, **self.OPTIONS)
        assert found.n_interactions == round(0.05 * split.train.n_interactions)

    def test_gamma_is_the_mass_of_a_soft_row(self, small_log: Interactions) -> None:
        found = distill(small_log, mode="soft", gamma=7, **self.OPTIONS)
        np.testing.assert_allclose(found.matrix.sum(axis=1), 7, rtol=1e-3)

    def test_target_finds_the_smallest(
        self, small_log: Interactions, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With a quality known for each number of users, bisection ends within an eighth of the answer."""
        runs = []

        def fake(count: int) -> Summary:
            runs.append(count)
            quality = min(1.0, 0.5 + count / 160)  # 95 % from 72 users on
            return Summary.of_array(np.ones((count, 60)), small_log, {"validation": {"HR@100": 40 * quality}})

        def judge(summary: Summary) -> float:
            return summary.about["validation"]["HR@100"]

        monkeypatch.setattr(size, "_judge", lambda train, val: judge)
        monkeypatch.setattr(size, "_full_quality", lambda train, val, progress: 40.0)
        found = size.smallest(fake, 0.95, small_log, small_log, lambda *a, **k: None)
        assert 72 <= found.n_users <= 80
        assert len(runs) <= 6
        assert found.about["target"]["reached"]
        monkeypatch.setattr(size, "_full_quality", lambda train, val, progress: 41.0)
        out_of_reach = size.smallest(fake, 1.0, small_log, small_log, lambda *a, **k: None)
        assert not out_of_reach.about["target"]["reached"]
        assert out_of_reach.n_users == 100 or out_of_reach.n_users == 120

    def test_target_for_real(self, demo: Split, monkeypatch: pytest.MonkeyPatch) -> None:
        """Real distillations from two users on; each number of users is compiled anew, so they are few."""
        monkeypatch.setattr(size, "FEWEST", 2)
        found = distill(demo, target=0.69, mode="soft", steps=30, batch=400)
        target = found.about["target"]
        assert target["reached"]
        assert found.about["validation"]["HR@100"] >= 0.69 * target["full_data"]
        enough = {int(users) for users, share in target["tried"].items() if share >= 0.69}
        assert found.n_users == min(enough) < 12 and len(enough) < len(target["tried"])

    def test_a_target_over_few_items_compares_like_with_like(
        self, small_log: Interactions, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With 60 items both are judged by HR@12: a list of 100 would find everything on any summary."""
        from infrec.metrics.ranking import hit_rate_at

        monkeypatch.setattr(size, "FEWEST", 2)
        train, val = held_out(small_log, 42)
        found = distill(Split(train, val, val), target=0.05, steps=1, mode="soft")

        def quality(log: Interactions, reg: float) -> float:
            scores = InfiniteAE(reg=reg).fit(log).score(train.matrix)
            return 100 * float(hit_rate_at(scores, train.matrix, val.matrix, 12).mean())

        full = max(quality(train, reg) for reg in InfiniteAE.search_space["reg"] if reg > 0)
        target = found.about["target"]
        assert target["full_data"] == pytest.approx(full, rel=1e-6)
        share = quality(found, found.about["reg"]) / full
        assert target["tried"][str(found.n_users)] == pytest.approx(share, abs=1e-4) and share < 1

    def test_a_target_needs_somebody_to_be_found(self) -> None:
        """The validation items are those that everybody has: nothing can be found."""
        everything = Interactions.from_csr(np.ones((30, 8)))
        with pytest.raises(DataError, match="a target has no meaning"):
            distill(Split(everything, everything, everything), target=0.9)


def test_an_item_nobody_has() -> None:
    """It stays in the vocabulary and does no harm."""
    likes = np.random.default_rng(0).random((60, 30)) < 0.3
    likes[:, 3] = False
    found = distill(Interactions.from_csr(likes), users=8, steps=8, validate_every=4)
    assert found.n_items == 30
    assert np.isfinite(found.matrix.data).all()


def test_inner_holdout_takes_a_tenth(small_log: Interactions) -> None:
    train, val = held_out(small_log, 1)
    assert (train.matrix + val.matrix - small_log.matrix).nnz == 0
    assert val.n_interactions == pytest.approx(0.1 * small_log.n_interactions, rel=0.15)
    assert (train.user_counts >= 1).all()


def test_a_seed_in_the_config_is_the_seed_of_everything() -> None:
    """Also of the tenth that is held out of a log without a split."""
    log = Interactions.from_csr(np.random.default_rng(3).random((60, 20)) < 0.3)
    settings = {"users": 5, "steps": 2, "batch": 60, "per_user": 4.0, "targets": "own"}
    one = distill(log, seed=7, **settings)
    other = distill(log, settings=DistillSettings.of(seed=7, **settings))
    assert one.about["history"] == other.about["history"]
    assert (one.matrix != other.matrix).nnz == 0
