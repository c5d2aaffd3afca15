"""`infrec.toml` beside the data: how a file is to be read, written once for all commands.

    ["ratings.csv"]
    items = "books.csv"
    positive = "rating >= 4"

A section has the name of a file or folder. Its keys are options as the command line spells them; paths in it
are relative to infrec.toml.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infrec import drafts
from infrec.errors import ConfigError, first_line

NAME = "infrec.toml"


def beside(data: str) -> Path:
    """Where the options of this data stand, if they do."""
    return Path(data).expanduser().parent / NAME


def options_of(data: str, file: str | None = None) -> dict[str, Any]:
    """The options for this data, by their names in Python; none where there is no file or no section.

    file: a file that the user named, which must have a section for the data.
    """
    path = beside(data) if file is None else Path(file).expanduser()
    if file is None and not path.is_file():
        return {}
    try:
        sections = tomllib.loads(path.read_text())
    except (OSError, UnicodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} cannot be read ({first_line(error)}); mend it or leave it out.") from None
    name = Path(data).name
    section = sections.get(name)
    if section is None and file is None:
        return {}
    if not isinstance(section, Mapping):
        has = ", ".join(f'["{one}"]' for one, value in sections.items() if isinstance(value, Mapping))
        raise ConfigError(f'{path} has no section ["{name}"]; it has {has or "none"}: add one.')
    options = {str(key).replace("-", "_"): value for key, value in section.items()}
    if isinstance(items := options.get("items"), str) and "://" not in items:
        options["items"] = str(path.parent / Path(items).expanduser())
    return options


def has_section(path: Path, name: str) -> bool:
    """Whether a file of options is there, and has those of this data or cannot be understood."""
    try:
        return name in tomllib.loads(path.read_text())
    except (OSError, UnicodeError, tomllib.TOMLDecodeError):
        return path.exists()


def write(path: Path, name: str, options: Mapping[str, object]) -> str:
    """Write the section of a file, beside or instead of an older one, and return it; other lines stay.

    Args:
        path: The file of options.
        name: The name of the data.
        options: The options, by their names in Python.
    """
    head = f"[{json.dumps(name, ensure_ascii=False)}]\n"
    keys = (f"{key.replace('_', '-')} = {_value(value)}\n" for key, value in options.items())
    section = head + "".join(keys)
    try:
        text = path.read_text() if path.exists() else ""
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"{path} cannot be read ({first_line(error)}); mend or move it.") from None
    older = re.search(rf"(?m)^{re.escape(head)}(?:(?!\[).*\n?)*", text)
    if older is not None:
        after = "\n" if text[older.end() :] else ""
        text = text[: older.start()] + section + after + text[older.end() :]
    else:
        text += ("\n" if text else "") + section
    drafts.write_text(path, text)
    return section


def relative(path: str, folder: Path) -> str:
    """A path as it is written into a file of options in this folder."""
    return path if "://" in path else os.path.relpath(Path(path).expanduser().absolute(), folder.absolute())


def _value(value: object) -> str:
    if isinstance(value, bool | int):
        return str(value).lower()
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if '"' not in text or "'" in text else f"'{text}'"
