"""Tables into a file, one after the other, as the file's ending says: .csv, .jsonl or .parquet."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc

from infrec import drafts


def write_tables(tables: Iterable[pa.Table], out: Path) -> int:
    """Write tables one after the other; the file appears when it is whole.

    Returns the rows.

    Args:
        tables: Tables with the same columns.
        out: The file.
    """
    rows, writer = 0, None
    with drafts.writing(out) as file:
        for table in tables:
            writer = writer or WRITERS[out.suffix.lower()](file, table.schema)
            writer.write_table(table)
            rows += table.num_rows
        if writer is not None:
            writer.close()
    return rows


def _parquet(file: IO[bytes], schema: pa.Schema) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetWriter(file, schema, compression="zstd")


def _csv(file: IO[bytes], schema: pa.Schema) -> Any:
    from pyarrow import csv

    return csv.CSVWriter(file, schema)


class _JsonLines:
    """A writer of tables as one JSON object per line."""

    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        self._file = file

    def write_table(self, table: pa.Table) -> None:
        """Append the rows of a table."""
        parts: list[Any] = []
        for at, name in enumerate(table.column_names):
            parts += [f"{', ' if at else '{'}{json.dumps(name)}: ", _as_json(table.column(name))]
        lines = pc.binary_join_element_wise(*parts, "}\n", "")
        self._file.write("".join(lines.to_pylist()).encode())

    def close(self) -> None:
        """Nothing is left to write."""


def _as_json(column: pa.ChunkedArray) -> pa.Array:
    """Each value of a column of numbers or texts as JSON has it."""
    values = column.combine_chunks()
    if pa.types.is_string(values.type):
        distinct = values.dictionary_encode()
        words = [json.dumps(word, ensure_ascii=False) for word in distinct.dictionary.to_pylist()]
        values = pa.array(words, pa.string()).take(distinct.indices)
    return pc.fill_null(values.cast(pa.string()), "null")


WRITERS: Mapping[str, Callable[[IO[bytes], pa.Schema], Any]] = {
    ".csv": _csv,
    ".jsonl": _JsonLines,
    ".parquet": _parquet,
}
