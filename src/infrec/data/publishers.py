"""The publishers' own formats: MovieLens, Amazon 2018, Douban, Netflix."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pyarrow as pa

from infrec.data.archive import Files, read_text
from infrec.data.arrow import strings
from infrec.data.netflix import NetflixSource
from infrec.data.sources import Source, TableSource
from infrec.data.text import TextSource

RATINGS = ("user", "item", "rating", "timestamp")
AMAZON = ("item", "user", "rating", "timestamp")
DOUBAN = ("user", "item", "rating")
# The 19 flags at the end of each line of u.item, in the order of its README.
GENRES_100K = (
    *("unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama"),
    *(
        "Fantasy",
        "Film-Noir",
        "Horror",
        "Musical",
        "Mystery",
        "Romance",
        "Sci-Fi",
        "Thriller",
        "War",
        "Western",
    ),
)
_NETFLIX_FILE = re.compile(r"(training_set/)?(combined_data_[0-9]+|mv_[0-9]+)\.txt")


def detect(files: Files) -> tuple[Source, Source | None] | None:
    """The ratings and the items of a folder or archive that has a publisher's file names; None where not."""
    names = set(files.names())
    if "u.data" in names:
        return movielens_100k(files), _if("u.item", names, lambda: movielens_100k_items(files))
    if "ratings.dat" in names:
        return movielens_dat(files), _if("movies.dat", names, lambda: movielens_dat_items(files))
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


def movielens_100k(files: Files) -> Source:
    """`u.data`: user⇥item⇥rating⇥timestamp."""
    return text(files, "u.data", header=RATINGS, delimiter="\t")


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


def movielens_dat(files: Files) -> Source:
    """`ratings.dat` of MovieLens 1M and 10M: user::item::rating::timestamp."""
    return text(files, "ratings.dat", header=RATINGS, delimiter="::")


def movielens_dat_items(files: Files) -> Source:
    """`movies.dat`: id::title::genres; Latin-1 in 1M, UTF-8 in 10M."""
    lines = read_text(files, "movies.dat", "utf8").splitlines()
    fields = [line.split("::") for line in lines if line.count("::") >= 2]
    return _items(
        [row[0] for row in fields], [row[1] for row in fields], [row[2] for row in fields], "movies.dat"
    )


def amazon(files: Files, name: str) -> Source:
    """Amazon 2018 “ratings only”: item,user,rating,timestamp without a header."""
    return text(files, name, header=AMAZON, delimiter=",")


def douban(files: Files, name: str) -> Source:
    """Douban: user⇥item⇥rating without a header."""
    return text(files, name, header=DOUBAN, delimiter="\t")


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
    """What `make` makes, where there is a file of that name (with whatever ending)."""
    return make() if any(found == name or found.startswith(name + ".") for found in names) else None
