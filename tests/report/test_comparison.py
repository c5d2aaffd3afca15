"""The HTML report: whole, self-contained, safe, and readable without pictures."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from infrec.evaluation.comparison import Comparison
from infrec.report import figures, html
from infrec.report.comparison import document, headline
from infrec.report.html import NO_PLOTS
from tests.report.records import comparison


def render(record: Comparison) -> str:
    return html.render(document(record))


VOID = {"meta", "link", "br", "img", "hr", "input"}


class Outline(HTMLParser):
    """Checks that tags nest, and collects what a reader of the page meets."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.seen: list[str] = []
        self.images: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        facts = dict(attributes)
        self.seen.append(tag)
        if facts.get("id"):
            self.ids.append(str(facts["id"]))
        if facts.get("role") == "img":
            self.images.append(facts.get("aria-label") or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def outline(page: str) -> Outline:
    parsed = Outline()
    parsed.feed(page)
    assert parsed.open == []
    return parsed


def test_page_is_well_formed_and_needs_nothing_else() -> None:
    page = render(comparison())
    parsed = outline(page)
    assert parsed.seen.count("svg") == 3
    assert len(parsed.ids) == len(set(parsed.ids)), "ids of different figures must not meet"
    assert "script" not in parsed.seen
    assert "link" not in parsed.seen
    urls = set(re.findall(r"https?://[^\"'\s)<]+", page))
    assert {url for url in urls if "w3.org" not in url} == set()
    for reference in re.findall(r'(?:href="#|url\(#)([^")]+)', page):
        assert reference in parsed.ids


def test_every_picture_has_words_and_a_table() -> None:
    parsed = outline(render(comparison()))
    assert len(parsed.images) == 3
    assert all("∞-AE" in text and "EASE" in text for text in parsed.images)
    assert "HR@10 30.00" in parsed.images[0]
    assert parsed.seen.count("figcaption") == 3
    assert parsed.seen.count("table") == 3


def test_figures_follow_the_page_in_light_and_dark() -> None:
    svg = "".join(re.findall(r"<svg.*?</svg>", render(comparison()), flags=re.DOTALL))
    assert "var(--series-0)" in svg
    assert "var(--series-1)" in svg
    left = set(re.findall(r"#[0-9a-fA-F]{6}\b", svg))
    assert left == set(), "a colour that the style sheet cannot change"


def test_text_of_the_data_is_escaped() -> None:
    page = render(comparison())
    assert "<b>" not in page
    assert "Nine &lt;b&gt;Lanterns&lt;/b&gt;" in page
    assert "u&lt;1&gt;" in page


def test_same_record_same_page() -> None:
    assert render(comparison()) == render(comparison())


def test_without_matplotlib_the_tables_remain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "available", lambda: False)
    page = render(comparison())
    parsed = outline(page)
    assert "svg" not in parsed.seen
    assert "details" not in parsed.seen, "what was behind a click is now the only form"
    assert parsed.seen.count("table") == 3
    assert "pip install" in page
    assert NO_PLOTS.split(":")[0] in page


@pytest.mark.parametrize(("second", "words"), [(20.0, "ahead of EASE"), (29.5, "level with EASE")])
def test_headline_does_not_call_a_tie_a_win(second: float, words: str) -> None:
    assert words in headline(comparison(second))


def test_best_of_a_row_is_marked() -> None:
    assert "<strong>30.00</strong><small>29.0–31.0</small>" in render(comparison())
