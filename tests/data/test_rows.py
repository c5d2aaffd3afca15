"""Answers are rows of Python values; in a notebook they are small tables in which nothing is markup."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrec import EASE, InfiniteAE, Interactions, Summary, evaluate, holdout
from infrec.data.rows import Rows


class Cells(HTMLParser):
    """The texts of a table's cells, and every tag and attribute of the document."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[Any] = []
        self.cells: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        if tag in ("td", "th", "caption"):
            self.cells.append("")

    def handle_data(self, data: str) -> None:
        self.cells[-1] += data


def test_ids_are_python_values(small_log: Interactions, checkerboard: Interactions) -> None:
    for log, kind in ((small_log, str), (checkerboard, int)):
        model = InfiniteAE(reg=5).fit(log)
        listed, alike = model.recommend(log.users.ids[:2], k=3), model.similar(log.items.ids[5], k=3)
        why = model.explain(log.items.ids[:3], np.array(log.items.ids)[7])
        ids = [*log.users, *log.items, log.users[0], why.item, *why.items["item"], *why.users["user"]]
        ids += [value for row in listed for value in (row["user"], row["item"])] + alike["item"]
        assert {type(one) for one in ids} == {kind}
        assert {type(row["score"]) for row in listed} == {float}


def test_rows_by_number_and_columns_by_name(small_log: Interactions) -> None:
    rows = EASE(reg=5).fit(small_log).recommend(["u003", "u009"], k=4)
    assert len(rows) == 8 and list(rows) == rows.table.to_pylist()
    assert rows[0] == next(iter(rows)) and rows[-1] == list(rows)[-1] and rows["rank"] == [1, 2, 3, 4] * 2
    assert rows.columns == ["user", "item", "rank", "score", "source", "title"]
    with pytest.raises(IndexError):
        rows[8]
    assert rows.to_pandas().equals(pd.DataFrame.from_arrow(rows))
    assert repr(rows) == "Rows(8 × user, item, rank, score, source, title)"


@given(st.lists(st.text(), max_size=40), st.text(min_size=1))
def test_nothing_in_a_table_is_markup(texts: list[str], column: str) -> None:
    shown = Cells(Rows(pa.table({column: pa.array(texts, pa.string())}))._repr_html_())
    assert shown.tags <= {"table", "caption", "thead", "tbody", "tr", "th", "td"} and not shown.attributes
    more = [f"and {len(texts) - 20} more rows"] if len(texts) > 20 else []
    newline = [re.sub("\r\n?", "\n", text) for text in [*more, column, *texts[:20]]]
    assert [re.sub("\r\n?", "\n", cell) for cell in shown.cells] == newline


def test_logs_summaries_and_evaluations_are_tables_in_a_notebook(small_log: Interactions) -> None:
    titled = Interactions.from_csr([[1, 1], [0, 2]], users=["<b>", "x"], titles=["A & B", "<script>"])
    cells = Cells(titled._repr_html_()).cells
    assert cells[0] == "Interactions(2 users × 2 items, 3 interactions, weighted)"
    assert cells[1:] == [
        *("user", "item", "weight", "title"), *("<b>", "0", "1", "A & B"), *("<b>", "1", "1", "<script>"),
        *("x", "1", "2", "<script>"),
    ]  # fmt: skip
    assert Cells(Summary.of(small_log)._repr_html_()).cells[0] == repr(Summary.of(small_log))
    nothing = Interactions.from_csr(np.zeros((3, 2)))
    assert Cells(nothing._repr_html_()).cells[1:] == ["user", "item", "weight"]
    split = holdout(small_log)
    judged = evaluate(EASE(reg=50).fit(split.train), split)
    cells = Cells(judged._repr_html_()).cells
    assert cells[0] == repr(judged) and len(repr(judged)) < 120
    low, high = judged.intervals["HR@10"]
    at = cells.index("HR@10")
    assert cells[at + 1 : at + 4] == [f"{one:.4g}" for one in (judged.metrics["HR@10"], low, high)]
