"""Ids as their owner wrote them, and the way from an id to its row; numbers between Arrow and numpy.

pyarrow's own conversions from and to numpy import pandas, where it is installed, to see whether they were
given a series: half a second for nothing in every command. Those below do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Distinct ids in a fixed order; position i is row (or column) i of a matrix.

    Args:
        ids: An Arrow array of int64 or string; strings stay strings: `007` and `7` are two ids.
    """

    ids: pa.Array

    @classmethod
    def of(cls, ids: Iterable[object] | pa.Array) -> Vocabulary:
        """A vocabulary of these ids, in this order.

        Args:
            ids: The ids; repeats are refused.
        """
        return cls(_as_array(ids))

    @classmethod
    def numbered(cls, n: int) -> Vocabulary:
        """The ids 0 … n−1, for data that comes without ids.

        Args:
            n: How many.
        """
        return cls(from_numpy(np.arange(n, dtype=np.int64)))

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[int | str]:
        return iter(self.ids.to_pylist())

    def __getitem__(self, position: int) -> int | str:
        """The id at a position, as Python has it."""
        value: int | str = self.ids[int(position)].as_py()
        return value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.ids.equals(other.ids)

    __hash__ = None  # type: ignore[assignment]

    def positions(self, ids: Iterable[object] | pa.Array) -> NDArray[np.int64]:
        """Where each id stands; −1 for an unknown one. Ids of another type are compared by their text.

        Args:
            ids: What to look up.
        """
        wanted_ids = _as_array(ids)
        own = self.ids
        if wanted_ids.type != own.type:
            wanted_ids, own = wanted_ids.cast(pa.string()), own.cast(pa.string())
        positions = pc.index_in(wanted_ids, value_set=own)
        return to_numpy(positions, -1).astype(np.int64)

    def take(self, positions: NDArray[np.integer]) -> pa.Array:
        """The ids at these positions.

        Args:
            positions: Positions of the wanted ids, in any order.
        """
        return self.ids.take(from_numpy(np.asarray(positions, np.int64)))


def _as_array(ids: Iterable[object] | pa.Array) -> pa.Array:
    """Any ids as an Arrow array of int64 or string, without nulls."""
    if isinstance(ids, pa.ChunkedArray):
        ids = ids.combine_chunks()
    if isinstance(ids, np.ndarray) and ids.dtype.kind in "iu" and ids.ndim == 1:
        ids = from_numpy(ids)
    if not isinstance(ids, pa.Array):
        values = ids if isinstance(ids, np.ndarray) else list(ids)
        if len(values) == 0:
            return pa.array([], pa.string())
        try:
            ids = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):  # a mixture of types, huge integers
            return _written(values)
    if pa.types.is_dictionary(ids.type):
        ids = ids.dictionary_decode()
    try:
        return ids.cast(pa.int64() if pa.types.is_integer(ids.type) else pa.string())
    except pa.ArrowException:  # from 2⁶³ on, UUIDs, bytes, tuples
        return _written(ids.to_pylist())


def _written(ids: Iterable[object]) -> pa.Array:
    """Ids of any type as their text."""
    return pa.array([None if value is None else str(value) for value in ids], pa.string())


# ---- Arrow and numpy ---------------------------------------------------------------------------------------
def from_numpy(values: NDArray[Any]) -> pa.Array:
    """A one-dimensional array of integers or floats as an Arrow array."""
    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def nullable(positions: NDArray[np.int64]) -> pa.Array:
    """Positions as an Arrow array; null in place of −1."""
    at = from_numpy(positions)
    return pc.if_else(pc.greater_equal(at, constant(0, pa.int64())), at, pa.nulls(1, pa.int64())[0])


def strings(values: Sequence[str]) -> pa.Array:
    """A list of texts as an Arrow array."""
    data = [value.encode() for value in values]
    offsets = np.zeros(len(data) + 1, np.int32)
    np.cumsum([len(value) for value in data], out=offsets[1:])
    return pa.StringArray.from_buffers(len(data), pa.py_buffer(offsets), pa.py_buffer(b"".join(data)))


def constant(value: float, kind: pa.DataType) -> pa.Scalar:
    """A number as an Arrow scalar of this type."""
    return from_numpy(np.array([value])).cast(kind)[0]


def to_numpy(array: pa.Array, missing: float = 0) -> NDArray[Any]:
    """An Arrow array of integers, floats or booleans as a read-only numpy array; nulls become `missing`."""
    if array.null_count:
        array = pc.fill_null(array, constant(missing, array.type))
    if pa.types.is_boolean(array.type):
        return to_numpy(array.cast(pa.uint8())).view(bool)
    dtype = np.dtype(array.type.to_pandas_dtype())
    if not len(array):
        return np.zeros(0, dtype)
    return np.frombuffer(array.buffers()[1], dtype, count=len(array), offset=array.offset * dtype.itemsize)
