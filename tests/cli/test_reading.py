"""Somebody's own file through the command line: what is seen, what is said, and what to type next."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from infrec.cli.reading import Reading, advised, in_words_of_the_command_line, next_command
from tests.cli.conftest import Infrec


@pytest.fixture
def books(tmp_path: Path) -> Path:
    """Ratings in Latin-1 with semicolons, and books beside them."""
    rows = [
        f'"{user}";"{4 * item + user % 4:04}";"{(user * item) % 11}"'
        for user in range(30)
        for item in range(8)
    ]
    titles = [f'"{item:04}";"Caf\xe9 {item} &amp; more";"Author"' for item in range(32)]
    for name, lines in (
        ("BX-Book-Ratings.csv", ['"User-ID";"ISBN";"Book-Rating"', *rows]),
        ("BX-Books.csv", ['"ISBN";"Book-Title";"Book-Author"', *titles]),
    ):
        (tmp_path / name).write_bytes("\n".join([*lines, ""]).encode("latin-1"))
    return tmp_path / "BX-Book-Ratings.csv"


def test_ratings_and_titles_of_books(infrec: Infrec, books: Path) -> None:
    ran = infrec("datasets", "stats", books, "--items", books.with_name("BX-Books.csv"), "--json")
    assert ran.code == 0
    assert (ran.document["users"], ran.document["items"], ran.document["titles"]) == (30, 32, True)
    assert "BX-Books.csv is not UTF-8 and was read as cp1252" in ran.err


@pytest.mark.parametrize(
    ("text", "words", "users"),
    [
        ("ann\theat\nbob\talien\n", (), 2),
        ("who\twhat\n1\t2\n3\t2\n", (), 2),
        ("who\twhat\n1\t2\n3\t2\n", ("--user", "hoo"), 2),
        ("my user\tthe item\n1\t2\n3\t2\n", (), 2),
    ],
)
def test_the_command_to_type_next_loses_no_row(
    infrec: Infrec, tmp_path: Path, text: str, words: tuple[str, ...], users: int
) -> None:
    """Followed as often as it is given, the advice of an error ends in the whole file."""
    path = tmp_path / "log.tsv"
    path.write_text(text)
    command = ["infrec", "datasets", "stats", str(path), *words, "--json"]
    for _ in range(3):
        ran = infrec(*command[1:])
        if ran.code == 0:
            break
        message = ran.document["error"]["message"]
        assert "user=" not in message and "item=" not in message
        command = shlex.split(message.partition(" Try: ")[2])
    assert ran.code == 0
    assert (ran.document["users"], ran.document["interactions"]) == (users, users)


def test_options_in_the_spelling_of_the_command_line() -> None:
    text = 'nothing: use `no_header=True`, or name one, such as `user="my id", item=3`.'
    assert in_words_of_the_command_line(text) == (
        "nothing: use --no-header, or name one, such as --user 'my id' --item 3."
    )
    assert advised(text) == [{"no_header": True}, {"user": "my id", "item": 3}]
    assert next_command(["fit", "x.csv"], text) == "infrec fit x.csv --no-header"
    advice = 'name one: `user="b c"`'
    assert next_command(["fit", "x", "--user", "a", "-o", "m"], advice) == "infrec fit x -o m --user 'b c'"
    for other in ("`nonsense=1`", "`user=name`", "`user=`", "`rating` >= 4"):
        assert in_words_of_the_command_line(other) == other and next_command(["fit"], other) is None


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--min-user", "0"), "--min-user is 0; expected a whole number of at least 1"),
        (("--positive", "rating is good"), "--positive is 'rating is good'"),
        (("--delimiter", "and"), "--delimiter is 'and'"),
        (("--positive", "stars > 3"), "no column 'stars' for the rule 'stars > 3'"),
        (("--min-user", "99"), "at least 99 and each item at least 1"),
    ],
)
def test_errors_about_options(infrec: Infrec, books: Path, words: tuple[str, ...], says: str) -> None:
    ran = infrec("datasets", "stats", books, *words)
    assert ran.code in (1, 2) and says in ran.err


def test_items_that_are_others_are_said(infrec: Infrec, books: Path) -> None:
    (books.parent / "others.csv").write_text("id,isbn10,title\na,0001,One\nb,0002,Two\n")
    ran = infrec("datasets", "stats", books, "--items", books.parent / "others.csv")
    assert ran.code == 0 and "looked for in 'id', look elsewhere with --items-id isbn10" in ran.err
    found = infrec("datasets", "stats", books, "--items", books.parent / "others.csv", "--items-id", "isbn10")
    assert "30 items are not in others.csv" in found.err


def test_a_next_command_reads_the_same_rows() -> None:
    reading = Reading(items="a b.csv", no_header=True, positive="rating >= 4", user="1")
    assert reading.again("x.csv", 7) == (
        "x.csv --user 1 --positive 'rating >= 4' --no-header --items 'a b.csv' --seed 7"
    )
