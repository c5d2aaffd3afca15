"""Golden bad input: a sensible log with what was dropped counted, or one sentence that says what to do."""

from __future__ import annotations

import gzip
import unicodedata
import zipfile
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from infrec.data import Interactions
from infrec.data.datasets import find_sources, load
from infrec.errors import DataError
from tests import hostile

HEADER = "user,item,rating\n"
GOOD = HEADER + "a,x,5\nb,y,4\n"


def write(folder: Path, content: str | bytes, name: str = "log.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def dropped(log: Interactions) -> dict[str, int]:
    assert log.report is not None
    assert log.report.rows == log.report.kept + sum(log.report.dropped.values())
    return dict(log.report.dropped)


def one_sentence(error: pytest.ExceptionInfo[DataError]) -> None:
    text = str(error.value)
    assert text.endswith(".") and "\n" not in text and "Traceback" not in text and len(text) < 500


# ---- read, with what was dropped counted ------------------------------------------------------------------
@pytest.mark.parametrize(
    ("content", "counts"),
    [
        ("\ufeff" + GOOD, {}),
        (GOOD.replace("\n", "\r\n"), {}),
        (HEADER + '"a","x","5"\n"b","y",4\n', {}),
        (GOOD + ",x,5\nc,,5\n  ,x,1\n", {"no user id": 2, "no item id": 1}),
        (GOOD + "c,x,nan\nc,y,inf\nd,y,-Infinity\nd,x,\nd,x,good\n", {"rating is not a finite number": 5}),
        (GOOD + "c,x\nc,x,5,9\n\n", {"ragged row": 2}),
        (GOOD + "a,x,3\na,x,5\n", {"repeated (user, item) pair": 2}),
        (GOOD + '"open,x,5\nc,x,5\n', {"ragged row": 2}),
    ],
    ids=["bom", "crlf", "quoted", "empty ids", "nan and inf", "ragged", "repeated", "open quote"],
)
def test_usable(tmp_path: Path, content: str, counts: dict[str, int]) -> None:
    path = write(tmp_path, content)
    log = Interactions.read(path)
    assert log.users.ids.to_pylist() == ["a", "b"] and log.items.ids.to_pylist() == ["x", "y"]
    assert log.matrix.toarray().tolist() == [[1, 0], [0, 1]]
    assert dropped(log) == counts
    if counts:
        with pytest.raises(DataError, match="strict") as error:
            Interactions.read(path, strict=True)
        one_sentence(error)
    else:
        Interactions.read(path, strict=True)


def test_007_is_not_7(tmp_path: Path) -> None:
    log = Interactions.read(write(tmp_path, "user,item\n007,1\n7,1\n7,02\n"))
    assert log.users.ids.to_pylist() == ["007", "7"] and log.items.ids.to_pylist() == ["02", "1"]
    numbers = Interactions.read(write(tmp_path, "user,item\n10,1\n9,-1\n0,1\n"))
    assert numbers.users.ids.to_pylist() == [0, 9, 10] and numbers.items.ids.to_pylist() == [-1, 1]
    for odd in ("+7", "7.0", "1e3", " 7", "-0", "99999999999999999999"):
        assert odd in Interactions.read(write(tmp_path, f"user,item\n{odd},1\n7,1\n")).users.ids.to_pylist()


def test_unicode_in_both_normal_forms(tmp_path: Path) -> None:
    name = "café"
    both = [unicodedata.normalize(form, name) for form in ("NFC", "NFD")]
    log = Interactions.read(write(tmp_path, "user,item\n" + "".join(f"{user},Ωmega\n" for user in both)))
    assert sorted(log.users.ids.to_pylist()) == sorted(both) and log.n_users == 2
    assert log.report is not None and any("Unicode normal form" in note for note in log.report.notes)
    assert log.items.ids.to_pylist() == ["Ωmega"]


def test_ids_with_commas_and_quotes(tmp_path: Path) -> None:
    log = Interactions.read(write(tmp_path, 'user,item\n"Doe, Jane","a ""b"" c"\n'))
    assert log.users.ids.to_pylist() == ["Doe, Jane"] and log.items.ids.to_pylist() == ['a "b" c']


def test_users_with_one_interaction_and_items_nobody_has(tmp_path: Path) -> None:
    items = write(tmp_path, "item,title\nx,Ex\nlonely,Nobody\n", "items.csv")
    log = Interactions.read(write(tmp_path, GOOD), items=items)
    assert log.user_counts.tolist() == [1, 1] and log.n_items == 2
    assert log.titles is not None and log.titles.to_pylist() == ["Ex", None]


def test_identical_users_and_a_user_who_has_everything() -> None:
    log = Interactions.from_frame({"user": [1, 1, 2, 2], "item": ["x", "y", "x", "y"]})
    assert log.matrix.toarray().tolist() == [[1, 1], [1, 1]]


def test_nulls_nans_and_odd_types_in_frames(tmp_path: Path) -> None:
    table = pa.table(
        {
            "user": pa.array([1, None, 2, 3, 3], pa.int64()),
            "item": pa.array(["x", "y", None, "x", ""], pa.string()),
            "rating": pa.array([5.0, 4.0, 3.0, np.nan, 1.0]),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    log = Interactions.read(tmp_path / "a.parquet")
    assert log.users.ids.to_pylist() == [1]
    assert dropped(log) == {"no user id": 1, "no item id": 2, "rating is not a finite number": 1}
    floats = Interactions.from_frame({"user": [1.0, float("nan"), 2.0], "item": [1, 2, 3]})
    assert floats.users.ids.to_pylist() == [1, 2] and dropped(floats) == {"no user id": 1}
    big = Interactions.from_frame({"user": pa.array([2**64 - 1, 5], pa.uint64()), "item": [True, False]})
    assert big.users.ids.to_pylist() == [str(2**64 - 1), "5"] and big.items.ids.to_pylist() == [
        "false",
        "true",
    ]
    with pytest.raises(DataError, match="text or integers"):
        Interactions.from_frame({"user": [[1], [2]], "item": [1, 2]})


def test_weights_that_cannot_be() -> None:
    log = Interactions.from_frame(
        {"user": list("abcde"), "item": list("xxxxx"), "weight": [1.5, 0, -1, np.inf, np.nan]}
    )
    assert log.matrix.toarray().tolist() == [[1.5]]
    assert dropped(log) == {"weight is negative or not a finite number": 3, "weight is 0": 1}


def test_weights_that_cannot_be_stored() -> None:
    """Weights are float32: what is too large or too small for it is no weight."""
    log = Interactions.from_frame(
        {"user": list("abcd"), "item": list("xxxx"), "weight": [1.5, 1e39, 1e-50, 1e-40]}
    )
    assert log.users.ids.to_pylist() == ["a", "d"] and (log.matrix.data > 0).all()
    assert dropped(log) == {"weight is negative or not a finite number": 1, "weight is 0": 1}
    huge = {"user": ["a", "a", "b"], "item": ["x", "x", "x"], "weight": [3e38, 3e38, 1.0]}
    assert Interactions.from_frame(huge).matrix.nnz == 2
    with pytest.raises(DataError, match="add up to more than") as error:
        Interactions.from_frame(huge, duplicates="sum")
    one_sentence(error)


def test_days_that_do_not_exist_cost_only_their_rows() -> None:
    days = ["2023-02-30", "2023-02-29", "1900-02-29", "2023-04-31", "2024-13-01"]
    real = ["2024-02-29", "2000-02-29", "2023-01-31", "2023-04-30", "2023-02-28", "1999-12-31"]
    log = Interactions.from_frame({"user": range(11), "item": [1] * 11, "date": days + real})
    assert dropped(log) == {"time cannot be read": 5} and log.users.ids.to_pylist() == list(range(5, 11))
    assert log.time is not None
    assert log.time.tolist() == np.array(real, "datetime64[us]").astype(np.int64).tolist()


def test_times_with_an_offset() -> None:
    written = {
        "2024-05-17T10:00:00+02:00": "2024-05-17T08:00",
        "2024-05-17 10:00-0530": "2024-05-17T15:30",
        "2024-05-17T10:00:00.25+00:00": "2024-05-17T10:00:00.25",
        "2024-05-17T10:00:00Z": "2024-05-17T10:00",
        "2024-05-17T10:00": "2024-05-17T10:00",
        "2024-01-01T01:00+02": "2023-12-31T23:00",
        "2024-05-17": "2024-05-17",
    }
    log = Interactions.from_frame({"user": range(7), "item": [1] * 7, "time": list(written)})
    assert dropped(log) == {} and log.time is not None
    assert log.time.tolist() == np.array(list(written.values()), "datetime64[us]").astype(np.int64).tolist()


def test_a_quote_that_is_never_closed_in_a_long_file(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD + '"open,x,5\n' + "someone,something,5\n" * 900_000)
    with pytest.raises(DataError, match="never closed") as error:
        Interactions.read(path)
    one_sentence(error)


def test_times_and_splits_that_cannot_be_read() -> None:
    log = Interactions.from_frame(
        {"user": [1, 2, 3], "item": [1, 1, 1], "time": ["2024-01-02", "soon", "2024-01-01"]}
    )
    assert dropped(log) == {"time cannot be read": 1}
    ignored = Interactions.from_frame(
        {"user": [1, 2], "item": [1, 1], "date": ["yes", "no"], "split": ["left", "right"]}
    )
    assert ignored.time is None and ignored.parts is None and ignored.n_users == 2
    assert ignored.report is not None and len(ignored.report.notes) == 2
    with pytest.raises(DataError, match="holds no times"):
        Interactions.from_frame({"user": [1], "item": [1], "date": ["yes"]}, time="date")
    partly = Interactions.from_frame({"user": [1, 2], "item": [1, 1], "split": ["train", "left"]})
    assert dropped(partly) == {"split is none of train, val, test": 1}


def test_gzip_by_content_not_by_name(tmp_path: Path) -> None:
    assert Interactions.read(write(tmp_path, gzip.compress(GOOD.encode()), "log.csv")).n_users == 2


# ---- refused in one sentence ------------------------------------------------------------------------------
BIG = (HEADER + "".join(f"user{n},item{n * 7919 % 1000},5\n" for n in range(50_000))).encode()


@pytest.mark.parametrize(
    ("content", "wanted", "told"),
    [
        ("userId,movieId,rating\n1,2,3\n", {}, None),
        ("customer,article\nann,tea\n", {"user": "customer", "item": "article"}, None),
        ("1,2,3\n4,5,6\n", {}, "has no header; its columns were taken as user, item, rating"),
        ("1,2,900\n4,5,6\n", {}, "has no header; its columns were taken as user, item, count"),
        ("1,2,1700000000\n4,5,1600000000\n", {}, "its columns were taken as user, item, timestamp"),
        ("a,7,Tea,31\nb,8,Milk,2\n", {}, "its columns were taken as user, item, title, rating"),
        ("a,7,Tea,310\nb,8,Milk,2\n", {"user": 1}, "were taken as user, item, title, count"),
        ("a,7,4.5,31,0\nb,8,5,2,0\n", {}, "were taken as user, item, rating, timestamp, column5"),
        ("title,5\nname,6\n", {"user": 1, "item": 2}, "the first line of log.csv ('title', '5') was taken"),
        ("user,item\nann,tea\nuser,tea\n", {}, "the first line of log.csv ('user', 'item') was taken as"),
        (
            "ann,tea\n7,8\n9,8\n",
            {"user": 1, "item": 2},
            "('ann', 'tea') was taken as its header",
        ),
    ],
)
def test_a_first_line_that_may_be_a_row_or_a_header_is_not_lost_without_a_word(
    content: str, wanted: dict[str, Any], told: str | None, tmp_path: Path
) -> None:
    log = Interactions.read(write(tmp_path, content), **wanted)
    assert log.report is not None
    if told is None:
        assert log.report.notes == ()
    else:
        note = log.report.notes[0]
        assert told in note
        assert log.n_interactions == content.count("\n") - ("was taken as" in note)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("log.csv", b"", "is empty"),
        ("log.csv", b"\n\n  \n", "is empty"),
        ("log.csv", b"\xef\xbb\xbf", "is empty"),
        ("log.csv", b"\xef\xbb\xbf\r\n \n", "is empty"),
        ("log.csv", "\u3000\n".encode(), "is empty"),
        ("log.csv", b"\xff\xfe", "is empty"),
        ("log.csv", b"\xfe\xff", "is empty"),
        ("log.csv", b"\xff\xfea", "no utf-16"),
        ("log.csv", b"\0" * 100, "not text"),
        ("log.csv", b'"', "recognised as the user"),
        ("log.csv", HEADER.encode(), "no rows"),
        ("log.csv", HEADER.strip().encode(), "no rows"),
        ("log.csv", b"user,price\na,5\n", "recognised as the item"),
        ("log.csv", b"alpha,beta\nx,y\n", "recognised as the user"),
        ("log.csv", b"user,item\n,\n,\n", "none of the 2 rows"),
        ("log.csv", bytes(range(256)) * 20, "not text"),
        ("log.csv", GOOD.encode("utf-16")[:-1], "no utf-16"),
        ("log.csv", "user,item\ncafé,thé\n".encode() + BIG + b"caf\xe9,x\n", "no utf-8 text"),
        ("log.csv.gz", gzip.compress(BIG, mtime=0)[:-20_000], "cut off"),
        ("log.csv.gz", gzip.compress(BIG, mtime=0)[:-4], "cut off"),
        ("log.csv.gz", gzip.compress(BIG, mtime=0)[:15], "cut off"),
        ("log.csv.gz", GOOD.encode(), "not gzip"),
        ("log.parquet", b"", "is empty"),
        ("log.parquet", b"PAR1 this is not it", "cannot be read as Parquet"),
        ("log.parquet", GOOD.encode(), "cannot be read as Parquet"),
        ("log.zip", b"PK\x03\x04 nonsense", "not a whole zip"),
    ],
)
def test_refused(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    with pytest.raises(DataError, match=says) as error:
        Interactions.read(write(tmp_path, content, name))
    one_sentence(error)


def test_parquet_whose_parts_claim_other_rows(tmp_path: Path) -> None:
    pq.write_table(pa.table({"user": range(9), "item": range(9)}), tmp_path / "log.parquet")
    hostile.claim_rows(tmp_path / "log.parquet", 9, 63)
    with pytest.raises(DataError, match=r"as Parquet \(its parts have 63 rows and the file 9\)"):
        Interactions.read(tmp_path / "log.parquet")


def test_parquet_cut_off_or_flipped(tmp_path: Path) -> None:
    table = pa.table({"user": np.arange(5000), "item": np.arange(5000) % 17})
    pq.write_table(table, tmp_path / "whole.parquet", use_dictionary=False)
    whole = (tmp_path / "whole.parquet").read_bytes()
    for damaged in (whole[:-100], whole[: len(whole) // 2]):
        with pytest.raises(DataError, match="cannot be read as Parquet") as error:
            Interactions.read(write(tmp_path, damaged, "cut.parquet"))
        one_sentence(error)


def test_an_archive_with_a_member_without_a_name(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "log.zip", "w") as archive:
        archive.writestr("Q", "1::2::3::4\n")
        archive.writestr("ratings.dat", "1::2::3::4\n")
    packed = (tmp_path / "log.zip").read_bytes().replace(b"Q", b"\0")  # which ends a name
    assert Interactions.read(write(tmp_path, packed, "log.zip")).n_interactions == 1


def test_names_inside_a_file_that_are_no_text(tmp_path: Path) -> None:
    pq.write_table(pa.table({"user": [1], "item": [2], "caf\u00e9": [3]}), tmp_path / "log.parquet")
    named = (tmp_path / "log.parquet").read_bytes().replace(b"caf\xc3\xa9", b"caf\xc3\x28")
    with pytest.raises(DataError, match="cannot be read as Parquet") as error:
        Interactions.read(write(tmp_path, named, "log.parquet"))
    one_sentence(error)
    with zipfile.ZipFile(tmp_path / "log.zip", "w") as archive:
        archive.writestr("ratings.dat", "1::2::3::4\n")
    packed = bytearray((tmp_path / "log.zip").read_bytes())
    packed[7] |= 8  # names are UTF-8, says the member's own header
    packed[30] = 0xFF
    with pytest.raises(DataError, match="cannot be unpacked") as error:
        Interactions.read(write(tmp_path, bytes(packed), "log.zip"))
    one_sentence(error)


@pytest.mark.parametrize("form", ["file", "directory", "frame", "items"])
def test_a_column_that_stands_twice(tmp_path: Path, form: str) -> None:
    table = pa.Table.from_arrays([pa.array([1, 2])] * 3, names=["user", "item", "item"])
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(DataError, match="2 columns called 'item'") as error:
        if form == "frame":
            Interactions.from_frame(table)
        elif form == "items":
            Interactions.from_frame({"user": [1], "item": [1]}, items=table)
        else:
            Interactions.read(tmp_path / "a.parquet" if form == "file" else tmp_path)
    one_sentence(error)
    other = table.rename_columns(["user", "item", "mood"]).append_column("mood", pa.array([1, 2]))
    assert Interactions.from_frame(other).matrix.nnz == 2, "nobody asked for it"


def test_a_folder_of_texts_is_one_table(tmp_path: Path) -> None:
    """Whatever the order of the columns; rows without enough fields are counted; other tables are refused."""
    (tmp_path / "2023").mkdir()
    (tmp_path / "2023" / "a.csv").write_text("user,item\nann,x\nbob,y\n")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress("item;user\nz\nz;änne\nx;bob\n".encode("latin-1")))
    (tmp_path / "_b.csv").write_text("no")
    log = Interactions.read(tmp_path)
    pairs = sorted(zip(*(log.to_table()[name].to_pylist() for name in ("user", "item")), strict=True))
    assert pairs == [("ann", "x"), ("bob", "x"), ("bob", "y"), ("änne", "z")]
    assert log.report is not None and log.report.dropped["ragged row"] == 1
    assert "was read as cp1252" in " ".join(log.report.notes)
    (tmp_path / "books.tsv").write_text("item\ttitle\nx\tX\n")
    with pytest.raises(
        DataError, match=r"different columns: a.csv has 'user', 'item', and books.tsv"
    ) as error:
        Interactions.read(tmp_path)
    one_sentence(error)


def test_places_without_data(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "ratings_old.csv").write_text(GOOD)
    for path, says in (
        ("empty", "directory without tables"),
        ("ratings.csv", "ratings_old.csv"),
        ("no/where", "no file"),
    ):
        with pytest.raises(DataError, match=says) as error:
            Interactions.read(tmp_path / path)
        one_sentence(error)
    for reading in (Interactions.read, load, find_sources):
        with pytest.raises(DataError, match="the path is empty"):  # not the current directory
            reading("")


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = write(tmp_path, GOOD)
    monkeypatch.setattr(Path, "open", refuse)  # root could read it whatever its mode
    with pytest.raises(DataError, match="permissions"):
        Interactions.read(path)


@pytest.mark.parametrize(("kind", "low", "high"), [(np.int8, -100, 99), (np.int16, -20_000, 20_000)])
def test_ids_further_apart_than_their_type_counts(kind: type, low: int, high: int) -> None:
    ids = [low, low + 1, 0, 1, high]
    log = Interactions.from_frame({"user": np.array(ids, kind), "item": np.array(ids[::-1], kind)})
    assert log.users.ids.to_pylist() == log.items.ids.to_pylist() == ids
    assert log.matrix.toarray().tolist() == np.eye(5)[::-1].tolist()


def test_uuids_and_huge_numbers_are_ids_by_their_text(tmp_path: Path) -> None:
    one, other = UUID(int=7), UUID(int=2**127 + 5)
    table = pa.table({"user": pa.array([one, other, None, one], pa.uuid()), "item": [1, 2, 3, 3]})
    pq.write_table(table, tmp_path / "a.parquet")
    log = Interactions.read(
        tmp_path / "a.parquet", items={"item": pa.array([2**63, 2], pa.uint64()), "title": ["A", "B"]}
    )
    assert log.users.ids.to_pylist() == [str(one), str(other)] and dropped(log) == {"no user id": 1}
    assert log.users.positions([other, one, 2**70, (1, 2), b"\xff", None]).tolist() == [1, 0, -1, -1, -1, -1]
    assert log.titles is not None and log.titles.to_pylist() == [None, "B", None]
    huge = Interactions.from_csr(np.eye(2), users=np.array([2**63, 5], np.uint64), items=[2**70, one])
    assert huge.users.ids.to_pylist() == [str(2**63), "5"]
    assert huge.items.positions([2**70, str(one)]).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (pd.DataFrame([[1, 2, 3]], columns=["user", "item", "item"]), "Duplicate column names"),
        (pd.DataFrame({"user": pd.arrays.SparseArray([0, 1]), "item": [1, 2]}), "not supported"),
        (pd.DataFrame({"user": [1, "a"], "item": [1, 2]}), "of one type"),
        ({"user": [1, "a"], "item": [1, 2]}, "of one type"),
        ({"user": 1, "item": 2}, "equally long lists"),
        ({"user": [2**70], "item": [2]}, "do not form a table"),
    ],
    ids=["repeated", "sparse", "mixed", "mixed lists", "scalars", "huge"],
)
def test_frames_that_are_none(frame: Any, says: str) -> None:
    with pytest.raises(DataError, match=says) as error:
        Interactions.from_frame(frame)
    one_sentence(error)


def test_a_split_that_is_a_list_is_none() -> None:
    log = Interactions.from_frame(pa.table({"user": [1, 1], "item": [1, 2], "split": [["train"], ["test"]]}))
    assert log.parts is None and log.report is not None and "neither train" in log.report.notes[0]


def test_empty_frames() -> None:
    with pytest.raises(DataError, match="no rows"):
        Interactions.from_frame(
            pa.table({"user": pa.array([], pa.int64()), "item": pa.array([], pa.int64())})
        )
    with pytest.raises(DataError, match="none of the 2 rows"):
        Interactions.from_frame(pa.table({"user": pa.nulls(2), "item": [1, 2]}))
