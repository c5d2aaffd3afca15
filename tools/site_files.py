"""Files outside docs/ that the site has too, and links that work on it as in the repository.

`mkdocs.yml` names this file as a hook. On the site `docs/` is the root; `results/`, `benchmarks/results/`,
CHANGELOG.md and CONTRIBUTING.md lie beside its pages.
"""

from __future__ import annotations

import json
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
from notebooks import notebook  # noqa: E402

TUTORIALS = sorted(path for path in (ROOT / "docs" / "tutorials").glob("*.md") if path.stem != "index")
OUTSIDE = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "results/**/*.md",
    "results/**/*.svg",
    "benchmarks/results/*.md",
)
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")

CODE = re.compile(r"`[^`\n]+`")


def on_files(files: Any, config: Any) -> Any:
    """The pages of docs/, and those that lie outside it."""
    for pattern in OUTSIDE:
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            files.append(File(name, str(ROOT), config.site_dir, config.use_directory_urls))
    for path in TUTORIALS:
        content = json.dumps(notebook(path), ensure_ascii=False, indent=1)
        files.append(File.generated(config, f"tutorials/{path.stem}.ipynb", content=content))
    return files


def bars(text: str) -> str:
    """Markdown whose tables have plain bars in code, where GitHub wants `\\|` and the site would show it."""
    return CODE.sub(lambda found: found[0].replace("\\|", "|"), text)


def site_links(text: str, page: str, present: set[str]) -> str:
    """The Markdown of a page, its links as the site needs them.

    Args:
        text: The page's Markdown.
        page: The page's file, relative to the repository.
        present: The files of the site, relative to the repository. A link to any other file of the repository
            becomes its text.
    """

    def link(found: re.Match[str]) -> str:
        picture, words, target, anchor = found.groups()
        file = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
        if file not in present:
            return words if (ROOT / file).exists() else found[0]
        here = posixpath.dirname(page.removeprefix("docs/")) or "."
        return f"{picture}[{words}]({posixpath.relpath(file.removeprefix('docs/'), here)}{anchor or ''})"

    return LINK.sub(link, text)


def repository_name(file: Any) -> str:
    """A file of the site, relative to the repository."""
    return Path(file.abs_src_path).resolve().relative_to(ROOT).as_posix()


def on_page_markdown(markdown: str, page: Any, files: Any, **_: Any) -> str:
    """The Markdown of a page, with links that lead to pages of the site."""
    paths = ((file, file.abs_src_path) for file in files if file.abs_src_path)  # a notebook has none
    present = {repository_name(file) for file, path in paths if Path(path).resolve().is_relative_to(ROOT)}
    name = repository_name(page.file)
    text = bars(site_links(markdown, name, present))
    if ROOT / name in TUTORIALS:
        text += f"\n\n[This page as a notebook, with its outputs]({Path(name).stem}.ipynb)\n"
    return text
