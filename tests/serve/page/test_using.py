"""A person on the page: search, pick, read reasons, compare, walk through the summary; by keys alone too."""

from __future__ import annotations

import csv
import io
import json
import re
import urllib.request
from typing import Any

import pytest

from tests.serve.page.browser import Browser, Page
from tests.serve.page.conftest import HOSTILE, Server, free_port

IDLE = "document.querySelector('#lists').ariaBusy === 'false' && document.querySelectorAll('.rec').length > 0"
RECOMMENDED = "[...document.querySelectorAll('.list:{which}-child .rec')].map(row => row.dataset.item)"


def recommended(page: Page, which: str = "first") -> list[str]:
    page.wait(IDLE)
    return page.js(RECOMMENDED.format(which=which))


def changes(page: Page, before: list[str]) -> list[str]:
    """Wait until another list is recommended than `before`."""
    shown = RECOMMENDED.format(which="first")
    page.wait(f"{shown}.length && {shown}.join() !== {json.dumps(','.join(before))}")
    return recommended(page)


def pick(page: Page, *words: str) -> None:
    """Search for each of the words and click the first match."""
    for text in words:
        had = len(page.texts("#picks-list li"))
        page.click("#search")
        page.type(text)
        page.wait_for("#matches")
        page.wait(f"document.querySelector('#matches').textContent.includes({json.dumps(text)})")
        page.click("#matches li:first-child")
        page.wait(f"document.querySelectorAll('#picks-list li').length === {had + 1}")
    page.wait(IDLE)


def choose(page: Page, selector: str, value: str) -> None:
    """Choose an option as a browser does; its own menu is not part of the page."""
    page.js(f"document.querySelector('{selector}').value = '{value}'")
    page.js(f"document.querySelector('{selector}').dispatchEvent(new Event('change'))")


def post(server: Server, path: str, **body: Any) -> dict[str, Any]:
    data = json.dumps(body).encode()
    request = urllib.request.Request(server.url + path, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def get(server: Server, path: str) -> dict[str, Any]:
    with urllib.request.urlopen(server.url + path) as answer:
        return json.load(answer)


def likes(page: Page) -> list[str]:
    """The picks as the address holds them, which follows what is shown a moment later."""
    found = "new URLSearchParams(location.hash.slice(1)).getAll('like')"
    page.wait(f"{found}.length === document.querySelectorAll('#picks-list li').length")
    return page.js(found)


def test_what_is_picked_changes_what_is_recommended_and_survives_a_reload(page: Page, server: Server) -> None:
    assert not page.seen("#results")
    pick(page, "Android")
    first = recommended(page)
    assert len(first) == 10
    pick(page, "Colony")
    second = changes(page, first)
    asked = post(server, "v1/recommend", history=likes(page), k=10)
    assert second == [str(item["item"]) for item in asked["items"]] != first
    picked = page.texts("#picks-list .name")
    assert "Android" in picked[0] and "Colony" in picked[1]

    page.send("Page.reload")
    page.wait("document.readyState === 'complete'")
    page.wait(f"document.querySelectorAll('#picks-list li').length === 2 && {IDLE}")
    page.wait(f"document.querySelector('#picks-list').textContent.includes({json.dumps(picked[0])})")
    assert recommended(page) == second
    assert page.texts("#picks-list .name") == picked

    page.click("#picks-list li:first-child button")
    page.wait_for("#picks-list li", 1)
    page.click("#clear")
    page.wait_for("#start")
    assert not page.seen("#results") and not page.seen("#picks")


def test_a_recommendation_can_be_liked_and_more_can_be_seen(page: Page) -> None:
    page.click("#wall li:nth-child(6) button")
    before = recommended(page)
    page.click(".rec:nth-child(3) .add")
    page.wait_for("#picks-list li", 2)
    page.wait(f"!{RECOMMENDED.format(which='first')}.includes({json.dumps(before[2])})")
    page.wait(IDLE)
    assert page.js("document.activeElement.className") == "add"  # the focus did not fall out of the list
    page.click("#more")
    page.wait_for(".rec", 20)


def test_every_recommendation_says_why_and_it_adds_up(page: Page, server: Server) -> None:
    pick(page, "Android", "Colony", "Nebula")
    assert page.texts(".rec .bar.user") == []  # the model of a log: real users are not shown
    choose(page, "#model", "small")
    page.wait_for(".rec .bar.user")
    picked = {re.sub(r" \d{4}$", "", text) for text in page.texts("#picks-list .name")}
    reasons = page.texts(".rec .bar.pick .label")
    assert len(reasons) >= 10 and set(reasons) <= picked
    assert len(page.texts(".rec .bar.user .label")) >= 10
    widths = page.js("[...document.querySelectorAll('.rec .bar.pick .fill')].map(bar => bar.offsetWidth)")
    assert max(widths) > 40 and len(set(widths)) > 3

    item = recommended(page)[1]
    page.click(".rec:nth-child(2) .why")
    page.wait_for(".account", 1)
    exact = post(server, "v1/explain", model="small", history=likes(page), item=item)
    amounts = [
        float(text.replace("−", "-"))
        for text in page.texts(".account .bar.pick .amount, .account .bar.base .amount")
    ]
    assert len(amounts) == 4
    assert sum(amounts) == pytest.approx(exact["score"], abs=0.0025)  # four numbers rounded to 0.001
    assert f"{exact['score']:.3f}" in page.texts(".account .sum")[0]
    assert page.read(".rec:nth-child(2) .why", "ariaExpanded") == "true"
    page.click(".rec:nth-child(2) .why")
    assert not page.seen(".account")


def test_a_user_of_the_log_is_looked_up_in_models_that_know_users(page: Page, server: Server) -> None:
    page.wait_for("#known-form")
    page.click("#known")
    page.type("17")
    page.press("Enter")
    page.wait_for(".rec", 10)
    expected = post(server, "v1/recommend", model="full", user=17, k=10)["items"]
    assert recommended(page) == [str(item["item"]) for item in expected]
    assert (
        page.seen("#known-shown") and page.texts(".list") and len(page.texts(".list")) == 1
    )  # small knows none
    page.wait("location.hash.includes('known=17')")
    page.show("known=nobody")
    page.wait("document.querySelector('#notice').textContent.includes('“nobody”')")
    page.click("#stranger")
    page.wait_for("#start")
    assert not page.seen(".rec")


def test_similar_titles_can_be_picked(page: Page, server: Server) -> None:
    page.show("known=17")
    page.wait_for(".rec", 10)
    item = recommended(page)[0]
    page.click(".rec:first-child .why")
    page.wait_for(".similar li", 6)
    like = get(server, f"v1/similar?item={item}&k=6&model=full")["items"]
    assert [row["rank"] for row in like] == [1, 2, 3, 4, 5, 6] and item not in [
        str(row["item"]) for row in like
    ]
    page.click(".similar li:nth-child(2) button")
    page.wait_for("#picks-list li", 1)
    assert likes(page) == [str(like[1]["item"])] and not page.seen("#known-shown")


def test_two_models_side_by_side_with_their_overlap(page: Page, server: Server) -> None:
    pick(page, "Android", "Saddle")
    choose(page, "#beside", "small")
    page.wait_for(".list", 2)
    page.wait(f"{IDLE} && !document.querySelector('#overlap').hidden")
    lists = [recommended(page, which) for which in ("first", "last")]
    for found, model in zip(lists, ("full", "small"), strict=True):
        asked = post(server, "v1/recommend", model=model, history=likes(page), k=10)
        assert found == [str(item["item"]) for item in asked["items"]]
    shared = [item for item in lists[0] if item in lists[1]]
    assert 0 < len(shared) < 10
    assert page.texts("#overlap")[0].startswith(f"{len(shared)} of 10")
    assert page.js("[...document.querySelectorAll('.ties path')].map(tie => tie.dataset.item)") == shared
    marks = page.texts(".rec .mark")
    for at, (item, mark) in enumerate(zip(lists[0] + lists[1], marks, strict=True)):
        other = lists[1] if at < 10 else lists[0]
        assert mark == (f"also no. {other.index(item) + 1} there" if item in other else "only here")


def test_two_models_begin_side_by_side_and_on_a_phone_one_at_a_time(page: Page) -> None:
    page.emulate(width=360, height=740)
    page.show("like=5&like=9")
    page.wait(f"document.querySelectorAll('.list').length === 2 && {IDLE}")
    assert page.texts("#switch span") == ["full", "small"]
    seen = "[...document.querySelectorAll('.list')].map(list => list.checkVisibility())"
    assert page.js(seen) == [True, False]
    page.click("#switch label:last-child")
    assert page.js(seen) == [False, True]
    page.emulate(width=1280)
    assert page.js(seen) == [True, True] and not page.seen("#switch")
    choose(page, "#beside", "none")
    page.wait_for(".list", 1)
    page.wait("location.hash.includes('beside=none')")


def test_marks_say_what_they_mean_to_those_who_come_to_them_by_keys(page: Page) -> None:
    page.show("like=5&like=9")
    page.wait(f"document.querySelectorAll('.list').length === 2 && {IDLE}")
    marks = page.js(
        "[...document.querySelectorAll('.rec .mark')].map(m => [m.textContent, m.dataset.why, m.tabIndex])"
    )
    for text, why, stop in marks:
        place = re.fullmatch(r"also no. (\d+) there", text)
        assert why.endswith(f"at place {place[1]}." if place else "does not have this item among as many.")
        assert stop == 0
    page.js("document.querySelector('.rec .mark').focus({focusVisible: true})")
    assert marks[0][1] in page.js("getComputedStyle(document.querySelector('.rec .mark'), '::after').content")


def test_a_list_can_be_taken_away(page: Page, server: Server) -> None:
    page.js("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    pick(page, "Android", "Saddle")
    items = post(server, "v1/recommend", history=likes(page), k=10)["items"]
    page.click("#copy [data-as=text]")
    lines = page.wait("window.copied").splitlines()
    assert len(lines) == 10 and lines[0].startswith("1. ")
    page.click("#copy [data-as=csv]")
    page.wait("window.copied.startsWith('model,')")
    rows = list(csv.DictReader(io.StringIO(page.js("window.copied"))))
    assert [(row["item"], row["title"]) for row in rows] == [
        (str(one["item"]), one["title"]) for one in items
    ]
    page.click("#copy [data-as=link]")
    page.wait("window.copied === location.href")
    page.js("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page.js("document.addEventListener('copy', () => { window.copied = document.activeElement.value })")
    page.click("#copy [data-as=text]")  # as where the page came without encryption
    assert page.wait("window.copied !== location.href && window.copied").splitlines() == lines


def test_sliders_make_lists_less_alike(page: Page, server: Server) -> None:
    """By keys too; what they say stands in the address and survives a reload."""
    pick(page, "Android", "Colony")
    before = recommended(page)
    page.js("document.querySelector('#diversity').focus()")
    for _ in range(5):
        page.press("ArrowRight")
    diverse = changes(page, before)
    page.wait("location.hash.includes('diversity=0.5')")
    asked = post(server, "v1/recommend", history=likes(page), k=10, diversity=0.5)
    assert diverse == [str(item["item"]) for item in asked["items"]]
    page.js("document.querySelector('#popularity').focus()")
    for _ in range(10):
        page.press("ArrowLeft")
    less_known = changes(page, diverse)
    page.wait("location.hash.includes('popularity=-1')")
    asked = post(server, "v1/recommend", history=likes(page), k=10, diversity=0.5, popularity=-1)
    assert less_known == [str(item["item"]) for item in asked["items"]]
    page.send("Page.reload")
    page.wait("document.readyState === 'complete' && document.querySelector('#diversity').value === '0.5'")
    assert recommended(page) == less_known and page.js("document.querySelector('#popularity').value") == "-1"
    page.click("#clear")
    page.wait("!location.hash.includes('diversity') && !location.hash.includes('popularity')")


def test_only_these_genres(page: Page) -> None:
    pick(page, "Android")
    page.click("#genre-part summary")
    page.click("#genre-list label:nth-child(2)")
    genre = page.texts("#genre-list label:nth-child(2)")[0]
    page.wait(f"document.querySelector('#genre-text').textContent === 'only {genre}'")
    only = f"every(e => e.textContent.includes('{genre}'))"
    page.wait(f"{IDLE} && [...document.querySelectorAll('.rec .genre')].{only}")
    page.press("Escape")
    assert not page.seen("#genre-list") and page.js("document.activeElement.tagName") == "SUMMARY"


def walk(page: Page, keys: int) -> list[str]:
    """Texts of the slider as one goes down row by row from the first."""
    page.js("document.querySelector('#matrix').focus()")
    page.press("Home")
    said = [page.read("#matrix", "ariaValueText")]
    for _ in range(keys):
        page.press("ArrowDown")
        said.append(page.read("#matrix", "ariaValueText"))
    return said


def test_the_summary_as_a_picture(page: Page, server: Server) -> None:
    page.click("#to-summary")
    page.wait_for("#person h2")
    assert page.texts("#summary-title") == ["60 synthetic users"]
    inked = """(c => { const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
      let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 40; return n / (d.length / 4); })"""
    assert 0.02 < page.js(f"{inked}(document.querySelector('#matrix canvas'))") < 0.9

    page.click("#sorts label:has([value=size])")
    sizes = [int(re.findall(r", (\d+) titles?:", text)[0]) for text in walk(page, 12)]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > sizes[-1]
    page.press("End")
    assert page.read("#matrix", "ariaValueNow") == "60"
    page.click("#sorts label:has([value=popularity])")
    walk(page, 0)
    share = "parseFloat(/liked by (.+) %/.exec(document.querySelector('#person p').textContent)[1])"
    most = page.js(share)
    page.press("End")
    assert page.js(share) < most
    page.click("#sorts label:has([value=similarity])")
    assert len(set(walk(page, 8))) == 9

    box = page.read("#matrix canvas", "getBoundingClientRect().toJSON()")
    page.mouse(box["x"] + 5, box["y"] + box["height"] * 0.61)
    assert page.read("#matrix", "ariaValueNow") == "37"
    assert re.search(r"No\. \S+ (likes|does not like) ", page.texts("#reading")[0])
    assert len(page.texts("#person .titles li")) >= 5

    assert re.search(r"Rank correlation .*: 0\.[5-9]\d,", page.texts("#popularity-lead")[0])
    dots = page.js("document.querySelector('.dots').getAttribute('d').split('M').length - 1")
    assert dots == len(get(server, "v1/summary?model=small")["items"])
    page.mouse(2, 2)  # off the picture: the panel goes back to the chosen user before the click
    page.click(".take")
    page.wait(f"document.querySelectorAll('#picks-list li').length === 5 && {IDLE}")


def test_a_reason_leads_to_the_synthetic_user_and_back(page: Page) -> None:
    page.show("like=1&like=2&model=small&beside=none")
    page.wait(IDLE)
    page.click(".rec:first-child .why")
    page.wait_for(".account a")
    name = page.texts(".account a")[0]
    page.click(".account a")
    page.wait_for("#person h2")
    assert page.texts("#person h2") == [name]
    assert page.texts("#sorts label:has(:checked)") == ["closeness to your picks"]
    page.js("history.back()")
    page.wait_for("#view-recommend")
    assert page.texts("#picks-list li") != []


def test_keyboard_alone(page: Page) -> None:
    def focus() -> str:
        return page.js(
            "document.activeElement.id || document.activeElement.className || document.activeElement.tagName"
        )

    def tab_to(what: str) -> None:
        for _ in range(40):
            page.press("Tab")
            if focus() == what:
                return
        raise AssertionError(f"Tab never reaches {what}")

    tab_to("skip")
    page.press("Enter")
    assert focus() == "main"
    tab_to("search")
    page.press("ArrowDown")  # an empty field lists the best known
    page.wait("document.querySelector('#search').ariaExpanded === 'true'")
    page.wait("document.querySelector('#matches .active')?.id === 'match-0'")
    page.press("Escape")
    assert page.read("#search", "ariaExpanded") == "false"
    for word in ("Android", "Colony"):
        page.type(word)
        page.wait(f"document.querySelector('#match-0')?.textContent.includes('{word}')")
        page.press("ArrowDown")
        page.press("ArrowDown")
        page.press("ArrowUp")
        assert page.js("document.querySelector('#search').getAttribute('aria-activedescendant')") == "match-0"
        page.press("Enter")
        page.wait(f"document.querySelector('#picks-list').textContent.includes('{word}') && {IDLE}")
        assert focus() == "search"
    page.press("Backspace")
    page.wait_for("#picks-list li", 1)
    page.wait(IDLE)
    page.wait("document.querySelector('#live').textContent.includes('recommendations')")
    tab_to("why")
    page.press("Enter")
    page.wait_for(".account")
    tab_to("add")
    page.press("Space")
    page.wait_for("#picks-list li", 2)
    page.wait(IDLE)
    assert focus() == "add"
    page.js("document.querySelector('#to-summary').focus()")
    page.press("Enter")
    page.wait_for("#person h2")
    tab_to("matrix")
    before = page.texts("#person h2")
    page.press("ArrowDown")
    assert page.texts("#person h2") != before


def test_titles_are_never_markup(page: Page) -> None:
    wall = page.texts("#wall li")
    assert HOSTILE[0] in wall and "<img src=x onerror='window.hacked = 2'> & Co 1999" in wall
    pick(page, "<script>", "<img", "</h3>")
    assert HOSTILE[0] in page.texts("#picks-list .name")
    page.wait(f"{IDLE} && document.querySelector('.bar.pick') !== null")
    assert HOSTILE[0] in page.texts(".bar.pick .label")
    page.click(".rec:first-child .why")
    page.wait_for(".account")
    page.click("#to-summary")
    page.wait_for("#person h2")
    assert page.js("document.querySelectorAll('main h1').length") == 2  # one for each view
    assert page.js("[...document.querySelectorAll('*')].filter(e => e.onclick || e.onerror).length") == 0


def test_the_server_goes_and_comes_back(page: Page, server: Server) -> None:
    page.show("like=1&like=2&beside=none")
    before = recommended(page)
    try:
        server.stop()
        page.click("#picks-list li:first-child button")
        page.wait_for("#connection")
        assert "does not answer" in page.texts("#connection-text")[0]
        assert page.texts("#connection-countdown")[0].startswith("Trying again")
    finally:
        server.start()
    page.wait("!document.querySelector('#connection').checkVisibility()")
    assert len(changes(page, before)) == 10
    assert len(page.texts("#picks-list li")) == 1
    assert page.complaints and all("ERR_CONNECTION_REFUSED" in text for text in page.complaints)
    page.complaints.clear()


def test_a_server_with_a_token(chromium: Browser, servers: type[Server], served: Any) -> None:
    token = "a-token-that-nobody-guesses-0123456789"
    server = servers(served[1:], free_port(), "--token", token)
    server.start()
    page, link = chromium.page(), chromium.page()
    try:
        page.go(server.url)
        page.click("#token")
        page.type(token)
        page.press("Enter")
        page.wait_for("#wall button")
        assert not page.seen("#token-form")
        link.go(f"{server.url}#token={token}&like=3")
        assert len(recommended(link)) == 10 and token not in link.js("location.href")
        assert link.complaints == []
    finally:
        server.stop()
        page.close()
        link.close()
