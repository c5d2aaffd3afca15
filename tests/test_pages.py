"""The code of the documentation runs, and prints what the pages say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOL = ROOT / "tools" / "run_pages.py"
sys.path.insert(0, str(TOOL.parent))
import run_pages  # noqa: E402
from notebooks import notebook  # noqa: E402


@pytest.mark.parametrize("name", run_pages.PAGES)
def test_the_code_of_a_page_prints_what_the_page_says(name: str) -> None:
    command = [sys.executable, str(TOOL), str(ROOT / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, f"{done.stdout}{done.stderr}"


def test_every_tutorial_is_run() -> None:
    tutorials = {f"docs/tutorials/{page.name}" for page in (ROOT / "docs" / "tutorials").glob("*.md")}
    assert tutorials - set(run_pages.PAGES) == {"docs/tutorials/index.md"}


def test_every_page_that_runs_shows_an_output() -> None:
    for name in run_pages.PAGES:
        blocks = list(run_pages.BLOCK.finditer((ROOT / name).read_text(encoding="utf-8")))
        assert any(block["output"] for block in blocks) or name == "docs/choosing.md", name
        assert all(block["output"] is None or block["output"].strip() for block in blocks), name


@pytest.mark.parametrize(
    ("said", "printed", "alike"),
    [
        ("HR@10 35.01", "HR@10 35.02", True),
        ("HR@10 35.01", "HR@10 25.01", False),
        ("found in 4.2 % of cases", "found in 3.2 % of cases", True),
        ("found in 4.2 % of cases", "found in 7.1 % of cases", False),
        ("in 6.46 s", "in 12 s", True),
        ("┃ ∞-AE ┃ 1 ┃", "┃  ∞-AE ┃  1 ┃", True),
        ("1 Alien", "1 Heat", False),
        ("a\nb", "a", False),
    ],
)
def test_outputs_are_compared_by_words_and_roughly_by_numbers(said: str, printed: str, alike: bool) -> None:
    assert run_pages.same(said, printed) is alike


def test_a_page_that_says_something_else_is_found_and_mended(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    unseen = '```python\nx = "right"\n```\n<!-- not run -->\n```sh\nfalse\n```\n'
    text = f"{unseen}\n```python\nprint(x)\n```\n\n```text\nwrong\n```\n"
    page.write_text(text, encoding="utf-8")
    (difference,) = run_pages.visit(page, write=False)
    assert "wrong" in difference and "right" in difference
    assert run_pages.visit(page, write=True) == []
    assert page.read_text(encoding="utf-8") == text.replace("wrong", "right")
    assert run_pages.visit(page, write=False) == []


def test_a_command_that_fails_says_why(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```sh\necho oh no >&2; exit 3\n```\n", encoding="utf-8")
    with pytest.raises(RuntimeError, match="ended with 3:\noh no"):
        run_pages.visit(page, write=False)


@pytest.mark.parametrize("name", [name for name in run_pages.PAGES if "tutorials/" in name])
def test_a_tutorial_is_a_notebook_with_its_outputs_and_pictures(name: str) -> None:
    page = ROOT / name
    cells = notebook(page)["cells"]
    run = [block for block in run_pages.BLOCK.finditer(page.read_text(encoding="utf-8")) if not block["skip"]]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(code) == len(run) and len({cell["id"] for cell in cells}) == len(cells)
    said = ["".join(output["text"] for output in cell["outputs"]) for cell in code]
    assert said == [block["output"] or "" for block in run]
    texts = "".join(cell["source"] for cell in cells if cell["cell_type"] == "markdown")
    drawn = [file for cell in cells for file in cell.get("attachments", ())]
    assert drawn and all(f"attachment:{file})" in texts for file in drawn)
    assert "<!--" not in texts and ".md)" not in texts
