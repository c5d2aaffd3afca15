"""One partition of a prepared dataset: the rows of a range of users, sorted, merged, written as Parquet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from infrec.data import assemble
from infrec.data.arrow import from_numpy
from infrec.data.read_options import ReadOptions

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Written:
    """What a partition holds: rows of its file, distinct pairs, and interactions by user and by item."""

    file: str
    rows: int
    pairs: int
    weighted: bool
    per_user: NDArray[np.int64]
    per_item: NDArray[np.int64]


def write(
    path: Path, rows: NDArray[Any], first: int, users: int, items: int, options: ReadOptions
) -> Written:
    """Sort, merge and write the rows of users first … first + users − 1."""
    shape = (users, items)
    user, item = rows["user"] - np.int32(first), np.ascontiguousarray(rows["item"])
    order = assemble.by_user_and_item(user, item, shape)
    user, item = user[order], item[order]
    columns = {name: rows[name][order] for name in rows.dtype.names or () if name not in ("user", "item")}
    weight = columns.pop("weight", None)
    matrix, at_first = assemble.merge(user, item, weight, shape, options.duplicates)
    if "part" in columns:
        # A pair may stand in several parts, once in each; the first one tells its time.
        part = columns["part"]
        key = np.flatnonzero(_new(user, item))
        order = np.lexsort((np.arange(len(part)), part, np.repeat(key, np.diff(np.append(key, len(part))))))
        new = np.ones(len(order), bool)
        new[1:] = _new(user[order], item[order])[1:] | (part[order][1:] != part[order][:-1])
        values = np.ones(len(order), np.float32) if weight is None else weight[order]
        starts = np.flatnonzero(new)
        kept = order[starts]
        summed = np.add.reduceat(values, starts) if options.duplicates == "sum" else values[starts]
        again = np.argsort(kept, kind="stable")  # within a pair, as they came
        kept, weight = kept[again], summed[again]
        user, item = user[kept], item[kept]
        columns = {name: values[kept] for name, values in columns.items()}
    else:
        user, item, weight = user[at_first], item[at_first], matrix.data
        columns = {name: values[at_first] for name, values in columns.items()}
    weighted = bool((weight != 1).any())
    table = {"user": from_numpy(user + np.int32(first)), "item": from_numpy(item)}
    table |= {"weight": from_numpy(weight)} if weighted else {}
    table |= {name: from_numpy(values) for name, values in columns.items()}
    plain = [name for name in table if name not in ("user", "item", "time")]
    encodings = {name: "DELTA_BINARY_PACKED" for name in ("user", "item", "time") if name in table}
    pq.write_table(
        pa.table(table), path, compression="zstd", use_dictionary=plain or False, column_encoding=encodings
    )
    return Written(
        path.name,
        len(user),
        int(matrix.nnz),
        weighted,
        np.diff(matrix.indptr).astype(np.int64),
        np.bincount(matrix.indices, minlength=items),
    )


def _new(user: NDArray[Any], item: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a sorted list of pairs comes to another pair."""
    new = np.ones(len(user), bool)
    new[1:] = (user[1:] != user[:-1]) | (item[1:] != item[:-1])
    return new
