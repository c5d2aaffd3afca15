"""Whatever holds interactions becomes `Interactions`, and may be fitted, evaluated and distilled as it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from infrec import EASE, Interactions, Split, distill, evaluate, holdout
from infrec.errors import ConfigError, DataError


class Stream:
    """A frame of a library that is not installed: all that is known of it is that it exports its columns."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


FORMS = {
    "interactions": lambda log: log,
    "arrow": lambda log: log.to_table(),
    "pandas": lambda log: log.to_table().to_pandas(),
    "stream": lambda log: Stream(log.to_table()),
    "columns": lambda log: log.to_table().to_pydict(),
    "matrix": lambda log: log.matrix,
    "old matrix": lambda log: sp.csr_matrix(log.matrix),
    "coo": lambda log: log.matrix.tocoo(),
    "dense": lambda log: log.matrix.toarray(),
}
forms = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


def rows(log: Interactions) -> set[tuple[object, ...]]:
    table = log.to_table().select(["user", "item", "weight"])
    return set(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.fixture(scope="module")
def parts(checkerboard: Interactions) -> Split:
    return holdout(checkerboard)


@forms
def test_every_form_is_the_same_log(form: Any, checkerboard: Interactions) -> None:
    assert rows(Interactions.from_data(form(checkerboard))) == rows(checkerboard)


def test_a_frame_is_split(checkerboard: Interactions) -> None:
    assert rows(holdout(checkerboard.to_table()).test) == rows(holdout(checkerboard).test)


@forms
def test_every_form_is_fitted_and_evaluated_alike(form: Any, parts: Split) -> None:
    of_logs = EASE().fit(parts.train, validation=parts.val)
    model = EASE().fit(form(parts.train), validation=form(parts.val))
    assert model.selected == of_logs.selected
    histories = parts.train.matrix
    np.testing.assert_allclose(model.score(histories), of_logs.score(histories), atol=1e-5)
    judged = evaluate(model, form(parts.test), k=[5], intervals=False)
    split = Split.of(parts.train, parts.test)
    assert judged.metrics == pytest.approx(evaluate(of_logs, split, k=[5], intervals=False).metrics, abs=1e-4)


@forms
def test_every_form_is_distilled(form: Any, small_log: Interactions) -> None:
    """As far as the size of the summary, which is a share of the log's: the steps would take longer."""
    with pytest.raises(ConfigError, match="20 interactions for 50 synthetic users were asked for"):
        distill(form(small_log), users=50, percent=2000 / (0.9 * small_log.n_interactions))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, unique=True))
def test_held_out_pairs_find_their_places_by_their_ids(pairs: list[tuple[int, int]]) -> None:
    """Ids in any order, as numbers or as text: each pair stands where the log has its user and its item."""
    ids = [f"{number}" for number in (3, 1, 4, 0, 5, 2)]
    log = Interactions.from_csr(np.ones((6, 6)), users=ids, items=ids[::-1])
    for kind in (int, str):
        frame = {"user": [kind(user) for user, _ in pairs], "item": [kind(item) for _, item in pairs]}
        found = Interactions.from_data(frame, over=log)
        assert found.users == log.users and found.items == log.items
        assert {pair[:2] for pair in rows(found)} == {(str(user), str(item)) for user, item in pairs}


def test_only_the_users_of_a_held_out_frame_are_measured(small_log: Interactions) -> None:
    model = EASE(reg=10).fit(small_log)
    frame = pd.DataFrame({"user_id": ["u003", "u003", "u090"], "item_id": ["i01", "i02", "i50"]})
    assert evaluate(model, frame, intervals=False).n_users == 2
    sampled = evaluate(model, frame, intervals=False, sample_users=1)
    assert (sampled.n_users, sampled.split) == (1, "given, 1 of 2 users (seed 42)")


def test_strangers_are_left_out_with_a_warning(small_log: Interactions) -> None:
    frame = {"user": ["u003", "nobody", "u004"], "item": ["i01", "i02", "nothing"]}
    with pytest.warns(UserWarning, match="2 of 3 interactions are left out: 1 of users and 1 of items"):
        assert rows(Interactions.from_data(frame, over=small_log)) == {("u003", "i01", 1.0)}


def test_what_cannot_be_meant_is_refused(small_log: Interactions) -> None:
    model = EASE(reg=10).fit(small_log)
    with pytest.raises(DataError, match=r"other items; expected ids such as 'u000' \(user\) and 'i00'"):
        evaluate(model, {"user": [1], "item": [2]})
    with pytest.raises(DataError, match=r"the matrix is \(2, 2\), but there are 120 user and 60 item ids"):
        evaluate(model, np.ones((2, 2)))
    with pytest.raises(DataError, match="a str was given; expected a dataframe"):
        EASE().fit("ratings.csv")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="a object knows no log"):
        evaluate(object(), {"user": [1], "item": [2]})  # type: ignore[arg-type]
