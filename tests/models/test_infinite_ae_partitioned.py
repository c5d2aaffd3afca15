"""∞-AE from a prepared dataset, partition by partition: the model of a fit in memory, in bounded memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from infrec.data import Interactions
from infrec.data.partition_writer import prepare
from infrec.data.partitioned import PartitionedLog
from infrec.data.sources import TableSource
from infrec.data.synthetic import generate
from infrec.errors import ArtifactError, ConfigError, DataError, SolveError
from infrec.kernels import devices
from infrec.models import InfiniteAE
from infrec.search import criterion
from infrec.search.tune import best_first


@pytest.fixture(scope="module")
def log() -> Interactions:
    return generate(600, 120, 12_000, seed=3)


@pytest.fixture(scope="module")
def dataset(log: Interactions, tmp_path_factory: pytest.TempPathFactory) -> PartitionedLog:
    folder = tmp_path_factory.mktemp("prepared") / "log"
    prepare(TableSource(log.to_table(), "log"), folder)
    return PartitionedLog.open(folder)


def test_the_model_of_a_fit_in_memory(log: Interactions, dataset: PartitionedLog) -> None:
    """Float32 blocks are cut differently, so scores agree to 1e-4; the centres are the same users."""
    settings = {"reg": 5, "solver": "nystrom", "centres": 100}
    whole = InfiniteAE(**settings).fit(log)
    streamed = InfiniteAE(**settings).fit_prepared(dataset)
    assert streamed.centres.users == whole.centres.users
    np.testing.assert_allclose(streamed.score(log.matrix), whole.score(log.matrix), atol=1e-4)
    assert streamed.about["read"]["rows"] == 12_000
    np.testing.assert_array_equal(streamed.popularity, log.item_counts)


def test_reg_is_chosen_from_the_same_pass_and_the_model_is_fitted_on_everything(
    log: Interactions, dataset: PartitionedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    plain = PartitionedLog.batches
    monkeypatch.setattr(PartitionedLog, "batches", lambda self, p: (read.extend(p), plain(self, p))[1])
    model = InfiniteAE(centres=100).fit_prepared(dataset)
    assert sorted(read) == sorted(2 * list(range(len(dataset.partitions)))), "two readings: centres, pass"
    scores = {one.settings["reg"]: one.score for one in model.candidates if one.score is not None}
    assert len(scores) == 6 and model.selected["reg"] == max(scores, key=lambda reg: scores[reg]) == 5
    fixed = InfiniteAE(reg=5, solver="nystrom", centres=100).fit_prepared(dataset)
    np.testing.assert_allclose(model.score(log.matrix), fixed.score(log.matrix), atol=1e-4)


def test_a_sample_judges_where_there_are_many(
    dataset: PartitionedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    everybody = InfiniteAE(centres=100).fit_prepared(dataset).candidates[2].score
    monkeypatch.setattr(criterion, "JUDGES", 150)
    some = InfiniteAE(centres=100).fit_prepared(dataset).candidates[2].score
    assert everybody is not None and some is not None
    assert some != everybody and abs(some - everybody) < 8  # a standard error of about 2 points


def test_what_is_saved_is_small_and_works(log: Interactions, dataset: PartitionedLog, tmp_path: Path) -> None:
    model = InfiniteAE(reg=5, centres=100).fit_prepared(dataset)
    model.save(tmp_path / "model")
    again = InfiniteAE.load(tmp_path / "model")
    assert again.log.n_users == 100
    np.testing.assert_array_equal(again.score(log.matrix[:9]), model.score(log.matrix[:9]))
    np.testing.assert_array_equal(again.popularity, model.popularity)
    item = log.items.ids[3].as_py()
    assert len(again.recommend(histories=[[item]], k=3)) == 3


def test_given_centres(log: Interactions, dataset: PartitionedLog, checkerboard: Interactions) -> None:
    some = log.select_users(np.arange(0, 600, 6))
    model = InfiniteAE(reg=5, centres=some).fit_prepared(dataset)
    whole = InfiniteAE(reg=5, centres=some).fit(log)
    np.testing.assert_allclose(model.score(log.matrix), whole.score(log.matrix), atol=1e-4)
    with pytest.raises(DataError, match="expected the same"):
        InfiniteAE(centres=checkerboard).fit_prepared(dataset)


def test_what_needs_everybody_in_memory_is_refused(dataset: PartitionedLog) -> None:
    with pytest.raises(ConfigError, match="'exact', which needs all users"):
        InfiniteAE(solver="exact").fit_prepared(dataset)


def test_a_damaged_partition_is_named(log: Interactions, tmp_path: Path) -> None:
    prepare(TableSource(log.to_table(), "log"), tmp_path / "log")
    bad = tmp_path / "log" / "part-00004.parquet"
    bad.write_bytes(bad.read_bytes()[:-20])
    with pytest.raises(ArtifactError, match=r"part-00004\.parquet is damaged"):
        InfiniteAE(reg=5, centres=50).fit_prepared(PartitionedLog.open(tmp_path / "log"))


def test_partitions_are_divided_evenly(dataset: PartitionedLog) -> None:
    for processes in (1, 2, 3, 4, 40):
        shares = [dataset.share(processes, index) for index in range(processes)]
        assert [n for share in shares for n in share] == list(range(len(dataset.partitions)))
    rows = [sum(dataset.partitions[n]["rows"] for n in dataset.share(2, index)) for index in (0, 1)]
    assert min(rows) > 0.45 * sum(rows)


def test_memory_does_not_grow_with_the_log_and_the_estimate_holds(tmp_path: Path) -> None:
    """What numpy allocates, as tracemalloc counts it, for a log and for four times as many users."""
    peaks, needed = [], 0
    for users in (3_000, 12_000):
        folder = tmp_path / str(users)
        table = generate(users, 1_000, 40 * users, seed=1).to_table()
        prepare(TableSource(table, "log"), folder, partition=20_000)
        dataset = PartitionedLog.open(folder)
        tracemalloc.start()
        try:
            InfiniteAE(reg=5, centres=500).fit_prepared(dataset)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        most = max(dataset.partitions, key=lambda facts: facts["rows"])
        needed = devices.nystrom_fit(500, 1_000, rows=most["users"], alphas=1, stored=most["rows"])
    assert peaks[1] < 1.15 * peaks[0]
    assert 0.8 < needed / peaks[1] < 1.25


# ---- who judges --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("centres", [200, 390], ids=["some are centres", "nearly all are"])
def test_a_judge_sees_nothing_of_what_is_to_guess(tmp_path: Path, centres: int) -> None:
    """Without any structure, HR@12 is chance: 12 of the 60 − 7 items not shown, 22.6 %; its standard error
    over 200 judges or more with 2 items hidden each is about 2. Whole rows among the centres give 40 to 95.
    """
    log = Interactions.from_csr(np.random.default_rng(0).random((400, 60)) < 0.15)
    prepare(TableSource(log.to_table(), "log"), tmp_path / "log")
    dataset = PartitionedLog.open(tmp_path / "log")
    model = InfiniteAE(centres=centres).fit_prepared(dataset)
    scores = [one.score for one in model.candidates if one.score is not None]
    assert len(scores) >= 5 and all(16 < score < 30 for score in scores)
    fixed = InfiniteAE(reg=model.settings.reg, solver="nystrom", centres=centres).fit_prepared(dataset)
    np.testing.assert_allclose(model.score(log.matrix), fixed.score(log.matrix), atol=1e-4)


def test_popularity_is_a_sum_of_weights(log: Interactions, tmp_path: Path) -> None:
    weighted = log.matrix.copy()
    weighted.data = (1 + np.arange(weighted.nnz) % 4).astype(np.float32)
    heavy = log.with_matrix(weighted)
    prepare(TableSource(heavy.to_table(), "log"), tmp_path / "log")
    dataset = PartitionedLog.open(tmp_path / "log")
    for reg in (5, "auto"):
        streamed = InfiniteAE(reg=reg, centres=100).fit_prepared(dataset)
        np.testing.assert_array_equal(streamed.popularity, InfiniteAE(reg=5).fit(heavy).popularity)


def test_a_reg_that_only_a_part_of_the_log_allows_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody has everything: the same history until 2 of 10 items are hidden, and any λ finds these two.

    Of equals the last is chosen, here λ = 0; on all interactions it has no solution.
    """
    monkeypatch.setattr(InfiniteAE, "search_space", {"reg": (5, 0)})
    log = Interactions.from_csr(np.ones((4, 10), np.float32))
    prepare(TableSource(log.to_table(), "log"), tmp_path / "log")
    model = InfiniteAE(centres=4).fit_prepared(PartitionedLog.open(tmp_path / "log"))
    best = best_first(model.candidates)
    assert [one.score for one in best] == [100, 100]
    assert best[0].settings["reg"] == 0 and "on all interactions" in (best[0].error or "")
    assert model.selected["reg"] == best[1].settings["reg"] == 5


@pytest.mark.parametrize("seed", [13, 14, 15])
def test_without_reg_centres_that_are_the_same_are_refused(tmp_path: Path, seed: int) -> None:
    """Two histories and three centres: decided by the rows; a pivot would be rounding error of any size."""
    rng = np.random.default_rng(seed)
    users, items = int(rng.integers(4, 16)), int(rng.integers(4, 13))
    log = Interactions.from_csr((rng.random((2, items)) < 0.5)[rng.integers(0, 2, users)].astype(np.float32))
    prepare(TableSource(log.to_table(), "log"), tmp_path / "log")
    dataset = PartitionedLog.open(tmp_path / "log")
    with pytest.raises(SolveError, match=r"reg=0 is not positive definite .* the same as another one"):
        InfiniteAE(reg=0, solver="nystrom", centres=3).fit_prepared(dataset)
    assert InfiniteAE(centres=3).fit_prepared(dataset).selected["reg"] > 0
