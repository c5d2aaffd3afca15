"""Every format gives the same log; ids stay what their owner wrote."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from infrec.data import Interactions, conditions
from infrec.data.read import sources
from infrec.errors import ConfigError, DataError

ROWS = [(7, 30, 4, 100), (7, 10, 5, 200), (3, 30, 1, 50), (12, 20, 3, 75), (3, 10, 2, 60)]
# Users sorted: 3, 7, 12; items: 10, 20, 30.
DENSE = np.array([[1, 0, 1], [1, 0, 1], [0, 1, 0]], np.float32)
TIMES = [60, 50, 200, 100, 75]  # in CSR order


def lines(separator: str, header: str | None = None) -> str:
    body = "\n".join(separator.join(map(str, row)) for row in ROWS)
    return f"{header}\n{body}\n" if header else body + "\n"


def check(log: Interactions) -> None:
    assert np.array_equal(log.matrix.toarray(), DENSE)
    assert log.users.ids.to_pylist() == [3, 7, 12]
    assert log.items.ids.to_pylist() == [10, 20, 30]
    assert log.time is not None and log.time.tolist() == TIMES
    assert log.report is not None and (log.report.rows, log.report.kept) == (5, 5)
    assert not log.report.dropped


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", lines(",", "userId,movieId,rating,timestamp")),
        ("b.csv", lines(";", "USER_ID;Item-Id;Score;Date")),
        ("c.tsv", lines("\t", "uid\tasin\tstars\ttime")),
        ("d.dat", lines("::")),
        ("e.dat", lines("\t")),
        ("f.dat", lines(" ")),
        ("g.txt", lines("   ")),
        ("h.csv", lines(",")),
        ("i.inter", lines("\t", "user_id:token\titem_id:token\trating:float\ttimestamp:float")),
        ("j.csv", "\n\n" + lines(",", "user,item,rating,time")),
    ],
)
def test_text_formats(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    check(Interactions.read(tmp_path / name))
    for ending, pack in ((".gz", gzip.compress), (".bz2", bz2.compress)):
        (tmp_path / (name + ending)).write_bytes(pack(text.encode()))
        check(Interactions.read(tmp_path / (name + ending)))


def test_line_breaks_in_quotes_where_a_block_ends(tmp_path: Path) -> None:
    """pyarrow reads 8 MiB at a time; here the last line break of any block stands inside an id."""
    users = [f"user {n}" + "\nand more" * 500 for n in range(2500)]
    (tmp_path / "a.csv").write_text("user,item\n" + "".join(f'"{user}",1\n' for user in users))
    assert (tmp_path / "a.csv").stat().st_size > 9 << 20
    log = Interactions.read(tmp_path / "a.csv", strict=True)
    assert sorted(log.users.ids.to_pylist()) == sorted(users)
    tables = sources(tmp_path / "a.csv")[0].tables(["user"], rows=1 << 20)
    assert [(len(table), ragged) for table, ragged in tables] == [(2500, 0)]


def test_positions_and_a_header_of_unknown_names(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("who,what\na,1\nb,2\n")
    assert Interactions.read(path, user=1, item=2).users.ids.to_pylist() == ["a", "b"]
    path.write_text("who,what\na,x\nb,2\n")  # nothing tells this first line from a row
    assert Interactions.read(path, user=1, item=2).n_users == 3


@pytest.mark.parametrize(
    ("genres", "expected"),
    [
        (pa.array([["Drama", "Crime"], [], None]), ["Drama|Crime", "", None]),
        (pa.array([[1, 2], [3, 4], None], pa.list_(pa.int8(), 2)), ["1|2", "3|4", None]),
        (pa.array([b"caf\xe9", b"tea", None]), ["caf\ufffd", "tea", None]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
        (pa.array([{"a": 1}, None, None]), [None, None, None]),
    ],
    ids=["lists", "lists of numbers", "bytes", "dictionary", "struct"],
)
def test_titles_and_genres_of_any_type(tmp_path: Path, genres: pa.Array, expected: list[str | None]) -> None:
    table = pa.table({"user": [1, 1, 2], "item": [1, 2, 3], "title": genres, "genres": genres})
    pq.write_table(table, tmp_path / "a.parquet")
    found = [Interactions.read(tmp_path / "a.parquet"), Interactions.from_frame(table)]
    found.append(Interactions.from_frame(table.select(["user", "item"]), items=table.drop_columns("user")))
    for log in found:
        assert log.item_info is not None
        assert log.item_info.to_pydict() == {"title": expected, "genres": expected}


def test_a_directory_with_and_without_dictionaries(tmp_path: Path) -> None:
    users = pa.array(["a", "b", "a"])
    for number, kind in enumerate((users, users.dictionary_encode(), users.cast(pa.large_string()))):
        rows = pa.table({"user": kind, "item": pa.array([0, 0, 1]) if number else [5, 5, 6]})
        pq.write_table(rows, tmp_path / f"{number}.parquet")
    log = Interactions.read(tmp_path)
    assert log.users.ids.to_pylist() == ["a", "b"] and log.items.ids.to_pylist() == [0, 1, 5, 6]
    assert log.report is not None and log.report.rows == 9 and log.matrix.nnz == 6
    for number, day in ((1, "day=1"), (0, "day=2"), (2, "day=3")):  # Arrow guesses from the first: dictionary
        (tmp_path / day).mkdir()
        (tmp_path / f"{number}.parquet").rename(tmp_path / day / "log.parquet")
    tables = [table for table, _ in sources(tmp_path)[0].tables(["user", "item"], rows=4)]
    assert pa.concat_tables(tables).column("user").to_pylist() == ["a", "b", "a"] * 3


def test_a_directory_with_numbers_and_texts_names_the_column_and_two_files(tmp_path: Path) -> None:
    for name, users in (("a", [1, 2]), ("b", [3, 4]), ("c", ["u5", "u6"])):
        rows = pa.table({"user": pa.array(users).dictionary_encode(), "item": [0, 1]})
        (tmp_path / name).mkdir()
        pq.write_table(rows, tmp_path / name / "log.parquet")
    with pytest.raises(DataError, match=r"'user' is int64 in a/log\.parquet and string in c/log\.parquet"):
        Interactions.read(tmp_path)


def frame() -> pd.DataFrame:
    return pd.DataFrame(ROWS, columns=["user", "item", "rating", "timestamp"])


def test_parquet_file_and_directory(tmp_path: Path) -> None:
    table = pa.Table.from_pandas(frame())
    pq.write_table(table, tmp_path / "log.parquet")
    check(Interactions.read(tmp_path / "log.parquet"))
    folder = tmp_path / "parts"
    (folder / "sub").mkdir(parents=True)
    pq.write_table(table.slice(0, 2), folder / "part-0.parquet")
    pq.write_table(table.slice(2), folder / "sub" / "part-1.parquet")
    (folder / "_SUCCESS").touch()
    (folder / "README.md").write_text("not data")
    check(Interactions.read(folder))


def test_hive_folders_are_columns(tmp_path: Path) -> None:
    for part, rows in (("train", slice(0, 3)), ("test", slice(3, 5))):
        (tmp_path / f"split={part}").mkdir()
        pq.write_table(pa.Table.from_pandas(frame().iloc[rows]), tmp_path / f"split={part}" / "0.parquet")
    log = Interactions.read(tmp_path)
    assert log.parts is not None
    assert {name: part.nnz for name, part in log.parts.items()} == {"train": 3, "val": 0, "test": 2}


class Stream:
    """A stand-in for a library that speaks the protocol and nothing else."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


def test_frames() -> None:
    table = pa.Table.from_pandas(frame())
    for given_frame in (frame(), table, Stream(table), {name: frame()[name].tolist() for name in frame()}):
        check(Interactions.from_frame(given_frame))
    renamed = frame().rename(columns={"user": "wer", "item": "was"})
    check(Interactions.from_frame(renamed, user="wer", item="was"))
    check(
        Interactions.from_frame(
            frame().astype({"user": "category", "item": "float64", "timestamp": "datetime64[ns]"})
        )
    )
    with pytest.raises(DataError, match="Arrow C stream"):
        Interactions.from_frame([1, 2, 3])


def test_strings_of_a_frame_stay_strings() -> None:
    log = Interactions.from_frame({"user": ["1", "2"], "item": ["b", "a"]})
    assert log.users.ids.to_pylist() == ["1", "2"]


def test_csr_is_copied_and_checked() -> None:
    matrix = sp.csr_array(DENSE)
    log = Interactions.from_csr(matrix)
    matrix.data[:] = 9  # the caller's matrix stays writable and apart
    assert np.array_equal(log.matrix.toarray(), DENSE)
    with pytest.raises(ValueError, match="read-only"):
        log.matrix.data[0] = 5
    for wrong in ({"users": ["a", "a", "b"]}, {"titles": ["one"]}, {"items": [1, 2]}):
        with pytest.raises(DataError):
            Interactions.from_csr(DENSE, **wrong)
    with pytest.raises(DataError, match="non-finite"):
        Interactions.from_csr(DENSE * np.nan)
    with pytest.raises(DataError, match="missing"):
        Interactions.from_csr(np.eye(2), users=["a", None])
    for no_matrix in ([["a", "b"]], [1, 2], np.zeros((2, 2, 2))):
        with pytest.raises(DataError, match=r"users × items|each user"):
            Interactions.from_csr(no_matrix)


@pytest.mark.parametrize(
    ("positive", "kept"),
    [
        ("rating >= 4", 2),
        ("rating>3", 2),
        ("rating != 1", 4),
        ("timestamp < 76", 3),
        ("`rating` = 5", 1),
        ("Rating <= 2e0", 2),
        ("rating >= 4 or timestamp < 55", 3),
        ("rating >= 4 and timestamp > 100 or item = 20", 2),
        ("rating >= 4 and (timestamp > 100 or item = 20)", 1),
        ("rating >= 4 AND time > 1970-01-01T00:02", 1),
        ("time = 1970-01-01T00:01:15Z or user == '3'", 3),
        ("user != '3' and rating > 2.5", 3),
    ],
)
def test_positive(positive: str, kept: int) -> None:
    log = Interactions.from_frame(
        frame(), positive=positive, strict=True
    )  # what was asked for is not what strict refuses
    assert log.n_interactions == kept
    assert log.report is not None and sum(log.report.dropped.values()) == 5 - kept


@pytest.mark.parametrize(
    "text",
    [
        "rating",
        ">= 4",
        "rating >= four",
        "__import__('os')",
        "rating >= 4 or 1",
        "rating > 1.2.3",
        "",
        "a = 1 b = 2",
        "rating >= 4 and",
        "or rating > 1",
        "(rating > 1",
        "rating > 1)",
        "time > 2020-13-01",
        "rating >= 'a'",
        "rating > 1 and and rating > 2",
        "not rating > 1",
        "(" * 99 + "a > 1" + ")" * 99,
        "time > 2020-01-01T99:00",
    ],
)
def test_positive_is_not_a_language(text: str) -> None:
    with pytest.raises(ConfigError, match=r"rating >= 4|in quotes"):
        conditions.parse(text)


def test_positive_on_a_missing_column() -> None:
    with pytest.raises(DataError, match="no column 'price'"):
        Interactions.from_frame(frame(), positive="price > 1")


def test_weights_duplicates_and_parts() -> None:
    table = {
        "user": ["a", "a", "a", "b"], "item": ["x", "x", "y", "x"], "weight": [2.0, 3.0, 1.0, 4.0],
        "split": ["train", "test", "validation", "TRAIN"], "time": [5, 6, 7, 8],
    }  # fmt: skip
    first, summed = Interactions.from_frame(table), Interactions.from_frame(table, duplicates="sum")
    assert first.matrix.toarray().tolist() == [[2, 1], [4, 0]]
    assert summed.matrix.toarray().tolist() == [[5, 1], [4, 0]]
    assert first.time is not None and first.time.tolist() == [5, 7, 8]
    assert first.parts is not None and summed.parts is not None
    assert first.parts["train"].toarray().tolist() == [[2, 0], [4, 0]]
    assert first.parts["test"].toarray().tolist() == [[3, 0], [0, 0]]
    assert first.parts["val"].toarray().tolist() == [[0, 1], [0, 0]]
    assert first.report is not None and first.report.dropped == {"repeated (user, item) pair": 1}
    assert summed.report is not None and not summed.report.dropped and "summed" in summed.report.notes[0]
    with pytest.raises(DataError, match="1 × repeated"):
        Interactions.from_frame(table, strict=True)
    with pytest.raises(ConfigError, match="'first' or 'sum'"):
        Interactions.from_frame(table, duplicates="last")


def test_ratings_are_never_weights_and_numbered_splits_count() -> None:
    log = Interactions.from_frame({"user": [1, 2], "item": [1, 1], "rating": [5, 3], "split": [0, 2]})
    assert not log.weighted and log.parts is not None
    assert [log.parts[name].nnz for name in ("train", "val", "test")] == [1, 0, 1]


def test_the_parts_of_a_split_have_several_names() -> None:
    names = ["train", "Training", "val", "valid", "validation", "dev", "test", " testing "]
    log = Interactions.from_frame({"user": range(8), "item": [1] * 8, "split": names})
    assert log.parts is not None
    rows = {name: part.nonzero()[0].tolist() for name, part in log.parts.items()}
    assert rows == {"train": [0, 1], "val": [2, 3, 4, 5], "test": [6, 7]}


def test_titles_from_an_items_table_or_the_log_itself(tmp_path: Path) -> None:
    items = pa.table(
        {"movieId": [30, 10, 99], "title": ["Thirty", "Ten", "Nobody's"], "genre": ["A", "B", "C"]}
    )
    log = Interactions.from_frame(frame(), items=items)
    assert log.item_info is not None and log.titles is not None
    assert log.titles.to_pylist() == ["Ten", None, "Thirty"]
    assert log.item_info.column("genres").to_pylist() == ["B", None, "A"]
    assert log.report is not None and any("1 item of" in note for note in log.report.notes)
    (tmp_path / "i.csv").write_text('item,title\n10,"Ten, again"\n')
    by_text = Interactions.from_frame(frame(), items=tmp_path / "i.csv").titles
    assert by_text is not None and by_text.to_pylist() == ["Ten, again", None, None]
    own = Interactions.from_frame(
        {"user": [1, 2, 2], "item": ["b", "a", "b"], "title": ["B!", "A!", "other"]}
    ).titles
    assert own is not None and own.to_pylist() == ["A!", "B!"]


@pytest.mark.parametrize(
    ("values", "order"),
    [
        (["2024-05-17", "2023-01-01", "2024-05-18"], [1, 0, 2]),
        (["2024-05-17 10:00:00", "2024-05-17T09:00:00Z", "2024-05-17 10:00:01.5"], [1, 0, 2]),
        ([1.25, 1.125, 1.5], [1, 0, 2]),
        (["1e3", "2.5", "1001"], [1, 0, 2]),
        (["2019-10-01 00:00:02 UTC", "2019-10-01 00:00:01 UTC", "2019-10-01 03:00:00+02:00"], [1, 0, 2]),
        (["2024-05-17 10:00:00.000002999", "2024-05-17 10:00:00.000001", "2024-05-17"], [2, 1, 0]),
    ],
)
def test_times_keep_their_order(values: list[Any], order: list[int]) -> None:
    log = Interactions.from_frame({"user": [1, 1, 1], "item": [1, 2, 3], "time": values})
    assert log.time is not None and np.argsort(log.time).tolist() == order


def test_columns_by_name_and_position(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("wer,was,wann\nx,y,3\nz,y,4\n")
    log = Interactions.read(tmp_path / "a.csv", user="wer", item="was", time="wann")
    assert log.users.ids.to_pylist() == ["x", "z"] and log.time is not None
    (tmp_path / "b.csv").write_text("9,a,1\n8,b,1\n")
    assert Interactions.read(tmp_path / "b.csv", user=2, item=1).users.ids.to_pylist() == ["a", "b"]
    (tmp_path / "n.csv").write_text("genre,movieId,userId\n1,2,3\n")
    with pytest.raises(
        DataError, match='name one, such as `user="userId"`'
    ):  # what is recognised, else what is alike
        Interactions.read(tmp_path / "n.csv", user="someone")
    with pytest.raises(DataError, match='name one, such as `user="genre"`'):
        Interactions.read(tmp_path / "n.csv", user="genres")
    (tmp_path / "c.csv").write_text("ann,heat\nbob,alien\n")  # no header, no number
    assert Interactions.read(tmp_path / "c.csv", user="1", item="2").users.ids.to_pylist() == ["ann", "bob"]
    with pytest.raises(DataError, match="no column 'nobody'"):
        Interactions.read(tmp_path / "a.csv", user="nobody", item="was")


ids = st.text(
    st.characters(codec="utf-8", exclude_characters='",\r\n\0', exclude_categories=("Cs",)),
    min_size=1,
    max_size=6,
)


@given(st.lists(st.tuples(ids, ids), min_size=1, max_size=30), st.randoms())
def test_ids_do_not_depend_on_the_order_of_rows(pairs: list[tuple[str, str]], random: Any) -> None:
    pairs = [(u, i) for u, i in pairs if u.strip() and i.strip()] or [("u", "i")]
    shuffled = pairs.copy()
    random.shuffle(shuffled)
    one, other = (
        Interactions.from_frame({"user": [u for u, _ in p], "item": [i for _, i in p]})
        for p in (pairs, shuffled)
    )
    assert one.users == other.users and one.items == other.items
    assert (one.matrix != other.matrix).nnz == 0
    assert one.users.ids.to_pylist() == sorted({u for u, _ in pairs})
    assert one.n_interactions == len(set(pairs))
    back = {
        (one.users.ids[int(u)].as_py(), one.items.ids[int(i)].as_py())
        for u, i in np.argwhere(one.matrix.toarray())
    }
    assert back == set(pairs)


@given(st.lists(st.tuples(st.integers(-(2**62), 2**62), st.integers(-3, 40)), min_size=1, max_size=40))
def test_integer_ids_sort_as_numbers(pairs: list[tuple[int, int]]) -> None:
    log = Interactions.from_frame({"user": [u for u, _ in pairs], "item": [i for _, i in pairs]})
    assert log.users.ids.to_pylist() == sorted({u for u, _ in pairs})
    assert log.items.ids.to_pylist() == sorted({i for _, i in pairs})
    assert log.n_interactions == len(set(pairs))
    again = Interactions.from_frame(log.to_table())
    assert (again.matrix != log.matrix).nnz == 0 and again.users == log.users


@pytest.mark.real_data
def test_real_data(real_data: Path) -> None:
    log = Interactions.read(real_data / "ml-1m.parquet", items=real_data / "ml-1m-items.parquet")
    assert (log.n_users, log.n_items, log.n_interactions) == (6040, 3706, 1_000_209)
    assert (
        log.titles is not None and log.titles[0].as_py() == "Toy Story (1995)" and log.titles.null_count == 0
    )
    assert log.parts is not None and sum(part.nnz for part in log.parts.values()) == 1_000_209
    magazine = Interactions.read(real_data / "magazine.parquet")
    assert (magazine.n_users, magazine.n_items) == (3092, 1305)
    assert magazine.report is not None and magazine.report.rows == 12_689
    assert magazine.report.dropped == {"repeated (user, item) pair": 472}
    raw = Interactions.read(real_data / "raw-amazon-magazine.csv.gz")
    assert (
        raw.report is not None and raw.report.rows == 89_689 and raw.items.positions(["B00005N7P0"])[0] >= 0
    )
    book = Interactions.read(real_data / "raw-douban-book.dat.gz")
    assert book.n_items == 6777
