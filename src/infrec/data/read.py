"""From a path to rows: what lies there, in whatever format, and what lies beside it about items."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa

from infrec import artifacts
from infrec.data import columns as col
from infrec.data import publishers
from infrec.data.assemble import Fields, assemble, cut_to_core, item_info, number
from infrec.data.columns import DEFAULTS, ReadOptions
from infrec.data.json_lines import JsonLinesSource, is_json_lines
from infrec.data.parsing import encode
from infrec.data.partitioned import KIND, PartitionedLog
from infrec.data.publishers import Folder, Zip
from infrec.data.remote import is_remote, local_copy
from infrec.data.sources import PARQUET, TEXT, ParquetSource, SeveralSources, Source, TableSource, files_in
from infrec.data.text import TextSource
from infrec.data.vocabulary import Vocabulary
from infrec.errors import ConfigError, DataError
from infrec.progress import Progress

LATER = ("min_user", "min_item", "items_id", "items_title", "by_row")  # options for a prepared dataset, too


def read(path: str | os.PathLike[str], options: ReadOptions, items: Any, progress: Progress) -> Fields:
    """A log from a path, of which `Interactions.read` makes one; `items`: a path or a frame about items."""
    path = local_copy(os.fspath(path)) if is_remote(path) else path
    if artifacts.kind_of(path) != KIND:
        source, about_items = sources(path, options)
        return assemble(source, options, items_source(items) or about_items, progress)
    # What counts was decided when it was prepared.
    chosen = (name for name in options.names() if getattr(options, name) != getattr(DEFAULTS, name))
    for name in (name for name in chosen if name not in LATER):
        raise ConfigError(
            f"{name} is given for {Path(path).name}, a prepared dataset whose rows were chosen when it "
            "was prepared; leave it out, or prepare the source again with it."
        )
    log = PartitionedLog.open(path).fields(progress)
    about = items_source(items)
    if about is not None:
        log["item_info"] = item_info(about, log["items"], options)
    return cut_to_core(log, options)


def sources(path: str | os.PathLike[str], options: ReadOptions = DEFAULTS) -> tuple[Source, Source | None]:
    """The rows at a path, and what lies beside them about items."""
    if not os.fspath(path):  # pathlib would take it for the current directory
        raise DataError("the path is empty; expected a file, a directory or the name of a dataset.")
    path = local_copy(os.fspath(path)) if is_remote(path) else Path(path).expanduser()
    if not path.exists():
        raise _missing(path)
    if artifacts.kind_of(path) == KIND:
        raise DataError(f"{path.name} is a prepared dataset already; use it as DATA, as it is.")
    try:
        if path.is_dir():
            return publishers.detect(Folder(path), options) or (_folder(path, options), None)
        with path.open("rb") as file:
            start = file.read(4)
    except PermissionError:
        raise DataError(f"{path.name} may not be read; check its permissions.") from None
    if start == b"PAR1" or path.suffix.lower() in (".parquet", ".pq", ".parq"):
        return ParquetSource(path), None
    if start == b"PK\x03\x04" or path.suffix.lower() == ".zip":
        if (pair := publishers.detect(Zip(path), options)) is None:
            raise DataError(
                f"{path.name} is an archive without a known publisher's files (MovieLens, Netflix); "
                "expected a file of interactions: unpack it and name that file."
            )
        return pair
    if (ratings := publishers.one_file(path, start)) is not None:
        return ratings, None
    if is_json_lines(path.name, start):
        return JsonLinesSource.at(path), None
    return TextSource(lambda: cast(BinaryIO, path.open("rb")), path.name, options), None


def _folder(path: Path, options: ReadOptions) -> Source:
    """The rows of all tables in a directory."""
    if files_in(path, PARQUET):
        return ParquetSource(path)
    name = path.name or str(path)
    if texts := files_in(path, TEXT):
        return SeveralSources([sources(file, options)[0] for file in texts], name)
    if objects := JsonLinesSource.in_folder(path):
        return SeveralSources(objects, name)
    raise DataError(
        f"{name} is a directory without tables or a known publisher's files; expected *.parquet, *.csv or "
        "*.jsonl in it: name a file instead."
    )


def items_source(items: Any) -> Source | None:
    """A table about items, from a path or a frame; None of None."""
    if items is None:
        return None
    return sources(items)[0] if isinstance(items, (str, os.PathLike)) else TableSource(items, "the items")


def _missing(path: Path) -> DataError:
    """There is no such file: what is near it."""
    folder = path.parent
    near = sorted(p.name for p in folder.iterdir())[:200] if folder.is_dir() else []
    alike = [name for name in near if name.lower().startswith(path.stem.lower()[:3])]
    hint = f"; the folder has {col.listed(alike, 4)}" if alike else ""
    return DataError(f"there is no file or directory {str(path)!r}{hint}: check the path.")


def read_catalogue(path: Path) -> tuple[Vocabulary, pa.Table | None]:
    """The ids of a list of items, read as those of a log are, and the titles and genres that it has.

    Args:
        path: A table with a column of item ids, or a text file of ids alone.
    """
    source = sources(path)[0]
    key = col.find("item", source.columns)
    key = key or next((name for name in source.columns if col.normalised(name) == "id"), None)
    headless = False
    if isinstance(source, TextSource):
        known = key is not None or any(col.recognised(name) for name in source.columns)
        if not known and len(source.columns) > 1:
            raise DataError(
                f"the catalogue {path.name} has no column that is recognised as the item; it has "
                f"{col.listed(source.columns)}: give it a header that names the column of ids `item`."
            )
        headless = not known or not source.has_header
        if not known:
            source = TextSource(lambda: path.open("rb"), path.name, header=["item"])
        key = source.columns[0] if headless else key
    key = key or source.columns[0]
    table, _ = next(source.tables([key]))
    codes, ids = encode(table.column(key), from_text=source.from_text, what="item")
    items = number(codes[codes >= 0], ids)[1]
    if not len(items):
        raise DataError(f"the catalogue {path.name} names no item; expected a column of item ids.")
    # Of a table with users nothing but the ids is taken: what stands beside them is somebody's.
    if headless or col.find("user", source.columns):
        return items, None
    info = item_info(source, items, item=key)
    names = [name for name in ("title", "genres") if name in info.column_names]
    return items, info.select(names) if names else None
