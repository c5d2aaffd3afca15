"""The publishers' own formats (MovieLens, Amazon 2018, Douban, Netflix), out of a folder or a zip.

Netflix prize files: 100 million lines, parsed in chunks with no Python loop over ratings.
A zip is never extracted: only named members are opened, with limits.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, Protocol, cast

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from infrec.data.columns import DEFAULTS, ReadOptions
from infrec.data.parsing import whole
from infrec.data.sources import Source, TableSource, grouped
from infrec.data.text import TextSource
from infrec.data.vocabulary import from_numpy, strings
from infrec.errors import DataError, first_line

RATINGS = ("user", "item", "rating", "timestamp")
# The 19 flags at the end of each line of u.item, in the order of its README.
GENRES_100K = (
    "unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama",
    "Fantasy", "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western",
)  # fmt: skip
_BY_FILM = re.compile(r"(training_set/)?(combined_data_[0-9]+|mv_[0-9]+)\.txt")

MEMBER_LIMIT = 4 << 30  # bytes one member may unpack to
RATIO_LIMIT = 200  # ratings pack to a fifth or a tenth; a bomb to a thousandth
SMALL = 16 << 20  # below this a ratio does no harm
LARGEST = 64 << 20  # bytes of a table about items
CHUNK = 32 << 20
COLUMNS = ("user", "item", "rating", "date")
_SCHEMA = pa.schema({"user": pa.int32(), "item": pa.int32(), "rating": pa.int8(), "date": pa.date32()})
_FILM = re.compile(rb"(?m)^([0-9]+):\r?$\n?")


def detect(files: Files, options: ReadOptions = DEFAULTS) -> tuple[Source, Source | None] | None:
    """The ratings and the items of a folder or archive that has a publisher's file names; None where not."""
    names = files.names()
    if "u.data" in names:
        ratings = text(files, "u.data", replace(options, delimiter="\t"), header=RATINGS)
        # id|title|release|video|URL|19 genre flags
        return ratings, _items(files, "u.item", "|", 24, genres=_flagged, encoding="latin-1")
    if "ratings.dat" in names:  # MovieLens 1M and 10M
        ratings = text(files, "ratings.dat", replace(options, delimiter="::"), header=RATINGS)
        # id::title::genres; Latin-1 in 1M, UTF-8 in 10M
        return ratings, _items(files, "movies.dat", "::", 3, genres=lambda fields: fields[2])
    if "ratings.csv" in names:
        about_items = text(files, "movies.csv") if "movies.csv" in names else None
        return text(files, "ratings.csv", options), about_items
    if parts := [name for name in names if _BY_FILM.fullmatch(name)]:
        parts = [name for name in parts if "combined_data_" in name] or parts  # never the same ratings twice
        parts.sort(key=lambda name: [int(n) for n in re.findall(r"[0-9]+", name)])
        about = next((name for name in names if name in ("movie_titles.csv", "movie_titles.txt")), "")
        # id,year,title; titles hold commas and are not quoted
        return NetflixSource(files, parts), _items(files, about, ",", 3, title=_with_year, cuts=2)
    return None


def one_file(path: Path, start: bytes) -> Source | None:
    """The ratings of a single file of the Netflix prize, by its name and first bytes; None if it is none."""
    if _BY_FILM.fullmatch(path.name) and re.match(rb"(\xef\xbb\xbf)?[0-9]+:?", start):
        return NetflixSource(Folder(path.parent), [path.name])
    return None


def text(
    files: Files, name: str, options: ReadOptions = DEFAULTS, *, header: Sequence[str] | None = None
) -> TextSource:
    """A delimited text file of a folder or archive."""
    return TextSource(lambda: files.open(name), name, options, header=header)


def _items(
    files: Files,
    name: str,
    delimiter: str,
    width: int,
    *,
    title: Callable[[list[str]], str] = lambda fields: fields[1],
    genres: Callable[[list[str]], str] | None = None,
    encoding: str = "utf8",
    cuts: int = -1,
) -> Source | None:
    """A small table about items, without a header or quotes, in the encoding or else in Latin-1; None where
    there is no file of that name. Lines of fewer than `width` fields are none."""
    if name not in files.names():
        return None
    with files.open(name) as stream:
        data = stream.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise DataError(f"{files.name}: {name} has more than {LARGEST:,} bytes; expected a small file.")
    try:
        lines = data.decode(encoding).splitlines()
    except UnicodeDecodeError:
        lines = data.decode("latin-1").splitlines()
    rows = [line.split(delimiter, cuts) for line in lines if line.count(delimiter) >= width - 1]
    columns = {
        "item": strings([fields[0] for fields in rows]),
        "title": strings([title(fields) for fields in rows]),
    }
    if genres is not None:
        columns["genres"] = strings([genres(fields) for fields in rows])
    return TableSource(pa.table(columns), name)


def _flagged(fields: Sequence[str]) -> str:
    return "|".join(genre for genre, flag in zip(GENRES_100K, fields[5:24], strict=False) if flag == "1")


def _with_year(fields: Sequence[str]) -> str:
    return fields[2] if fields[1] == "NULL" else f"{fields[2]} ({fields[1]})"


class NetflixSource(Source):
    """Files in which a line `17:` names the film and `user,rating,date` lines follow."""

    name = "the Netflix files"

    def __init__(self, files: Files, names: Sequence[str], chunk: int = CHUNK) -> None:
        self.columns = list(COLUMNS)
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

    def tables(
        self, columns: Sequence[str], plain: Sequence[str] = (), rows: int | None = None
    ) -> Iterator[tuple[pa.Table, int]]:
        names, count = list(columns), 0
        batches = (batch.select(names) for batch in self.batches())
        if rows is None:
            schema = pa.schema([_SCHEMA.field(name) for name in names])
            yield pa.Table.from_batches(list(batches), schema), self.ragged
            return
        for table in grouped(batches, rows):
            yield table, self.ragged - count
            count = self.ragged

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
            if len(match[1]) > 9:
                raise DataError(
                    f"a Netflix file names a film of {len(match[1])} digits; expected nine: get it again."
                )
            film, at = int(match[1]), match.end()
    item = np.repeat(np.array(films, np.int32), counts)
    table, bad = _csv(b"".join(pieces))
    if len(item) != table.num_rows + len(bad):
        raise DataError(
            "a Netflix file has blank or broken lines; expected `user,rating,date` on each: get it again."
        )
    item = np.delete(item, bad)
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
    if not data.isascii():  # pyarrow shows ragged rows as text: ratings have no other bytes than ASCII
        data = data.decode("ascii", "replace").encode("ascii", "replace")
    try:
        table = pacsv.read_csv(
            pa.BufferReader(data),
            pacsv.ReadOptions(
                column_names=names, use_threads=False, block_size=64 << 20
            ),  # row numbers need one thread
            pacsv.ParseOptions(quote_char=False, invalid_row_handler=skip, ignore_empty_lines=False),
            pacsv.ConvertOptions(column_types={name: _SCHEMA.field(name).type for name in names}),
        )
    except pa.ArrowInvalid as error:
        reason = first_line(error)
        raise DataError(f"a Netflix file holds something else than `user,rating,date` ({reason}).") from None
    return table, bad


# ---- files by name, out of a folder or a zip ---------------------------------------------------------------
class Files(Protocol):
    """A folder or an archive. Names are those of files in it or in its one top folder."""

    name: str

    def names(self) -> list[str]: ...

    def open(self, name: str) -> BinaryIO: ...


class Folder:
    """The files directly in a directory, and in a directory `training_set` in it (as Netflix packed them)."""

    def __init__(self, path: Path) -> None:
        self.name = path.name or str(path)
        self._path = path

    def names(self) -> list[str]:
        folders = (folder for folder in (self._path, self._path / "training_set") if folder.is_dir())
        files = (file for folder in folders for file in folder.iterdir() if file.is_file())
        return sorted(file.relative_to(self._path).as_posix() for file in files)

    def open(self, name: str) -> BinaryIO:
        try:
            return cast(BinaryIO, (self._path / name).open("rb"))
        except OSError as error:
            raise DataError(f"{name} cannot be opened ({error.strerror}); check it.") from None


class Zip:
    """A zip archive. Members whose names leave it, and whatever nobody asks for, are never touched."""

    def __init__(self, path: Path, limit: int = MEMBER_LIMIT) -> None:
        self.name = path.name
        self._path, self._limit = path, limit
        try:
            with zipfile.ZipFile(path) as archive:
                members = {
                    m.filename: m for m in archive.infolist() if _stays_inside(m.filename) and not m.is_dir()
                }
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            raise DataError(f"{self.name} is not a whole zip archive ({error}); get it again.") from None
        tops = {name.split("/")[0] if "/" in name else "" for name in members}
        cut = len(tops.pop()) + 1 if len(tops) == 1 and "" not in tops else 0  # its one top folder
        self._members = {name[cut:]: member for name, member in members.items()}

    def names(self) -> list[str]:
        return sorted(self._members)

    def open(self, name: str) -> BinaryIO:
        """A member as a stream that ends with an error where its limit does."""
        member = self._members.get(name)
        if member is None:
            raise DataError(f"{self.name} has no member {name!r}; it is not the archive that was expected.")
        if member.flag_bits & 1:
            raise DataError(f"{self.name}: {name} is encrypted; expected an open archive.")
        ratio = member.file_size / max(member.compress_size, 1)
        if member.file_size > self._limit or (member.file_size > SMALL and ratio > RATIO_LIMIT):
            raise DataError(
                f"{self.name}: {name} would be {member.file_size:,} bytes, {ratio:,.0f} times its size; "
                f"expected at most {self._limit:,} bytes and {RATIO_LIMIT} times, so it was not opened."
            )
        return cast(BinaryIO, _Member(self._path, member, self._limit, f"{self.name}: {name}"))


def _stays_inside(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return bool(parts) and ".." not in parts and parts[0] not in ("/", "__MACOSX") and "\\" not in name


class _Member(io.RawIOBase):
    """One member of a zip, unpacked as it is read; never more than its limit, whatever its header says."""

    def __init__(self, path: Path, member: zipfile.ZipInfo, limit: int, name: str) -> None:
        self._archive = zipfile.ZipFile(path)
        self._stream: IO[bytes] = io.BytesIO()  # until it is opened
        self._make, self._limit, self._name = member, limit, name
        self._begin()

    def _begin(self) -> None:
        try:
            self._stream = self._archive.open(self._make)
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, OSError) as error:
            raise DataError(f"{self._name} cannot be unpacked ({error}); get it again.") from None
        self._given = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        """Only back to the start."""
        if (offset, whence) != (0, 0):
            raise io.UnsupportedOperation("seek")
        self._begin()
        return 0

    def tell(self) -> int:
        return self._given

    def read(self, size: int = -1) -> bytes:
        try:
            data = self._stream.read(self._limit - self._given + 1 if size < 0 else size)
        except Exception as error:  # also zlib.error, which has no public base
            raise DataError(f"{self._name} is damaged ({error}); get it again.") from None
        self._given += len(data)
        if self._given > self._limit:
            raise DataError(
                f"{self._name} unpacks to more than {self._limit:,} bytes; it was not read further."
            )
        return data

    def close(self) -> None:
        self._stream.close()
        self._archive.close()
        super().close()
