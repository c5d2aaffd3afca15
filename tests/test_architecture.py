"""docs/architecture.md follows the code: its picture has every room, its journeys name what is on the way."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.test_rooms import GROUND_FLOOR, ROOMS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
STEP = re.compile(r"^\d+\. `([\w/]+\.py)`: `([\w.]+)` ", re.MULTILINE)
Step = tuple[str, str]  # file and function


@pytest.fixture(scope="module")
def tree() -> Any:
    """The package's syntax trees, as `make shape` reads them."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        from source_tree import Tree
    finally:
        sys.path.pop(0)
    return Tree(ROOT / "src" / "infrec")


def journeys(page: str) -> dict[str, list[Step]]:
    """The steps of each journey, by the first word of its heading."""
    sections = re.split(r"^### ", page[page.index("## Four journeys") :], flags=re.MULTILINE)[1:]
    return {section.split(":")[0]: STEP.findall(section) for section in sections}


def module_of(file: str) -> str:
    return "infrec." + file.removesuffix(".py").replace("/", ".")


def faults(steps: list[Step], tree: Any) -> list[str]:
    """Sentences about the steps of a journey that are not on it."""
    first = module_of(steps[0][0])
    on_the_way, wrong, used = tree.reachable(first), [], set[str]()
    for number, (file, function) in enumerate(steps, 1):
        module = module_of(file)
        if module not in tree.paths:
            wrong.append(f"{number}. there is no file {file}")
            continue
        if module not in on_the_way:
            wrong.append(f"{number}. {file} is not imported on the way from {steps[0][0]}")
        if function not in tree.functions(module):
            wrong.append(f"{number}. {file} has no {function}")
        used |= tree.identifiers(module)  # a function may be called in its own file
        if number > 1 and not {function.rpartition(".")[2], function.partition(".")[0]} & used:
            wrong.append(f"{number}. no file before uses {function} of {file}")
    return wrong


def test_each_journey_is_on_the_way_that_the_code_takes(tree: Any) -> None:
    found = journeys(PAGE)
    assert list(found) == ["Evaluate", "Distill", "Fit on many processes", "One HTTP request"]
    assert all(len(steps) > 8 for steps in found.values())
    wrong = [f"{name}, {fault}" for name, steps in found.items() for fault in faults(steps, tree)]
    assert not wrong, "\n".join(wrong)


def test_every_step_of_a_list_is_read() -> None:
    lists = re.findall(r"^\d+\. ", PAGE, re.MULTILINE)
    assert len(lists) == sum(map(len, journeys(PAGE).values()))


def test_a_step_that_is_not_on_the_way_is_a_fault(tree: Any) -> None:
    start = ("cli/evaluate.py", "evaluate")
    assert faults([start, ("search/tune.py", "tune")], tree) == []
    assert faults([start, ("search/gone.py", "tune")], tree) == ["2. there is no file search/gone.py"]
    assert faults([start, ("search/tune.py", "gone")], tree) == [
        "2. search/tune.py has no gone",
        "2. no file before uses gone of search/tune.py",
    ]
    assert "2. serve/app.py is not imported on the way from cli/evaluate.py" in faults(
        [start, ("serve/app.py", "create")], tree
    )


def test_the_picture_and_the_table_have_every_room_in_order() -> None:
    picture = (ROOT / "docs" / "images" / "rooms.svg").read_text(encoding="utf-8")
    assert re.findall(r'<text class="room"[^>]*>(\w+)</text>', picture) == list(ROOMS)
    assert re.findall(r'<text class="file"[^>]*>(\w+)</text>', picture) == list(GROUND_FLOOR)
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == list(ROOMS)


def test_the_conventions_name_the_rooms_in_order() -> None:
    page = (ROOT / "docs" / "conventions.md").read_text(encoding="utf-8")
    text = " ".join(page[page.index("**Rooms.**") : page.index("**Names.**")].split())
    assert f"`{' → '.join(ROOMS)}`" in text
    assert f"({', '.join(f'`{name}`' for name in GROUND_FLOOR)})" in text
