"""What is written is what was there, other programs can read it, and a file is whole or not there."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from infrec import drafts
from infrec.data import Interactions
from infrec.data.export import WRITERS, export
from infrec.errors import ConfigError, DataError

LISTS = ("csv", "parquet", "recbole")


def ending(format: str) -> str:
    return {"recbole": "inter"}.get(format, format)


def pairs(log: Interactions) -> dict[tuple[str, str], float]:
    rows = log.to_table().to_pylist()
    return {(str(row["user"]), str(row["item"])): row["weight"] for row in rows}


@pytest.fixture
def weighted() -> Interactions:
    return Interactions.from_csr(
        [[1, 0, 0.25], [0, 2, 0]],
        users=["007", "a,b"],
        items=["x y", "é", "z'"],
        titles=["One", 'T"wo', "Three\tfour"],
    )


@pytest.mark.parametrize("format", LISTS)
def test_a_written_list_reads_back_the_same(format: str, weighted: Interactions, tmp_path: Path) -> None:
    (path,) = export(weighted, tmp_path / f"log.{ending(format)}", format)
    again = Interactions.read(path)
    assert pairs(again) == pairs(weighted)
    assert again.users.ids.to_pylist() == ["007", "a,b"], "ids stay as they were written"


@given(
    ids=st.lists(
        st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1), min_size=2, unique=True
    ),
    data=st.data(),
)
@settings(max_examples=50, deadline=None)
def test_any_ids_survive_csv(
    ids: list[str], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Quotation marks, commas, blanks, any script. Readers strip blanks, and a blank id is no id."""
    ids = sorted({one.strip() for one in ids} - {""}) or ["a"]
    users = [f"u{n}" for n in range(3)]
    dense = data.draw(
        st.lists(st.lists(st.booleans(), min_size=len(ids), max_size=len(ids)), min_size=3, max_size=3)
    )
    log = Interactions.from_csr(np.array(dense) | (np.arange(3)[:, None] == 0), users=users, items=ids)
    (path,) = export(log, tmp_path_factory.mktemp("x") / "log.csv", "csv")
    from pyarrow import csv

    text = csv.ConvertOptions(
        column_types={"user": pa.string(), "item": pa.string()}, strings_can_be_null=False
    )
    back = csv.read_csv(path, convert_options=text)
    assert {(row["user"], row["item"]): row["weight"] for row in back.to_pylist()} == pairs(log)


def test_npz_is_scipys_format_without_pickle(weighted: Interactions, tmp_path: Path) -> None:
    (path,) = export(weighted, tmp_path / "log.npz", "npz")
    matrix = sp.load_npz(path)
    assert isinstance(matrix, sp.csr_matrix)
    assert matrix.shape == (2, 3)
    np.testing.assert_array_equal(matrix.toarray(), weighted.matrix.toarray())
    with np.load(path, allow_pickle=False) as arrays:
        assert arrays["users"].tolist() == ["007", "a,b"]
        assert arrays["items"].tolist() == ["x y", "é", "z'"]


def test_npz_keeps_items_that_nobody_has(tmp_path: Path) -> None:
    log = Interactions.from_csr([[1, 0, 0], [1, 0, 0]])
    (path,) = export(log, tmp_path / "log.npz", "npz")
    assert sp.load_npz(path).shape == (2, 3)


def test_recbole_header_is_typed_and_nothing_is_quoted(tmp_path: Path) -> None:
    log = Interactions.from_csr([[1, 0], [0, 1]], users=["u1", "u2"], items=["a b", "c"])
    (path,) = export(log, tmp_path / "x.inter", "recbole")
    assert path.read_text() == "user_id:token\titem_id:token\nu1\ta b\nu2\tc\n"


def test_recbole_folder_has_what_recbole_looks_for(weighted: Interactions, tmp_path: Path) -> None:
    files = export(weighted, tmp_path / "mine", "recbole")
    assert [str(file.relative_to(tmp_path)) for file in files] == ["mine/mine.inter", "mine/mine.item"]
    assert files[0].read_text().splitlines()[0] == "user_id:token\titem_id:token\tweight:float"
    assert files[1].read_text() == "item_id:token\ttitle:token_seq\nx y\tOne\né\tT wo\nz'\tThree four\n"


@pytest.mark.parametrize("bad", ["a\tb", "a\nb", 'a"b'])
def test_recbole_refuses_ids_that_would_break_its_lines(bad: str, tmp_path: Path) -> None:
    log = Interactions.from_csr([[1.0]], users=["u"], items=[bad])
    with pytest.raises(DataError, match="export csv or parquet"):
        export(log, tmp_path / "x.inter", "recbole")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_the_datas_own_split_and_times_survive(format: str, tmp_path: Path) -> None:
    source = pa.table(
        {
            "user": [1, 1, 1, 2, 2, 2],
            "item": [5, 6, 7, 5, 7, 8],
            "timestamp": [30, 10, 20, 60, 50, 40],
            "split": ["train", "val", "test", "train", "train", "test"],
        }
    )
    log = Interactions.from_frame(source)
    (path,) = export(log, tmp_path / f"log.{format}", format)
    again = Interactions.read(path)
    assert log.parts is not None and again.parts is not None
    for name, part in log.parts.items():
        np.testing.assert_array_equal(again.parts[name].toarray(), part.toarray())
    assert log.time is not None and again.time is not None
    np.testing.assert_array_equal(again.time, log.time)


def test_same_log_same_bytes(weighted: Interactions, tmp_path: Path) -> None:
    for format in WRITERS:
        (first,) = export(weighted, tmp_path / f"a.{ending(format)}", format)
        (second,) = export(weighted, tmp_path / f"b.{ending(format)}", format)
        assert first.read_bytes() == second.read_bytes(), format


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "old.csv"
    path.write_text("precious")
    with pytest.raises(RuntimeError), drafts.writing(path) as file:
        file.write(b"half")
        raise RuntimeError
    assert path.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_folder_leaves_both_old_files(weighted: Interactions, tmp_path: Path) -> None:
    before = [file.read_bytes() for file in export(weighted, tmp_path / "mine", "recbole")]
    bad = Interactions.from_csr([[1.0, 1.0]], items=["fine", "not\tfine"])
    with pytest.raises(DataError, match="holds a tab"):
        export(bad, tmp_path / "mine", "recbole")
    assert [(tmp_path / "mine" / f"mine.{end}").read_bytes() for end in ("inter", "item")] == before
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]


def test_a_folder_with_something_else_in_it_is_not_replaced(weighted: Interactions, tmp_path: Path) -> None:
    export(weighted, tmp_path / "mine", "recbole")
    (tmp_path / "mine" / "mine.user").write_text("precious")
    with pytest.raises(DataError, match=r"also holds 'mine\.user', which replacing it would lose"):
        export(weighted, tmp_path / "mine", "recbole")
    assert (tmp_path / "mine" / "mine.user").read_text() == "precious"


def test_what_a_killed_export_left_is_cleared_and_what_a_living_one_has_stays(
    weighted: Interactions, tmp_path: Path
) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    host = socket.gethostname()
    dead = tmp_path / f".x.csv.{host}-{ended.pid}.0a.partial"
    alive = tmp_path / f".x.csv.{host}-{os.getpid()}.0b.partial"
    other = tmp_path / f".y.csv.{host}-{ended.pid}.0c.partial"  # of another target
    for left in (dead, alive, other):
        left.write_text("half")
    (tmp_path / f".mine.{host}-{ended.pid}.0d.partial").mkdir()
    export(weighted, tmp_path / "x.csv", "csv")
    export(weighted, tmp_path / "mine", "recbole")
    assert {each.name for each in tmp_path.iterdir()} == {"x.csv", "mine", alive.name, other.name}


EXPORTER = """
import os, signal, sys
from infrec import drafts
from infrec.data import Interactions
from infrec.data.export import export
export(Interactions.from_csr([[1.0]], items=["old"]), sys.argv[1], "recbole")
drafts.take_place = lambda draft, target: os.kill(os.getpid(), signal.SIGKILL)
export(Interactions.from_csr([[1.0]], items=["new"]), sys.argv[1], "recbole")
"""


def test_a_killed_export_leaves_two_files_of_one_run(tmp_path: Path) -> None:
    """Killed when both files are written and none is in its place."""
    assert subprocess.run([sys.executable, "-c", EXPORTER, str(tmp_path / "x")]).returncode == -9
    assert len(list(tmp_path.glob(".x.*.partial/x.*"))) == 2
    assert all("old" in (tmp_path / "x" / f"x.{end}").read_text() for end in ("inter", "item"))
    export(Interactions.from_csr([[1.0]], items=["newer"]), tmp_path / "x", "recbole")
    assert all("newer" in (tmp_path / "x" / f"x.{end}").read_text() for end in ("inter", "item"))
    assert [each.name for each in tmp_path.iterdir()] == ["x"]  # the next one swept up


def test_wrong_format_and_wrong_place_are_told(weighted: Interactions, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'xls'; expected one of recbole, csv, parquet, npz"):
        export(weighted, tmp_path / "x", "xls")
    with pytest.raises(DataError, match="is a directory"):
        export(weighted, tmp_path, "csv")
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"is a file; expected a name ending in \.inter"):
        export(weighted, tmp_path / "file", "recbole")


@pytest.mark.parametrize("format", ["csv", "npz"])
def test_implicit_trains_on_what_is_exported(format: str, checkerboard: Interactions, tmp_path: Path) -> None:
    """The withheld item of a checkerboard comes first: the file says what the log says."""
    implicit = pytest.importorskip("implicit", reason="needs implicit, which the dev extra installs")
    (path,) = export(checkerboard, tmp_path / f"log.{format}", format)
    if format == "npz":
        matrix = sp.load_npz(path)
    else:
        rows = np.genfromtxt(path, delimiter=",", names=True)
        matrix = sp.csr_matrix((rows["weight"], (rows["user"].astype(int), rows["item"].astype(int))))
    model = implicit.als.AlternatingLeastSquares(factors=4, iterations=20, random_state=1, num_threads=1)
    model.fit(matrix.astype(np.float32), show_progress=False)
    first, _ = model.recommend(np.arange(20), matrix, N=1)
    assert (first[:, 0] == np.arange(20)).mean() == 1.0
