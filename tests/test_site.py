"""The documentation as a site: it builds without a warning, and reading it asks no other host."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.serve.page import browser

ROOT = Path(__file__).parents[1]
LOADS = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed)[^>]+src(?:set)?=["']?(?:https?:)?//"""
    r"""|<link(?![^>]+rel=["']?(?:canonical|next|prev))[^>]+href=["']?(?:https?:)?//"""
    r"""|@import\s+(?:url\()?["']?(?:https?:)?//|url\(["']?(?:https?:)?//"""
)


def miss(variable: str, reason: str) -> None:
    """Skip, unless the machine promised to have what is missing."""
    if os.environ.get(variable):
        pytest.fail(f"{variable} is set, but {reason}.")
    pytest.skip(reason)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not importlib.util.find_spec("mkdocs"):
        miss("INFREC_REQUIRE_DOCS", "the site needs the extra docs (make docs)")
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(build, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert not done.returncode, f"{done.stdout}{done.stderr}"
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    pages = [*site.rglob("*.html"), *site.rglob("*.css"), *site.rglob("*.svg")]
    assert len(pages) > 60
    found = {path.name: LOADS.findall(path.read_text(encoding="utf-8")) for path in pages}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("text", "loads"),
    [
        ('<script src="https://cdn.example/x.js">', True),
        ("<link rel=stylesheet href=//fonts.example/x.css>", True),
        ("body { background: url(http://example.org/x.png) }", True),
        ('<a href="https://example.org">', False),
        ('<img src="images/page.png">', False),
    ],
)
def test_what_loads_from_another_host_is_found(text: str, loads: bool) -> None:
    assert bool(LOADS.search(text)) is loads


def test_the_reference_has_what_people_call(site: Path) -> None:
    models = (site / "api" / "models.html").read_text(encoding="utf-8")
    for name in ("infrec.models.infinite_ae.InfiniteAE", "infrec.models.base.Recommender.recommend"):
        assert f'id="{name}"' in models
    assert "on_unknown" in models and "from_artifact" not in models


def test_bars_in_code_are_bars(site: Path) -> None:
    command_line = (site / "cli.html").read_text(encoding="utf-8")
    assert "first|sum" in command_line and "first\\|sum" not in command_line


def test_a_reader_finds_things_and_asks_no_other_host(address: str, tmp_path: Path) -> None:
    executable = browser.find()
    if executable is None:
        miss("INFREC_REQUIRE_BROWSER", "there is no Chromium on the path (apt-get install chromium)")
    with browser.Browser(str(executable), tmp_path / "profile") as running:
        page = running.page(width=390, height=840)
        for name in ("index.html", "api/models.html", "tutorials/table1.html", "results/index.html"):
            page.go(address + name)
            assert page.js("document.documentElement.scrollWidth <= innerWidth"), f"{name} is too wide"
        page.emulate(width=1280)
        page.go(f"{address}index.html")
        page.click("[data-md-component=search-query]")
        page.wait("document.querySelector('.md-search-result__meta').innerText.startsWith('Type')")
        page.type("tangent kernel")
        page.press("End")  # the search listens to keys that are let go
        page.wait("document.querySelector('.md-search-result__link') !== null")
        assert [url for url in page.requests if not url.startswith((address, "data:", "blob:"))] == []


def test_links_lead_where_they_lead_in_the_repository() -> None:
    pytest.importorskip("mkdocs")
    sys.path.insert(0, str(ROOT / "tools"))
    from site_files import bars, site_links

    present = {"docs/cli.md", "docs/api/data.md", "results/README.md", "docs/images/page.png"}
    assert site_links("[r](../results/README.md#x)", "docs/cli.md", present) == "[r](results/README.md#x)"
    assert site_links("[c](../docs/cli.md)", "results/README.md", present) == "[c](../cli.md)"
    assert site_links("[c](../cli.md)", "docs/api/data.md", present) == "[c](../cli.md)"
    assert site_links("![p](images/page.png)", "docs/cli.md", present) == "![p](images/page.png)"
    assert site_links("[code](../src/infrec/errors.py)", "docs/cli.md", present) == "code"
    assert site_links("[gone](gone.md) [h](#h)", "docs/cli.md", present) == "[gone](gone.md) [h](#h)"
    assert bars("| `a\\|b` | c\\|d |") == "| `a|b` | c\\|d |"
