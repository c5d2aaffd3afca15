"""Text files as people have them: in other encodings, with other delimiters, without a header."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrec.data import Interactions
from infrec.data.text import Utf8
from infrec.errors import ConfigError, DataError

BOOKS = [
    '"ISBN";"Book-Title";"Book-Author";"Year-Of-Publication"',
    '"0195153448";"Caf\xe9 &amp; Bar";"M. P. O. Morford";"2002"',
    '"034545104X";"The Real \\"J. Peterman\\" Rides; Again";"D\xfcrer";"1999"',
    '"0155061224";"Broken\\";\\"row";"Nobody";"2001";"more"',
]


@pytest.fixture
def book_crossing(tmp_path: Path) -> Path:
    """A log in the form of Book-Crossing's: Latin-1, semicolons, everything quoted, books beside it."""
    rows = [(user, isbn, (user + at) % 11) for user in range(9) for at, isbn in enumerate(ISBNS)]
    lines = ['"User-ID";"ISBN";"Book-Rating"', *(f'"{u}";"{i}";"{r}"' for u, i, r in rows)]
    (tmp_path / "BX-Book-Ratings.csv").write_bytes("\r\n".join([*lines, ""]).encode("latin-1"))
    (tmp_path / "BX-Books.csv").write_bytes("\r\n".join([*BOOKS, ""]).encode("latin-1"))
    return tmp_path


ISBNS = ["0195153448", "034545104X", "0155061224", "\xbasp\xe9cial"]


def notes(log: Interactions) -> str:
    assert log.report is not None
    return "; ".join(log.report.notes)


def test_book_crossing_is_read_as_it_is(book_crossing: Path) -> None:
    log = Interactions.read(book_crossing / "BX-Book-Ratings.csv", strict=True)
    assert log.items.ids.to_pylist() == sorted(ISBNS) and log.users.ids.to_pylist() == list(range(9))
    assert log.n_interactions == 36
    assert "is not UTF-8 and was read as cp1252" in notes(log)


@given(st.text(st.characters(codec="cp1252")), st.integers(1, 7))
def test_chunks_in_other_encodings_become_utf8(text: str, size: int) -> None:
    for encoding, given_encoding in (
        ("cp1252", "cp1252"),
        ("utf-16", None),
        ("utf-8", None),
        ("utf-8", "utf-8"),
    ):
        change, held, out, data = Utf8(given_encoding), b"", b"", text.encode(encoding)
        size = max(size, 2) if encoding == "utf-16" else size  # the mark is never divided: chunks are large
        for start in range(0, len(data) + 1, size):
            chunk, last = data[start : start + size], start + size > len(data)
            changed, held = change(held + chunk, last)
            out += changed
        assert out == text.encode() and not held


@pytest.mark.parametrize("before", ["", "plain\n" * 9])
def test_the_encoding_is_seen_where_it_first_matters(before: str) -> None:
    for text, encoding in (
        ("d\xe9j\xe0 vu", "cp1252"),
        ("d\xe9j\xe0 vu", "utf-8"),
        ("d\x81j\xe0", "latin-1"),
    ):
        change = Utf8()
        assert change(before.encode(), False) == (before.encode(), b"")
        assert change.encoding is None
        data = text.encode(encoding)
        assert change(data, True) == (text.encode(), b"")
        assert change.encoding == ("utf-8" if encoding == "utf-8" else "cp1252")


def test_a_given_encoding_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes("user,item\nŁukasz,1\n".encode("iso-8859-2"))
    log = Interactions.read(path, encoding="iso-8859-2")
    assert log.users.ids.to_pylist() == ["Łukasz"] and not notes(log)
    with pytest.raises(DataError, match='no utf-8 text; name its encoding, such as `encoding="cp1252"`'):
        Interactions.read(path, encoding="utf8")
    for wrong in ("rot13", "latin-99"):
        with pytest.raises(ConfigError, match="there is no encoding"):
            Interactions.read(path, encoding=wrong)


@pytest.mark.parametrize("delimiter", [";", "|", "\t", "^", "::"])
def test_delimiters(tmp_path: Path, delimiter: str) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        "".join(delimiter.join(row) + "\n" for row in (("user", "item"), ("a", "1,5"), ("b", "2,5")))
    )
    given_delimiter = {"^": "^", "\t": "tab", "::": "::"}.get(delimiter)
    log = Interactions.read(path, delimiter=given_delimiter)
    assert log.users.ids.to_pylist() == ["a", "b"] and log.items.ids.to_pylist() == ["1,5", "2,5"]
    with pytest.raises(ConfigError, match="one character"):
        Interactions.read(path, delimiter="and")


def test_the_delimiter_is_the_one_that_cuts_lines_alike(tmp_path: Path) -> None:
    """A comma in every row, as in German numbers, cuts fewer fields than the semicolon."""
    (tmp_path / "log.csv").write_text("1;2;3;a,b\n1;3;4;c,d\n2;2;1;e,f\n")
    log = Interactions.read(tmp_path / "log.csv", user=1, item=2)
    assert log.users.ids.to_pylist() == [1, 2] and log.items.ids.to_pylist() == [2, 3]


@pytest.mark.parametrize(
    ("text", "options", "users"),
    [
        ("ann\theat\nbob\talien\nann\talien\n", {}, ["ann", "bob"]),  # a name would not come again
        ("1\theat\n2\talien\n", {}, [1, 2]),  # nor be a number
        ("ann\theat\nbob\talien\n", {"no_header": True}, ["ann", "bob"]),
        ("user\titem\nbob\talien\n", {"no_header": True}, ["bob", "user"]),
        ("heat\t9\tann\nalien\t8\tbob\n", {"user": 3, "item": 1}, ["ann", "bob"]),
    ],
)
def test_no_row_is_lost_where_there_is_no_header(
    tmp_path: Path, text: str, options: dict[str, bool | int], users: list[object]
) -> None:
    (tmp_path / "log.tsv").write_text(text)
    log = Interactions.read(tmp_path / "log.tsv", **options)
    assert log.users.ids.to_pylist() == users
    assert log.n_interactions == text.count("\n")


def test_numbers_for_another_order_name_no_other_column(tmp_path: Path) -> None:
    """The third of user, time, item, rating is no rating, and the fourth no time."""
    (tmp_path / "log.csv").write_text("1,777,5,3\n2,778,6,4\n")
    log = Interactions.read(tmp_path / "log.csv", user=1, item=3, rating=4, positive="rating >= 4")
    assert log.time is None and log.users.ids.to_pylist() == [2]
    usual = Interactions.read(tmp_path / "log.csv", user=1, item=2, positive="rating >= 6")
    assert usual.time is not None and usual.users.ids.to_pylist() == [2]


def test_a_control_character_beside_a_number_is_space(tmp_path: Path) -> None:
    path = tmp_path / "plays.tsv"
    path.write_text("a\t7\t310\x1f\nb\t8\t2\nc\t9\t5\n", encoding="utf-8")
    assert Interactions.read(path).n_interactions == 3


def test_advice_that_loses_no_row(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("ann,heat\nbob,alien\n")
    with pytest.raises(DataError, match="if its first line is a row, use `no_header=True`"):
        Interactions.read(tmp_path / "log.csv")
    (tmp_path / "odd.csv").write_text("who,what\n1,2\n")
    with pytest.raises(DataError, match='such as `user="who", item="what"`'):
        Interactions.read(tmp_path / "odd.csv")
    for number in ("0", 3, "3"):
        with pytest.raises((DataError, ConfigError), match="1"):
            Interactions.read(tmp_path / "odd.csv", user=number, item=2)


# ---- what is known about items -----------------------------------------------------------------------------
def test_titles_of_book_crossing(book_crossing: Path) -> None:
    log = Interactions.read(book_crossing / "BX-Book-Ratings.csv", items=book_crossing / "BX-Books.csv")
    assert log.item_info is not None and log.titles is not None
    assert log.item_info.column_names == ["title", "Book-Author", "Year-Of-Publication"]
    titles = dict(zip(log.items.ids.to_pylist(), log.titles.to_pylist(), strict=True))
    assert (
        titles["0195153448"] == "Café & Bar" and titles["034545104X"] == 'The Real "J. Peterman" Rides; Again'
    )
    assert titles["0155061224"] is None
    assert "BX-Books.csv is not UTF-8" in notes(log) and "1 row of BX-Books.csv with too many" in notes(log)


@pytest.mark.parametrize(
    ("header", "options"),
    [
        ("asin\tproduct_title", {}),
        ("id\tname", {}),
        ("movieId\tOriginal Title", {}),
        ("key\tlabel", {"items_id": "key", "items_title": "label"}),
        ("key\tlabel", {"items_id": 1, "items_title": 2}),
        ("", {}),
    ],
)
def test_columns_of_ids_and_titles(tmp_path: Path, header: str, options: dict[str, str | int]) -> None:
    (tmp_path / "log.csv").write_text("user,item\n1,7\n1,8\n")
    (tmp_path / "items.tsv").write_text(f"{header}\n" * bool(header) + "8\tEight &lt;3\n7\tSeven &unknown;\n")
    log = Interactions.read(tmp_path / "log.csv", items=tmp_path / "items.tsv", **options)
    assert log.titles is not None and log.titles.to_pylist() == ["Seven &unknown;", "Eight <3"]


def test_the_column_of_another_role_is_not_proposed(tmp_path: Path) -> None:
    """Letters of 'nosuch' are those of 'user' more than of 'rating'; and a user is no weight."""
    (tmp_path / "log.csv").write_text(
        "user,item,rating\n" + "".join(f"{n},{n % 3},{n % 5}\n" for n in range(9))
    )
    with pytest.raises(DataError, match='name one, such as `weight="rating"`'):
        Interactions.read(tmp_path / "log.csv", weight="nosuch")
    with pytest.raises(
        DataError, match=r"'user' is given for the weight, and no other column .* as the user"
    ):
        Interactions.read(tmp_path / "log.csv", weight="user")
    with pytest.raises(DataError, match="item and weight are both 'item'"):
        Interactions.read(tmp_path / "log.csv", item="item", weight="item")


def test_items_that_are_others_are_said(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("user,item\n1,7\n1,8\n")
    (tmp_path / "items.csv").write_text("id,key,title\na,7,Seven\nb,8,Eight\n")
    log = Interactions.read(tmp_path / "log.csv", items=tmp_path / "items.csv")
    assert "2 items are not in items.csv; its ids were looked for in 'id'" in notes(log)
    with pytest.raises(DataError, match='`items_id="key"`'):
        Interactions.read(tmp_path / "log.csv", items=tmp_path / "items.csv", items_id="keys")


def test_entities_in_titles_of_the_log(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("user,item,title,genres\n1,7,Tom &amp; Jerry,A&#39;s\n1,8,,\n")
    log = Interactions.read(tmp_path / "log.csv")
    assert log.item_info is not None
    assert log.item_info.to_pydict() == {"title": ["Tom & Jerry", ""], "genres": ["A's", ""]}


def test_a_process_ends_after_a_large_file_that_is_broken_at_its_end(tmp_path: Path) -> None:
    """pyarrow's threads still counted ragged rows when Python ended, which then hung or was aborted."""
    file = tmp_path / "ratings.csv"
    file.write_bytes(
        ("user,item\n" + "1,2\n" + "ä,b\n" * 3_000_000 + "ä,b,c\n" * 3_000_000).encode() + b"\xc3"
    )
    code = "import sys; from infrec.data import Interactions; Interactions.read(sys.argv[1])"
    ran = subprocess.run([sys.executable, "-c", code, file], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 1 and "DataError: ratings.csv has bytes that are no utf-8 text" in ran.stderr
