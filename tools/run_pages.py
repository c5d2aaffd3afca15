"""Run the code of documentation pages, and compare what it prints with the page, or write it down.

    python tools/run_pages.py docs/tutorials/table1.md            # compares; ends with 1 where they differ
    python tools/run_pages.py --write docs/tutorials/table1.md    # writes outputs and pictures into the page

Blocks marked `python` and `sh` run in order in an empty directory; Python blocks of a page share their names.
A block marked `text` that follows is what the block prints. Blocks in an HTML comment run unseen, and a block
after `<!-- not run -->` is left alone. A picture of the page that the code writes, by its name, into the
directory is taken over by `--write`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib

ROOT = Path(__file__).parents[1]
PAGES = (
    "README.md",
    "docs/quick-start.md",
    "docs/data-formats.md",
    "docs/choosing.md",
    "docs/how-to.md",
    "docs/ntk.md",
    "docs/updating.md",
    "docs/tutorials/csv-to-page.md",
    "docs/tutorials/large-log.md",
    "docs/tutorials/summary-for-implicit.md",
    "docs/tutorials/what-a-summary-gives-away.md",
    "docs/tutorials/table1.md",
)
BLOCK = re.compile(
    r"(?P<skip><!-- not run -->\n)?"
    r"```(?P<kind>python|sh)\n(?P<code>.*?)```"
    r"(?:\n\n?```text\n(?P<output>.*?)```)?",
    re.DOTALL,
)
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")
# What differs with the machine: times, bytes, and the step that the last bits of a validation choose.
MEASURED = re.compile(r"\d[\d.,]* ?(?:s|ms|min|kB|MB|MiB|GiB)\b|best of them \d+")
NUMBER = re.compile(r"(\d[\d,]*\.?\d*)(\s%)?")
POINTS = 2.0  # a share of a few hundred people, "4.2 %", moves so much with the last bits of a summary
FRAME = re.compile(r"[─━│┃┏┓┗┛┡┩┳┻╇┴┬├┤┼└┘┌┐╞╡╪]+")  # its width follows that of the numbers


os.environ["SOURCE_DATE_EPOCH"] = "0"  # pictures without a date


def run(kind: str, code: str, names: dict[str, Any]) -> str:
    """The standard output of a block of code, and for a failed command the standard error."""
    if kind == "python":
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "<page>", "exec"), names)
        return printed.getvalue()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "100"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{code}\nended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def outputs(page: str) -> list[tuple[re.Match[str], str]]:
    """Each block of a page that runs, with what it printed; the current directory is theirs."""
    names: dict[str, Any] = {"__name__": "page"}
    blocks = [block for block in BLOCK.finditer(page) if not block["skip"]]
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "infrec"}):  # small, and no chance
        return [(block, run(block["kind"], block["code"], names)) for block in blocks]


def same(said: str, printed: str) -> bool:
    """Whether two outputs say the same: equal words, numbers within a tenth, shares within two points, any
    times and bytes."""
    texts = [FRAME.sub(" ", MEASURED.sub("…", text)) for text in (said, printed)]
    if NUMBER.sub(r"#\2", texts[0]).split() != NUMBER.sub(r"#\2", texts[1]).split():
        return False
    return all(map(_close, *(NUMBER.finditer(text) for text in texts)))


def _close(said: re.Match[str], printed: re.Match[str]) -> bool:
    a, b = (float(number[1].replace(",", "")) for number in (said, printed))
    return math.isclose(a, b, rel_tol=0.1, abs_tol=POINTS if said[2] else 0.05)


def with_outputs(page: str, printed: list[tuple[re.Match[str], str]]) -> str:
    """The page with the outputs of its blocks written where it shows one."""
    for block, text in reversed(printed):
        if block["output"] is not None:
            lines = "\n".join(line.rstrip() for line in text.rstrip("\n").splitlines())
            page = f"{page[: block.start('output')]}{lines}\n{page[block.end('output') :]}"
    return page


def visit(path: Path, *, write: bool) -> list[str]:
    """Run a page in a directory of its own.

    Args:
        path: The page.
        write: Whether outputs and pictures are written into the documentation.

    Returns:
        What the page says and the code does not.
    """
    page = path.read_text(encoding="utf-8")
    pictures = [path.parent / name for name in PICTURE.findall(page)]
    with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
        printed = outputs(page)
        if write:
            path.write_text(with_outputs(page, printed), encoding="utf-8")
            for picture in pictures:
                if Path(picture.name).is_file():
                    shutil.copy(picture.name, picture)
            return []
    shown = [(block["output"], text) for block, text in printed if block["output"] is not None]
    return [
        f"{path.name} says\n{said}\nbut its code prints\n{text}"
        for said, text in shown
        if not same(said, text)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, help="pages (default: all whose code runs)")
    parser.add_argument("--write", action="store_true", help="write outputs and pictures into the pages")
    options = parser.parse_args()
    pages = [page.resolve() for page in options.pages] or [ROOT / name for name in PAGES]
    differences = [line for page in pages for line in visit(page, write=options.write)]
    sys.stdout.write("".join(f"{line}\n" for line in differences))
    return bool(differences)


if __name__ == "__main__":
    sys.exit(main())
