"""Items without interactions: interpolation, a case worked by hand, and features that cannot be used."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

import infrec
from infrec.data import Interactions
from infrec.errors import ConfigError, DataError
from infrec.models import EASE, InfiniteAE, InfiniteAEPlus, PopRec
from infrec.models.base import Recommender
from infrec.models.infinite_ae_plus import LADDERS
from infrec.models.new_items import Features, NewItemsSettings


def placed(log: Interactions, table: dict[str, Any], settings: NewItemsSettings | None = None) -> InfiniteAE:
    """A model of a log and of items after its own, which nobody has; the table is about all of them."""
    about = pa.table(table)
    wider = sp.csr_array(
        (log.matrix.data, log.matrix.indices, log.matrix.indptr), (log.n_users, about.num_rows)
    )
    ids = [*log.items, *(f"new {n}" for n in range(about.num_rows - log.n_items))]
    whole = replace(Interactions.from_csr(wider, items=ids), item_info=about)
    return InfiniteAE(reg=1).fit(whole).with_new_items(settings=settings)


def test_the_double_of_a_known_item_gets_its_scores(small_log: Interactions) -> None:
    """As μ goes to 0, kernel ridge regression interpolates: a new item with the features of item 7 is item 7.

    μ = 1e-8 beside a kernel whose smallest eigenvalue is about 1e-3: 1e-4 of the largest score.
    """
    years = {"year": [*np.arange(60.0), 7.0, 33.0]}
    model = placed(small_log, years, NewItemsSettings(0.1, 1e-8))
    scores = model.score(model.log.matrix)
    np.testing.assert_allclose(scores[:, 60:], scores[:, [7, 33]], atol=1e-4 * np.abs(scores).max())


def test_by_hand() -> None:
    """Genres a, b and, for the new item, both: cosines ½√2, so that k = √2 (mean and product).

    Known items have k = 2 with themselves and 0 with each other: W = √2 / (2 + μ) for both.
    """
    features = Features(pa.table({"genres": ["a", "b", "a|b", None]}))
    weights = features.weights(np.arange(2), np.array([2, 3]), NewItemsSettings(1.0, 2.0))
    np.testing.assert_allclose(weights, [[np.sqrt(2) / 4, 0], [np.sqrt(2) / 4, 0]], rtol=1e-6)


def test_kernels_of_columns() -> None:
    """Numbers by their distance in standard deviations (here 1), vectors by their cosine."""
    table = pa.table(
        {"year": [0.0, 2.0, 0.0, 2.0], "vector": [[1.0, 0.0], [0.0, 2.0], [3.0, 3.0], [0.0, 0.0]]}
    )
    every = np.arange(4)
    close = np.exp(-2 / 0.5)
    numbers = np.array([[1, close, 1, close]])
    cosines = np.array([[1, 0, np.sqrt(0.5), 0]])
    expected = (numbers + cosines) / 2 + numbers * cosines
    np.testing.assert_allclose(Features(table).kernel(np.array([0]), every, 0.5), expected, atol=1e-12)


def test_new_items_stand_among_the_known_ones(small_log: Interactions) -> None:
    """Four new items, one of each group's kind: people find that of their own group first among the four."""
    kinds = [f"k{at // 15}" for at in range(60)] + ["k0", "k1", "k2", "k3"]
    model = placed(small_log, {"kind": kinds})
    scores = model.score(model.log.matrix)
    assert (scores[:, 60:].argmax(axis=1) == np.arange(120) // 30).mean() > 0.95
    items = np.array(model.recommend(k=20)["item"]).reshape(120, 20)
    assert np.char.startswith(items, "new").any(axis=1).mean() > 0.9


def test_titles_say_years_and_texts_without_kinds_are_left_out() -> None:
    table = pa.table(
        {
            "title": ["A (1990)", "B (2000)", "C (1990)", "D (1960)"],
            "url": ["w", "x", "y", "z"],
            "same": [1, 1, 1, 1],
            "g": ["u", "u", "v", "v"],
        }
    )
    features = Features(table)
    assert [column.name for column in features.columns] == ["g", "year"]
    assert [column.name for column in Features(table, ["year"]).columns] == ["year"]
    with pytest.warns(UserWarning, match="'n' is left out: 1 of 4 items have no value"):
        Features(pa.table({"n": [1.0, None, 2.0, 3.0], "g": ["u", "u", "v", "v"]}))


def test_numbers_of_a_text_file_are_numbers() -> None:
    """A CSV file has texts: years lie near each other there, too. Numbers that tell items apart are ids."""
    years = ["1990", "1992", "1990", "2000"]
    features = Features(
        pa.table({"year": years, "id": ["7", "8", "9", "10"], "price": ["1.5", "2", "3", "4"]})
    )
    assert [column.name for column in features.columns] == ["year", "price"]
    read = Features(pa.table({"year": [float(year) for year in years]})).columns[0]
    np.testing.assert_array_equal(features.columns[0].numbers, read.numbers)
    assert Features(pa.table({"g": ["1", "2|1", "2", "1"]})).columns[0].vectors is not None
    with pytest.warns(UserWarning, match="'n' is left out: 1 of 4 items have no value"):
        Features(pa.table({"n": ["1", "", "1", "3"], "g": ["u", "u", "v", "v"]}))


@pytest.mark.parametrize(
    ("table", "columns", "words"),
    [
        (None, None, "nothing is known about the items; expected a table of items"),
        ({"title": ["a", "b"]}, None, "no column of the items says what kind"),
        ({"g": ["a", "b"]}, ["h"], "no column 'h' .they have: g"),
        ({"n": [1.0, float("nan")]}, None, "'n' holds NaN or infinite numbers"),
        ({"n": [1.0, 1.0]}, ["n"], "'n' says nothing of their kind: it has one value for all items"),
        ({"g": ["a", "a"]}, ["g"], "it has one value for all items"),
        ({"n": [1.0, None]}, ["n"], "1 of 2 items have no value: are they in the items file"),
        ({"g": pa.nulls(2, pa.string()), "n": [1, 2]}, ["g"], "2 of 2 items have no value"),
        ({"n": ["1", "nan", "1"]}, ["n"], "'n' holds NaN or infinite numbers"),
        ({"n": ["1", "", "1"]}, ["n"], "1 of 3 items have no value: are they in the items file"),
        ({"g": ["a", None, None], "n": [1, None, None]}, None, "2 of 3 items are not in the items file"),
        ({"v": [[1.0, 2.0], [1.0]]}, None, "'v' have several lengths"),
        ({"v": [[1.0, float("inf")], [1.0, 2.0]]}, None, "'v' holds NaN or infinite"),
    ],
)
def test_features_that_cannot_be_used(table: Any, columns: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        Features(None if table is None else pa.table(table), columns)


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match="reg is 0"):
        NewItemsSettings(reg=0)


@pytest.fixture(scope="module")
def with_new() -> Interactions:
    """Even users like even genres; items 30 and 31 are nobody's, one of each genre."""
    rng = np.random.default_rng(4)
    likes = ((np.arange(32)[None, :] % 2) == (np.arange(60)[:, None] % 2)) & (rng.random((60, 32)) < 0.6)
    likes[:, 30:] = False
    log = Interactions.from_csr(likes)
    genres = pa.array(["odd" if item % 2 else "even" for item in range(32)])
    return replace(log, item_info=pa.table({"genres": genres}))


@pytest.mark.parametrize("kind", [InfiniteAE, EASE, PopRec])
def test_items_that_nobody_has_are_in_lists_and_in_saved_models(
    with_new: Interactions, kind: type[Recommender], tmp_path: Path
) -> None:
    plain = kind(**({} if kind is PopRec else {"reg": 5.0})).fit(with_new)
    model = plain.with_new_items()
    model.save(tmp_path / "model")
    loaded = infrec.load(tmp_path / "model")
    before, after = plain.score(with_new.matrix), model.score(with_new.matrix)
    np.testing.assert_array_equal(before[:, :30], after[:, :30])
    np.testing.assert_allclose(loaded.score(with_new.matrix), after, atol=1e-6)
    assert loaded.about["new_items"] == {"items": 2, "columns": ["genres"], "length": 1.0, "reg": 10.0}
    if kind is not PopRec:
        assert (after[::2, 30] > after[::2, 31]).all() and (after[1::2, 30] < after[1::2, 31]).all()
    top = loaded.recommend([0], k=32)
    assert {30, 31} <= set(top["item"])


@pytest.mark.parametrize("kind", [InfiniteAE, InfiniteAEPlus])
def test_reasons_of_a_new_item_add_up_to_its_score(with_new: Interactions, kind: type[Any]) -> None:
    """In a list of two: an item that others have, and one that nobody has."""
    model = kind(**(LADDERS.start if kind is InfiniteAEPlus else {"reg": 5.0})).fit(with_new).with_new_items()
    history = with_new.matrix[[0]]
    scores = model.score(history)[0]
    parts = model.contributions(history, np.array([30, 7]))
    np.testing.assert_allclose(parts.by_user.sum(0) + parts.beside, scores[[30, 7]], atol=1e-5)
    np.testing.assert_allclose(parts.by_item.sum(0) + parts.baseline, scores[[30, 7]], atol=1e-4)


def test_an_update_gives_a_new_item_what_others_have(with_new: Interactions) -> None:
    model = InfiniteAE(reg=5.0).fit(with_new).with_new_items(["genres"], NewItemsSettings(0.5, 1.0))
    more = Interactions.from_csr(np.ones((3, 1)), users=[1, 2, 3], items=[30])
    model.update(more)
    assert model.about["new_items"]["items"] == 1
    whole = InfiniteAE(reg=5.0).fit(model.log).with_new_items(["genres"], NewItemsSettings(0.5, 1.0))
    np.testing.assert_allclose(model.score(with_new.matrix), whole.score(with_new.matrix), atol=1e-4)


def test_reading_takes_in_the_whole_table() -> None:
    rows = {"user": ["a", "a", "b"], "item": [3, 1, 3]}
    items = pa.table({"item": [1, 2, 3, 9, 2], "genres": ["x", "y", "x", "y", "y"]})
    log = Interactions.from_frame(rows, items=items, new_items=True)
    assert list(log.items) == [1, 2, 3, 9] and log.item_counts.tolist() == [1, 0, 2, 0]
    assert log.item_info is not None and log.item_info["genres"].to_pylist() == ["x", "y", "x", "y"]
    core = Interactions.from_frame(rows, items=items, new_items=True, min_user=2)
    assert list(core.users) == ["a"] and list(core.items) == [1, 2, 3, 9]
    with pytest.raises(DataError, match="no table about items"):
        Interactions.from_frame(rows, new_items=True)
    with pytest.raises(DataError, match="are whole numbers, and not all of those of the items"):
        Interactions.from_frame(
            rows, items=pa.table({"item": ["1", "b"], "genres": ["x", "y"]}), new_items=True
        )
