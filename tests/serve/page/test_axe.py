"""axe-core finds nothing to object to: on the page, a card, and the reports of experiments."""

from __future__ import annotations

from pathlib import Path

import axe_core_python
import pytest

from infrec.report import card as cards
from infrec.report import html
from tests.report.cards import card
from tests.serve.page.browser import Browser, Page
from tests.serve.page.test_looks import VIEWS, show

RESULTS = Path(__file__).parents[3] / "results"
AXE = (Path(axe_core_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
OBJECTIONS = """axe.run().then(({violations}) => violations.map(({id, nodes}) =>
  [id, ...nodes.slice(0, 3).map((node) => node.html.slice(0, 120))]))"""
SCREENS = pytest.mark.parametrize(
    ("width", "dark"), [(360, False), (1600, True)], ids=["phone, light", "wide, dark"]
)


def objections(page: Page) -> list[list[str]]:
    page.js(f"{AXE};0")
    return page.js(OBJECTIONS)


@SCREENS
def test_the_page(page: Page, width: int, dark: bool) -> None:
    page.emulate(width=width, dark=dark)
    for name, fragment in VIEWS.items():
        show(page, fragment)
        if name == "list":
            page.click(".rec:nth-child(2) .why")
            page.wait_for(".account")
        assert objections(page) == [], name


@SCREENS
def test_a_card_and_reports(chromium: Browser, tmp_path: Path, width: int, dark: bool) -> None:
    (tmp_path / "card.html").write_text(html.render(cards.document(card())), encoding="utf-8")
    page = chromium.page(width=width, dark=dark)
    for file in (tmp_path / "card.html", RESULTS / "index.html", RESULTS / "depth" / "index.html"):
        page.go(file.as_uri())
        assert objections(page) == [], file
    page.close()


def test_axe_objects_to_what_is_wrong(chromium: Browser, tmp_path: Path) -> None:
    (tmp_path / "wrong.html").write_text("<!doctype html><button></button>", encoding="utf-8")
    page = chromium.page()
    page.go((tmp_path / "wrong.html").as_uri())
    assert "button-name" in [name for name, *_ in objections(page)]
    page.close()
