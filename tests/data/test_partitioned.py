"""Preparing a log is reading it, whatever the blocks, on hostile files too; and it is whole or absent."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infrec import artifacts
from infrec.data import Interactions
from infrec.data.columns import ReadOptions
from infrec.data.datasets import find_sources
from infrec.data.partition_writer import prepare
from infrec.data.partitioned import KIND, PartitionedLog
from infrec.data.sources import TableSource
from infrec.errors import ArtifactError, ConfigError, DataError


def prepared(path: Path, out: Path, *, block: int = 3, partition: int = 4, **options: Any) -> Interactions:
    chosen = ReadOptions(**options)
    source, items = find_sources(path, chosen)
    prepare(source, out, chosen, items, block=block, partition=partition)
    return Interactions.read(out)


def same(one: Interactions, other: Interactions) -> None:
    assert one.users == other.users
    assert one.items == other.items
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(one.matrix, name), getattr(other.matrix, name))
    assert (one.time is None) == (other.time is None)
    if one.time is not None:
        np.testing.assert_array_equal(one.time, other.time)
    assert set(one.parts or ()) == set(other.parts or ())
    for name, part in (one.parts or {}).items():
        np.testing.assert_array_equal(part.toarray(), (other.parts or {})[name].toarray())
    assert (one.item_info is None) == (other.item_info is None)
    if one.item_info is not None:
        assert one.item_info.to_pydict() == other.item_info.to_pydict()
    assert one.report is not None and other.report is not None
    assert (one.report.rows, one.report.kept) == (other.report.rows, other.report.kept)
    assert dict(one.report.dropped) == dict(other.report.dropped)
    assert sorted(one.report.notes) == sorted(other.report.notes)


HOSTILE: dict[str, tuple[str, bytes]] = {
    "unsorted": ("r.csv", b"user,item,rating,timestamp\n9,1,5,30\n2,1,3,10\n9,7,1,20\n10,1,4,5\n2,3,2,1\n"),
    "quotes": ("r.csv", b'user,item\n"a, b",1\n"say ""hi""",2\n"a, b",2\nc,1\n'),
    "byte order mark": ("r.csv", b"\xef\xbb\xbfuser,item\n1,2\n3,4\n1,4\n"),
    "ids of both kinds": ("r.csv", b"user,item\n1,2\n2,3\n10,2\n007,3\nx,2\n9,9\n"),
    "numbers as text": ("r.csv", b"user,item\n10,2\n9,30\n9,4\n10,30\n-1,4\n"),
    "repeated": ("r.csv", b"user,item,timestamp\n1,1,9\n2,1,3\n1,1,4\n1,2,2\n2,1,1\n1,1,7\n"),
    "missing ids": ("r.csv", b"user,item\n1,\n,2\n3,4\n  ,5\n3,6\n"),
    "ragged": ("r.csv", b"user,item\n1,2\n3\n4,5,6\n7,8\n9,1\n9\n"),
    "blank lines": ("r.csv", b"\nuser,item\n\n1,2\n\n3,4\n"),
    "no end of line": ("r.csv", b"user,item\n1,2\n3,4"),
    "carriage returns": ("r.csv", b"user,item\r\n1,2\r\n3,4\r\n1,4\r\n"),
    "two colons": ("r.dat", b"1::10::5::978300760\n1::20::3::978302109\n2::10::4::978301968\n3::5::1::1\n"),
    "tabs without a header": ("u.tsv", b"5\t10\t3\t881250949\n7\t11\t3\t881250950\n5\t11\t1\t881250951\n"),
    "odd ratings": ("r.csv", b"user,item,rating\n1,2,5\n1,3,nan\n2,2,?\n2,3,4\n3,3,1e400\n"),
    "some times cannot be read": (
        "r.csv",
        b"user,item,time\n1,2,5\n1,3,6\n2,2,soon\n2,3,4\n3,3,1\n4,1,never\n",
    ),
    "dates": (
        "r.csv",
        b"user,item,date\n1,2,2024-05-17\n1,3,2023-01-01\n2,2,2024-05-17 10:00\n3,3,2020-02-29\n",
    ),
    "no times at all": ("r.csv", b"user,item,time\n1,2,a\n1,3,b\n2,2,c\n2,3,4\n"),
    "titles": ("r.csv", b"user,item,title\n1,2,Heat\n1,3,Alien\n2,2,Heat again\n2,1,Solaris\n3,3,Aliens\n"),
    "weights": ("r.csv", b"user,item,weight\n1,2,0.5\n1,3,0\n2,2,-1\n2,3,2\n1,2,3\n1,9,1\n"),
    "weights that float32 cannot hold": (
        "r.csv",
        b"user,item,weight\n1,2,0.5\n1,3,1e-50\n2,2,1e39\n2,3,2\n1,2,3\n3,9,1e-60\n",
    ),
    "days that do not exist": (
        "r.csv",
        b"user,item,date\n1,2,2024-05-17\n1,3,2023-01-01\n2,2,2024-01-01\n2,3,2023-02-30\n3,3,2024-02-29\n",
    ),
    "times with an offset": (
        "r.csv",
        b"user,item,time\n1,2,2024-05-17\n1,3,2024-05-17 08:00\n2,2,2024-05-17 09:00Z\n"
        b"2,3,2024-05-17T10:00+02:00\n3,3,2024-05-17T10:00:00-0200\n",
    ),
    "line breaks in quotes": ("r.csv", b'user,item\n"a\nb",1\n"a\nb",2\nc,"2\n"\nd,1\n'),
    "own split": (
        "r.csv",
        b"user,item,split,timestamp\n1,2,test,4\n1,2,train,3\n1,3,train,2\n2,2,val,9\n2,2,train,1\n2,2,train,5\n"
        b"3,3,other,1\n3,2,test,8\n",
    ),
    "not a split": ("r.csv", b"user,item,split\n1,2,north\n1,3,south\n2,2,east\n2,7,west\n"),
    "unicode": ("r.csv", "user,item\ncafé,1\ncafe\u0301,2\nå,3\nz,1\nZ,2\n".encode()),
}


@pytest.mark.parametrize("how", ["first", "sum"])
@pytest.mark.parametrize("case", HOSTILE)
def test_it_is_what_reading_gives(case: str, how: str, tmp_path: Path) -> None:
    name, content = HOSTILE[case]
    (tmp_path / name).write_bytes(content)
    same(
        prepared(tmp_path / name, tmp_path / "out", duplicates=how),
        Interactions.read(tmp_path / name, duplicates=how),
    )


def test_sums_that_float32_cannot_hold_are_refused(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("user,item,weight\n1,2,3e38\n1,3,1\n1,2,3e38\n")
    with pytest.raises(DataError, match="add up to more than"):
        prepared(tmp_path / "r.csv", tmp_path / "out", duplicates="sum")
    assert not (tmp_path / "out").exists()


def test_lists_of_genres(tmp_path: Path) -> None:
    genres = [["Drama", "Crime"], ["War"], None, [], ["Drama"]]
    pq.write_table(pa.table({"user": range(5), "item": range(5), "genres": genres}), tmp_path / "a.parquet")
    same(prepared(tmp_path / "a.parquet", tmp_path / "out"), Interactions.read(tmp_path / "a.parquet"))


@pytest.mark.parametrize("positive", [None, "rating >= 3"])
@pytest.mark.parametrize("form", ["parquet", "directory", "csv.gz", "strings"])
def test_other_formats_and_the_rule_for_positives(form: str, positive: str | None, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "user": rng.integers(1, 30, 200),
            "item": rng.integers(1, 12, 200),
            "rating": rng.integers(1, 6, 200),
            "timestamp": rng.integers(0, 1000, 200),
        }
    )
    path = tmp_path / "log.parquet"
    if form == "directory":
        path = tmp_path / "log"
        for number in range(3):
            (path / f"day={number}").mkdir(parents=True)
            pq.write_table(table.slice(number * 70, 70), path / f"day={number}" / "x.parquet")
    elif form == "csv.gz":
        import pyarrow.csv as pacsv

        path = tmp_path / "log.csv.gz"
        with gzip.open(path, "wb") as file:
            pacsv.write_csv(table, file)
    elif form == "strings":
        texts = table["user"].cast(pa.string())
        pq.write_table(table.set_column(0, "user", texts.dictionary_encode()), path, row_group_size=40)
    else:
        pq.write_table(table, path, row_group_size=30)
    for block, partition in ((7, 10), (1000, 1000)):
        found = prepared(path, tmp_path / "out", block=block, partition=partition, positive=positive)
        same(found, Interactions.read(path, positive=positive))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(st.sampled_from("abcdeé7"), st.integers(-3, 6)), min_size=1, max_size=40),
    block=st.integers(1, 50),
    partition=st.integers(1, 50),
    order=st.randoms(use_true_random=False),
)
def test_neither_order_nor_blocks_change_ids_or_content(
    rows: list[tuple[str, int]], block: int, partition: int, order: Any, tmp_path: Path
) -> None:
    def made(rows: list[tuple[str, int]], block: int, partition: int) -> Interactions:
        table = pa.table({"user": [u for u, _ in rows], "item": [i for _, i in rows]})
        prepare(TableSource(table, "rows"), tmp_path / "out", block=block, partition=partition)
        return Interactions.read(tmp_path / "out")

    whole = made(rows, 1000, 1000)
    shuffled = list(rows)
    order.shuffle(shuffled)
    same(made(shuffled, block, partition), whole)
    pairs = {(u, i) for u, i in rows}
    coo = whole.matrix.tocoo()
    users, items = whole.users.ids.to_pylist(), whole.items.ids.to_pylist()
    assert {(users[u], items[i]) for u, i in zip(coo.row, coo.col, strict=True)} == pairs


def test_ids_that_are_whole_numbers_in_some_blocks_only(tmp_path: Path) -> None:
    """A column of floats: blocks of whole numbers, then 2.5. Every id is the text that reading gives it."""
    table = pa.table({"user": [1.0, 2.0, 1.0, 2.5, 3.0], "item": [1, 2, 3, 4, 5]})
    pq.write_table(table, tmp_path / "log.parquet")
    same(
        prepared(tmp_path / "log.parquet", tmp_path / "out", block=2),
        Interactions.read(tmp_path / "log.parquet"),
    )


@pytest.mark.parametrize("form", ["text", "floats"])
def test_ids_of_dropped_rows_count_for_the_type_of_the_column(form: str, tmp_path: Path) -> None:
    if form == "text":
        path = tmp_path / "log.csv"
        path.write_text("user,item,rating\n7,1,5\n8,2,5\n007,03,1\n9,2,5\n")
    else:
        path = tmp_path / "log.parquet"
        columns = {"user": [7.0, 8.0, 2.5, 9.0], "item": [1, 2, 3, 2], "rating": [5, 5, 1, 5]}
        pq.write_table(pa.table(columns), path)
    log = Interactions.read(path, positive="rating >= 4")
    assert log.users.ids.to_pylist() == ["7", "8", "9"]
    for block in (1, 100):
        same(prepared(path, tmp_path / "out", block=block, positive="rating >= 4"), log)


def test_the_dataset(tmp_path: Path) -> None:
    """Partitions are ranges of users; batches are their rows; the manifest counts and seals all of it."""
    (tmp_path / "r.csv").write_bytes(HOSTILE["unsorted"][1])
    log = prepared(tmp_path / "r.csv", tmp_path / "out", partition=2)
    dataset = PartitionedLog.open(tmp_path / "out")
    assert artifacts.kind_of(tmp_path / "out") == KIND
    assert [(p["first_user"], p["users"], p["rows"]) for p in dataset.partitions] == [
        (0, 1, 2),
        (1, 1, 2),
        (2, 1, 1),
    ]
    stacked = sp.vstack(list(dataset.batches())).toarray()
    np.testing.assert_array_equal(stacked, log.matrix.toarray())
    np.testing.assert_array_equal(
        next(dataset.batches([1])).toarray(), log.matrix[1:2].toarray(), "each process reads its own"
    )
    assert dataset.user_counts.tolist() == log.user_counts.tolist()
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert (manifest["users"], manifest["items"], manifest["interactions"]) == (3, 3, 5)
    files = {"users.parquet", "items.parquet", *(f"part-0000{number}.parquet" for number in range(3))}
    assert set(manifest["files"]) == files
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "r.csv"]


# ---- refusals and faults -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("r.csv", b"", "is empty"),
        ("r.csv", b"user,item\n", "header but no rows|no rows"),
        ("r.csv", b"user,item\n,\n,\n", "none of the 2 rows"),
        ("r.csv.gz", gzip.compress(b"user,item\n" + b"1,2\n" * 90_000, mtime=0)[:200], "cut off or damaged"),
        ("r.csv", b"user,item\n\xc3\xa9\xc3\xa9,\xff\n", "no utf-8 text"),
        ("r.parquet", b"PAR1 cut off", "cannot be read as Parquet"),
    ],
)
def test_what_cannot_be_prepared_leaves_nothing(
    name: str, content: bytes, words: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=words):
        prepared(tmp_path / name, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_strict_refuses_and_options_of_a_prepared_dataset(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_bytes(HOSTILE["ragged"][1])
    with pytest.raises(DataError, match="strict reading refuses"):
        prepared(tmp_path / "r.csv", tmp_path / "out", strict=True)
    assert not (tmp_path / "out").exists()
    prepared(tmp_path / "r.csv", tmp_path / "out")
    with pytest.raises(DataError, match="out is a prepared dataset already"):
        prepared(tmp_path / "out", tmp_path / "again")
    with pytest.raises(ConfigError, match="positive is given for out, a prepared dataset"):
        Interactions.read(tmp_path / "out", positive="rating >= 4")
    with pytest.raises(ConfigError, match="duplicates is given for out, a prepared dataset"):
        Interactions.read(tmp_path / "out", duplicates="sum")
    with pytest.raises(ConfigError, match="strict is given for out, a prepared dataset"):
        Interactions.read(tmp_path / "out", strict=True)
    assert Interactions.read(tmp_path / "out", duplicates="first", strict=False).n_users == 3


@pytest.mark.parametrize("damage", ["missing", "corrupt"])
def test_a_partition_that_is_missing_or_corrupt_is_named(damage: str, tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_bytes(HOSTILE["unsorted"][1])
    prepared(tmp_path / "r.csv", tmp_path / "out", partition=2)
    part = tmp_path / "out" / "part-00001.parquet"
    if damage == "missing":
        part.unlink()
    else:
        content = bytearray(part.read_bytes())
        content[20] ^= 1
        part.write_bytes(bytes(content))
    with pytest.raises(ArtifactError, match=r"part-00001\.parquet"):
        Interactions.read(tmp_path / "out")
    if damage == "missing":  # is noticed before anything is read
        with pytest.raises(ArtifactError, match=r"lacks part-00001\.parquet"):
            PartitionedLog.open(tmp_path / "out")
    else:
        assert next(PartitionedLog.open(tmp_path / "out").batches([0])).shape[0] == 1, (
            "the other one is whole"
        )


_CHILD = """
import os, signal, sys, resource
import numpy as np, pyarrow as pa
from infrec.data.vocabulary import from_numpy
from infrec.data.partition_writer import prepare
from infrec.data.sources import TableSource
from infrec.errors import InfrecError
rng = np.random.default_rng(0)
columns = [from_numpy(rng.integers(0, top, 200_000)) for top in (5000, 900)]
table = pa.Table.from_arrays(columns, names=["user", "item"])
def progress(stage, done, total=None, **facts):
    if sys.argv[2] == "kill" and stage == "writing partitions" and done == 2:
        os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[2] == "full":
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
try:
    prepare(TableSource(table, "t"), sys.argv[1], block=30_000, partition=30_000, progress=progress)
except InfrecError as error:
    print(error)
"""


@pytest.mark.parametrize(("how", "limit"), [("full", 100_000), ("kill", 0)])
def test_a_full_disk_or_a_kill_leaves_the_old_dataset(how: str, limit: int, tmp_path: Path) -> None:
    """The limit on a file's size stands for a full disk; the kill comes after two partitions were written."""
    (tmp_path / "r.csv").write_bytes(HOSTILE["unsorted"][1])
    old = prepared(tmp_path / "r.csv", tmp_path / "out")
    ran = subprocess.run(
        [sys.executable, "-c", _CHILD, str(tmp_path / "out"), how, str(limit)], capture_output=True, text=True
    )
    if how == "kill":
        assert ran.returncode == -signal.SIGKILL
    else:
        assert "failed" in ran.stdout and "what was there before is intact" in ran.stdout, ran.stderr
    same(Interactions.read(tmp_path / "out"), old)
    visible = [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")]
    assert sorted(visible) == ["out", "r.csv"]
    prepared(tmp_path / "r.csv", tmp_path / "out")
    assert sorted(os.listdir(tmp_path)) == ["out", "r.csv"], "the next one clears up"  # noqa: PTH208
