"""Contents of an artifact's directory, checked as they are taken out: an artifact is untrusted input.

Hashes say that no byte has changed since it was written, not that whoever wrote it meant well. So whatever
reads an artifact takes arrays, indices, ids and numbers from here: of the expected type and shape, finite,
in range. No compiled code sees an index that was not looked at, and no memory is taken for what a file
cannot hold. Whatever is wrong ends in an `ArtifactError`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import scipy.sparse as sp

from infrec.errors import ArtifactError, ConfigError, DataError, first_line

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PACKED = 1000  # times its size that a table may take in memory: columns of equal values pack well
_SMALL = 64 << 20  # bytes up to which that does no harm
_KINDS = {  # numpy's
    "f": "numbers in 32 or 64 bits",
    "i": "whole numbers",
    "u": "whole numbers without a sign",
    "b": "yes or no",
}
_WRONG = (
    *(ArithmeticError, AttributeError, LookupError, TypeError, ValueError),
    *(RecursionError, pa.ArrowException, ConfigError, DataError),
)


@dataclass(frozen=True, eq=False)
class Artifact:
    """A directory that was read: the manifest, and the arrays and tables by name.

    A loader does its work inside `with artifact.understood():` and takes what it needs by the methods.
    """

    path: Path
    manifest: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    tables: Mapping[str, pa.Table] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return str(self.manifest["kind"])

    @contextmanager
    def understood(self) -> Iterator[None]:
        """Whatever a loader stumbles over inside becomes an `ArtifactError`."""
        try:
            yield
        except _WRONG as failure:
            lacks = "it lacks " if isinstance(failure, KeyError) else ""
            raise self.unsound(lacks + first_line(failure)) from None

    def unsound(self, why: str) -> ArtifactError:
        """The error for contents that cannot be what infrec wrote."""
        reason = why[:200].encode(errors="backslashreplace").decode().rstrip(".")
        return ArtifactError(f"{self.path} is no sound {self.kind}: {reason}; write it again.")

    # ---- the manifest --------------------------------------------------------------------------------------
    def number(self, *names: str, whole: bool = False, least: float = 0) -> Any:
        """A number of the manifest, by its name and those of what it lies in; at least `least`."""
        value: Any = self.manifest
        for name in names:
            value = value[name] if isinstance(value, Mapping) else None
        return self.checked_number(".".join(names), value, whole=whole, least=least)

    def checked_number(self, name: str, value: Any, *, whole: bool = False, least: float = 0) -> Any:
        """A finite number of at least `least`; a whole one if asked for."""
        kinds = int if whole else (int, float)
        right = isinstance(value, kinds) and not isinstance(value, bool)
        if not right or not least <= value <= sys.float_info.max:
            wanted = "a whole number" if whole else "a number"
            raise self.unsound(f"{name} is {value!r}, not {wanted} of at least {least:g}")
        return value

    def agree(self, **counts: int) -> None:
        """Refuse a manifest that counts something otherwise than it was found."""
        for name, count in counts.items():
            if self.manifest.get(name) != count:
                raise self.unsound(
                    f"its manifest counts {self.manifest.get(name)!r} {name} and it holds {count}"
                )

    # ---- arrays --------------------------------------------------------------------------------------------
    def array(self, name: str, *shape: int | None, kind: str = "f") -> NDArray[Any]:
        """An array of this shape (None: any length) and numpy kind; `read_arrays` saw that it is finite."""
        array = self.arrays.get(name)
        if array is None:
            raise self.unsound(f"it lacks the array {name!r}")
        fits = array.ndim == len(shape) and all(
            want is None or want == have for want, have in zip(shape, array.shape, strict=False)
        )
        right = array.dtype.kind == kind and (kind != "f" or array.dtype.itemsize >= 4)
        if not right or not fits:
            sizes = " × ".join("any" if size is None else str(size) for size in shape)
            raise self.unsound(
                f"its array {name!r} is {array.dtype} of shape {array.shape}, not {_KINDS[kind]} ({sizes})"
            )
        return array

    def positions(self, name: str, length: int | None, below: int) -> NDArray[Any]:
        """An array of whole numbers from 0 up to below `below`."""
        return self.inside(f"array {name!r}", self.array(name, length, kind="i"), below)

    def inside(self, what: str, values: NDArray[Any], below: int, least: int = 0) -> NDArray[Any]:
        """Whole numbers, after checking that each is at least `least` and below `below`."""
        if values.dtype.kind not in "iu":
            raise self.unsound(f"its {what} holds {values.dtype}, not whole numbers")
        if len(values) and (values.min() < least or values.max() >= below):
            raise self.unsound(
                f"its {what} reaches from {values.min()} to {values.max()}, not {least} to {below - 1}"
            )
        return values

    def csr(self, prefix: str, values: str, rows: int, columns: int) -> sp.csr_array:
        """A canonical matrix from the arrays `prefix.indptr`, `prefix.indices` and `prefix.<values>`."""
        data = self.array(f"{prefix}.{values}", None)
        indices = self.positions(f"{prefix}.indices", len(data), columns)
        indptr = self.positions(f"{prefix}.indptr", rows + 1, len(data) + 1)
        if indptr[0] != 0 or indptr[-1] != len(data) or (np.diff(indptr) < 0).any():
            raise self.unsound(
                f"its array '{prefix}.indptr' does not divide {len(data)} values into {rows} rows"
            )
        rising = np.diff(indices, prepend=-1) > 0
        rising[indptr[:-1][np.diff(indptr) > 0]] = True
        if not rising.all() or (data <= 0).any():
            raise self.unsound(
                f"the rows of its matrix {prefix!r} are not sorted, or hold a weight of 0 or less"
            )
        return sp.csr_array((data, indices, indptr), shape=(rows, columns))

    # ---- tables --------------------------------------------------------------------------------------------
    def ids(self, table: str, column: str = "id") -> pa.Array:
        """Different ids, all there, as int64 or text."""
        ids = self.tables[table].column(column).combine_chunks()
        if ids.type not in (pa.int64(), pa.string()):
            raise self.unsound(f"the ids of {table} are {ids.type}, not int64 or string")
        if ids.null_count or pc.count_distinct(ids).as_py() < len(ids):
            raise self.unsound(f"some ids of {table} are missing or stand twice")
        return ids

    def column(self, table: str, name: str, kind: str = "f") -> NDArray[Any]:
        """A column of finite numbers, of this numpy kind, none of them missing."""
        column = self.tables[table].column(name)
        if column.null_count:
            raise self.unsound(f"the column {name!r} of {table} has gaps")
        values = column.to_numpy()
        if values.dtype.kind != kind or not _finite(values):
            raise self.unsound(f"the column {name!r} of {table} does not hold finite {_KINDS[kind]}")
        return values

    def weights(self, table: str, default: bool = False) -> NDArray[Any]:
        """The column `weight`, each above 0; ones where there is none and it need not be."""
        if default and "weight" not in self.tables[table].column_names:
            return np.ones(self.tables[table].num_rows, np.float32)
        column = self.tables[table].column("weight")
        if column.null_count or column.to_numpy().dtype.kind != "f":
            return self.column(table, "weight")  # which says what is wrong with it
        with np.errstate(over="ignore", invalid="ignore"):
            values = column.to_numpy().astype(np.float32, copy=False)
            wrong = np.flatnonzero(~((values > 0) & np.isfinite(values)))
        if len(wrong):
            raise self.unsound(
                f"row {wrong[0] + 1:,} of {table} has the weight {column[int(wrong[0])].as_py():g}, not a "
                "finite number above 0"
            )
        return values

    def about_items(self) -> pa.Table | None:
        """Facts about each item, from the columns `info.…`; titles and genres are text."""
        items = self.tables["items"]
        names = [name for name in items.column_names if name.startswith("info.")]
        if not names:
            return None
        info = items.select(names).rename_columns([name.removeprefix("info.") for name in names])
        if len(set(info.column_names)) < len(names):
            raise self.unsound("a column of items stands twice")
        for one in info.schema:
            kind = one.type.value_type if pa.types.is_dictionary(one.type) else one.type
            text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
            if one.name in ("title", "genres") and not text:
                raise self.unsound(f"the column {one.name!r} of items is {one.type}, not text")
        return info


# ---- files -------------------------------------------------------------------------------------------------
def read_arrays(file: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors file, whose header is compared with the file's length first; all finite."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        arrays: dict[str, NDArray[Any]] = load_file(file)
    except (SafetensorError, OSError, LookupError, TypeError, ValueError) as failure:
        raise ArtifactError(f"{file} holds no arrays ({first_line(failure)}); write it again.") from None
    for name, array in arrays.items():
        if array.dtype.kind not in _KINDS or not _finite(array):
            raise ArtifactError(f"{file} holds NaN or infinity, or no numbers, in {name!r}; write it again.")
    return arrays


def read_table(file: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """A Parquet file, or those of these columns that it has (`pq.read_table` would import pandas).

    Its rows are compared with the file's length first, and every value is checked: text is UTF-8, offsets
    are in order.
    """
    try:
        with pq.ParquetFile(file) as opened:
            names = opened.schema_arrow.names
            if len(set(names)) < len(names):
                raise ValueError("a column stands twice")
            wanted = names if columns is None else [name for name in columns if name in names]
            if not fits(opened.metadata.num_rows, len(wanted), file.stat().st_size):
                raise ValueError(f"{opened.metadata.num_rows:,} rows do not fit in its size")
            check_rows(opened.metadata)
            table = opened.read(columns=wanted)
        table.validate(full=True)
    except (pa.ArrowException, OSError, LookupError, TypeError, ValueError) as failure:
        raise ArtifactError(f"{file} holds no table ({first_line(failure)}); write it again.") from None
    return table


def with_info(items: pa.Table, info: pa.Table | None) -> pa.Table:
    """A table of items with facts about each of them, in columns `info.…` (`Artifact.about_items`)."""
    for name, column in () if info is None else zip(info.column_names, info.columns, strict=True):
        items = items.append_column(f"info.{name}", column)
    return items


def check_rows(footer: Any) -> None:
    """Refuse a Parquet file whose parts do not add up to its rows: memory is taken for what a part claims."""
    parts = sum(footer.row_group(at).num_rows for at in range(footer.num_row_groups))
    if parts != footer.num_rows:
        raise pa.ArrowInvalid(f"its parts have {parts:,} rows and the file {footer.num_rows:,}")


def fits(rows: int, columns: int, size: int) -> bool:
    """Whether a file of this size can hold so many rows, however well they pack."""
    return rows * 8 * max(1, columns) <= max(_SMALL, _PACKED * size)


def _finite(array: NDArray[Any]) -> bool:
    """Whether neither NaN nor infinity is in it, without a copy: both show in the least or the largest."""
    if array.dtype.kind != "f" or not array.size:
        return True
    return bool(np.isfinite(array.min()) and np.isfinite(array.max()))
