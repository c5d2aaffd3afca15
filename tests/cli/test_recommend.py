"""`infrec recommend`: histories as people type them, and files by their endings."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from infrec.cli.app import run
from tests.cli.conftest import Infrec

TITLES = {
    1: "Toy Story (1995)",
    480: "Jurassic Park (1993)",
    1544: "Lost World: Jurassic Park, The (1997)",
    2571: "Matrix, The (1999)",
    6365: "Matrix Reloaded, The (2003)",
    7: 'Say "Yes" \\ No\tMaybe',
}


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A popularity model of six films with titles."""
    place = tmp_path_factory.mktemp("films")
    lines = ["user\titem\ttitle"]
    for user in range(7):
        for item in list(TITLES)[: 2 + user % 5]:
            title = TITLES[item].replace('"', '""').replace("\t", " ")
            lines.append(f'u{user}\t{item}\t"{title}"')
    (place / "log.tsv").write_text("\n".join(lines) + "\n")
    assert run(["fit", str(place / "log.tsv"), "-m", "poprec", "-o", str(place / "model")]) == 0
    return place / "model"


@pytest.mark.parametrize(
    ("words", "items", "unknown"),
    [
        (("480",), [480], []),
        (("480,1",), [480, 1], []),
        (("480, 1",), [480, 1], []),
        (("480", "1"), [480, 1], []),
        (("Toy Story",), [1], []),
        (("jurassic park",), [480], []),
        (("lost world",), [1544], []),
        (("Lost World: Jurassic Park, The (1997)",), [1544], []),
        (("The Matrix",), [2571], []),
        (("480,Toy Story",), [480, 1], []),
        (("480,99",), [480], ["99"]),
        (("1999", "1"), [1], ["1999"]),
        (("matrix 1999",), [2571], []),
        (("Casablanca", "1"), [1], ["Casablanca"]),
        (("?", "1"), [1], ["?"]),
    ],
)
def test_what_a_history_means(
    infrec: Infrec, films: Path, words: tuple[str, ...], items: list[int], unknown: list[str]
) -> None:
    ran = infrec("recommend", films, *(part for word in words for part in ("--history", word)), "--json")
    assert ran.code == 0, ran.err
    assert (ran.document["history"], ran.document["unknown"]) == (items, unknown)
    assert not set(items) & {row["item"] for row in ran.document["recommendations"]}


def test_an_ambiguous_title_names_its_items(infrec: Infrec, films: Path) -> None:
    ran = infrec("recommend", films, "--history", "reload", "--history", "matri", "--json")
    assert ran.code == 1
    said = ran.document["error"]["message"]
    assert "'matri' may be 2 items: " in said
    assert infrec("recommend", films, "--history", "matrix r").code == 0
    assert "2571 Matrix, The (1999)" in said and "6365 Matrix Reloaded, The (2003)" in said


def test_an_unknown_one_is_said_first(infrec: Infrec, films: Path) -> None:
    ran = infrec("recommend", films, "--history", "Toy Story,Casablanca")
    first, second, *_ = ran.out.splitlines()
    assert ran.code == 0
    assert first == "The model knows no item by the id or title 'Casablanca': what follows is for the others."
    assert second == "For 1 Toy Story (1995):"
    nothing = infrec("recommend", films, "--history", "Casablanca")
    assert nothing.code == 1 and "nothing is known of this person" in nothing.out.splitlines()[0]
    refused = infrec("recommend", films, "--history", "1,Casablanca", "--on-unknown", "error")
    assert refused.code == 1 and "no item by the id or title 'Casablanca'" in refused.err


def test_a_model_without_titles_knows_ids_alone(infrec: Infrec, model: Path) -> None:
    ran = infrec("recommend", model, "--history", "film a,film c,Toy Story", "--json")
    assert (ran.document["history"], ran.document["unknown"]) == (["film a", "film c"], ["Toy Story"])
    assert "by the id 'Toy Story'" in infrec("recommend", model, "--history", "Toy Story").out


def test_the_ending_says_what_is_written(infrec: Infrec, films: Path, tmp_path: Path) -> None:
    for ending in ("parquet", "csv", "jsonl", "CSV"):
        ran = infrec("recommend", films, "--all", "-k", "3", "-o", tmp_path / f"recs.{ending}")
        assert ran.code == 0, ran.err
    rows = pq.read_table(tmp_path / "recs.parquet").to_pylist()
    assert TITLES[7].replace("\t", " ") in {row["title"] for row in rows}
    lines = (tmp_path / "recs.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == rows
    with (tmp_path / "recs.csv").open(newline="", encoding="utf-8") as file:
        told = list(csv.DictReader(file))
    assert [(row["user"], int(row["item"]), row["title"]) for row in told] == [
        (row["user"], row["item"], row["title"]) for row in rows
    ]
    assert (tmp_path / "recs.CSV").read_bytes() == (tmp_path / "recs.csv").read_bytes()


@pytest.mark.parametrize(("name", "says"), [("recs.txt", "ends in '.txt'"), ("recs", "has no ending")])
def test_another_ending_is_refused(infrec: Infrec, films: Path, tmp_path: Path, name: str, says: str) -> None:
    ran = infrec("recommend", films, "--all", "-o", tmp_path / name)
    said = " ".join(ran.err.split())
    assert ran.code == 2 and says in said and "expected one of .csv, .jsonl, .parquet" in said
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = tmp_path_factory.mktemp("demo") / "model"
    assert run(["fit", "demo", "-m", "ease", "--set", "reg=100", "-o", str(model)]) == 0
    return model


def test_lists_that_are_not_all_alike(infrec: Infrec, demo: Path) -> None:
    """The options are the parameters of `recommend`."""
    from infrec import load

    words = ("--diversity", "0.4", "--popularity", "-0.2", "--max-per", "genre=2", "--max-per", "title=1")
    ran = infrec("recommend", demo, "--user", "17", *words, "--json")
    assert ran.code == 0, ran.err
    wishes = {"diversity": 0.4, "popularity": -0.2, "max_per": {"genres": 2, "title": 1}}
    table = load(demo).recommend(["17"], **wishes)  # type: ignore[arg-type]
    assert [row["item"] for row in ran.document["recommendations"]] == table["item"]
    assert table["item"] != load(demo).recommend(["17"])["item"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--max-per", "genre"), "'genre' is not of the form COLUMN=N"),
        (("--max-per", "genre=few"), "not of the form COLUMN=N"),
        (("--max-per", "genre=0"), "max_per is 0 for 'genre'"),
        (("--max-per", "studio=2"), "'studio', which the items of the model do not have"),
        (("--diversity", "2"), "diversity is 2.0; expected a number of at least 0 and at most 1"),
        (("--popularity", "-3"), "popularity is -3.0"),
    ],
)
def test_wishes_for_lists_that_cannot_be_met(
    infrec: Infrec, demo: Path, words: tuple[str, ...], sentence: str
) -> None:
    ran = infrec("recommend", demo, "--user", "17", *words)
    assert ran.code == 2 and sentence in ran.err


def test_a_sample_is_data_and_no_model(infrec: Infrec, tmp_path: Path) -> None:
    sample = tmp_path / "sample"
    words = ("--strategy", "random-users", "--users", "3", "-o", sample)
    assert infrec("sample", "demo", *words).code == 0
    ran = infrec("recommend", sample, "--history", "1", "--json")
    says = f"{sample} holds a sample; expected a model, which infrec fit {sample} makes of it."
    assert ran.code == 1 and ran.document["error"]["message"] == says
