"""Answers as rows: Arrow inside, Python values outside, a small table in a notebook."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import pyarrow as pa

_SHOWN = 20  # rows of a table in a notebook


@dataclass(frozen=True, eq=False)
class Rows:
    """Recommendations, similar items or reasons: a row is a dictionary of Python values.

    pandas, polars and DuckDB take it as it is (Arrow C stream): `polars.DataFrame(rows)`.

    Args:
        table: The rows as an Arrow table.
    """

    table: pa.Table

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.table.column_names)

    def to_pandas(self) -> Any:
        """The rows as a pandas frame."""
        return self.table.to_pandas()

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self.table.to_batches(max_chunksize=4096):
            yield from batch.to_pylist()

    @overload
    def __getitem__(self, key: str) -> list[Any]: ...
    @overload
    def __getitem__(self, key: int) -> dict[str, Any]: ...
    def __getitem__(self, key: str | int) -> list[Any] | dict[str, Any]:
        """The values of a column, by its name; or a row, by its number."""
        if isinstance(key, str):
            return list(self.table.column(key).to_pylist())
        at = range(len(self))[key]
        return dict(self.table.slice(at, 1).to_pylist()[0])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows) and bool(self.table.equals(other.table))

    __hash__ = None  # type: ignore[assignment]

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"Rows({len(self):,} × {', '.join(self.columns)})"

    def _repr_html_(self) -> str:
        shown = (row.values() for row in self.table.slice(0, _SHOWN).to_pylist())
        more = len(self) - _SHOWN
        return as_html(f"and {more:,} more rows" if more > 0 else "", self.columns, shown)


def as_html(caption: str, columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """A table for a notebook, everything in it escaped; it asks no other host for anything."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    lines = ("".join(f"<td>{html.escape(_text(cell))}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _text(cell: object) -> str:
    if cell is None:
        return ""
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)
