"""JSON Lines: one object per line, plain or compressed, at the speed of pyarrow's parser."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Self

import pyarrow as pa
import pyarrow.json as pajson

from infrec.data.sources import Source, files_in, grouped
from infrec.data.text import decompressed, explain
from infrec.errors import DataError, first_line

ENDINGS = (".jsonl", ".ndjson", ".jsonlines")
FILES = r"(jsonl|ndjson|jsonlines|json)(\.(gz|bz2|zst))?"  # endings of files that a folder may hold
HEAD = 1 << 20  # bytes whose objects tell the columns and their types
CHUNK = 32 << 20


def is_json_lines(name: str, start: bytes) -> bool:
    """Whether a file is JSON Lines, by its name or by its first bytes; refuses one large JSON array."""
    name = name.lower()
    for packed in (".gz", ".bz2", ".zst"):
        name = name.removesuffix(packed)
    if name.endswith(ENDINGS):
        return True
    if name.endswith(".json") and start.lstrip()[:1] == b"[":
        raise DataError(
            f"{name} is a JSON array; expected one object per line (JSON Lines): convert it, for example "
            "with jq -c '.[]'."
        )
    return name.endswith(".json") or start.lstrip()[:1] == b"{"


class JsonLinesSource(Source):
    """A file with one JSON object per line; an object without a field has none there."""

    def __init__(self, open_bytes: Callable[[], BinaryIO], name: str) -> None:
        self.name = name
        self._open = lambda: decompressed(open_bytes(), name)
        head = next(self._chunks(HEAD), b"")
        if not head.strip():
            raise DataError(f"{name} is empty; expected one JSON object per line.")
        rows = [row for row in map(_object, head.splitlines()) if row is not None]
        if not rows:
            raise DataError(
                f"{name} is no JSON Lines: its first lines hold no JSON objects; check what it is."
            )
        self.columns = list(dict.fromkeys(column for row in rows for column in row))
        self.kinds = {
            column: _kind([row.get(column) for row in rows], column, name) for column in self.columns
        }

    @classmethod
    def at(cls, path: Path) -> Self:
        """The rows of a file.

        Args:
            path: The file.
        """
        return cls(lambda: path.open("rb"), path.name)

    @classmethod
    def in_folder(cls, folder: Path) -> list[Self]:
        """The files of a folder, with the same columns; a field that one of them has not is empty there.

        Args:
            folder: The folder.
        """
        parts = [cls.at(file) for file in files_in(folder, FILES)]
        _unify(parts)
        return parts

    def tables(
        self, columns: Sequence[str], plain: Sequence[str] = (), rows: int | None = None
    ) -> Iterator[tuple[pa.Table, int]]:
        # A field that nothing tells the type of is text.
        kinds = {name: pa.string() if pa.types.is_null(kind) else kind for name, kind in self.kinds.items()}
        schema = pa.schema([(column, kinds[column]) for column in columns])
        damaged = 0

        def batches() -> Iterator[pa.RecordBatch]:
            nonlocal damaged
            for chunk in self._chunks(CHUNK):
                table, bad = self._parsed(chunk, schema)
                damaged += bad
                yield from table.to_batches()

        if rows is None:
            table = pa.Table.from_batches(list(batches()), schema)
            yield table, damaged
            return
        told = 0
        for table in grouped(batches(), rows):
            yield table, damaged - told
            told = damaged
        if damaged > told:
            yield schema.empty_table(), damaged - told

    def _chunks(self, size: int) -> Iterator[bytes]:
        """The file in pieces of whole lines."""
        held = b""
        try:
            with self._open() as stream:
                while data := stream.read(size):
                    held += data
                    if cut := held.rfind(b"\n") + 1:
                        yield held[:cut]
                        held = held[cut:]
        except (OSError, EOFError, pa.ArrowException) as error:
            raise explain(error, self.name) from None
        if held.strip():
            yield held

    def _parsed(self, chunk: bytes, schema: pa.Schema) -> tuple[pa.Table, int]:
        """The fields of a chunk's objects, and how many of its lines are none."""
        try:
            return self._read(chunk, schema), 0
        except pa.ArrowInvalid:
            full = [line for line in chunk.splitlines() if line.strip()]
            lines = [line for line in full if _object(line) is not None]
            bad = len(full) - len(lines)
        try:
            return self._read(b"\n".join(lines), schema) if lines else schema.empty_table(), bad
        except pa.ArrowInvalid as error:
            raise DataError(
                f"{self.name} has a field whose type changes ({first_line(error)}); expected one type in all "
                "lines: write it again."
            ) from None

    @staticmethod
    def _read(chunk: bytes, schema: pa.Schema) -> pa.Table:
        """pyarrow's own parse; blank lines are none."""
        options = pajson.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        reading = pajson.ReadOptions(block_size=max(1 << 20, min(len(chunk), 8 << 20)))
        return pajson.read_json(pa.BufferReader(chunk), reading, options).select(schema.names)


def _unify(parts: Sequence[JsonLinesSource]) -> None:
    """Give the files of one log the same columns, each of one type in all of them."""
    kinds: dict[str, tuple[pa.DataType, str]] = {}
    for part in parts:
        for column, kind in part.kinds.items():
            known, where = kinds.setdefault(column, (kind, part.name))
            if pa.types.is_nested(known) and pa.types.is_nested(kind):
                continue  # no column that is read
            both = [pa.schema([(column, known)]), pa.schema([(column, kind)])]
            try:
                merged = pa.unify_schemas(both, promote_options="permissive").field(0).type
            except pa.ArrowTypeError:
                raise DataError(
                    f"field {column!r} is {known} in {where} and {kind} in {part.name}; expected one type in "
                    "all files of a directory: write one of them again."
                ) from None
            kinds[column] = (merged, part.name if pa.types.is_null(known) else where)
    for part in parts:
        part.columns, part.kinds = list(kinds), {column: kind for column, (kind, _) in kinds.items()}


def _object(line: bytes) -> dict[str, Any] | None:
    """A line's JSON object; None where it is none."""
    try:
        value = json.loads(line)
        json.dumps(value, ensure_ascii=False).encode()  # halves of characters are no text
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _kind(values: Sequence[Any], column: str, name: str) -> pa.DataType:
    """The type of a field; null where nothing tells."""
    try:
        return pa.array(values).type
    except (pa.ArrowException, OverflowError):
        kinds = sorted({type(value).__name__ for value in values if value is not None})
        raise DataError(
            f"{name} has a field {column!r} of several types ({', '.join(kinds)}); expected one: write it "
            "again."
        ) from None
