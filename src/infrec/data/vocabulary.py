"""Ids as their owner wrote them, and the way from an id to its row or column."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from infrec.data.arrow import from_numpy, to_numpy

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

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.ids.equals(other.ids)

    __hash__ = None  # type: ignore[assignment]

    def positions(self, ids: Iterable[object] | pa.Array) -> NDArray[np.int64]:
        """Where each id stands; −1 for an unknown one. Ids of another type are compared by their text.

        Args:
            ids: What to look up.
        """
        asked = _as_array(ids)
        own = self.ids
        if asked.type != own.type:
            asked, own = asked.cast(pa.string()), own.cast(pa.string())
        found = pc.index_in(asked, value_set=own)
        return to_numpy(found, -1).astype(np.int64)

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
