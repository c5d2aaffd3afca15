"""The publishers' own formats: MovieLens, Amazon 2018, Douban, Netflix.

Netflix prize files: 100 million lines, parsed in chunks with no Python loop over ratings.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from infrec.data.archives import Files, read_text
from infrec.data.arrow import from_numpy, strings
from infrec.data.parsing import whole
from infrec.data.sources import BLOCK, Source, TableSource, grouped
from infrec.data.text import TextSource
from infrec.errors import DataError, first_line

RATINGS = ("user", "item", "rating", "timestamp")
# Files without a header, by publisher: columns, delimiter, endings. Amazon's are “ratings only” of 2018.
HEADLESS = {
    "amazon": (("item", "user", "rating", "timestamp"), ",", (".csv",)),
    "douban": (("user", "item", "rating"), "\t", (".dat", ".tsv")),
}
# The 19 flags at the end of each line of u.item, in the order of its README.
GENRES_100K = (
    "unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama",
    "Fantasy", "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western",
)  # fmt: skip
_NETFLIX_FILE = re.compile(r"(training_set/)?(combined_data_[0-9]+|mv_[0-9]+)\.txt")

CHUNK = 32 << 20
COLUMNS = ("user", "item", "rating", "date")
_SCHEMA = pa.schema({"user": pa.int32(), "item": pa.int32(), "rating": pa.int8(), "date": pa.date32()})
_FILM = re.compile(rb"(?m)^([0-9]+):\r?$\n?")


def detect(files: Files) -> tuple[Source, Source | None] | None:
    """The ratings and the items of a folder or archive that has a publisher's file names; None where not."""
    names = set(files.names())
    if "u.data" in names:
        ratings = text(files, "u.data", header=RATINGS, delimiter="\t")
        return ratings, _if("u.item", names, lambda: movielens_100k_items(files))
    if "ratings.dat" in names:
        ratings = text(files, "ratings.dat", header=RATINGS, delimiter="::")  # MovieLens 1M and 10M
        return ratings, _if("movies.dat", names, lambda: movielens_dat_items(files))
    if "ratings.csv" in names:
        return text(files, "ratings.csv"), _if("movies.csv", names, lambda: text(files, "movies.csv"))
    if parts := [name for name in files.names() if _NETFLIX_FILE.fullmatch(name)]:
        return netflix(files, parts), _if("movie_titles", names, lambda: netflix_items(files))
    return None


def text(
    files: Files, name: str, *, header: Sequence[str] | None = None, delimiter: str | None = None
) -> TextSource:
    """A delimited text file of a folder or archive."""
    return TextSource(lambda: files.open(name), name, header=header, delimiter=delimiter)


def movielens_100k_items(files: Files) -> Source:
    """`u.item`: id|title|release|video|URL|19 genre flags, in Latin-1."""
    fields = [
        line.split("|")
        for line in read_text(files, "u.item", "latin-1").splitlines()
        if line.count("|") >= 23
    ]
    return _items(
        [row[0] for row in fields],
        [row[1] for row in fields],
        [
            "|".join(g for g, flag in zip(GENRES_100K, row[5:24], strict=False) if flag == "1")
            for row in fields
        ],
        "u.item",
    )


def movielens_dat_items(files: Files) -> Source:
    """`movies.dat`: id::title::genres; Latin-1 in 1M, UTF-8 in 10M."""
    lines = read_text(files, "movies.dat", "utf8").splitlines()
    fields = [line.split("::") for line in lines if line.count("::") >= 2]
    return _items(
        [row[0] for row in fields], [row[1] for row in fields], [row[2] for row in fields], "movies.dat"
    )


def netflix(files: Files, names: Sequence[str]) -> Source:
    """Netflix prize: `combined_data_*.txt` or `mv_*.txt`, where a line `17:` names the film below it."""
    # Never the same ratings twice.
    chosen = [name for name in names if "combined_data_" in name] or list(names)
    return NetflixSource(
        files, sorted(chosen, key=lambda name: [int(n) for n in re.findall(r"[0-9]+", name)])
    )


def netflix_items(files: Files) -> Source | None:
    """`movie_titles.csv` (or `.txt`): id,year,title in Latin-1; titles hold commas and are not quoted."""
    name = next((name for name in files.names() if name in ("movie_titles.csv", "movie_titles.txt")), None)
    if name is None:
        return None
    fields = [
        line.split(",", 2) for line in read_text(files, name, "utf8").splitlines() if line.count(",") >= 2
    ]
    titles = [title if year == "NULL" else f"{title} ({year})" for _, year, title in fields]
    return _items([row[0] for row in fields], titles, None, name)


def is_netflix(name: str, start: bytes) -> bool:
    """Whether a single file is one of Netflix's, by its name and first bytes."""
    return bool(_NETFLIX_FILE.fullmatch(name)) and re.match(rb"(\xef\xbb\xbf)?[0-9]+:?", start) is not None


def _items(ids: list[str], titles: list[str], genres: list[str] | None, name: str) -> Source:
    columns = {"item": strings(ids), "title": strings(titles)}
    if genres is not None:
        columns["genres"] = strings(genres)
    return TableSource(pa.table(columns), name)


def _if(name: str, names: set[str], make: Callable[[], Source | None]) -> Source | None:
    """The source that `make` opens, where there is a file of that name (with any ending); else None."""
    return make() if any(found == name or found.startswith(name + ".") for found in names) else None


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
        reason = first_line(error)
        raise DataError(f"a Netflix file holds something else than `user,rating,date` ({reason}).") from None
    return table, bad
