"""Lists that are not all alike: worked by hand, one by one as the formula says, and what they are for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from infrec.data import Interactions
from infrec.errors import ConfigError, DataError
from infrec.models import EASE, BiasOnly, InfiniteAE, PopRec, reranking
from infrec.models.balance import Balance
from infrec.models.base import Recommender
from infrec.models.reranking import Attribute, Reranker, Traits


@pytest.fixture(scope="module")
def log(small_log: Interactions) -> Interactions:
    """120 users of four groups, 60 items; each group's 15 items are of a genre, every third also `Short`."""
    genres = ["Drama|Short" if at % 3 == 0 else "Drama" for at in range(15)]
    genres += [f"Crime{'|Short' * (at % 3 == 0)}" for at in range(15)]
    genres += ["Comedy"] * 15 + [""] * 15
    assert small_log.item_info is not None
    info = small_log.item_info.append_column("genres", pa.array(genres))
    info = info.append_column("year", pa.array([1990 + at % 5 for at in range(59)] + [None]))
    return Interactions(small_log.matrix, small_log.users, small_log.items, item_info=info)


@pytest.fixture(scope="module")
def model(log: Interactions) -> InfiniteAE:
    return InfiniteAE(reg=1).fit(log)


def traits_of(vectors: Any, popularity: Any, genres: Any = None) -> Traits:
    """Traits whose likenesses are given."""
    info = None if genres is None else pa.table({"genres": genres})
    stub: Any = SimpleNamespace(
        log=SimpleNamespace(item_info=info), popularity=np.asarray(popularity, np.float32)
    )
    traits = Traits(stub)
    traits.__dict__["vectors"] = np.asarray(vectors, np.float32)
    return traits


def best(
    reranker: Reranker | None, scores: Any, k: int, history: Any = None, **given: Any
) -> list[list[int]]:
    assert reranker is not None
    scores = np.asarray(scores, np.float32)
    rows = sp.csr_array(np.zeros_like(scores) if history is None else np.asarray(history, np.float32))
    return reranker.best(scores, rows, k, **given).tolist()


# ---- the formula ------------------------------------------------------------------------------------------
def test_by_hand() -> None:
    """Items 0 and 1 are doubles, item 2 is like neither; the scores 10, 9, 5, 0 are relevances 1, .9, .5, 0.

    At d = 0.3, after item 0: item 1 is worth 0.7 · 0.9 − 1.8 · 0.3 · 1 = 0.09, item 2 is worth 0.35.
    At d = 0.1: 0.81 − 0.18 = 0.63 against 0.45.
    """
    vectors = [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    traits = traits_of(vectors, np.ones(4))
    scores = [[10, 9, 5, 0]]
    assert best(Reranker.of(traits, Balance(0.3), None), scores, 4) == [[0, 2, 1, 3]]
    assert best(Reranker.of(traits, Balance(0.1), None), scores, 4) == [[0, 1, 2, 3]]
    assert best(Reranker.of(traits, Balance(1.0), None), scores, 4) == [[0, 2, 3, 1]]


def test_popularity_by_hand() -> None:
    """The history's one item has 4 users; relevances 1, 0.6, 0 of items with 16, 4 and 1.

    Item 0 lies two doublings above: at p = −0.5 it loses 2 · 0.25 and falls behind item 1. At p = −1 it loses
    1 and is level with item 2, before which it stays for its score. Above 0, item 2 loses, the last.
    """
    traits = traits_of(np.eye(4), [16, 4, 1, 4])
    scores, history = [[10, 6, 0, 0]], [[0, 0, 0, 1]]
    exclude = sp.csr_array(np.array(history, np.float32))
    for wish, order in ((-0.3, [0, 1, 2]), (-0.5, [1, 0, 2]), (-1.0, [1, 0, 2]), (1.0, [0, 1, 2])):
        reranker = Reranker.of(traits, Balance(0.0, wish), None)
        assert best(reranker, scores, 3, history, exclude=exclude) == [order]
    # Somebody used to what one person has: relevances 1, 0.95, 0, 0.95 become −1, −0.05, 0, −0.05.
    rare = [[0, 0, 1, 0]]
    assert best(Reranker.of(traits, Balance(0.0, -1.0), None), [[10, 9.5, 0, 9.5]], 4, rare) == [[2, 1, 3, 0]]


def test_who_has_no_history_is_compared_with_all_interactions() -> None:
    traits = traits_of(np.eye(3), [4, 2, 2])
    usual = traits.usual(sp.csr_array((1, 3), dtype=np.float32))
    assert usual == pytest.approx([(4 * 2 + 2 * 1 + 2 * 1) / 8])


def one_by_one(
    scores: np.ndarray, vectors: np.ndarray, genres: list[str], d: float, cap: int, k: int
) -> list[int]:
    """The list of one user, in plain Python."""
    gain = (1 - d) * (scores - scores.min()) / ((scores.max() - scores.min()) or 1)
    order: list[int] = []
    while len(order) < k:
        worth = {}
        for item in sorted(range(len(scores)), key=lambda item: (-scores[item], item)):
            own = set(genres[item].split("|")) - {""}
            full = any(sum(g in genres[other].split("|") for other in order) >= cap for g in own)
            if item not in order and not full:
                alike = max([0.0, *(float(vectors[item] @ vectors[other]) for other in order)])
                worth[item] = gain[item] - 1.8 * d * alike
        if not worth:
            break
        order.append(max(worth, key=lambda item: worth[item]))
    return order + [-1] * (k - len(order))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), d=st.sampled_from([0.0, 0.2, 0.6, 1.0]), cap=st.integers(1, 4))
def test_it_is_the_formula_one_by_one(seed: int, d: float, cap: int) -> None:
    """Whole numbers over powers of two: all arithmetic but that with 1.8 is exact, and no two items tie."""
    rng = np.random.default_rng(seed)
    scores = rng.permuted(np.tile(np.arange(12), (3, 1)), axis=1).astype(np.float32)
    vectors = (
        rng.integers(-3, 4, (12, 5)).astype(np.float32) / 8 + rng.random((12, 5)).astype(np.float32) / 64
    )
    genres = ["|".join(rng.choice(["a", "b", "c", ""], rng.integers(1, 3), replace=False)) for _ in range(12)]
    traits = traits_of(vectors, np.ones(12), genres)
    found = best(Reranker.of(traits, Balance(d), {"genre": cap}), scores, 9)
    assert found == [
        one_by_one(row.astype(float), vectors.astype(float), genres, d, cap, 9) for row in scores
    ]


def test_caps_reach_beyond_the_shortlist(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first 30 of 40 items are of one kind: three of them, then seven of the rest."""
    monkeypatch.setattr(reranking, "SHORTLIST", 4)
    genres = ["a"] * 30 + ["b|c", "b|d", "c", "c", "d", "d", "e", "f", None, ""]
    traits = traits_of(np.eye(40), np.ones(40), genres)
    scores = -np.arange(40.0)[None, :]
    found = best(Reranker.of(traits, Balance(), {"genre": 3}), scores, 13)
    assert found == [[0, 1, 2, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39]]
    none_left = best(Reranker.of(traits, Balance(), {"genre": 1}), scores, 9)
    assert none_left == [[0, 30, 34, 36, 37, 38, 39, -1, -1]]
    allowed = np.arange(40) < 31
    assert best(Reranker.of(traits, Balance(), {"genres": 2}), scores, 5, allowed=allowed) == [
        [0, 1, 30, -1, -1]
    ]


# ---- models -----------------------------------------------------------------------------------------------
def test_without_wishes_nothing_changes(model: InfiniteAE) -> None:
    assert Reranker.of(model.traits, Balance(), None) is None
    plain = model.recommend(k=7)
    assert plain == model.recommend(k=7, diversity=0, popularity=0, max_per={})


@pytest.mark.parametrize("kind", [InfiniteAE(reg=1), EASE(reg=10)], ids=["infinite-ae", "ease"])
def test_diverse_lists_show_more_groups_and_more_of_the_catalogue(
    kind: Recommender, log: Interactions
) -> None:
    model = kind.with_settings().fit(log)
    group = {item: at // 15 for at, item in enumerate(log.items)}

    def kinds(**wishes: Any) -> tuple[float, int]:
        table = model.recommend(k=5, **wishes)
        users = {user: set() for user in table["user"]}
        for row in table:
            users[row["user"]].add(group[row["item"]])
        return float(np.mean([len(groups) for groups in users.values()])), len(set(table["item"]))

    plain, some, much = kinds(), kinds(diversity=0.3), kinds(diversity=0.9)
    assert plain[0] < some[0] <= much[0] and much[0] > plain[0] + 1
    assert plain[1] <= some[1]


def test_the_score_is_the_models_and_the_list_is_whole(model: InfiniteAE) -> None:
    plain = {row["item"]: row["score"] for row in model.recommend(["u003"], k=60)}
    table = model.recommend(["u003"], k=60, diversity=0.5, popularity=-0.5)
    assert {row["item"]: row["score"] for row in table} == plain
    assert table["rank"] == list(range(1, len(plain) + 1))


def test_a_list_is_the_same_in_any_company(model: InfiniteAE) -> None:
    wishes: dict[str, Any] = {"k": 8, "diversity": 0.4, "popularity": -0.3, "max_per": {"genre": 3}}
    every = list(model.recommend(**wishes))
    for user in ("u003", "u090"):
        alone = [row["item"] for row in model.recommend([user], **wishes)]
        assert alone == [row["item"] for row in every if row["user"] == user]


def test_caps_hold_in_every_list(model: InfiniteAE, log: Interactions) -> None:
    assert log.item_info is not None
    genres = dict(zip(log.items, log.item_info["genres"].to_pylist(), strict=True))
    years = dict(zip(log.items, log.item_info["year"].to_pylist(), strict=True))
    table = model.recommend(k=10, max_per={"genre": 2, "year": 3})
    assert len(table) == 10 * log.n_users  # 15 items have no genre, and the cap counts none of these
    for user in log.users:
        items = [row["item"] for row in table if row["user"] == user]
        of = [genre for item in items for genre in genres[item].split("|") if genre]
        assert max(map(of.count, of), default=0) <= 2
        own = [years[item] for item in items if years[item] is not None]
        assert max(map(own.count, own)) <= 3


def test_popularity_moves_lists_towards_the_history_and_not_beyond(
    model: InfiniteAE, log: Interactions
) -> None:
    counts = dict(zip(log.items, log.item_counts.tolist(), strict=True))

    def mean(wish: float) -> float:
        return float(np.mean([counts[item] for item in model.recommend(k=5, popularity=wish)["item"]]))

    assert mean(-1.0) < mean(-0.5) < mean(0.0)
    assert mean(1.0) >= mean(0.0)


def test_fitted_again_its_likenesses_are_those_of_the_new_fit(log: Interactions) -> None:
    model = EASE(reg=10).fit(log)
    before = model.traits
    assert model.traits is before
    model.fit(log.select_users(np.arange(60)))
    assert model.traits is not before and model.traits.vectors.shape == before.vectors.shape


def test_rank_orders_what_is_given(model: InfiniteAE) -> None:
    given = ["i05", "i40", "i20", "i01"]
    table = model.rank(["i00", "i01"], given)
    assert table.columns == ["item", "rank", "score", "source", "title"]
    scores = model.score(model.log.histories([["i00", "i01"]])[0])[0]
    expected = sorted(given, key=lambda item: -scores[int(item[1:])])
    assert table["item"] == expected and "i01" in expected
    assert len(model.rank(["i00"], given, max_per={"genre": 1})) < 4
    with pytest.warns(UserWarning, match="'nope'"):
        assert model.rank(["i00"], ["i05", "nope"])["item"] == ["i05"]
    with pytest.raises(DataError, match="none of the items"):
        model.rank(["i00"], ["nope"])


@pytest.mark.parametrize(
    ("wishes", "words"),
    [
        ({"diversity": 1.5}, "diversity is 1.5; expected a number of at least 0 and at most 1"),
        ({"diversity": float("nan")}, "diversity is nan"),
        ({"popularity": -2}, "popularity is -2"),
        ({"max_per": {"genre": 0}}, "max_per is 0 for 'genre'; expected a whole number of at least 1"),
        ({"max_per": {"genre": 2.5}}, "max_per is 2.5"),
        (
            {"max_per": {"studio": 2}},
            "'studio', which the items of the model do not have .*title, genres, year",
        ),
    ],
)
def test_wishes_that_cannot_be_met(model: InfiniteAE, wishes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        model.recommend(["u003"], **wishes)


@pytest.mark.parametrize("kind", [PopRec(), BiasOnly(epochs=1)], ids=["poprec", "bias-only"])
def test_a_model_with_one_list_for_all_knows_no_likeness(kind: Recommender, log: Interactions) -> None:
    model = kind.fit(log)
    with pytest.raises(ConfigError, match="same order for everybody"):
        model.recommend(["u003"], diversity=0.3)
    assert len(model.recommend(["u003"], k=5, max_per={"genre": 1})) == 5


def test_values_of_a_column() -> None:
    info = pa.table({"genres": ["a|b", "b", None, " a | a"], "year": [1, None, 2, 1]})
    genres, years = Attribute.of(info, "genre"), Attribute.of(info, "year")
    assert genres.codes.tolist() == [[0, 1], [1, 2], [2, 2], [0, 2]] and genres.values == 2
    assert years.codes.tolist() == [[0], [2], [1], [0]]
    lists = Attribute.of(pa.table({"tag": [["x", "y"], [], None, ["y", None, ""]]}), "tag")
    assert lists.codes.tolist() == [[0, 1], [2, 2], [2, 2], [1, 2]]


def test_a_cap_beyond_all_numbers_is_none(model: InfiniteAE) -> None:
    assert model.recommend(["u003"], max_per={"genre": 10**30}) == model.recommend(["u003"])
