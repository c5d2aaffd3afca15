"""The two ways in: a path of whatever format, or a frame of whatever library."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa

from infrec.data import columns as col
from infrec.data import partitioned, publishers
from infrec.data.archives import Folder, Zip
from infrec.data.assemble import assemble, item_info, number
from infrec.data.interactions import Interactions
from infrec.data.parsing import encode
from infrec.data.read_options import Duplicates, ReadOptions
from infrec.data.sources import ParquetSource, Source, TableSource
from infrec.data.text import TextSource
from infrec.data.vocabulary import Vocabulary
from infrec.errors import ConfigError, DataError
from infrec.progress import Progress, silent


def read(
    path: str | os.PathLike[str],
    *,
    user: str | int | None = None,
    item: str | int | None = None,
    rating: str | int | None = None,
    time: str | int | None = None,
    weight: str | int | None = None,
    positive: str | None = None,
    duplicates: Duplicates = "first",
    strict: bool = False,
    by_row: bool = False,
    items: Any = None,
    progress: Progress = silent,
) -> Interactions:
    """Read a log: delimited text (also compressed), Parquet (file or directory), a publisher's folder or zip,
    or a prepared dataset.

    A column `split` (train, val, test) fills `.parts`. What was dropped stands in `.report`.

    Args:
        path: The file or the folder.
        user, item, rating, time, weight: The column's name (or position), where it is not recognised.
        positive: What counts as an interaction, such as "rating >= 4"; everything does unless told.
        duplicates: A repeated (user, item) pair counts once ("first") or its values are summed ("sum").
        strict: Refuse, rather than drop and count, rows that cannot be used.
        by_row: Judge every row by itself alone, as differential privacy needs: times are not read, and a
            column `split` is one whatever it holds.
        items: A file or frame about items (titles, genres), joined on the item.
        progress: Told how many rows are read.
    """
    options = ReadOptions(user, item, rating, time, weight, positive, duplicates, strict, by_row)
    if partitioned.is_partitioned(path):
        return _read_prepared(path, options, items, progress)
    wanted = [str(name) for name in options.columns.values() if name is not None]
    source, about_items = sources(path, wanted)
    if items is not None:
        about_items = items_source(items)
    return assemble(source, options, about_items, progress)


def _read_prepared(
    path: str | os.PathLike[str], options: ReadOptions, items: Any, progress: Progress
) -> Interactions:
    """A prepared dataset as it is: what counts was decided when it was prepared."""
    default = ReadOptions()
    given = (*options.columns, "positive", "duplicates", "strict")
    asked = [name for name in given if getattr(options, name) != getattr(default, name)]
    if asked:
        raise ConfigError(
            f"{asked[0]} is given for {Path(path).name}, a prepared dataset whose rows were chosen when it "
            "was prepared; leave it out, or prepare the source again with it."
        )
    log = partitioned.PartitionedLog.open(path).interactions(progress=progress)
    if items is None:
        return log
    return replace(log, item_info=item_info(items_source(items), log.items))


def from_frame(
    frame: Any,
    *,
    user: str | int | None = None,
    item: str | int | None = None,
    rating: str | int | None = None,
    time: str | int | None = None,
    weight: str | int | None = None,
    positive: str | None = None,
    duplicates: Duplicates = "first",
    strict: bool = False,
    items: Any = None,
    progress: Progress = silent,
) -> Interactions:
    """A log from any dataframe that speaks the Arrow C stream protocol (pandas, polars, Arrow, DuckDB, …).

    Args:
        frame: The dataframe, one row per interaction; or a mapping of columns.
        user, item, rating, time, weight: The column's name (or position), where it is not recognised.
        positive, duplicates, strict, items, progress: See `read`.
    """
    options = ReadOptions(user, item, rating, time, weight, positive, duplicates, strict)
    return assemble(TableSource(frame), options, None if items is None else items_source(items), progress)


def sources(path: str | os.PathLike[str], wanted: list[str] | None = None) -> tuple[Source, Source | None]:
    """The rows at a path, and what lies beside them about items."""
    if not os.fspath(path):  # pathlib would take it for the current directory
        raise DataError("the path is empty; expected a file, a directory or the name of a dataset.")
    path = Path(path).expanduser()
    if not path.exists():
        raise _missing(path)
    if partitioned.is_partitioned(path):
        raise DataError(f"{path.name} is a prepared dataset already; use it as DATA, as it is.")
    try:
        if path.is_dir():
            return publishers.detect(Folder(path)) or (ParquetSource(path), None)
        with path.open("rb") as file:
            start = file.read(4)
    except PermissionError:
        raise DataError(f"{path.name} may not be read; check its permissions.") from None
    if start == b"PAR1" or path.suffix.lower() in (".parquet", ".pq", ".parq"):
        return ParquetSource(path), None
    if start == b"PK\x03\x04" or path.suffix.lower() == ".zip":
        archive = Zip(path)
        found = publishers.detect(archive)
        if found is None:
            raise DataError(
                f"{path.name} is an archive without a known publisher's files (MovieLens, Netflix); "
                "expected a file of interactions: unpack it and name that file."
            )
        return found
    if publishers.is_netflix(path.name, start):
        return publishers.netflix(Folder(path.parent), [path.name]), None
    return TextSource(lambda: cast(BinaryIO, path.open("rb")), path.name, wanted=wanted or ()), None


def items_source(items: Any) -> Source:
    """A table about items, from a path or a frame."""
    if isinstance(items, (str, os.PathLike)):
        return sources(items)[0]
    return TableSource(items, "the items")


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
    source = items_source(path)
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
    table, _ = source.load([key])
    codes, ids = encode(table.column(key), from_text=source.from_text, what="item")
    items = number(codes[codes >= 0], ids)[1]
    if not len(items):
        raise DataError(f"the catalogue {path.name} names no item; expected a column of item ids.")
    # Of a table with users nothing but the ids is taken: what stands beside them is somebody's.
    if headless or col.find("user", source.columns):
        return items, None
    info = item_info(source, items, key)
    told = [name for name in ("title", "genres") if name in info.column_names]
    return items, info.select(told) if told else None
