"""The pages of experiments: on no records, some, and all; a figure can be read back from its table."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from infrec import paper
from infrec.paper import published, site
from infrec.paper.cells import Data, pairs
from infrec.paper.experiment import Findings
from infrec.paper.records import FILE
from infrec.paper.results import Results
from infrec.report import figures, html
from infrec.report.document import Claim, Figure, Panel, Point, Series
from infrec.report.numbers import style_of
from tests.paper.made import record, write


class Tables(HTMLParser):
    """Every table of a page: its caption and its rows of texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: dict[str, list[list[str]]] = {}
        self._caption, self._rows, self._in = "", [[""]], ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "table":
            self._caption, self._rows = "", []
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append("")
        self._in = tag if tag in ("td", "th", "caption") else self._in

    def handle_data(self, data: str) -> None:
        if self._in == "caption":
            self._caption += data
        elif self._in and self._rows and self._rows[-1]:
            self._rows[-1][-1] += data

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th", "caption"):
            self._in = ""
        if tag == "table":
            self.found[self._caption] = self._rows


def fill(root: Path) -> None:
    """Records of a whole sample-efficiency and Table 1 on two datasets."""
    published_mode = pairs(mode="published")
    for dataset in ("ml-1m", "magazine"):
        for at, model in enumerate(published.COLUMNS[:-1]):
            write(root, "table1", record(dataset, model, 20.0 + at))
        write(
            root,
            "table1",
            record(dataset, "infinite-ae", 27.5, data=Data("distill-cf", 500, settings=published_mode)),
        )
        write(root, "sample-efficiency", record(dataset, "infinite-ae", 27.0))
        for source in ("interaction-rns", "user-rns", "head-user", "svp-cf", "distill-cf"):
            for users in (50, 200, 500):
                for seed in (42, 1, 2):
                    value = 10.123456 + users / 40 + seed / 100
                    made = record(dataset, "infinite-ae", value, data=Data(source, users), seed=seed)
                    write(root, "sample-efficiency", made)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Those records and their pages."""
    root = tmp_path_factory.mktemp("results")
    fill(root)
    site.build(root)
    return root


@pytest.mark.parametrize("name", paper.NAMES)
def test_no_records_make_a_page_that_says_so(name: str, tmp_path: Path) -> None:
    site.build(tmp_path, [name])
    text = (tmp_path / name / "index.html").read_text(encoding="utf-8")
    assert "no records yet" in text
    assert "nan" not in text.lower().replace("financ", "").replace("narayanan", "")
    assert (tmp_path / "index.html").is_file()
    assert f"({name}/README.md)" in (tmp_path / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", paper.NAMES)
def test_a_single_record_makes_a_page(name: str, tmp_path: Path) -> None:
    """Whatever is there first: nothing asks for what comes later."""
    names = ("train", "validation", "test", "users_without_validation", "repeated")
    about = dict.fromkeys(("loaded_users", "loaded_items", "loaded_interactions", *names), 5) | {
        "split": "own"
    }
    settings = {"depth": 1} if name == "depth" else None
    data = Data("user-rns", 50, 1.0) if name.startswith("noise") else Data()
    write(tmp_path, name, record("ml-1m", "infinite-ae", 30.0, settings=settings, about=about, data=data))
    site.build(tmp_path, [name])
    assert "1 record on ml-1m" in (tmp_path / name / "index.html").read_text(encoding="utf-8")


def test_the_paper_s_value_and_the_difference_stand_beside_ours(filled: Path) -> None:
    text = (filled / "table1" / "index.html").read_text(encoding="utf-8")
    tables = Tables(text).found
    (lines,) = (rows for caption, rows in tables.items() if caption.startswith("ml-1m"))
    ease = next(row for row in lines if row[0] == "EASE")
    column = lines[0].index("HR@10")
    assert ease[column].startswith("25.00")
    assert "28.54 (−3.54)" in ease[column]
    markdown = (filled / "table1" / "README.md").read_text(encoding="utf-8")
    assert "25.00 (paper 28.54 (−3.54))" in markdown
    assert "✗ does not hold" in markdown or "✓ holds" in markdown


def test_a_caption_says_what_its_small_ranges_are(filled: Path, tmp_path: Path) -> None:
    """Only the page has them, so the Markdown's caption does not speak of them."""
    page = (filled / "table1" / "index.html").read_text(encoding="utf-8")
    captions = [caption for caption in Tables(page).found if caption.startswith(("ml-1m", "magazine"))]
    assert len(captions) == 2
    assert all(caption.endswith("Small ranges are 95 % intervals over users.") for caption in captions)
    assert "95 % interval" not in (filled / "table1" / "README.md").read_text(encoding="utf-8")
    sizes = {"loaded_users": 5, "loaded_items": 5, "loaded_interactions": 5, "split": "own"}
    parts = dict.fromkeys(("train", "validation", "test", "users_without_validation", "repeated"), 1)
    write(tmp_path, "statistics", record("ml-1m", "poprec", 1.0, about=sizes | parts))
    site.build(tmp_path, ["statistics"])
    text = (tmp_path / "statistics" / "index.html").read_text(encoding="utf-8")
    assert "Small ranges" not in text
    assert "sparsity (%)" in text


def test_claims_of_our_own_are_not_the_paper_s() -> None:
    one, results = Claim("something", "demo", "holds", "1."), Results([], lambda _: results)
    for name, said in (("leakage", False), ("cold", True)):
        text = html.render(site.document(paper.get(name), Findings(claims=[one]), results))
        assert ("What the paper says" in text) == said
        assert ("Not in the paper." in text) != said


def test_every_link_leads_to_a_file(filled: Path) -> None:
    seen = 0
    for path in (*filled.rglob("*.html"), *filled.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        for target in re.findall(r'href="([^"#]+)"|\]\(([^)#]+)\)', text):
            link = "".join(target)
            assert (path.parent / link).is_file(), (path.name, link)
            seen += 1
    assert seen >= 8


def test_every_figure_can_be_read_back_from_its_table(filled: Path) -> None:
    experiment = paper.get("sample-efficiency")
    found, _ = site.read(filled, experiment)
    tables = Tables((filled / "sample-efficiency" / "index.html").read_text(encoding="utf-8")).found
    assert len(found.figures) == 2
    for figure in found.figures:
        head, *rows = tables[f"The data of the figure {figure.name}."]
        assert tuple(head) == html.FIGURE_HEAD
        wanted = [
            (
                f"{panel.title}: {panel.y}",
                figures.legend(series.name),
                point.x,
                point.value,
                point.low,
                point.high,
                point.seeds,
            )
            for panel in figure.panels
            for series in panel.series
            for point in series.points
        ]
        assert len(rows) == len(wanted) > 50
        for row, (panel, series, *numbers) in zip(rows, wanted, strict=True):
            assert row[:2] == [panel, series]
            assert [float(cell) for cell in row[2:]] == pytest.approx(numbers, rel=1e-5)


def test_figures_of_their_own_are_whole_svg(filled: Path) -> None:
    paths = sorted((filled / "sample-efficiency").glob("*.svg"))
    assert len(paths) == 2
    for path in paths:
        assert ElementTree.parse(path).getroot().tag.endswith("svg")
        text = path.read_text(encoding="utf-8")
        assert "var(--" not in text
        assert "#0103" not in text
        assert "User-RNS" in text


def test_colours_of_a_page_follow_its_style(filled: Path) -> None:
    text = (filled / "sample-efficiency" / "index.html").read_text(encoding="utf-8")
    assert "var(--series-0)" in text
    assert "#0103" not in text
    assert "<script" not in text
    assert "http://" not in text.replace("http://www.w3.org", "")


def test_series_that_meet_in_a_figure_look_different() -> None:
    for group in (
        ("interaction-rns", "user-rns", "head-user", "svp-cf", "distill-cf", "distill-cf-soft", "full"),
        (*published.COLUMNS[:-1], "infinite-ae-plus"),
        ("infinite-ae|user-rns", "infinite-ae|distill-cf", "ease|user-rns", "ease|distill-cf"),
    ):
        looks = [style_of(name, at) for at, name in enumerate(group)]
        assert len({(look.colour, str(look.dash)) for look in looks}) == len(group)
        assert len({(look.marker, look.colour) for look in looks}) == len(group)


def test_a_figure_of_any_shape_is_drawn() -> None:
    point = Point(1.0, 2.0, 1.5, 2.5)
    one = Panel("a", "x", "y", (Series("ease", (point,)), Series("else", (point, Point(2.0, 3.0, 3.0, 3.0)))))
    empty = Panel("b", "x", "y", ())
    for rows in (((one,),), ((one, empty), (empty,)), tuple((one,) for _ in range(5))):
        svg = figures.draw(Figure("any", "caption", rows))
        ElementTree.fromstring(figures.standalone(svg).split("\n", 1)[1])
    nothing = figures.draw(Figure("none", "caption", ((empty,),)))
    assert "not measured" in nothing
    assert "0.2" not in re.findall(r">([^<>\n]+)</text>", nothing)  # axes without places have no numbers


def test_damaged_lines_are_counted_on_the_page(tmp_path: Path) -> None:
    fill(tmp_path)
    with (tmp_path / "table1" / FILE).open("ab") as file:
        file.write(b'{"cell": "half')
    site.build(tmp_path, ["table1"])
    assert "1 damaged line was left out" in (tmp_path / "table1" / "index.html").read_text(encoding="utf-8")


def test_without_matplotlib_the_tables_remain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path)
    monkeypatch.setattr("infrec.report.figures.available", lambda: False)
    site.build(tmp_path, ["sample-efficiency"])
    text = (tmp_path / "sample-efficiency" / "index.html").read_text(encoding="utf-8")
    assert "matplotlib" in text
    assert "The data of the figure sample-efficiency." in text
    assert not list((tmp_path / "sample-efficiency").glob("*.svg"))


def test_rebuilding_is_deterministic_and_quick(filled: Path) -> None:
    before = {path: path.read_bytes() for path in filled.rglob("*") if path.is_file()}
    begin = time.perf_counter()
    site.build(filled)
    assert time.perf_counter() - begin < 20  # the whole report must take less; this is a part of it
    assert {path: path.read_bytes() for path in before} == before
