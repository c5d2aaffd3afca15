"""JSON Lines give the log that any other format gives."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from infrec.data import Interactions, json_lines
from infrec.data.read import sources
from infrec.errors import DataError

ROWS: list[dict[str, Any]] = [
    {"reviewerID": "ann", "asin": 7, "overall": 5, "unixReviewTime": 30, "style": {"Format": "Kindle"}},
    {"reviewerID": "bob", "asin": 8, "overall": 3.5, "unixReviewTime": 20},
    {"asin": 7, "overall": 1, "unixReviewTime": 10, "reviewerID": "bob", "votes": [1, 2]},
    {"reviewerID": None, "asin": 7, "overall": 1, "unixReviewTime": 10},
]


def lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize("name", ["log.jsonl", "log.ndjson.gz", "log.json", "log.txt"])
@pytest.mark.parametrize("chunk", [60, json_lines.CHUNK])
def test_rows(tmp_path: Path, name: str, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "CHUNK", chunk)
    data = lines(ROWS).encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    log = Interactions.read(tmp_path / name, positive="rating > 1")
    assert log.users.ids.to_pylist() == ["ann", "bob"] and log.items.ids.to_pylist() == [7, 8]
    assert log.time is not None and log.time.tolist() == [30, 20]
    assert log.report is not None
    assert log.report.dropped == {"no user id": 1, "not rating > 1": 1}
    read = list(sources(tmp_path / name)[0].tables(["asin", "votes"], rows=3))
    assert [table.num_rows for table, _ in read] == [3, 1]


@pytest.mark.parametrize("ending", ["jsonl", "json", "ndjson.gz"])
def test_folder(tmp_path: Path, ending: str) -> None:
    """Files as one log: what a file does not have is empty there, and whole numbers go with others."""
    parts = [
        lines([{"user": "ann", "item": 7, "rating": 5, "style": {"a": 1}}]),
        lines([{"item": 8, "user": "bob", "rating": 3.5, "style": [2], "note": None}]),
        lines([{"user": "cy", "rating": 1, "item": 7, "note": "good"}, {"user": "ann", "item": 8}]),
    ]
    for number, text in enumerate(parts):
        data = text.encode()
        file = tmp_path / "log" / "sub" / f"part-{number}.{ending}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(gzip.compress(data) if ending.endswith("gz") else data)
    (tmp_path / "log" / "_SUCCESS").touch()
    log = Interactions.read(tmp_path / "log")
    assert log.users.ids.to_pylist() == ["ann", "bob", "cy"] and log.items.ids.to_pylist() == [7, 8]
    assert log.n_interactions == 3 and log.report is not None and log.report.source == "log"
    assert log.report.dropped == {"rating is not a finite number": 1}
    assert Interactions.read(tmp_path / "log", positive="rating >= 3.5").users.ids.to_pylist() == [
        "ann",
        "bob",
    ]
    notes, _ = zip(*sources(tmp_path / "log")[0].tables(["note"], rows=1), strict=True)
    assert [row for table in notes for row in table["note"].to_pylist()] == [None, None, "good", None]


def test_folder_of_several_types(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"user": null, "item": 1}\n')
    (tmp_path / "b.jsonl").write_text('{"user": "ann", "item": 1}\n')
    (tmp_path / "c.jsonl").write_text('{"user": 3, "item": 1}\n')
    with pytest.raises(
        DataError, match=r"'user' is string in b\.jsonl and int64 in c\.jsonl; expected one type"
    ):
        Interactions.read(tmp_path)


def test_items(tmp_path: Path) -> None:
    (tmp_path / "items.jsonl").write_text(
        '{"asin": 8, "title": "Eight &amp; more"}\n{"asin": 7, "title": null}\n'
    )
    (tmp_path / "log.jsonl").write_text(lines(ROWS))
    log = Interactions.read(tmp_path / "log.jsonl", items=tmp_path / "items.jsonl")
    assert log.titles is not None and log.titles.to_pylist() == [None, "Eight & more"]


@pytest.mark.parametrize("rows", [None, 2])
def test_damaged_lines_are_dropped_and_counted(tmp_path: Path, rows: int | None) -> None:
    text = lines(ROWS[:3]) + "\n[1, 2]\n" + lines(ROWS[:1])[:30]
    (tmp_path / "log.jsonl").write_text(text)
    read = list(sources(tmp_path / "log.jsonl")[0].tables(["asin"], rows=rows))
    assert sum(table.num_rows for table, _ in read) == 3 and sum(bad for _, bad in read) == 2
    with pytest.raises(DataError, match="2 × ragged row"):
        Interactions.read(tmp_path / "log.jsonl", strict=True)


def test_half_a_character_is_no_text(tmp_path: Path) -> None:
    """A name with one cannot be printed, not even in an error."""
    (tmp_path / "log.jsonl").write_text(lines(ROWS[:3]) + '\n{"us\\ud800er": 1, "asin": "x"}\n')
    log = Interactions.read(tmp_path / "log.jsonl")
    assert log.report is not None and log.report.dropped == {"ragged row": 1}
    (tmp_path / "log.jsonl").write_text('{"us\\ud800er": 1, "asin": "x"}\n')
    with pytest.raises(DataError, match="no JSON objects"):
        Interactions.read(tmp_path / "log.jsonl")


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("log.jsonl", "", "is empty"),
        ("log.jsonl", "user,item\n1,2\n", "no JSON Lines"),
        ("log.json", '[{"user": 1, "item": 2}]', "is a JSON array"),
        ("log.jsonl", '{"user": 1, "item": 2}\n{"user": "a", "item": 2}\n', "'user' of several types"),
        ("log.jsonl", '{"user": 1, "price": 2}\n', "recognised as the item"),
        (
            "log.jsonl",
            '{"user": 1, "item": 2}\n' + " \n" * 2**20 + '{"user": "a", "item": 2}\n',
            "type changes",
        ),
    ],
)
def test_refused(tmp_path: Path, name: str, text: str, says: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=says) as error:
        Interactions.read(tmp_path / name)
    assert "\n" not in str(error.value) and str(error.value).endswith(".")
