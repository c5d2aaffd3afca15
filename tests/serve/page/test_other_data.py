"""The page with models of other data than the demo's: no genres, ids that browsers round, missing titles."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from infrec.data import Interactions, Summary
from infrec.models import InfiniteAE
from tests.serve.page.browser import Browser, Page
from tests.serve.page.conftest import Server, free_port

IDLE = "document.querySelector('#lists').ariaBusy === 'false' && document.querySelectorAll('.rec').length > 0"
LARGE = 2**53 + 1
TOKEN = "a-token-that-nobody-guesses-0123456789"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """`films` has genres and articles behind the comma; `things` has large ids, no genres, a title or two;
    `soft` is a summary of fractional likes; `bare` has no titles."""
    folder = tmp_path_factory.mktemp("other")
    likes = np.random.default_rng(2).random((80, 30)) < 0.3
    likes[np.arange(80), np.arange(80) % 30] = True
    titles = [f"Film {n}" for n in range(30)]
    titles[4] = "Matrix, The (1999)"
    titles[7] = titles[9] = "Hamlet (1996)"
    films = Interactions.from_csr(likes, items=list(range(30)), titles=titles)
    assert films.item_info is not None
    info = films.item_info.append_column("genres", pa.array(["Drama", "Crime"] * 15))
    InfiniteAE(reg=5).fit(Interactions(films.matrix, films.users, films.items, item_info=info)).save(
        folder / "films"
    )
    names = ["", "  ", "Thing 2", *([""] * 27)]
    things = Interactions.from_csr(likes, items=[LARGE + 2 * n for n in range(30)], titles=names)
    InfiniteAE(reg=5).fit(things).save(folder / "things")
    # Fractions for every item, as `infrec distill --mode soft` makes them; six likes in all, four whole.
    soft = np.full((9, 30), 2 / 26)
    for user in range(9):
        soft[user, 3 * user : 3 * user + 4] = 1
    people = Interactions.from_csr(soft, items=list(range(30)), titles=titles)
    Summary.of(people, about={"reg": 1.0}).save(folder / "soft")
    InfiniteAE(reg=5).fit(Interactions.from_csr(likes)).save(folder / "bare")
    return [folder / name for name in ("films", "things", "soft", "bare")]


@pytest.fixture(scope="module")
def server(chromium: Browser, servers: type[Server], folders: list[Path]) -> Iterator[Server]:
    running = servers(folders, free_port(), "--token", TOKEN)
    running.start()
    yield running
    running.stop()


@pytest.fixture
def page(chromium: Browser, server: Server) -> Iterator[Page]:
    opened = chromium.page()
    opened.go(f"{server.url}#token={TOKEN}")
    opened.wait_for("#wall button")
    yield opened
    assert opened.complaints == []
    opened.close()


def show(page: Page, fragment: str) -> None:
    page.show(fragment)
    page.wait(IDLE)


def test_a_genre_asks_only_the_models_that_have_it(page: Page) -> None:
    show(page, "like=3&genre=Drama")
    assert page.texts("#genre-text") == ["only Drama"] and set(page.texts(".rec .genre")) == {"Drama"}
    show(page, "like=3&genre=Drama&beside=things")
    page.wait(f"document.querySelectorAll('.list').length === 2 && {IDLE}")
    page.wait("document.querySelectorAll('.list:last-child .rec').length === 10")
    page.js("document.querySelector('#model').value = 'things'")
    page.js("document.querySelector('#model').dispatchEvent(new Event('change'))")
    page.wait(f"document.querySelectorAll('.list').length === 1 && {IDLE}")
    page.wait("document.querySelector('#notice').textContent.startsWith('None of your picks')")
    assert not page.seen("#genre-part")
    show(page, "like=3&genre=Jazz&k=12.4")  # no model has it, and nobody lists 12.4 titles
    page.wait("document.querySelectorAll('.rec').length === 12")
    assert page.texts("#genre-text") == ["in any genre"]


def test_nothing_left_and_nothing_picked(page: Page) -> None:
    page.show("&".join(f"like={n}" for n in range(30)))
    page.wait("document.querySelector('#notice').checkVisibility()")
    assert page.texts("#notice") == ["No title is left: all are among your picks."]
    page.show("like=")
    page.wait_for("#wall")
    assert not page.seen("#notice") and not page.seen("#picks")


def test_a_title_is_found_by_the_words_that_are_shown(page: Page) -> None:
    page.click("#search")
    page.type("the matrix")
    page.wait_for("#matches li")
    assert page.texts("#matches li") == ["The Matrix 1999"]
    assert page.texts("#matches mark") == ["The Matrix"]


def test_words_in_another_order_are_found_and_set_off(page: Page) -> None:
    page.click("#search")
    page.type("1999 matirx")
    page.wait_for("#matches li")
    assert page.texts("#matches li") == ["The Matrix 1999"]
    page.js("document.querySelector('#search').value = ''")
    page.type("matrix the")
    page.wait("document.querySelectorAll('#matches mark').length === 2")
    assert page.texts("#matches mark") == ["The", "Matrix"]


def test_equal_titles_are_told_apart(page: Page) -> None:
    page.click("#search")
    page.type("hamlet")
    page.wait_for("#matches li")
    assert sorted(page.texts("#matches li")) == ["Hamlet 1996 · no. 7", "Hamlet 1996 · no. 9"]
    show(page, "like=7&beside=none")
    page.wait("document.querySelector('#picks-list .name').textContent === 'Hamlet 1996 · no. 7'")
    assert page.texts("#picks-list .name") == ["Hamlet 1996 · no. 7"]


def test_where_there_are_no_titles_the_page_says_how_to_have_some(page: Page) -> None:
    show(page, "like=3&model=bare")
    assert page.seen("#untitled") and "--items FILE" in page.texts("#untitled")[0]
    show(page, "like=3&model=films")
    page.wait("!document.querySelector('#untitled').checkVisibility()")


def test_large_ids_and_missing_titles(page: Page) -> None:
    page.show("model=things")
    page.wait("document.querySelector('#wall').textContent.includes('9007199254740')")
    wall = page.texts("#wall button")
    assert all(wall) and len(set(wall)) == len(wall)
    page.click("#wall li:first-child button")
    page.wait(IDLE)
    assert page.texts("#picks-list .name") == wall[:1] and not page.seen("#notice")
    shown = page.texts(".rec h3")
    assert len(set(shown)) == 10 and wall[0] not in shown
    assert page.texts(".rec .bar.pick .label")[0] == wall[0]


def test_fractional_likes_are_drawn_as_the_titles_liked_most(page: Page) -> None:
    page.show("view=summary&user=4")
    page.wait_for("#person h2")
    assert "54 likes" in page.texts("#summary-lead")[0] and "fractions" in page.texts("#summary-lead")[0]
    assert page.texts("#person p")[0].startswith("6 titles")
    assert {f"Film {n}" for n in (12, 13, 14, 15)} <= set(page.texts("#person .titles li"))
    inked = """(c => { const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
      let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 40; return n / (d.length / 4); })"""
    assert 0.05 < page.js(f"{inked}(document.querySelector('#matrix canvas'))") < 0.6


def test_a_token_pasted_with_more_than_itself(chromium: Browser, server: Server) -> None:
    """Quotation marks cannot even be sent; the form says that it was no token, and takes the next one."""
    page = chromium.page()
    page.go(server.url)
    page.wait_for("#token")
    for text, told in ((f"“{TOKEN}”", "That was not"), (f"  {TOKEN} ", "")):
        page.js(f"document.querySelector('#token').value = '{text}'")
        page.js("document.querySelector('#token-form').requestSubmit()")
        if told:
            page.wait(f"document.querySelector('#token-label').textContent.startsWith('{told}')")
            assert not page.seen("#connection")
    page.wait_for("#wall button")
    assert not page.seen("#token-form")
    page.close()
