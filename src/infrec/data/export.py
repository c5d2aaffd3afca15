"""The ways out: a log as a file that other programs read. Files appear when they are whole, and together."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from infrec import drafts
from infrec.data.interactions import Interactions
from infrec.data.vocabulary import Vocabulary, from_numpy
from infrec.errors import ConfigError, DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def export(log: Interactions, path: str | os.PathLike[str], format: str) -> list[Path]:
    """Write a log as `recbole`, `csv`, `parquet` or `npz`; returns the files.

    csv, parquet: columns user, item, weight, and time and split where the log has them.
    recbole: one `.inter` file with a typed header when the path ends in `.inter`; else the folder that
        RecBole expects, NAME/NAME.inter and NAME/NAME.item with every item of the vocabulary; the two
        appear together, in place of older ones.
    npz: scipy's CSR format (`scipy.sparse.load_npz`), never pickle; ids as the arrays `users` and `items`.
    """
    if format not in WRITERS:
        raise ConfigError(f"format is {format!r}; expected one of {', '.join(WRITERS)}.")
    path = Path(path).expanduser()
    if path.is_dir() and format != "recbole":
        raise DataError(f"{path} is a directory; expected the name of a {format} file to write.")
    return WRITERS[format](log, path)


def table(log: Interactions) -> pa.Table:
    """One row per interaction; with a column `split` where the data brought its own."""
    if log.parts is None:
        return log.to_table()
    tables, time, place = [], None, log.matrix.copy()
    place.data = np.arange(1, place.nnz + 1)  # of each entry among the times, from 1
    for name, part in log.parts.items():
        if log.time is not None:
            time = log.time[place.multiply(part.astype(bool)).data - 1]
        rows = log.with_matrix(part, time=time).to_table()
        tables.append(rows.append_column("split", pa.array([name] * rows.num_rows, pa.string())))
    return pa.concat_tables(tables)


# ---- one function per format -------------------------------------------------------------------------------
def _csv(log: Interactions, path: Path) -> list[Path]:
    from pyarrow import csv

    with drafts.writing(path) as file:
        csv.write_csv(_plain_weights(table(log)), file)
    return [path]


def _parquet(log: Interactions, path: Path) -> list[Path]:
    import pyarrow.parquet as pq

    with drafts.writing(path) as file:
        pq.write_table(table(log), file, compression="zstd")
    return [path]


def _npz(log: Interactions, path: Path) -> list[Path]:
    matrix = log.matrix
    with drafts.writing(path) as file:
        np.savez_compressed(
            file,
            format=np.array(b"csr"),
            shape=np.array(matrix.shape, np.int64),
            data=matrix.data,
            indices=matrix.indices.astype(np.int32),  # column numbers fit, and some readers insist
            indptr=matrix.indptr.astype(np.int32 if matrix.nnz < 2**31 else np.int64),
            users=_ids(log.users),
            items=_ids(log.items),
        )
    return [path]


def _recbole(log: Interactions, path: Path) -> list[Path]:
    if path.suffix == ".inter":
        if path.is_dir():
            raise DataError(f"{path} is a directory; expected the name of an .inter file to write.")
        with drafts.writing(path) as file:
            _write_rows(_inter(log), file)
        return [path]
    if path.exists() and not path.is_dir():
        raise DataError(
            f"{path} is a file; expected a name ending in .inter, or a folder for RecBole's files."
        )
    contents = {f"{path.name}.inter": _inter(log), f"{path.name}.item": _items(log)}
    target = path.resolve() if path.is_symlink() else path
    held = [each.name for each in target.iterdir()] if target.is_dir() else []
    if strange := sorted(name for name in held if name not in contents and name[0] != "."):
        raise DataError(
            f"{path} also holds {strange[0]!r}, which replacing it would lose; expected a new folder or "
            f"nothing but {', '.join(contents)}: move that away, or choose another folder."
        )
    draft = drafts.beside(target)
    try:
        draft.mkdir()
        for name, rows in contents.items():
            with (draft / name).open("wb") as file:
                _write_rows(rows, file)
            drafts.sync(draft / name)
        drafts.sync(draft)
        drafts.take_place(draft, target)
    finally:
        drafts.remove(draft)
    return [path / name for name in contents]


WRITERS: Mapping[str, Callable[[Interactions, Path], list[Path]]] = MappingProxyType(
    {"recbole": _recbole, "csv": _csv, "parquet": _parquet, "npz": _npz}
)


# ---- RecBole's atomic files --------------------------------------------------------------------------------
def _inter(log: Interactions) -> pa.Table:
    """Columns named with their types, as RecBole wants them. A weight of 1 everywhere needs no column."""
    rows = log.to_table()
    columns = {"user_id:token": rows["user"], "item_id:token": rows["item"]}
    if log.weighted:
        columns["weight:float"] = rows["weight"]
    if log.time is not None:
        columns["timestamp:float"] = rows["time"]
    return pa.table(columns)


def _items(log: Interactions) -> pa.Table:
    columns: dict[str, Any] = {"item_id:token": log.items.ids}
    if log.titles is not None:
        # Titles are read by people: what would break a line or a column becomes a blank.
        titles = pc.replace_substring_regex(log.titles.cast(pa.string()), r'[\t\r\n"]+', " ")
        columns["title:token_seq"] = pc.fill_null(titles, "")
    return pa.table(columns)


def _write_rows(rows: pa.Table, file: BinaryIO) -> None:
    """Tab-separated, nothing quoted: RecBole splits lines itself."""
    from pyarrow import csv

    for column in rows.columns:
        if pa.types.is_string(column.type):
            bad = column.filter(pc.match_substring_regex(column, r'[\t\r\n"]'))
            if len(bad):
                raise DataError(
                    f"the id {bad[0].as_py()!r} holds a tab, a line break or a quotation mark; "
                    "expected none of them in a RecBole file, so rename it, or export csv or parquet."
                )
    file.write(("\t".join(rows.column_names) + "\n").encode())
    csv.write_csv(rows, file, csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none"))


# ---- values ------------------------------------------------------------------------------------------------
def _plain_weights(rows: pa.Table) -> pa.Table:
    """Weights that are whole numbers are written without a point, as counts are."""
    values = rows["weight"].to_numpy()
    if (values == np.floor(values)).all() and (np.abs(values) < 2**31).all():
        at = rows.column_names.index("weight")
        return rows.set_column(at, "weight", from_numpy(values.astype(np.int64)))
    return rows


def _ids(vocabulary: Vocabulary) -> NDArray[Any]:
    """Ids as an array that numpy stores without pickle: whole numbers, or text of a fixed width."""
    if pa.types.is_integer(vocabulary.ids.type):
        return np.asarray(vocabulary.ids)
    return np.array(vocabulary.ids.to_pylist(), dtype=np.str_)
