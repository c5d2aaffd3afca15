"""The page on small screens, in both themes, and to those who do not see it; and what its files hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import infrec.serve
from tests.serve.page.browser import Page

STATIC = Path(infrec.serve.__file__).parent / "static"

READY = """document.querySelector('.rec, #wall button, #person h2') !== null
  && document.querySelector('#lists').ariaBusy !== 'true'"""
VIEWS = {
    "start": "",
    "list": "like=5&like=9&like=30&beside=none",
    "two lists": "like=5&like=9",
    "genres": "like=5&genre=Drama&beside=none",
    "a known user": "known=17",
    "summary": "view=summary",
    "summary with picks": "like=5&view=summary&sort=picks",
}
# Every text that can be seen, with its colour and what is painted behind it.
CONTRAST = """(() => {
  const rgba = (text) => (text.match(/[\\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
  const over = ([r, g, b, a = 1], under) => [r, g, b].map((c, i) => a * c + (1 - a) * under[i]);
  const light = (c) => { const v = c / 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  const luminance = ([r, g, b]) => 0.2126 * light(r) + 0.7152 * light(g) + 0.0722 * light(b);
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, owner = node.parentElement;
    if (!node.textContent.trim() || !owner.checkVisibility()) continue;
    if (owner.closest(".hidden, .skip, option, noscript")) continue;
    const chain = []; for (let e = owner; e; e = e.parentElement) chain.unshift(e);
    const painted = (e) => rgba(getComputedStyle(e).backgroundColor);
    const ground = chain.reduce((under, e) => over(painted(e), under), [255, 255, 255]);
    const style = getComputedStyle(owner);
    const ink = over(rgba(owner.namespaceURI.endsWith("svg") ? style.fill : style.color), ground);
    const [a, b] = [luminance(ink), luminance(ground)].sort((x, y) => y - x);
    found.push([(a + 0.05) / (b + 0.05), node.textContent.trim().slice(0, 40)]);
  }
  return found;
})()"""


def show(page: Page, fragment: str) -> None:
    page.show(fragment)
    page.wait(READY)
    if "view=summary" in fragment:
        page.wait_for("#person h2")


@pytest.mark.parametrize("width", [320, 360, 420, 768])
def test_nothing_is_wider_than_the_screen(page: Page, width: int) -> None:
    page.emulate(width=width, height=740)
    for name, fragment in VIEWS.items():
        show(page, fragment)
        if fragment.startswith("like=5&like=9"):
            page.click(".rec:not(.open) .why")
            page.wait_for(".account")
        assert page.js("document.documentElement.scrollWidth") <= width, name
        outside = f"""[...document.querySelectorAll('main *')].filter(e => e.checkVisibility())
          .filter(e => !e.closest('.hidden') && e.getBoundingClientRect().width > 1)
          .filter(e => e.getBoundingClientRect().right > {width} + 1).map(e => e.outerHTML.slice(0, 80))"""
        assert page.js(outside) == [], name


def test_nothing_moves_once_there_is_a_list(page: Page) -> None:
    """On a narrow screen picks stand above the lists, and names that came later pushed these down."""
    page.emulate(width=360, height=740)
    page.js(
        """(() => {
          const honest = window.fetch;
          const later = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
          window.fetch = async (path, ...rest) => {
            if (path.startsWith("v1/items")) await later(400);
            return honest(path, ...rest);
          };
        })()"""
    )
    page.show("&".join(f"like={n}" for n in range(60, 72)))
    page.wait(READY)
    names = page.texts("#picks-list .name")
    assert len(names) == 12 and not any(name.isdigit() for name in names)
    top = page.js("document.querySelector('.rec').getBoundingClientRect().top + scrollY")
    page.js("new Promise((done) => setTimeout(done, 900))")
    assert page.js("document.querySelector('.rec').getBoundingClientRect().top + scrollY") == top


def test_search_on_a_phone(page: Page) -> None:
    page.emulate(width=360, height=640)
    page.click("#search")
    page.type("the")
    page.wait_for("#matches")
    page.click("#matches li:nth-child(3)")
    page.wait_for(".rec", 10)
    assert page.js("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_contrast(page: Page, dark: bool) -> None:
    page.emulate(dark=dark)
    seen = 0
    for name, fragment in VIEWS.items():
        show(page, fragment)
        if name == "list":
            page.click(".rec:nth-child(2) .why")
            page.wait_for(".account")
            page.click("#genre-part summary")
            page.click("#genre-list label:nth-child(2)")
            page.wait(f"document.querySelector('#genre-list :checked') !== null && {READY}")
        texts = page.js(CONTRAST)
        seen += len(texts)
        assert [text for text in texts if text[0] < 4.5] == [], name
    assert seen > 400
    paper = page.js("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", paper))) < 200) is dark


def test_the_theme_can_be_chosen_and_is_kept(page: Page) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.js(paper)
    page.click("#theme")  # from the system's choice to light
    assert page.js(paper) == light
    page.click("#theme")
    dark = page.js(paper)
    assert dark != light
    page.send("Page.reload")
    page.wait("document.querySelectorAll('#wall button').length > 5")
    assert page.js(paper) == dark
    page.click("#theme")
    assert page.js(paper) == light  # the system decides again


def test_everything_that_can_be_used_has_a_name_and_room(page: Page) -> None:
    for name, fragment in VIEWS.items():
        show(page, fragment)
        nodes = page.send("Accessibility.getFullAXTree")["nodes"]
        used = [n for n in nodes if not n.get("ignored") and n["role"]["value"] in ROLES]
        assert len(used) > 5
        nameless = [n["role"]["value"] for n in used if not n.get("name", {}).get("value", "").strip()]
        assert nameless == [], name
        small = page.js(
            """[...document.querySelectorAll('button, select, summary, [type=search]')]
            .filter(e => e.checkVisibility() && Math.min(e.offsetHeight, e.offsetWidth) < 24)
            .map(e => e.outerHTML)"""
        )
        assert small == [], name


ROLES = {
    "button",
    "link",
    "combobox",
    "searchbox",
    "textbox",
    "slider",
    "radio",
    "checkbox",
    "option",
    "DisclosureTriangle",
}


def test_motion_only_for_those_who_want_it(page: Page) -> None:
    show(page, VIEWS["list"])
    page.js(
        """(() => {
          const animate = Element.prototype.animate;
          window.moves = 0;  // counted: a look at what moves just now may come too late
          Element.prototype.animate = function (...a) { window.moves += 1; return animate.apply(this, a); };
        })()"""
    )
    page.click(".rec:nth-child(1) .add")
    page.wait_for("#picks-list li", 4)
    page.wait(READY)
    assert page.js("window.moves") == page.js("document.getAnimations().length") == 0
    page.emulate(calm=False)
    page.click(".rec:nth-child(1) .add")
    page.wait("window.moves > 0")


def test_files_hold_no_markup_from_text_and_no_other_address() -> None:
    files = sorted(STATIC.iterdir())
    assert {"index.html", "app.js", "style.css"} <= {path.name for path in files}
    for path in files:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".js":
            assert not re.search(
                r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", text
            ), path
        if path.suffix == ".html":
            assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=", text), path
        elsewhere = [
            url for url in re.findall(r"(?:https?:)?//[a-z][^\s\"')]*", text) if "www.w3.org/" not in url
        ]
        assert elsewhere == [], path
        assert len(text.splitlines()) <= 350, path
