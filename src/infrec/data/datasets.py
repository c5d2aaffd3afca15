"""Datasets by name: in `$INFREC_DATA`, in the user's cache, or from the publisher."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from infrec.data import publishers
from infrec.data.assemble import assemble
from infrec.data.columns import DEFAULTS, ReadOptions
from infrec.data.download import fetch, verify
from infrec.data.interactions import Interactions
from infrec.data.publishers import Folder, Zip
from infrec.data.read import items_source, sources
from infrec.data.sources import ParquetSource, Source, TableSource
from infrec.errors import DataError
from infrec.progress import Progress, silent

if TYPE_CHECKING:
    import pyarrow as pa

_GROUPLENS = "https://files.grouplens.org/datasets/movielens/"
_MCAULEY = "https://mcauleylab.ucsd.edu/public_datasets/data/amazon_v2/categoryFilesSmall/"


@dataclass(frozen=True)
class Entry:
    """A dataset that has a name.

    url, file: where the publisher has it and what it is called in the cache. md5: as the publisher states it;
    md5_url: where the publisher states it. manual: where to get it when it has no direct download.
    header: the columns of its text files that have no header line; endings: of which files that is so.
    generated: whether it is made on the spot.
    """

    name: str
    about: str
    url: str | None = None
    file: str | None = None
    md5: str | None = None
    md5_url: str | None = None
    manual: str = ""
    header: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()
    generated: bool = False
    limit: int = 4 << 30


def _movielens(size: str, about: str, md5: str) -> Entry:
    url = f"{_GROUPLENS}ml-{size}.zip"
    return Entry(f"ml-{size}", about, url, f"ml-{size}.zip", md5, url + ".md5")


def _douban(name: str, about: str) -> Entry:
    manual = "ask the authors of the Douban dataset for its ratings"
    return Entry(name, about, manual=manual, header=("user", "item", "rating"), endings=(".dat", ".tsv"))


# The MD5s are those that GroupLens publishes beside each archive (ml-*.zip.md5).
_ENTRIES = (
    Entry("demo", "invented films: 1,000 users × 500 films, made on the spot", generated=True),
    _movielens("100k", "MovieLens 100K: 943 users × 1,682 films", "0e33842e24a9c977be4e0107933c0723"),
    _movielens("1m", "MovieLens 1M: 6,040 users × 3,706 films", "c4d9eecfca2ab87c1945afe126590906"),
    _movielens("20m", "MovieLens 20M: 138,493 users × 26,744 films", "cd245b17a1ae2cc31bb14903e1204af3"),
    _movielens("25m", "MovieLens 25M: 162,541 users × 59,047 films", "6b51fb2759a8657d3bfcbfc42b592ada"),
    Entry(
        "magazine",
        "Amazon Magazine Subscriptions (2018), ratings only",
        f"{_MCAULEY}Magazine_Subscriptions.csv",
        "Magazine_Subscriptions.csv",
        header=("item", "user", "rating", "timestamp"),
        endings=(".csv",),
    ),
    _douban("douban", "Douban films"),
    _douban("douban-book", "Douban books"),
    Entry(
        "netflix-sample",
        "a published sample of the Netflix prize: five stars only, 32,450 users × 8,432 films",
        manual="make a table (user,item) of a sample of the Netflix prize data",
    ),
    Entry(
        "gowalla",
        "Gowalla check-ins as graph recommenders split them: 29,858 users × 40,981 places",
        manual="get train.txt and test.txt of a graph recommender's repository, as a table (user,item,split)",
    ),
    Entry(
        "lastfm-2k",
        "Last.fm plays (HetRec 2011): 1,892 users × 17,632 artists",
        manual="get hetrec2011-lastfm-2k from GroupLens, and its user_artists.dat as a table "
        "(user,item,rating)",
    ),
    Entry(
        "netflix",
        "Netflix prize: 480,189 users × 17,770 films, 100 million ratings",
        manual="get the Netflix prize data (combined_data_*.txt and movie_titles.csv) from Kaggle",
    ),
)
entries: Mapping[str, Entry] = MappingProxyType({entry.name: entry for entry in _ENTRIES})
_FORMS = (".parquet", "", ".zip", ".csv", ".csv.gz", ".tsv", ".tsv.gz", ".dat", ".dat.gz")


def load(
    name_or_path: str | os.PathLike[str], *, items: Any = None, progress: Progress = silent, **options: Any
) -> Interactions:
    """A dataset by its registered name, or a file or directory by its path; options are those of `read`."""
    name = os.fspath(name_or_path)
    if name not in entries:
        if not Path(name).expanduser().exists() and os.sep not in name and "." not in name:
            raise DataError(
                f"there is no file and no dataset called {name!r}; the names are {', '.join(entries)}."
            )
        return Interactions.read(name, items=items, progress=progress, **options)
    chosen = ReadOptions(**options)
    source, about_items = find_sources(name, chosen, progress)
    return Interactions.from_fields(assemble(source, chosen, items_source(items) or about_items, progress))


def find_sources(
    name_or_path: str | os.PathLike[str], options: ReadOptions = DEFAULTS, progress: Progress = silent
) -> tuple[Source, Source | None]:
    """The rows of a registered dataset or of a path, and what is known about its items."""
    entry = entries.get(os.fspath(name_or_path))
    if entry is None:
        return sources(name_or_path, options)
    if entry.generated:
        rows, films = _generated()
        made = TableSource(rows, entry.name)
        made.invented = True
        return made, TableSource(films, "the items")
    path = locate(entry.name)
    if path is None:
        path = download(entry.name, progress)
    elif entry.file and path == cache_folder() / entry.file:
        verify(path, md5=entry.md5)
    source, about_items = _open(entry, path, options)
    beside = path.parent / f"{entry.name}-items.parquet"
    return source, ParquetSource(beside) if beside.is_file() else about_items


@lru_cache(maxsize=1)
def _generated() -> tuple[pa.Table, pa.Table]:
    from infrec.data.synthetic import DEMO, tables

    return tables(**DEMO)


def _open(entry: Entry, path: Path, options: ReadOptions) -> tuple[Source, Source | None]:
    """A found file in the publisher's format, or in any that `read` knows."""
    if path.name.removesuffix(".gz").endswith(entry.endings):
        return publishers.text(Folder(path.parent), path.name, options, header=entry.header), None
    if path.is_file() and path.suffix == ".zip":
        pair = publishers.detect(Zip(path, entry.limit), options)
        if pair is None:
            raise DataError(
                f"{path.name} does not hold the files of {entry.name}; delete it to get it again."
            )
        return pair
    return sources(path, options)


def locate(name: str) -> Path | None:
    """Where a registered dataset lies on this machine; None where it does not (or need not)."""
    entry = _entry(name)
    for folder in filter(None, (data_folder(), cache_folder())):
        for form in _FORMS:
            path = folder / f"{entry.name}{form}"
            if path.is_file() or (form == "" and path.is_dir()):
                return path
        if entry.file and (folder / entry.file).is_file():
            return folder / entry.file
    return None


def download(name: str, progress: Progress = silent) -> Path:
    """Fetch a registered dataset into the cache, and check it."""
    entry = _entry(name)
    folder = cache_folder()
    if entry.generated:
        raise DataError(f"{name} is made on the spot; there is nothing to download.")
    if entry.url is None or entry.file is None:
        where = data_folder() or folder
        raise DataError(
            f"{name} has no direct download: {entry.manual}, and put it as {where / name}.parquet, or "
            f"the publisher's files in the folder {where / name}."
        )
    return fetch(
        entry.url,
        folder / entry.file,
        md5=entry.md5,
        md5_url=entry.md5_url,
        limit=entry.limit,
        progress=progress,
    )


def _entry(name: str) -> Entry:
    if name not in entries:
        raise DataError(f"there is no dataset called {name!r}; the names are {', '.join(entries)}.")
    return entries[name]


def data_folder() -> Path | None:
    """`$INFREC_DATA`, where it is set."""
    given = os.environ.get("INFREC_DATA")
    return Path(given).expanduser() if given else None


def cache_folder() -> Path:
    """`$INFREC_CACHE`, or the platform's place for caches."""
    if given := os.environ.get("INFREC_CACHE"):
        return Path(given).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "infrec"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "infrec"
