"""Numbers between Arrow and numpy, without a copy and without pandas.

pyarrow's own conversions import pandas, where it is installed, to see whether they were given a series: half
a second for nothing in every command.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray


def from_numpy(values: NDArray[Any]) -> pa.Array:
    """A one-dimensional array of integers or floats as an Arrow array."""
    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


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
