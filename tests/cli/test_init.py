"""`infrec init` writes down what it sees, and every command reads by it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infrec.cli.init import _write_section
from infrec.cli.reading import file_beside, options_in_file
from tests.cli.conftest import Infrec
from tests.cli.test_reading import books  # noqa: F401 (a fixture)


def test_a_file_with_titles_beside_it(infrec: Infrec, books: Path) -> None:  # noqa: F811
    ran = infrec("init", books, "--json")
    assert ran.code == 0
    assert ran.document["options"] == {
        "user": "User-ID",
        "item": "ISBN",
        "rating": "Book-Rating",
        "delimiter": "semicolon",
        "positive": "rating >= 8",
        "items": "BX-Books.csv",
    }
    assert len(ran.document["rows"]) == 10
    assert ran.document["rows"][1] == {"user": "0", "item": "0004", "title": "Café 4 & more", "rating": "0"}
    assert any("every rating in BX-Book-Ratings.csv counts" in note for note in ran.document["notes"])
    stats = infrec("datasets", "stats", books, "--json")
    for count in ("users", "items", "interactions", "titles"):
        assert stats.document[count] == ran.document[count]
    assert "is read as infrec.toml says: --user User-ID" in stats.err
    given = infrec("datasets", "stats", books, "--positive", "rating >= 0", "--json").document
    assert given["interactions"] == 240 and given["titles"]
    assert infrec("init", books, "--json").document["options"] == ran.document["options"]


def test_what_it_shows(infrec: Infrec, books: Path) -> None:  # noqa: F811
    ran = infrec("init", books)
    assert ran.code == 0 and "Café 4 & more" in ran.out
    assert '["BX-Book-Ratings.csv"]' in ran.out and 'positive = "rating >= 8"' in ran.out
    assert f"infrec fit {books} -o model" in ran.out.replace("\n", "")
    said = ran.err.splitlines()
    assert said[0].startswith("without a rule every rating") and "now has --positive 'rating >= 8'" in said[0]
    assert "55 of 240 rows count as interactions" in said[1]


def test_the_options_may_stand_elsewhere(infrec: Infrec, books: Path, tmp_path: Path) -> None:  # noqa: F811
    """A file that is not there yet, or has other sections; the next command names it."""
    elsewhere = tmp_path / "options.toml"
    for text in ("", '["other.csv"]\nuser = 1\n'):
        ran = infrec("init", books, "--config", elsewhere)
        assert ran.code == 0 and not file_beside(str(books)).exists()
        assert f"infrec fit {books} -o model --config {elsewhere}" in ran.out.replace("\n", "")
        elsewhere.write_text(elsewhere.read_text() + text)
    other = books.with_name("other-log.csv")
    other.write_bytes(books.read_bytes())
    assert infrec("init", other, "--config", elsewhere).code == 0
    assert "other-log.csv" in elsewhere.read_text() and "other.csv" in elsewhere.read_text()


def test_a_file_without_a_header(infrec: Infrec, tmp_path: Path) -> None:
    path = tmp_path / "plays.tsv"
    path.write_text("".join(f"heat {n % 3}\t17040672{n:02}\tann {n}\n" for n in range(12)))
    ran = infrec("init", path, "--user", 3, "--item", 1, "--time", 2, "--json")
    assert ran.code == 0
    assert ran.document["rows"][0] == {"user": "ann 0", "item": "heat 0", "time": "2024-01-01 00:00"}
    assert (ran.document["users"], ran.document["items"]) == (12, 3)
    expected = {"user": 3, "item": 1, "time": 2, "no_header": True, "delimiter": "tab"}
    found = ran.document["options"]
    assert {key: int(value) if str(value).isdigit() else value for key, value in found.items()} == expected
    assert infrec("datasets", "stats", path, "--json").document["users"] == 12


def test_what_it_cannot_see_it_asks_for_in_one_command(infrec: Infrec, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("who,what\n1,2\n3,2\n")
    ran = infrec("init", path)
    assert ran.code == 1 and f"Try: infrec init {path} --user who --item what" in ran.err
    assert not file_beside(str(path)).exists()
    assert infrec("init", tmp_path / "nowhere.csv").code == 2


def test_it_says_which_columns_nothing_uses(infrec: Infrec, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("Nutzer;Artikel;Menge\n" + "".join(f"n{n};a{n % 3};{n}\n" for n in range(9)))
    words = ("init", path, "--user", "Nutzer", "--item", "Artikel")
    said = "not used: 'Menge'; --rating, --time or --weight says what a column holds"
    assert said in infrec(*words, "--json").document["notes"]
    assert not any(
        "not used" in one for one in infrec(*words, "--weight", "Menge", "--json").document["notes"]
    )


def test_sections_of_other_files_stay(tmp_path: Path) -> None:
    path = tmp_path / "infrec.toml"
    path.write_text('# ours\n["a.csv"]\nuser = "who" # old\nmin-user = 2\n\n# about b\n["b.csv"]\nuser = 1\n')
    rule = "event = 'x' and y = \"z\""
    _write_section(path, "a.csv", {"user": 'my "own"', "positive": rule, "no_header": True})
    _write_section(path, "new.csv", {"items": "caf\xe9.csv", "min_user": 5})
    assert path.read_text().startswith("# ours\n") and '["b.csv"]\nuser = 1\n' in path.read_text()
    options = options_in_file(str(tmp_path / "a.csv"))
    assert options == {"user": 'my "own"', "positive": rule, "no_header": True}
    assert options_in_file(str(tmp_path / "b.csv")) == {"user": 1}
    new = options_in_file(str(tmp_path / "new.csv"))
    assert new == {"items": str(tmp_path / "caf\xe9.csv"), "min_user": 5}
    assert options_in_file(str(tmp_path / "other.csv")) == {}


def test_a_file_of_options_elsewhere(infrec: Infrec, ratings: Path, tmp_path: Path) -> None:
    path = tmp_path / "ours.toml"
    path.write_text(f'["{ratings.name}"]\npositive = "rating >= 4"\nmin-item = 3\n')
    document = infrec("datasets", "stats", ratings, "--config", path, "--json").document
    assert document["read"]["kept"] < document["read"]["rows"] and document["per_item"]["min"] >= 3
    path.write_text('["another.csv"]\n')
    ran = infrec("datasets", "stats", ratings, "--config", path)
    assert ran.code == 2 and '["another.csv"]' in ran.err
    path.unlink()
    ran = infrec("datasets", "stats", ratings, "--config", path, "--json")
    assert ran.code == 2 and "there is no file" in ran.document["error"]["message"]
    assert f"infrec init {ratings} --config {path} writes it" in ran.document["error"]["message"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[", "cannot be read"),
        ('["log.csv"]\nusr = "a"\n', "Did you mean user?"),
        (
            '["log.csv"]\nmin-user = "many"\n',
            "--min-user is 'many'; expected a whole number of at least 1 (in ",
        ),
        ('["log.csv"]\nby-row = 3\n', "--by-row is 3"),
        ('"log.csv" = 3\n', "no section"),
    ],
)
def test_options_that_cannot_work(infrec: Infrec, tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "log.csv").write_text("user,item\n1,2\n")
    (tmp_path / "infrec.toml").write_text(text)
    ran = infrec("datasets", "stats", tmp_path / "log.csv", "--json")
    assert ran.code == 2 and says in json.loads(ran.out)["error"]["message"]
