"""`infrec init`: look at a file, say how it is understood, and write that down for all other commands."""

from __future__ import annotations

import json
import os
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infrec import drafts
from infrec.cli import console
from infrec.cli.options import Answer, argument
from infrec.cli.reading import Reading, advised, file_beside, reads_data, report_lines
from infrec.errors import ConfigError, InfrecError, first_line
from infrec.progress import Progress

if TYPE_CHECKING:
    import pyarrow as pa

    from infrec.data import Interactions
    from infrec.data.sources import Source

ROWS = 10
ENOUGH = 0.2  # of the log's items a table about items must know
LARGEST = 2 << 30  # bytes of a file beside the data that is looked into
ENDINGS = (".csv", ".tsv", ".dat", ".txt", ".item", ".parquet", ".jsonl", ".csv.gz", ".tsv.gz", ".jsonl.gz")


@reads_data
def init(
    file: Annotated[str, argument("FILE", "The file or folder of interactions.")],
    reading: Reading = Reading(),
) -> Answer:
    """Look at a file, show how it is understood, and write that into infrec.toml for all other commands.

    Whatever the file does not tell, or tells wrongly, is given as an option; it is written down too.

    [bold]Examples[/]

      infrec init ratings.csv
      infrec init BX-Book-Ratings.csv --items BX-Books.csv --positive "rating >= 7"
    """
    if not Path(file).expanduser().exists():
        raise typer.BadParameter(f"there is no file {file!r}; check the path.", param_hint="FILE")
    target = Path(reading.config).expanduser() if reading.config is not None else file_beside(file)
    if reading.config is not None and not _has_section(target, Path(file).name):
        reading = replace(reading, config=None)  # it is to be written
    with console.bars() as progress:
        log, options, rows, notes = _understood(file, reading, progress)
    if "items" in options:
        options["items"] = _relative(str(options["items"]), target.parent)
    section = _write_section(target, Path(file).name, options)
    console.saved(target)
    document = {
        "data": file,
        "config": str(target),
        "options": options,
        "users": log.n_users,
        "items": log.n_items,
        "interactions": log.n_interactions,
        "titles": log.titles is not None,
        "rows": rows,
        "notes": notes,
    }

    apart = target.absolute() != file_beside(file).absolute()
    words, named = (["--config", str(target)], " where --config names it") if apart else ([], "")

    def show() -> None:
        for line in notes:
            console.note(line)
        head = list(rows[0])
        console.table([["" if row[name] is None else row[name] for name in head] for row in rows], head)
        console.say(
            f"\n{log.n_users:,} users, {log.n_items:,} items, {log.n_interactions:,} interactions. Every "
            f"command reads this in [bold]{console.plain(target)}[/]{named}:\n\n{console.plain(section)}"
        )
        console.say(console.then(shlex.join(["infrec", "fit", file, "-o", "model", *words])))

    return document, show


def _understood(
    file: str, reading: Reading, progress: Progress
) -> tuple[Interactions, dict[str, Any], list[dict[str, Any]], list[str]]:
    """The log as it will be read, the options that say so, its first rows, and what is worth knowing."""
    from infrec.data.columns import listed
    from infrec.data.read import sources
    from infrec.data.row_rules import Rules

    reading = reading.for_data(file)
    source = sources(file, reading)[0]
    rules = Rules(source, reading)
    options = _seen(source, rules.roles, reading)
    chosen = Reading(**{**reading.given(), **options})
    log = chosen.load(file, progress, noted=False)
    notes = report_lines(log.report)
    if chosen.positive is None and log.report is not None:
        proposals = (one for note in log.report.notes for one in advised(note))
        rules_of_ratings = (str(one["positive"]) for one in proposals if "positive" in one)
        if rule := next((one for one in rules_of_ratings if one.startswith("rating ")), None):
            options["positive"] = rule
            notes = [_taken(note) for note in notes if "rows count as interactions" not in note]
    if chosen.items is None and log.titles is None and (items := _items_beside(Path(file), log, rules.roles)):
        options["items"] = str(items)
    if "positive" in options or "items" in options:
        chosen = Reading(**{**chosen.given(), **options})
        log = chosen.load(file, progress, noted=False)
    notes += [line for line in report_lines(log.report) if line not in notes]
    unused = [name for name in source.columns if name not in rules.wanted]
    if unused and not any(repr(name) in note for name in unused for note in notes):
        notes.append(f"not used: {listed(unused, 4)}; --rating, --time or --weight says what a column holds")
    return log, options, _rows(source, rules, log), notes


def _taken(note: str) -> str:
    """Advice about a rule for ratings, which is taken."""
    every, separator, rule = note.partition("; for the good ones alone, ")
    rule = rule.replace(" of the rows, use --positive ", " of the rows, infrec.toml now has --positive ")
    return f"without a rule {every}{separator}{rule}" if separator else note


def _seen(source: Source, roles: dict[str, str], reading: Reading) -> dict[str, Any]:
    """Columns, delimiter and missing header, as the file shows them."""
    from infrec.data.text import NAMED_DELIMITERS, TextSource

    columns = {
        role: name for role, name in roles.items() if role in ("user", "item", "rating", "time", "weight")
    }
    seen: dict[str, Any] = dict(columns)
    if isinstance(source, TextSource):
        if not source.has_header:
            seen = {role: source.columns.index(name) + 1 for role, name in columns.items()}
            seen["no_header"] = True
        words = {character: word for word, character in NAMED_DELIMITERS.items() if len(word) > 2}
        seen["delimiter"] = words.get(source.delimiter, source.delimiter)
        next(source.tables([roles["user"]]))  # the encoding is known when everything was read
        if source.encoding is not None:
            seen["encoding"] = source.encoding
    return seen | reading.given()


def _items_beside(file: Path, log: Interactions, roles: dict[str, str]) -> Path | None:
    """The file in the same folder that knows the titles of most items; None where none knows enough."""
    from infrec.data.assemble import item_info

    best, share = None, ENOUGH
    for path, source in _tables_beside(file):
        try:
            titles = item_info(source, log.items, item=roles["item"])
        except InfrecError:
            continue
        if "title" in titles.column_names:
            known = 1 - titles.column("title").null_count / max(1, log.n_items)
            best, share = (path, known) if known > share else (best, share)
    return best


def _tables_beside(file: Path) -> Iterator[tuple[Path, Source]]:
    """The other tables in the folder that have no users."""
    from infrec.data import columns
    from infrec.data.read import sources

    for path in sorted(file.expanduser().parent.iterdir()):
        if path.name == file.name or not path.name.lower().endswith(ENDINGS) or not path.is_file():
            continue
        if path.stat().st_size > LARGEST:
            continue
        try:
            source = sources(path)[0]
        except InfrecError:
            continue
        if source.has_header and columns.find("user", source.columns) is None:
            yield path, source


def _rows(source: Source, rules: Any, log: Interactions) -> list[dict[str, Any]]:
    """The first rows as they are understood: ids, title, rating, time, and whether they count."""
    from infrec.data.columns import ALIASES
    from infrec.data.parsing import decoded, instants, whole

    table: pa.Table = next(source.tables(rules.wanted, rules.plain, ROWS))[0].slice(0, ROWS)
    columns: dict[str, list[Any]] = {}
    for role in (
        role for role in ALIASES if role in rules.roles and role not in ("title", "genres", "split")
    ):
        column = table.column(rules.roles[role])
        columns[role] = decoded(whole(column)).to_pylist()
        if role == "time":
            columns[role] = [_day(moment) for moment in instants(column).tolist()]
        if role == "item" and log.titles is not None:
            at = log.items.positions(columns[role])
            columns["title"] = [log.titles[place].as_py() if place >= 0 else None for place in at.tolist()]
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _day(microseconds: float) -> str | None:
    """A moment as a day and a time, in UTC; None where there is none, or none that a calendar has."""
    try:
        return datetime.fromtimestamp(microseconds / 1e6, UTC).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return None


# ---- infrec.toml -------------------------------------------------------------------------------------------
def _has_section(path: Path, name: str) -> bool:
    """Whether a file of options is there, and has those of this data or cannot be understood."""
    try:
        return name in tomllib.loads(path.read_text())
    except (OSError, UnicodeError, tomllib.TOMLDecodeError):
        return path.exists()


def _write_section(path: Path, name: str, options: Mapping[str, object]) -> str:
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


def _relative(path: str, folder: Path) -> str:
    """A path as it is written into a file of options in this folder."""
    return path if "://" in path else os.path.relpath(Path(path).expanduser().absolute(), folder.absolute())


def _value(value: object) -> str:
    if isinstance(value, bool | int):
        return str(value).lower()
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if '"' not in text or "'" in text else f"'{text}'"
