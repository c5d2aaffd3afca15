"""Users and items with few interactions leave until nothing changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from infrec.data import Interactions
from infrec.data.assemble import k_core
from infrec.data.columns import ReadOptions
from infrec.data.partition_writer import prepare
from infrec.data.read import sources
from infrec.errors import ConfigError, DataError

CHAIN = {"user": ["a", "a", "b", "b", "c", "c", "d"], "item": [1, 2, 1, 2, 2, 3, 3]}  # d, then 3, then c


def test_a_chain_leaves_one_after_the_other(tmp_path: Path) -> None:
    table = {**CHAIN, "time": [10, 20, 30, 40, 50, 60, 70], "title": list("ABABBCC")}
    log = Interactions.from_frame(table, min_user=2, min_item=2)
    assert log.users.ids.to_pylist() == ["a", "b"] and log.items.ids.to_pylist() == [1, 2]
    assert log.time is not None and log.time.tolist() == [10, 20, 30, 40]
    assert log.titles is not None and log.titles.to_pylist() == ["A", "B"]
    assert log.report is not None and (log.report.rows, log.report.kept) == (7, 4)
    assert log.report.dropped == {"of a user with fewer than 2 or an item with fewer than 2 interactions": 3}


def test_the_split_is_cut_too() -> None:
    parts = ["train", "train", "train", "test", "train", "test", "test"]
    log = Interactions.from_frame({**CHAIN, "split": parts}, min_user=2, min_item=2)
    assert log.parts is not None
    assert log.parts["train"].toarray().tolist() == [[1, 1], [1, 0]]
    assert log.parts["test"].toarray().tolist() == [[0, 0], [0, 1]]


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 4))
def test_the_core_is_the_largest_part_in_which_all_have_enough(seed: int, users: int, items: int) -> None:
    """Compared with leaving one at a time, in another order."""
    dense = np.random.default_rng(seed).random((9, 8)) < 0.35
    stays, in_core = k_core(sp.csr_array(dense, dtype=np.float32), users, items)
    rows, columns = np.ones(9, bool), np.ones(8, bool)
    while True:
        part = dense & rows[:, None] & columns
        few = [*np.flatnonzero(rows & (part.sum(axis=1) < users))]
        none = [*np.flatnonzero(columns & (part.sum(axis=0) < items))]
        if none:
            columns[none[-1]] = False
        elif few:
            rows[few[-1]] = False
        else:
            break
    assert (stays == rows).all() and (in_core == columns).all()


def test_what_cannot_be_cut(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no interactions are left when each user has at least 3"):
        Interactions.from_frame(CHAIN, min_user=3)
    with pytest.raises(ConfigError, match="ε and δ"):
        Interactions.from_frame(CHAIN, min_user=2, by_row=True)
    (tmp_path / "log.csv").write_text(
        "user,item\n" + "".join(f"{u},{i}\n" for u, i in zip(CHAIN["user"], CHAIN["item"], strict=True))
    )
    source = sources(tmp_path / "log.csv")[0]
    with pytest.raises(ConfigError, match="prepare it without"):
        prepare(source, tmp_path / "out", ReadOptions(min_item=2))
    prepare(source, tmp_path / "out")
    log = Interactions.read(tmp_path / "out", min_user=2, min_item=2)
    assert log.users.ids.to_pylist() == ["a", "b"] and log.n_interactions == 4
