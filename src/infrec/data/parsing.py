"""Arrow columns of whatever type to the three things a log is made of: id codes, numbers, times."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from infrec.data.vocabulary import constant, from_numpy, strings, to_numpy
from infrec.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

CANONICAL_INTEGER = r"^(0|-?[1-9][0-9]{0,17})$"  # what int64 → text gives back unchanged
_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BINARY = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
_LIST = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)


def is_text(kind: pa.DataType) -> bool:
    return any(test(kind) for test in _TEXT)


def decoded(array: pa.Array) -> pa.Array:
    """A dictionary as what it holds."""
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """One array, dictionaries unified, extension types as what they hold: UUIDs as their text."""
    if isinstance(column, pa.ChunkedArray):
        if pa.types.is_dictionary(column.type):
            column = column.unify_dictionaries()
        merged = column.combine_chunks()
        column = merged if isinstance(merged, pa.Array) else pa.concat_arrays(merged.chunks)
    if not isinstance(column.type, pa.BaseExtensionType):
        return column
    if column.type.extension_name != "arrow.uuid":
        return column.storage
    coded = column.storage.dictionary_encode()
    written = strings([str(UUID(bytes=value)) for value in coded.dictionary.to_pylist()])
    return pa.DictionaryArray.from_arrays(coded.indices, written)


def encode(
    column: pa.ChunkedArray | pa.Array, *, from_text: bool, what: str
) -> tuple[NDArray[np.integer], pa.Array]:
    """Ids as codes into an array of distinct ids (int64 or string); −1 where there is no id.

    from_text: the ids were read from a text file, where `7` may be a number. It is one when every id of the
    column is written as an integer writes itself; a single `007` keeps the whole column text.
    """
    array = whole(column)
    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _encode_numbers(decoded(array))
    if any(test(kind) for test in _BINARY) and not pa.types.is_dictionary(array.type):
        try:
            array = array.cast(pa.binary()).cast(pa.string())
        except pa.ArrowInvalid:
            raise DataError(
                f"the {what} ids are bytes that are not UTF-8 text; expected text or integers."
            ) from None
    elif not is_text(kind):
        if pa.types.is_nested(kind) or pa.types.is_null(kind):
            if array.null_count == len(array):
                return np.full(len(array), -1, np.int32), pa.array([], pa.string())
            raise DataError(f"the {what} column is of type {kind}; expected ids that are text or integers.")
        array = decoded(array).cast(pa.string())
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    codes = to_numpy(array.indices.cast(pa.int32()), -1)
    values = array.dictionary.cast(pa.string())
    if values.null_count or pc.count_distinct(values).as_py() < len(values):  # a careless categorical
        again = values.dictionary_encode()
        to = to_numpy(again.indices, -1)
        codes, values = np.where(codes < 0, -1, to[codes]), again.dictionary
    blanks = _blank(values)
    blank = to_numpy(blanks)
    if blank.any():
        codes = np.where((codes >= 0) & ~blank[codes], codes, -1)
    if from_text and len(values) and not blank.all() and whole_numbers(values):
        values = pc.if_else(blanks, constant(0, pa.string()), values).cast(pa.int64())
    return codes, values


def whole_numbers(ids: pa.Array) -> bool:
    """Whether all of these texts, but for blank ones, are written as an integer writes itself."""
    written = ids.filter(pc.invert(_blank(ids)))
    return bool(pc.all(pc.match_substring_regex(written, CANONICAL_INTEGER)).as_py())


def _blank(texts: pa.Array) -> pa.Array:
    return pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(texts)), constant(0, pa.int32()))


def _encode_numbers(array: pa.Array) -> tuple[NDArray[np.integer], pa.Array]:
    may_miss = array.null_count or pa.types.is_floating(array.type)
    missing = to_numpy(pc.is_null(array, nan_is_null=True)) if may_miss else None
    if pa.types.is_floating(array.type):
        floats = to_numpy(array.cast(pa.float64()), 0.0)
        floats = floats if missing is None else np.where(missing, 0.0, floats)
        if not (
            np.isfinite(floats).all() and (floats == np.trunc(floats)).all() and (abs(floats) < 2**53).all()
        ):
            return encode(_written(array, floats, missing), from_text=False, what="")
        ids = floats.astype(np.int64)  # integers that became floats because some were missing
    elif array.type == pa.uint64() and len(array) and (pc.max(array).as_py() or 0) >= 2**63:
        return encode(array.cast(pa.string()), from_text=False, what="")
    else:
        ids = to_numpy(array, 0)
    codes, values = _number_codes(ids)
    return (codes if missing is None else np.where(missing, -1, codes)), from_numpy(values)


def _written(array: pa.Array, floats: NDArray[np.float64], missing: NDArray[np.bool_] | None) -> pa.Array:
    """Floating-point ids as text: 1e15 as an integer, NaN as none, as they are where all ids are whole."""
    is_whole = (floats == np.trunc(floats)) & (abs(floats) < 2**53)
    integers = from_numpy(np.where(is_whole, floats, 0.0).astype(np.int64)).cast(pa.string())
    texts = pc.if_else(_mask(is_whole), integers, array.cast(pa.string()))
    return texts if missing is None else pc.if_else(_mask(missing), pa.nulls(1, pa.string())[0], texts)


def _mask(where: NDArray[np.bool_]) -> pa.Array:
    return from_numpy(where.astype(np.uint8)).cast(pa.bool_())


def _number_codes(ids: NDArray[np.integer]) -> tuple[NDArray[np.integer], NDArray[np.int64]]:
    """Like np.unique with its inverse, without sorting the rows."""
    if not len(ids):
        return np.zeros(0, np.int32), np.zeros(0, np.int64)
    low, high = int(ids.min()), int(ids.max())
    if high - low < max(4 * len(ids), 1 << 20):
        if high - low > np.iinfo(ids.dtype).max:  # 99 − (−100) is no int8
            ids = ids.astype(np.int64)
        shifted = ids - np.asarray(low, ids.dtype) if low else ids
        present = np.zeros(high - low + 1, bool)
        present[shifted] = True
        values = np.flatnonzero(present).astype(np.int64) + low
        number = np.cumsum(present, dtype=np.int32) - np.int32(1)
        return number[shifted], values
    encoded = from_numpy(ids).dictionary_encode()
    return to_numpy(encoded.indices), to_numpy(encoded.dictionary).astype(np.int64)


def texts(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column as strings for people to read: lists joined with `|`, null where there is no text for it."""
    array = decoded(whole(column))
    try:
        if any(test(array.type) for test in _LIST):
            return pc.binary_join(array.cast(pa.list_(pa.string())), "|")
        return array.cast(pa.string())
    except pa.ArrowNotImplementedError:  # a struct, for example
        return pa.nulls(len(array), pa.string())
    except pa.ArrowInvalid:  # bytes that are not UTF-8
        values = [v.decode("utf8", "replace") if isinstance(v, bytes) else None for v in array.to_pylist()]
        return pa.array(values, pa.string())


def without_entities(texts: pa.Array) -> pa.Array:
    """Texts with HTML's entities, such as `&amp;`, as the characters that they stand for."""
    has_one = pc.match_substring_regex(texts, r"&(#[0-9]+|#[xX][0-9a-fA-F]+|[a-zA-Z][a-zA-Z0-9]*);")
    if not pc.any(has_one).as_py():
        return texts
    plain = [html.unescape(text) for text in texts.filter(has_one).to_pylist()]
    return pc.replace_with_mask(texts, pc.fill_null(has_one, pa.scalar(False)), strings(plain))


def numbers(column: pa.ChunkedArray | pa.Array, what: str) -> NDArray[np.float64]:
    """A column as float64; NaN where it is missing or not a number."""
    array = whole(column)
    if is_text(array.type):
        array = array.dictionary_encode()
    if pa.types.is_dictionary(array.type):
        if not is_text(array.type.value_type):
            return numbers(array.dictionary_decode(), what)
        table = _parsed(array.dictionary.cast(pa.string()))
        codes = to_numpy(array.indices.cast(pa.int32()), len(table))
        return np.append(table, np.nan)[codes]
    try:
        array = array.cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise DataError(f"the {what} column is of type {array.type}; expected numbers.") from None
    return to_numpy(array, np.nan)


def _parsed(texts: pa.Array) -> NDArray[np.float64]:
    texts = pc.utf8_trim_whitespace(texts)
    try:
        return to_numpy(texts.cast(pa.float64()), np.nan)
    except pa.ArrowInvalid:
        return np.array([_number(text) for text in texts.to_pylist()], np.float64)


def _number(text: str | None) -> float:
    try:
        return float(text) if text and "_" not in text else np.nan
    except ValueError:
        return np.nan


def compare_text(
    column: pa.ChunkedArray | pa.Array, text: str, *, differs: bool = False
) -> NDArray[np.bool_]:
    """Where a column, written as text, is this text, or differs from it; blanks around it do not count."""
    array = whole(column)
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    values = pc.utf8_trim_whitespace(texts(array.dictionary))
    found = (pc.not_equal if differs else pc.equal)(values, pa.scalar(text))
    holds = np.append(to_numpy(pc.fill_null(found, pa.scalar(False))), False)
    return holds[to_numpy(array.indices.cast(pa.int32()), len(values))]


def instants(column: pa.ChunkedArray | pa.Array) -> NDArray[np.float64]:
    """A column of times as microseconds since 1970, each read by itself alone; NaN where there is none.

    Numbers are seconds, milliseconds, microseconds or nanoseconds, by their size: from 10¹¹ on no seconds.
    """
    array = decoded(whole(column))
    if is_text(array.type):
        written = pc.utf8_trim_whitespace(array.cast(pa.string()))
        days, _ = _times_of_text(written, "date")
        days = to_numpy(days.cast(pa.timestamp("us")).cast(pa.int64()).cast(pa.float64(), safe=False), np.nan)
        return np.where(np.isnan(days), _instants_of_numbers(numbers(written, "time")), days)
    if pa.types.is_timestamp(array.type) or pa.types.is_date(array.type):
        array = array.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
        return to_numpy(array.cast(pa.float64(), safe=False), np.nan)
    return _instants_of_numbers(numbers(array, "time"))


def _instants_of_numbers(values: NDArray[np.float64]) -> NDArray[np.float64]:
    size = np.abs(values)
    return values * np.select([size < 1e11, size < 1e14, size < 1e17], [1e6, 1e3, 1.0], 1e-3)


def times(
    column: pa.ChunkedArray | pa.Array, like: str | None = None
) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None, str]:
    """A column as int64 in the order of time, where it could not be read (None: nowhere), and its form.

    like: the form that an earlier part of the same column had, so that all parts are read alike.
    """
    array = decoded(whole(column))
    form = like or "number"
    if is_text(array.type):
        array, form = _times_of_text(array.cast(pa.string()), like)
    if pa.types.is_floating(array.type) or pa.types.is_decimal(array.type):
        floats = to_numpy(array.cast(pa.float64()), np.nan)
        bad = ~np.isfinite(floats) | (abs(floats) > 2**62)
        floats = np.where(bad, 0, floats)
        fractions = (floats != np.trunc(floats)).any() and abs(floats).max() < 2**62 / 1e6
        if form == "fractions" or (like is None and fractions):
            floats, form = floats * 1e6, "fractions"  # fractions of a second still order
        return np.rint(floats).astype(np.int64), bad if bad.any() else None, form
    if pa.types.is_date32(array.type) or pa.types.is_time32(array.type):
        array = array.cast(pa.int32())
    if array.type == pa.uint64():
        array = array.cast(pa.int64(), safe=False)
    try:
        array = array.cast(pa.int64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return np.zeros(len(array), np.int64), np.ones(len(array), bool), form
    return to_numpy(array, 0), to_numpy(pc.is_null(array)) if array.null_count else None, form


# Only days that exist, so that what matches can be cast.
_DAY = (
    r"[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)"
    r"|02-(0[1-9]|1[0-9]|2[0-8]))"
)
_LEAP_DAY = r"([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29"
_TIME_FORMS = {
    "whole": (pa.int64(), r"^-?[0-9]{1,18}$"),
    "number": (pa.float64(), r"^-?[0-9]+([.][0-9]*)?([eE][-+]?[0-9]+)?$"),
    "date": (
        pa.timestamp("us"),
        rf"^({_DAY}|{_LEAP_DAY})"
        r"([ T]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,6})?)?"
        r"([-+]([01][0-9]|2[0-3])(:?[0-5][0-9])?)?)?$",
    ),
}


def _times_of_text(texts: pa.Array, like: str | None = None) -> tuple[pa.Array, str]:
    """Integers, decimal numbers or ISO dates (UTC unless they say), whichever most rows are; else null."""
    if like in (None, "whole"):
        try:
            return texts.cast(pa.int64()), "whole"
        except pa.ArrowInvalid:
            pass
    texts = pc.replace_substring_regex(pc.utf8_trim_whitespace(texts), r"(Z| ?UTC|[+]00:?00)$", "")
    texts = pc.replace_substring_regex(texts, r"(:[0-9]{2}[.][0-9]{6})[0-9]{1,3}", r"\1")  # no nanoseconds
    best = "number" if like == "fractions" else like
    if best is None:
        count = {
            form: pc.sum(pc.match_substring_regex(texts, rule)).as_py() or 0
            for form, (_, rule) in _TIME_FORMS.items()
        }
        best = max(count, key=lambda form: count[form])
    kind, rule = _TIME_FORMS[best]
    readable = pc.if_else(pc.match_substring_regex(texts, rule), texts, pa.nulls(1, pa.string())[0])
    if best == "date" and pc.any(pc.match_substring_regex(readable, r":.*[-+]")).as_py():
        readable = pc.replace_substring_regex(readable, r"^(.{10})$", r"\1 00:00")
        readable = pc.replace_substring_regex(readable, r"^(.{10}[^-+]+)$", r"\1Z")
        kind = pa.timestamp("us", "UTC")  # with it, Arrow expects an offset in every row
    return readable.cast(kind), like or best
