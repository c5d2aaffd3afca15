"""The card: whole, self-contained, safe, honest about its start, readable without pictures and scripts."""

from __future__ import annotations

import base64
import json
import re
import struct
import zlib
from dataclasses import replace

import pytest

from infrec.evaluation.fidelity import Card, Size
from infrec.report import comparison as comparisons
from infrec.report import figures, html
from infrec.report.card import AGAIN, NO_GUARANTEE, ONCE, PRIVACY, document, headline
from infrec.report.html import NO_PLOTS
from tests.report.cards import card
from tests.report.records import comparison
from tests.report.test_comparison import outline


def render(record: Card) -> str:
    return html.render(document(record))


def test_page_is_well_formed_and_needs_nothing_else() -> None:
    page = render(card())
    parsed = outline(page)
    assert parsed.seen.count("svg") == 2
    assert parsed.seen.count("img") == 1
    assert len(parsed.ids) == len(set(parsed.ids)), "ids of different figures must not meet"
    assert not {"script", "link", "iframe"} & set(parsed.seen)
    urls = set(re.findall(r"https?://[^\"'\s)<]+", page))
    assert {url for url in urls if "w3.org" not in url} == set()
    for reference in re.findall(r'(?:href="#|url\(#)([^")]+)', page):
        assert reference in parsed.ids


def test_every_picture_has_words() -> None:
    page = render(card())
    fidelity, spread = outline(page).images
    assert "∞-AE fitted on summary (30 users): HR@10 27.00" in fidelity
    assert "30 random users" in fidelity
    assert "median" in spread
    assert re.search(r'<img [^>]*alt="All 30 synthetic users', page)


def test_same_record_same_page_and_it_survives_json() -> None:
    again = Card.from_dict(json.loads(json.dumps(card().as_dict())))
    assert render(again) == render(card())


def test_text_of_the_data_is_escaped() -> None:
    page = render(card(facts={"command": "<script>"}, start="<i>odd</i>"))
    assert "<b>" not in page and "<script>" not in page and "<i>" not in page
    assert "toy &lt;b&gt;log&lt;/b&gt;" in page


def test_headline_says_what_was_reached_and_against_what() -> None:
    assert headline(card()) == (
        "∞-AE fitted on these 30 synthetic users finds 90 % of what it finds when fitted on all 1,000 "
        "(HR@10 27.00 against 30.00); on 30 random users, 60 %."
    )


def test_headline_without_measurements_claims_nothing() -> None:
    text = headline(card(fidelity=()))
    assert text == "50,000 interactions of 1,000 users became 900 interactions of 30 users who never existed."
    assert "How faithful" not in render(card(fidelity=()))


@pytest.mark.parametrize("start", ["users", "popularity"])
def test_the_start_and_its_meaning_are_told(start: str) -> None:
    page = render(card(start=start))
    said = PRIVACY[start][0].format(users="30").replace("'", "&#x27;")
    assert said in page
    assert ('class="aside warn"' in page) == (start == "users")
    assert (NO_GUARANTEE in page) == (start == "popularity"), "the better start is no guarantee"


def test_sizes_and_time_before_and_after() -> None:
    page = render(card())
    for text in ("9.0 kB", "of 400.0 kB: 2.2 %", "900", "of 50,000", "12 s", "300 steps"):
        assert f">{text}<" in page, text


def test_a_weighted_summary_is_called_one() -> None:
    page = render(card(discrete=False, mode="soft"))
    assert "interactions, weighted" in page
    assert "weights between 0 and 1" in page
    assert "A dot is an interaction" not in page


def test_figures_follow_the_page_in_light_and_dark() -> None:
    svg = "".join(re.findall(r"<svg.*?</svg>", render(card()), flags=re.DOTALL))
    assert "var(--series-0)" in svg and "var(--series-2)" in svg
    assert set(re.findall(r"#[0-9a-fA-F]{6}\b", svg)) == set(), "a colour that the style sheet cannot change"


def test_without_matplotlib_the_tables_remain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "available", lambda: False)
    page = render(card())
    parsed = outline(page)
    assert "svg" not in parsed.seen
    assert parsed.seen.count("img") == 1, "the picture needs no matplotlib"
    assert parsed.seen.count("table") == 2
    assert NO_PLOTS.split(":")[0] in page


def test_the_picture_is_the_png_that_its_digits_say() -> None:
    address = html.png(("0f8", "f00"))
    data = base64.b64decode(address.removeprefix("data:image/png;base64,"))
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    chunks, at = {}, 8
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + body)
        chunks[kind] = body
        at += 12 + length
    assert struct.unpack(">II", chunks[b"IHDR"][:8]) == (3, 2)
    assert zlib.decompress(chunks[b"IDAT"]) == b"\0\x00\x0f\x08\0\x0f\x00\x00"
    assert chunks[b"tRNS"][0] == 0 and chunks[b"tRNS"][15] == 255, "nothing is clear, weight 1 is full colour"


def test_a_report_shows_the_fidelity_of_a_card_that_it_is_given() -> None:
    record = replace(comparison(), card=card())
    page = html.render(comparisons.document(record))
    parsed = outline(page)
    assert parsed.seen.count("svg") == 4
    assert len(parsed.ids) == len(set(parsed.ids))
    assert "30 synthetic users instead of 1,000" in page and "90 % of full" in page


def test_a_tiny_summary_still_makes_a_page() -> None:
    tiny = card(summary=Size(1, 1, 100), random=None, picture=("f",), items=1, fidelity=(), likeness=None)
    outline(render(tiny))


def test_what_noise_made_cannot_be_made_again() -> None:
    claim = {
        "epsilon": 8.0, "delta": 1e-6, "relation": "one user", "mechanism": "noise", "noise_multiplier": 1.0,
        "vocabulary": "public", "not_covered": [],
    }  # fmt: skip
    assert AGAIN in render(card()) and "was the best on validation" in render(card())
    by_sums = render(card(guarantee=claim))
    assert ONCE in by_sums and AGAIN not in by_sums and "was the best on validation" in by_sums
