"""Small files in the publishers' formats, as folders and as archives; and archives that mean harm."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from infrec.data import Interactions, publishers
from infrec.data.datasets import load
from infrec.data.publishers import GENRES_100K, Folder, NetflixSource, Zip
from infrec.errors import DataError

FLAGS = "|".join("1" if genre in ("Animation", "Comedy") else "0" for genre in GENRES_100K)
ML_100K = {
    "u.data": b"196\t242\t3\t881250949\n186\t302\t3\t891717742\n196\t302\t1\t881250950\n",
    "u.item": f"242|Kolya (1996)|24-Jan-1997||http://x|{FLAGS}\n302|L\u00e9on (1997)|x||y|{FLAGS}\n".encode(
        "latin-1"
    ),
}
ML_1M = {
    "ratings.dat": b"1::1193::5::978300760\n1::661::3::978302109\n2::1193::4::978298413\n",
    "movies.dat": "661::Caf\u00e9 :: no (1996)::Musical\n1193::One: Flew (1975)::Drama|War\n".replace(
        " :: ", ": "
    ).encode("latin-1"),
}
ML_25M = {
    "ratings.csv": b"userId,movieId,rating,timestamp\n1,296,5.0,11478800\n1,306,3.5,114786\n2,296,.5,1141\n",
    "movies.csv": b'movieId,title,genres\n296,"Pulp, Fiction (1994)",Comedy\n306,Trois (1994),Drama\n',
    "README.txt": b"hello",
}
NETFLIX = {
    "combined_data_1.txt": b"1:\n1488844,3,2005-09-06\n822109,5,2005-05-13\n"
    b"2:\n2059652,4,2005-09-05\n1488844,1,2005-04-19\n",
    "combined_data_2.txt": b"10:\r\n822109,4,2004-01-23\r\n",
    "movie_titles.csv": "1,2003,Dinosaur Planet\n2,2004,Isle, of Man\n10,NULL,Caf\u00e9\n".encode("latin-1"),
}
MV = {
    "training_set/mv_0000001.txt": b"1:\n1488844,3,2005-09-06\n822109,5,2005-05-13\n",
    "training_set/mv_0000002.txt": b"2:\n2059652,4,2005-09-05\n1488844,1,2005-04-19",
    "training_set/mv_0000010.txt": b"10:\n822109,4,2004-01-23\n",
}


def folder(path: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path


def zipped(path: Path, files: dict[str, bytes], top: str = "ml/") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, content in files.items():
            out.writestr(top + name, content)
    return path


@pytest.mark.parametrize(
    ("files", "users", "items", "titles"),
    [
        (ML_100K, [186, 196], [242, 302], ["Kolya (1996)", "Léon (1997)"]),
        (ML_1M, [1, 2], [661, 1193], ["Café: no (1996)", "One: Flew (1975)"]),
        (ML_25M, [1, 2], [296, 306], ["Pulp, Fiction (1994)", "Trois (1994)"]),
        (
            NETFLIX,
            [822109, 1488844, 2059652],
            [1, 2, 10],
            ["Dinosaur Planet (2003)", "Isle, of Man (2004)", "Café"],
        ),
        (MV, [822109, 1488844, 2059652], [1, 2, 10], None),
    ],
    ids=["100k", "1m", "25m", "netflix", "netflix mv"],
)
def test_folders_and_archives(
    tmp_path: Path, files: dict[str, bytes], users: list[int], items: list[int], titles: list[str] | None
) -> None:
    for place in (
        folder(tmp_path / "f", files),
        zipped(tmp_path / "a.zip", files),
        zipped(tmp_path / "b.zip", files, ""),
    ):
        log = Interactions.read(place)
        assert log.users.ids.to_pylist() == users and log.items.ids.to_pylist() == items
        assert (None if log.titles is None else log.titles.to_pylist()) == titles
        assert log.time is not None and log.report is not None and not log.report.dropped


def test_genres(tmp_path: Path) -> None:
    one = Interactions.read(folder(tmp_path / "a", ML_100K)).item_info
    assert one is not None and one.column("genres")[0].as_py() == "Animation|Comedy"
    two = Interactions.read(folder(tmp_path / "b", ML_1M)).item_info
    assert two is not None and two.column("genres").to_pylist() == ["Musical", "Drama|War"]


def test_half_stars_and_positive(tmp_path: Path) -> None:
    assert Interactions.read(folder(tmp_path, ML_25M), positive="rating >= 3.5").n_interactions == 2


def test_amazon_and_douban(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By their names, in the publishers' order of columns; Amazon's ids tell users and items apart anyway."""
    ratings = b"B00005N7P0,AH2IFH762VY5U,5.0,1005177600\n0123456789,A3JPFWKS83R49V,3.0,1174694400\n"
    folder(tmp_path, {"magazine.csv": ratings, "douban.dat": b"1\t1630\t4\n1\t1181\t4\n2\t1630\t5\n"})
    monkeypatch.setenv("INFREC_DATA", str(tmp_path))
    for log in (load("magazine"), Interactions.read(tmp_path / "magazine.csv")):
        assert log.items.ids.to_pylist() == ["0123456789", "B00005N7P0"]
        assert log.users.ids.to_pylist() == ["A3JPFWKS83R49V", "AH2IFH762VY5U"]
    assert load("douban").n_interactions == 3


@pytest.mark.parametrize("chunk", [7, 24, 50, 1000])
def test_netflix_does_not_depend_on_chunks(tmp_path: Path, chunk: int) -> None:
    rng = np.random.default_rng(3)
    expected, text = [], ""
    for film in (3, 17, 4000):
        text += f"{film}:\n"
        for user in rng.choice(50, 9, replace=False):
            expected.append((int(user), film))
            text += f"{user},{rng.integers(1, 6)},2005-0{rng.integers(1, 9)}-11\n"
    folder(tmp_path, {"combined_data_1.txt": text.encode()[:400], "combined_data_2.txt": text.encode()[400:]})
    whole = folder(tmp_path / "one", {"combined_data_1.txt": text.encode()})
    source = NetflixSource(Folder(whole), ["combined_data_1.txt"], chunk=chunk)
    rows = [(row["user"], row["item"]) for batch in source.batches() for row in batch.to_pylist()]
    assert rows == expected


def test_netflix_ragged_and_broken(tmp_path: Path) -> None:
    ragged = b"1:\n5,3,2005-01-01\n6,3\n7,3,2005-01-01\n2:\n8,1,2005-01-01,9\n9,1,2005-01-01\n"
    log = Interactions.read(folder(tmp_path / "a", {"combined_data_1.txt": ragged}) / "combined_data_1.txt")
    assert log.report is not None and log.report.dropped == {"ragged row": 2}
    assert log.matrix.toarray().tolist() == [[1, 0], [1, 0], [0, 1]] and log.users.ids.to_pylist() == [
        5,
        7,
        9,
    ]
    for content, says in (
        (b"5,3,2005-01-01\n", "before any film"),
        (b"1:\nfive,3,2005-01-01\n", "something else"),
        (b"1:\n5,3,2005-01-01\n6,3\r7\r8\n", "blank or broken lines"),
        (b"99999999999:\n5,3,2005-01-01\n", "a film of 11 digits"),
    ):
        with pytest.raises(DataError, match=says):
            Interactions.read(folder(tmp_path / "b", {"combined_data_1.txt": content}))
    assert publishers.COLUMNS == ("user", "item", "rating", "date")


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_ragged_netflix_row_that_is_no_text(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    broken = b"1:\n5,3,2005-01-01\n6,3\xff\n7,\xc3,2,2\n7,3,2005-01-01\n"
    log = Interactions.read(folder(tmp_path, {"combined_data_1.txt": broken}) / "combined_data_1.txt")
    assert log.report is not None and log.report.dropped == {"ragged row": 2}
    assert log.users.ids.to_pylist() == [5, 7] and capfd.readouterr().err == ""


# ---- hostile archives -------------------------------------------------------------------------------------
def test_names_that_leave_the_archive_are_never_used(tmp_path: Path) -> None:
    for evil in ("../ratings.csv", "/ratings.csv", "a/../../ratings.csv", "..\\ratings.csv"):
        with zipfile.ZipFile(tmp_path / "evil.zip", "w") as out:
            out.writestr(evil, ML_25M["ratings.csv"])
        with pytest.raises(DataError, match="without a known publisher"):
            Interactions.read(tmp_path / "evil.zip")
    assert [path.name for path in tmp_path.iterdir()] == ["evil.zip"]  # nothing was extracted


def test_bombs_are_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = ML_25M["ratings.csv"] + b"1,1,1,1\n" * (5 << 20)
    path = zipped(tmp_path / "bomb.zip", {"ratings.csv": bomb})
    assert path.stat().st_size < 200_000
    with pytest.raises(DataError, match="not opened"):
        Interactions.read(path)
    monkeypatch.setattr(publishers, "SMALL", 1 << 30)
    with pytest.raises(DataError, match="expected at most"):
        Zip(path, limit=1 << 20).open("ratings.csv")


def test_a_size_that_lies(tmp_path: Path) -> None:
    """The header says 10 bytes: no more than that is given, and the checksum shows the lie."""
    path = zipped(tmp_path / "lie.zip", {"ratings.csv": ML_25M["ratings.csv"]}, "")
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02")
    data[at + 24 : at + 28] = (10).to_bytes(4, "little")
    path.write_bytes(bytes(data))
    with pytest.raises(DataError), Zip(path).open("ratings.csv") as stream:
        assert len(stream.read()) <= 10


def test_damaged_members(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = b"userId,movieId\n" + b"".join(b"%d,%d\n" % (u, i) for u, i in rng.integers(0, 999, (3000, 2)))
    path = zipped(tmp_path / "a.zip", {"ratings.csv": rows})
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(bytes(data))
    with pytest.raises(DataError, match=r"damaged|not a whole|cannot be read"):
        Interactions.read(path)
    path.write_bytes(bytes(data[: len(data) // 2]))
    with pytest.raises(DataError, match="not a whole zip"):
        Interactions.read(path)
    buffer = io.BytesIO()
    zipfile.ZipFile(buffer, "w").close()
    path.write_bytes(buffer.getvalue())
    with pytest.raises(DataError, match="without a known publisher"):
        Interactions.read(path)
