"""Netflix prize files: 100 million lines, parsed in chunks with no Python loop over ratings."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from infrec.data.archive import Files
from infrec.data.arrow import from_numpy
from infrec.data.sources import BLOCK, grouped
from infrec.data.values import whole
from infrec.errors import DataError

CHUNK = 32 << 20
COLUMNS = ("user", "item", "rating", "date")
_SCHEMA = pa.schema({"user": pa.int32(), "item": pa.int32(), "rating": pa.int8(), "date": pa.date32()})
_FILM = re.compile(rb"(?m)^([0-9]+):\r?$\n?")


class NetflixSource:
    """Files in which a line `17:` names the film and `user,rating,date` lines follow."""

    from_text = False
    name = "the Netflix files"

    def __init__(self, files: Files, names: Sequence[str], chunk: int = CHUNK) -> None:
        self.columns = list(COLUMNS)
        self.notes: list[str] = []
        self._files, self._names, self._chunk = files, list(names), chunk
        self.ragged = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Ratings as record batches, in bounded memory whatever the size of the files."""
        film: int | None = None
        self.ragged = 0
        for lines in self._lines():
            batch, film, ragged = _parse(lines, film)
            self.ragged += ragged
            if batch.num_rows:
                yield batch

    def load(self, columns: Sequence[str], plain: Sequence[str] = ()) -> tuple[pa.Table, Mapping[str, int]]:
        table = pa.Table.from_batches([b.select(list(columns)) for b in self.batches()], _sub(columns))
        return table, {"ragged row": self.ragged} if self.ragged else {}

    def blocks(
        self, columns: Sequence[str], plain: Sequence[str] = (), rows: int = BLOCK
    ) -> Iterator[tuple[pa.Table, Mapping[str, int]]]:
        told = 0
        for table in grouped((batch.select(list(columns)) for batch in self.batches()), rows):
            yield table, {"ragged row": self.ragged - told} if self.ragged > told else {}
            told = self.ragged

    def _lines(self) -> Iterator[bytes]:
        """Chunks of whole lines; small files are read as if they were one."""
        held = b""
        for name in self._names:
            with self._files.open(name) as stream:
                while data := stream.read(self._chunk):
                    held += data
                    if len(held) >= self._chunk:
                        cut = held.rfind(b"\n") + 1
                        if cut:
                            yield held[:cut]
                            held = held[cut:]
            held += b"\n" if held and not held.endswith(b"\n") else b""
        if held:
            yield held


def _sub(columns: Sequence[str]) -> pa.Schema:
    return pa.schema([_SCHEMA.field(name) for name in columns])


def _parse(lines: bytes, film: int | None) -> tuple[pa.RecordBatch, int | None, int]:
    """One chunk of whole lines; `film` is the one that the chunk before was in."""
    pieces: list[bytes] = []
    films: list[int] = []
    counts: list[int] = []
    at = 0
    for match in [*_FILM.finditer(lines), None]:  # a loop over films, not over ratings
        end = len(lines) if match is None else match.start()
        if end > at:
            piece = lines[at:end]
            if film is None:
                raise DataError(
                    "a Netflix file starts with ratings before any film; expected a line such as `17:`."
                )
            pieces.append(piece)
            films.append(film)
            counts.append(piece.count(b"\n") + (not piece.endswith(b"\n")))
        if match is not None:
            film, at = int(match[1]), match.end()
    item = np.repeat(np.array(films, np.int32), counts)
    table, bad = _csv(b"".join(pieces))
    if bad:
        item = np.delete(item, bad)
    if len(item) != table.num_rows:
        raise DataError(
            "a Netflix file has blank or broken lines; expected `user,rating,date` on each: get it again."
        )
    user, rating, date = (whole(table.column(name)) for name in ("user", "rating", "date"))
    return pa.RecordBatch.from_arrays([user, from_numpy(item), rating, date], schema=_SCHEMA), film, len(bad)


def _csv(data: bytes) -> tuple[pa.Table, list[int]]:
    """The ratings' three columns, and the rows that were skipped because they are ragged."""
    bad: list[int] = []

    def skip(row: pacsv.InvalidRow) -> str:
        bad.append(row.number - 1)
        return "skip"

    names = ["user", "rating", "date"]
    if not data:
        return _SCHEMA.empty_table().select(names), bad
    try:
        table = pacsv.read_csv(
            io.BytesIO(data),
            pacsv.ReadOptions(
                column_names=names, use_threads=False, block_size=64 << 20
            ),  # row numbers need one thread
            pacsv.ParseOptions(quote_char=False, invalid_row_handler=skip, ignore_empty_lines=False),
            pacsv.ConvertOptions(column_types={name: _SCHEMA.field(name).type for name in names}),
        )
    except pa.ArrowInvalid as error:
        reason = str(error).splitlines()[0][:120].rstrip(".")
        raise DataError(f"a Netflix file holds something else than `user,rating,date` ({reason}).") from None
    return table, bad
