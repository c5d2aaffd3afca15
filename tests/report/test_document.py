"""One document, written by every renderer: the same headings, sentences and numbers in each."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from infrec.report import card as cards
from infrec.report import comparison as comparisons
from infrec.report import html
from infrec.report.document import Claim, ClaimGrid, Document, Link, Section, Table, Value
from infrec.report.text import markdown, rich_claim, rich_table
from tests.report.cards import card
from tests.report.records import comparison


def printed(what: object) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(what)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(
    "document", [cards.document(card()), comparisons.document(replace(comparison(), card=card()))]
)
def test_headings_and_leads_are_the_same_in_html_and_markdown(document: Document) -> None:
    page, text = html.render(document, {}), markdown(document)
    for part in document.parts:
        if isinstance(part, Section):
            assert f"<h2>{part.heading.replace('<', '&lt;').replace('>', '&gt;')}</h2>" in page
            assert f"\n## {part.heading}\n" in text
    assert "90 % of full" in page and "90 % of full" in text
    assert document.footer in text


def test_a_value_is_written_alike_everywhere() -> None:
    table = Table(
        "ml-1m", ("model", "AUC"), (("EASE", Value("AUC", 0.94568, 0.94, 0.951, paper=0.95, best=True)),)
    )
    page = html.render(Document("t", "t", [table]), {})
    assert "<strong>0.9457</strong><small>0.940–0.951</small>" in page
    assert '<small class="paper">0.9500 (−0.0043)</small>' in page
    assert "| EASE | **0.9457** (paper 0.9500 (−0.0043)) |" in markdown(Document("t", "t", [table]))
    lines = printed(rich_table(table))
    assert "0.9457" in lines and "paper 0.9500 (−0.0043)" in lines


def test_words_of_the_data_are_no_markup_on_a_terminal() -> None:
    assert "[bold]x[/]" in printed(rich_table(Table("[bold]x[/]", ("a", "column"), (("b", "cell"),))))
    claim = Claim("[red]all[/]", "ml-1m", "does not hold", "1 of 2")
    assert printed(rich_claim(claim)).split() == [
        "✗",
        "does",
        "not",
        "hold",
        "(ml-1m)",
        "[red]all[/]:",
        "1",
        "of",
        "2",
    ]


def test_a_grid_of_claims_has_a_mark_for_each_dataset_that_leads_to_its_page() -> None:
    claims = (
        Claim("it grows", "ml-1m", "holds", "9 > 8"),
        Claim("it grows", "magazine", "does not hold", "7 < 8"),
        Claim("it ends", "magazine", "cannot be tested here", "no records"),
    )
    grid = ClaimGrid((Link("Growth", "growth", "Figure 1", claims), Link("Nothing", "nothing", "")))
    assert grid.datasets == ["ml-1m", "magazine"]
    page = html.render(Document("t", "t", [grid]), {})
    assert (
        '<a class="holds" href="growth/index.html" aria-label="holds on ml-1m" title="9 &gt; 8"></a>' in page
    )
    assert page.count("growth/index.html") == 1 + 3 and "nothing" not in page
    assert '<th scope="row">it ends</th><td></td><td><a class="open"' in page
    text = markdown(Document("t", "t", [grid]))
    assert "| it grows | [✓](growth/README.md) | [✗](growth/README.md) |" in text
    assert "| it ends |  | [?](growth/README.md) |" in text
