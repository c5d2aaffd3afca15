"""Places a table of rows comes from: each tells its columns first and loads only those that are asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from infrec.contents import check_rows
from infrec.data.columns import listed, once
from infrec.errors import DataError, first_line

PARQUET, TEXT = "parquet|pq|parq", r"(csv|tsv)(\.(gz|bz2|zst))?"  # endings of files that a folder may hold


class Source:
    """Rows to be read. `from_text`: values were written as text, so that `7` may be a number."""

    name: str
    columns: list[str]
    from_text: bool = False
    invented: bool = False  # whether nobody needs to be told how its ratings are spread
    encoding: str | None = None  # of a text that turned out, while it was read, not to be UTF-8
    has_header: bool = True
    header_is_guess: bool = False  # whether the first line may be a row, unless its names are known
    notes: Sequence[str] = ()  # sentences about what the reader took for granted

    def tables(
        self, columns: Sequence[str], plain: Sequence[str] = (), rows: int | None = None
    ) -> Iterator[tuple[pa.Table, int]]:
        """These columns, and how many rows besides are ragged: in one table, or in tables of about `rows` one
        after the other, in memory that does not grow with the source.

        plain: columns with many distinct values, not worth a dictionary.
        """
        raise NotImplementedError


def grouped(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Record batches as tables of `rows` (the last one: of what is left)."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        while count + batch.num_rows >= rows:
            yield pa.Table.from_batches([*held, batch.slice(0, rows - count)])
            batch, held, count = batch.slice(rows - count), [], 0
        if batch.num_rows:
            held.append(batch)
            count += batch.num_rows
    if count:
        yield pa.Table.from_batches(held)


class TableSource(Source):
    """A table in memory: a frame of any library, or what the generator made."""

    def __init__(self, frame: Any, name: str = "the frame") -> None:
        self.name = name
        self._table = _as_table(frame)
        self.columns = list(self._table.column_names)

    def tables(
        self, columns: Sequence[str], plain: Sequence[str] = (), rows: int | None = None
    ) -> Iterator[tuple[pa.Table, int]]:
        table = self._table.select(list(columns))
        for start in (0,) if rows is None else range(0, table.num_rows, rows):
            yield table.slice(start, rows), 0


class ParquetSource(Source):
    """A Parquet file, or a directory of them (Hive-style `key=value` folders are columns)."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._path = path
        with _explained(self.name):
            if path.is_dir():
                import pyarrow.dataset as ds

                files = files_in(path, PARQUET)
                schemas = [_schema(file) for file in files]
                for schema in schemas:
                    once(schema.names, schema.names, self.name)
                schemas = _decoded(schemas)
                merged = _unified(schemas, [str(file.relative_to(path)) for file in files])
                hive = ds.HivePartitioning.discover(infer_dictionary=False)
                names, layout = list(map(str, files)), {"partitioning": hive, "partition_base_dir": str(path)}
                if any("=" in part for file in files for part in file.relative_to(path).parts[:-1]):
                    guess = ds.dataset(names, **layout)
                    merged = pa.unify_schemas(_decoded([merged, guess.schema]), promote_options="permissive")
                self._dataset = ds.dataset(names, schema=merged, **layout)
                self.columns = list(merged.names)
            else:
                self._dataset = None
                self.columns = list(_schema(path).names)

    def tables(
        self, columns: Sequence[str], plain: Sequence[str] = (), rows: int | None = None
    ) -> Iterator[tuple[pa.Table, int]]:
        names = list(columns)
        with _explained(self.name), ExitStack() as stack:
            if rows is None:
                if self._dataset is not None:
                    yield self._dataset.to_table(columns=names), 0
                    return
                file = stack.enter_context(pq.ParquetFile(self._path, memory_map=True, read_dictionary=[]))
                yield file.read(columns=names), 0
                return
            if self._dataset is not None:
                batches = self._dataset.to_batches(
                    columns=names, batch_size=1 << 18, batch_readahead=2, fragment_readahead=1
                )
            else:
                file = stack.enter_context(pq.ParquetFile(self._path, pre_buffer=False))
                batches = file.iter_batches(batch_size=1 << 20, columns=names)
            yield from ((table, 0) for table in grouped(batches, rows))


class SeveralSources(Source):
    """Files of one folder with the same columns, one after the other."""

    def __init__(self, parts: Sequence[Source], name: str) -> None:
        first, self._parts, self.name = parts[0], parts, name
        self.columns, self.notes = first.columns, first.notes
        self.from_text, self.has_header = first.from_text, first.has_header
        self.header_is_guess = any(part.header_is_guess for part in parts)
        for part in parts:
            if sorted(part.columns) != sorted(first.columns):
                raise DataError(
                    f"{name} is a directory of files with different columns: {first.name} has "
                    f"{listed(first.columns, 4)}, and {part.name} has {listed(part.columns, 4)}; expected "
                    "the same in all: name one file instead."
                )

    def tables(
        self, columns: Sequence[str], plain: Sequence[str] = (), rows: int | None = None
    ) -> Iterator[tuple[pa.Table, int]]:
        def every() -> Iterator[tuple[pa.Table, int]]:
            for part in self._parts:
                yield from part.tables(columns, plain, rows)
                self.encoding = self.encoding or part.encoding

        if rows is None:
            whole, ragged = zip(*every(), strict=True)
            yield pa.concat_tables(whole), sum(ragged)
        else:
            yield from every()


def files_in(folder: Path, endings: str) -> list[Path]:
    """Its files whose names end so, in a fixed order; names that start with `.` or `_` are bookkeeping.

    endings: A regular expression.
    """
    files = (file for file in folder.rglob("*") if re.fullmatch(rf".*\.({endings})", file.name))
    return sorted(
        file
        for file in files
        if not any(part[0] in "._" for part in file.relative_to(folder).parts) and file.is_file()
    )


def _schema(path: Path) -> pa.Schema:
    if path.stat().st_size == 0:
        raise DataError(f"{path.name} is empty; expected a Parquet file.")
    with pq.ParquetFile(path, memory_map=True) as file:
        check_rows(file.metadata)
        return file.schema_arrow


def _decoded(schemas: list[pa.Schema]) -> list[pa.Schema]:
    """Dictionaries as what they hold, in columns that are not of one type in all files."""
    kinds: dict[str, set[pa.DataType]] = {}
    for field in (field for schema in schemas for field in schema):
        kinds.setdefault(field.name, set()).add(field.type)

    def decoded(field: pa.Field) -> pa.Field:
        several = len(kinds[field.name]) > 1 and pa.types.is_dictionary(field.type)
        return field.with_type(field.type.value_type) if several else field

    return [pa.schema(map(decoded, schema)) for schema in schemas]


def _unified(schemas: list[pa.Schema], names: list[str]) -> pa.Schema:
    """One schema for all files; where a column's types cannot go together, it is named with two of them."""
    try:
        return pa.unify_schemas(schemas, promote_options="permissive")
    except pa.ArrowTypeError:
        first: dict[str, tuple[pa.Field, str]] = {}
        for schema, name in zip(schemas, names, strict=True):
            for field in schema:
                known, where = first.setdefault(field.name, (field, name))
                try:
                    pa.unify_schemas([pa.schema([known]), pa.schema([field])], promote_options="permissive")
                except pa.ArrowTypeError:
                    raise DataError(
                        f"column {field.name!r} is {known.type} in {where} and {field.type} in {name}; "
                        "expected one type in all files of a directory: write one of them again."
                    ) from None
        raise


def _as_table(frame: Any) -> pa.Table:
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if isinstance(frame, Mapping):
        try:
            return pa.table({str(key): pa.array(value) for key, value in frame.items()})
        except (ValueError, TypeError, OverflowError) as error:  # Arrow's own are among them
            raise DataError(
                f"the columns do not form a table ({first_line(error)}); give equally long lists, each of "
                "values of one type."
            ) from None
    if not hasattr(frame, "__arrow_c_stream__"):
        raise DataError(
            f"a {type(frame).__name__} was given; expected a dataframe that speaks the Arrow C stream "
            "protocol (pandas ≥ 2.2, polars, Arrow, DuckDB, …), or the path of a file with read()."
        )
    try:
        return pa.RecordBatchReader.from_stream(frame).read_all()
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:  # also those of pandas
        raise DataError(
            f"the frame could not be read through Arrow ({first_line(error)}); expected columns with names "
            "of their own, each of values of one type."
        ) from None


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Arrow's and the system's errors about a Parquet file, in one sentence."""
    try:
        yield
    except PermissionError:
        raise DataError(f"{name} may not be read; check its permissions.") from None
    except (pa.ArrowException, OSError, UnicodeError) as error:  # a column's name may be no text
        raise DataError(
            f"{name} cannot be read as Parquet ({first_line(error)}): it is cut off, damaged or "
            "something else; get it again."
        ) from None
