"""The tables of settings in the documentation are those that the declarations give.

`python tests/test_settings_docs.py` writes them anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from infrec import models
from infrec.distillation import DistillSettings
from infrec.distillation.settings import MODES

DOCS = Path(__file__).parent.parent / "docs"


def models_table() -> str:
    """One row for each setting of each model."""
    lines = ["| model | setting | values | default | meaning |", "|---|---|---|---|---|"]
    for name in models.NAMES:
        first = f"`{name}`"
        for setting, allowed, default, meaning in models.class_of(name).settings_type.documentation():
            lines.append(f"| {first} | `{setting}` | {allowed} | {default} | {meaning} |")
            first = ""
        if first:
            lines.append(f"| {first} | none | | | |")
    return "\n".join(lines)


def distillation_table() -> str:
    """One row for each setting of a distillation, with the default of each mode."""
    lines = ["| setting | " + " | ".join(MODES) + " | meaning |", "|---|" + "---|" * (len(MODES) + 1)]
    defaults = [DistillSettings.of(mode).to_dict() for mode in MODES]
    for name, *_, meaning in DistillSettings.documentation():
        values = " | ".join(_default(each[name]) for each in defaults)
        lines.append(f"| `{name}` | {values} | {meaning} |")
    return "\n".join(lines)


def _default(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(f"{each:g}" for each in value)
    return "–" if value is None else f"{value:g}" if isinstance(value, float) else str(value).lower()


TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "cli.md": ("## Models and their settings", models_table),
    "distillation.md": ("## Settings", distillation_table),
}


def with_table(page: str, heading: str, table: str) -> str:
    """The page with the first table under a heading replaced."""
    start = page.index(f"\n{heading}\n")
    old = re.compile(r"^\|.*(?:\n\|.*)*", re.MULTILINE).search(page, start)
    assert old is not None, f"no table under {heading}"
    return page[: old.start()] + table + page[old.end() :]


@pytest.mark.parametrize("name", TABLES)
def test_the_table_is_the_declarations(name: str) -> None:
    page = (DOCS / name).read_text(encoding="utf-8")
    heading, table = TABLES[name]
    assert page == with_table(page, heading, table()), f"run python tests/{Path(__file__).name}"


if __name__ == "__main__":
    for name, (heading, table) in TABLES.items():
        path = DOCS / name
        text = path.read_text(encoding="utf-8")
        path.write_text(with_table(text, heading, table()), encoding="utf-8")
