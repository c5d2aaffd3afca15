"""Generated logs: the same for a seed whatever the chunks, long-tailed, and with tastes that can be found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infrec.data import Interactions
from infrec.data.synthetic import BLOCK, DEMO, World, alias_table, generate, tables, write_log
from infrec.errors import ConfigError, DataError


def hit_rates(matrix: np.ndarray, reg: float = 200.0) -> tuple[float, float]:
    """HR@10 of popularity and of EASE (closed form, written out) on a fifth of the interactions, held out."""
    rng = np.random.default_rng(0)
    held = (matrix > 0) & (rng.random(matrix.shape) < 0.2)
    train = np.where(held, 0, matrix)
    inverse = np.linalg.inv(train.T @ train + reg * np.eye(matrix.shape[1]))
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0)
    rates = []
    for scores in (np.tile(train.sum(0), (len(train), 1)), train @ weights):
        top = np.argsort(-np.where(train > 0, -np.inf, scores), axis=1)[:, :10]
        hits = np.take_along_axis(held, top, axis=1).sum(1)
        some = held.any(1)
        rates.append(float((hits[some] / np.minimum(held.sum(1)[some], 10)).mean()))
    return rates[0], rates[1]


def test_a_model_finds_what_popularity_does_not() -> None:
    popularity, ease = hit_rates(generate().matrix.toarray())
    assert ease > 1.5 * popularity and popularity > 0.1  # popular things are popular, too


def test_the_demo() -> None:
    log = generate(**DEMO)
    assert (log.n_users, log.n_interactions) == (1000, 40_000) and 480 <= log.n_items <= 500
    assert log.titles is not None and len(set(log.titles.to_pylist())) == log.n_items
    assert log.titles.null_count == 0 and log.time is not None and log.item_info is not None
    assert log.item_info.column("genres").null_count == 0
    items, users = np.sort(log.item_counts)[::-1], np.sort(log.user_counts)[::-1]
    assert items[: len(items) // 10].sum() > 0.25 * items.sum()  # the top tenth has far more than a tenth
    assert users[:100].sum() > 0.25 * users.sum() and users[-1] >= 5


def test_tastes_follow_genres() -> None:
    """A user's most frequent genre has far more of their films than that genre has of all films."""
    log = generate()
    assert log.item_info is not None
    genres = log.item_info.column("genres").to_pylist()
    kinds = sorted({kind for row in genres for kind in row.split("|")})
    belongs = np.array([[kind in row.split("|") for kind in kinds] for row in genres], float)
    active = log.matrix.toarray()[log.user_counts >= 30]
    shares = (active @ belongs) / active.sum(1, keepdims=True)
    assert np.median(shares.max(1) / (shares.mean(0)[shares.argmax(1)])) > 2


def test_a_world_has_as_many_tastes_as_asked_and_people_have_all_of_them() -> None:
    usual, rich = World(500, 9000, 50_000, 1), World(500, 9000, 50_000, 1, tastes=700)
    assert (usual.tastes, rich.tastes) == (240, 700)
    urns = rich.favourites(np.random.default_rng(0), 2000)
    assert len(set(urns[urns < 700].tolist())) == 700
    assert urns.max() == 700 + rich.genres  # the crowd's, the last one


def test_the_file_does_not_depend_on_chunks_or_threads(tmp_path: Path) -> None:
    size = {"users": 2 * BLOCK + 300, "items": 400, "interactions": 60_000}
    made = tables(**size, seed=5)[0]
    for threads, row_group in ((1, 1 << 20), (3, 7_001)):
        path = write_log(tmp_path / "log.parquet", **size, seed=5, threads=threads, rows=row_group)
        assert pq.read_table(path).equals(made)
        assert pq.ParquetFile(path).metadata.row_group(0).num_rows == min(row_group, 60_000)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["log-items.parquet", "log.parquet"]
    log = Interactions.read(tmp_path / "log.parquet", items=tmp_path / "log-items.parquet")
    assert log.n_interactions == 60_000 and log.titles is not None and log.titles.null_count == 0
    assert not tables(**size, seed=6)[0].equals(made)


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 60), st.integers(10, 80), st.floats(0.02, 1), st.integers(0, 10**6))
def test_exactly_as_many_distinct_pairs_as_asked(users: int, items: int, share: float, seed: int) -> None:
    wanted = max(users, int(0.5 * users * items * share))
    rows, _ = tables(users, items, wanted, seed)
    user, item = rows["user"].to_numpy(), rows["item"].to_numpy()
    assert rows.num_rows == wanted == len(set(zip(user.tolist(), item.tolist(), strict=True)))
    assert set(user.tolist()) == set(range(1, users + 1)) and item.min() >= 1 and item.max() <= items
    assert set(rows["rating"].to_pylist()) <= {1, 2, 3, 4, 5}
    when = rows["timestamp"].to_numpy()
    assert (np.diff(user) >= 0).all() and (np.diff(when)[np.diff(user) == 0] >= 0).all()


@given(st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=40))
def test_alias_table_is_the_distribution(weights: list[float]) -> None:
    accept, alias = alias_table(np.array(weights))
    mass = np.bincount(alias, 1 - accept, minlength=len(weights)) + accept
    np.testing.assert_allclose(mass / len(weights), np.array(weights) / sum(weights), atol=1e-9)


def test_impossible_sizes(tmp_path: Path) -> None:
    for users, items, interactions in ((0, 100, 10), (10, 5, 20), (10, 100, 9), (10, 100, 501)):
        with pytest.raises(ConfigError, match="expected"):
            generate(users, items, interactions)
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="cannot be written"):
        write_log(tmp_path / "file" / "log.parquet", users=10, items=20, interactions=50)
