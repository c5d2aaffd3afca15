"""A page of the documentation whose code was run, as a Jupyter notebook with what it printed and drew."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from run_pages import BLOCK

PICTURE = re.compile(r"(!\[[^\]]*\]\()([^)\s:]+\.svg)\)")
PAGE_LINK = re.compile(r"(\]\((?![a-z]+:)[^)\s#]+)\.md([)#])")
COMMENT = re.compile(r"<!--|-->")


def notebook(page: Path) -> dict[str, Any]:
    """The notebook of a page: text, code with its output, pictures inside.

    Args:
        page: A Markdown file that `run_pages` runs.
    """
    text = page.read_text(encoding="utf-8")
    cells, end = [], 0
    for block in BLOCK.finditer(text):
        if block["skip"]:
            continue  # stays a part of the text
        cells += _words(text[end : block.start()], page.parent)
        cells.append(_code(block["kind"], block["code"], block["output"]))
        end = block.end()
    cells += _words(text[end:], page.parent)
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": cells}


def _words(text: str, folder: Path) -> list[dict[str, Any]]:
    """A cell of text, its pictures attached; none where there is nothing to read."""
    text = PAGE_LINK.sub(r"\1.html\2", COMMENT.sub("", text)).strip()
    if not text:
        return []
    files = {Path(name).name: folder / name for _, name in PICTURE.findall(text)}
    text = PICTURE.sub(lambda found: f"{found[1]}attachment:{Path(found[2]).name})", text)
    cell: dict[str, Any] = {"cell_type": "markdown", "metadata": {}, "source": text}
    if files:
        pictures = {name: file.read_text(encoding="utf-8") for name, file in files.items()}
        cell["attachments"] = {name: {"image/svg+xml": picture} for name, picture in pictures.items()}
    return [cell]


def _code(kind: str, code: str, output: str | None) -> dict[str, Any]:
    outputs = [] if output is None else [{"output_type": "stream", "name": "stdout", "text": output}]
    source = code.rstrip("\n") if kind == "python" else f"%%bash\n{code.rstrip()}"
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "source": source,
        "outputs": outputs,
    }
