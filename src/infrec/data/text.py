"""Delimited text (CSV, TSV, `::`, blanks; plain or compressed; in any encoding), read by pyarrow's parser."""

from __future__ import annotations

import codecs
import csv
import io
import re
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from traceback import clear_frames
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.csv as pacsv

from infrec.data.columns import DEFAULTS, Header, ReadOptions
from infrec.data.sources import Source, grouped
from infrec.errors import ConfigError, DataError, first_line

HEAD = 1 << 16
ESCAPES = 1 << 24  # bytes in which a quoted file is searched for escaped quotes
NAMED_DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "bar": "|", "blank": " "}
UNIT = "\x1f"  # stands in for `::`, which is two bytes: pyarrow's delimiter must be one
DELIMITERS = {
    ".csv": (",", ";", "\t", "|"),
    ".tsv": ("\t", ",", ";", "|"),
    ".tab": ("\t", ",", ";", "|"),
    "": ("::", "\t", ",", ";", "|", " "),
}
_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd"}
_LABEL = pa.dictionary(pa.int32(), pa.string())
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class TextSource(Source):
    """A delimited text file. Without a header, columns are user, item, rating, timestamp in this order."""

    from_text = True

    def __init__(
        self,
        open_bytes: Callable[[], BinaryIO],
        name: str,
        options: ReadOptions = DEFAULTS,
        *,
        header: Sequence[str] | None = None,
    ) -> None:
        """header: the columns of a file that is known to have no header line."""
        self.name = name
        self._encoding = options.encoding and known_encoding(options.encoding)
        self._open = lambda: decompressed(open_bytes(), name)
        head, whole = self._head()
        blank, lines = _first_lines(head, whole, name)
        self.delimiter = _delimiter(options.delimiter, lines, name)
        self._quotes = self.delimiter != "::"
        rows = [_fields(line, self.delimiter) for line in lines]
        names = Header.of(rows, options, name) if header is None else Header(list(header))
        self.columns, self.has_header, self.header_is_guess = names.columns, names.is_there, names.is_guess
        self.notes = [] if names.note is None else [names.note]
        self._skip = blank + 1 if self.has_header else 0
        self._runs = self.delimiter == " " and any("  " in line for line in lines)
        self._escapes = self._quotes and '"' in "".join(lines) and self._has_escaped_quotes()

    def _stream(self) -> tuple[BinaryIO, Utf8]:
        """The text in UTF-8 from its beginning, and what was seen of its encoding."""
        seen = Utf8(self._encoding)
        return cast(BinaryIO, _Changed(self._open(), seen)), seen

    def _head(self) -> tuple[bytes, bool]:
        """The first bytes, in UTF-8, and whether these are all."""
        try:
            with self._stream()[0] as stream:
                head = stream.read(HEAD + 1)
        except (OSError, EOFError, UnicodeError) as error:
            raise explain(error, self.name) from None
        return head[:HEAD], len(head) <= HEAD

    def _has_escaped_quotes(self) -> bool:
        r"""Whether quotes in values are written `\"`: where no quoted value ends, one stands."""
        inside = re.compile(rb'\\"[^"\r\n' + re.escape(self.delimiter.encode()) + b"]")
        try:
            with self._stream()[0] as stream:
                return inside.search(stream.read(ESCAPES)) is not None
        except (OSError, EOFError, UnicodeError) as error:
            raise explain(error, self.name) from None

    def tables(
        self, columns: Sequence[str], plain: Sequence[str] = (), rows: int | None = None
    ) -> Iterator[tuple[pa.Table, int]]:
        skipped, reader = _Skipped(), None
        stream, seen = self._stream()
        stream, options = self._prepared(stream, columns, plain, skipped)
        try:
            if rows is None:
                table = pacsv.read_csv(stream, *options)
                stream.close()
                self._keep_encoding(seen)
                yield table, skipped.since_asked()
                return
            with pacsv.open_csv(stream, *options) as reader:
                for table in grouped(reader, rows):
                    yield table, skipped.since_asked()
        except BaseException as error:
            shared = [weakref.ref(skipped), weakref.ref(stream)]
            skipped.stopped = True
            stream.close()
            clear_frames(error.__traceback__)
            del skipped, stream, options, reader
            _wait_until_dropped(shared)
            if isinstance(error, (pa.ArrowInvalid, OSError, EOFError, UnicodeError)):
                raise explain(error, self.name) from None
            raise
        stream.close()
        self._keep_encoding(seen)
        if left := skipped.since_asked():
            yield pa.table({column: pa.array([], pa.string()) for column in columns}), left

    def _keep_encoding(self, seen: Utf8) -> None:
        if self._encoding is None and seen.encoding not in (None, "utf-8"):
            self.encoding = seen.encoding

    def _prepared(
        self, stream: Any, columns: Sequence[str], plain: Sequence[str], skipped: _Skipped
    ) -> tuple[Any, Any]:
        """A stream that pyarrow can read, and how it is to do so."""
        delimiter = self.delimiter
        if delimiter == "::":
            stream, delimiter = _Changed(stream, _one_byte_delimiter), UNIT
        elif self._runs:
            stream = _Changed(stream, _single_blanks)
        kinds = {column: pa.string() if column in plain else _LABEL for column in columns}
        return stream, (
            pacsv.ReadOptions(
                column_names=self.columns,
                skip_rows=self._skip,
                block_size=8 << 20,
            ),
            pacsv.ParseOptions(
                delimiter=delimiter,
                quote_char='"' if self._quotes else False,
                escape_char="\\" if self._escapes else False,
                newlines_in_values=self._quotes,  # else a block may end inside a quoted value
                invalid_row_handler=skipped,
            ),
            pacsv.ConvertOptions(
                column_types=kinds,
                include_columns=list(columns),
                null_values=[],
                strings_can_be_null=False,
            ),
        )


class _Skipped:
    """Counts the rows that pyarrow cannot split into as many fields as there are columns."""

    def __init__(self) -> None:
        self._count = 0
        self.stopped = False  # nobody asks any more: each block ends at its next such row

    def __call__(self, row: Any) -> str:
        if self.stopped:
            return "error"
        self._count += (row.text or "").rstrip("\n").count("\n") + 1  # an open quote swallows lines
        return "skip"

    def since_asked(self) -> int:
        """How many since the last time."""
        count, self._count = self._count, 0
        return count


_LEAVING = 0.2  # seconds


def _wait_until_dropped(shared: Sequence[weakref.ref[Any]]) -> None:
    """Until pyarrow's threads have let go of what they call: after a failure they go on with the blocks that
    were read, and a process that ends meanwhile hangs or is aborted. The last one still has to leave the
    interpreter then: without the moment at the end, 1 of 100 processes was aborted on a busy machine."""
    ends = time.monotonic() + 60
    while any(reference() is not None for reference in shared) and time.monotonic() < ends:
        time.sleep(0.001)
    time.sleep(_LEAVING)


def _first_lines(head: bytes, whole: bool, name: str) -> tuple[int, list[str]]:
    """How many blank lines a text starts with, and up to 50 of the lines after; refuses what is not text.

    whole: whether nothing follows the first bytes.
    """
    if b"\0" in head or head[:4] in (b"PAR1", b"PK\x03\x04"):
        raise DataError(
            f"{name} is not text (it holds binary data); expected delimited text: check what it is."
        )
    lines = re.split("\r\n|\r|\n", head.removeprefix(b"\xef\xbb\xbf").decode("utf8", "replace"))
    if not whole and len(lines) > 1:
        lines.pop()  # it may be cut
    full = [number for number, line in enumerate(lines) if line.strip()]
    if not full:  # a byte-order mark, or blanks
        raise DataError(f"{name} is empty; expected rows of user, item and more.")
    return full[0], [lines[number] for number in full[:50]]


def explain(error: BaseException, name: str) -> DataError:
    """An error met while a text was read, in one sentence."""
    text = str(error)
    if isinstance(error, PermissionError):
        return DataError(f"{name} may not be read; check its permissions.")
    if isinstance(error, UnicodeError):
        return DataError(
            f"{name} has bytes that are no {getattr(error, 'encoding', 'utf-16')} text; name its encoding, "
            'such as `encoding="cp1252"`.'
        )
    if isinstance(error, (EOFError, OSError)) or "ompress" in text:
        return DataError(f"{name} is cut off or damaged (its compressed data ends early); get it again.")
    if "Empty CSV" in text or "Could not skip" in text:
        return DataError(f"{name} has a header but no rows; expected at least one interaction.")
    if "straddling" in text:
        return DataError(
            f"{name} has a row of more than 8 MB, or a quote that is never closed; expected one short line "
            "per interaction: close or remove the quote."
        )
    return DataError(f"{name} cannot be read as delimited text ({first_line(error)}).")


def decompressed(raw: BinaryIO, name: str) -> BinaryIO:
    """A file's bytes unpacked; how they are packed is seen from the first ones, whatever its name says."""
    start = raw.read(4)
    raw.seek(0)
    kind = next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), None)
    if kind is None:
        if name.lower().endswith(".gz") and start:
            raise DataError(f"{name} is not gzip data, though its name says so; check what it is.")
        return raw
    return cast(BinaryIO, pa.CompressedInputStream(pa.PythonFile(raw, "r"), kind))


def _delimiter(given: str | None, lines: Sequence[str], name: str) -> str:
    """The given separator of fields, or that which cuts most lines into equally many, and into most."""
    if given is not None:
        delimiter = NAMED_DELIMITERS.get(given.lower(), given)
        if delimiter != "::" and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n'):
            raise ConfigError(
                f"delimiter is {given!r}; expected one character, `::`, or a word of "
                f"{', '.join(NAMED_DELIMITERS)}."
            )
        return delimiter
    suffix = Path(name.lower().removesuffix(".gz").removesuffix(".bz2").removesuffix(".zst")).suffix

    def regularity(delimiter: str) -> tuple[float, int]:
        widths = [len(_fields(line, delimiter)) for line in lines]
        width = max(set(widths), key=widths.count)
        return (widths.count(width) / len(widths), width) if width > 1 else (0.0, 1)

    return max(DELIMITERS.get(suffix, DELIMITERS[""]), key=regularity)


def _fields(line: str, delimiter: str) -> list[str]:
    if delimiter == "::":
        return line.split("::")
    if delimiter == " ":
        return line.split()
    return next(csv.reader([line], delimiter=delimiter), [""])


class _Changed(io.RawIOBase):
    """A byte stream that is changed on the way, chunk by chunk.

    change: from bytes, and whether they are the last ones, makes the changed bytes, and those at the end that
    can only be changed together with what follows.
    """

    def __init__(self, inner: BinaryIO, change: Callable[[bytes, bool], tuple[bytes, bytes]]) -> None:
        self._inner, self._change, self._ready, self._held = inner, change, b"", b""

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._inner.close()
        super().close()

    def read(self, size: int = -1) -> bytes:
        while size < 0 or len(self._ready) < size:
            raw = self._inner.read(4 << 20)
            changed, self._held = self._change(self._held + raw, not raw)
            self._ready += changed
            if not raw:
                break
        cut = len(self._ready) if size < 0 else size
        out, self._ready = self._ready[:cut], self._ready[cut:]
        return out


def _one_byte_delimiter(data: bytes, last: bool) -> tuple[bytes, bytes]:
    """`::` as the unit separator."""
    keep = 0 if last or data.endswith(b"::") or not data.endswith(b":") else 1
    return data[: len(data) - keep].replace(b"::", UNIT.encode()), data[len(data) - keep :]


def _single_blanks(data: bytes, last: bool) -> tuple[bytes, bytes]:
    """Runs of blanks as one, none at the ends of lines."""
    cut = len(data) if last else data.rfind(b"\n") + 1
    return re.sub(rb"(?m)^ +| +(?=\r?$)", b"", re.sub(rb"[ \t]+", b" ", data[:cut])), data[cut:]


# ---- any encoding as UTF-8 --------------------------------------------------------------------------------
def _same_number(error: UnicodeError) -> tuple[str, int]:
    """The five bytes that Windows-1252 leaves open as the characters of the same number, as browsers do."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return error.object[error.start : error.end].decode("latin-1"), error.end


codecs.register_error("infrec.same-number", _same_number)


def known_encoding(name: str) -> str:
    """An encoding by the name that Python has for it.

    Args:
        name: A name such as `latin-1` or `UTF-8`.
    """
    try:
        b"a".decode(name)
        return codecs.lookup(name).name
    except LookupError:
        raise ConfigError(
            f"there is no encoding {name!r}; expected a name such as utf-8, latin-1 or cp1252."
        ) from None


class Utf8:
    """A change of chunks of bytes into UTF-8. Without a given encoding, UTF-16 is known by its mark, and the
    first bytes that are not ASCII tell UTF-8 from Windows-1252, which includes Latin-1.

    Args:
        encoding: What the text is in; None: to be seen.
    """

    def __init__(self, encoding: str | None = None) -> None:
        self.encoding = encoding  # None as long as everything was ASCII
        self._decoder = None if encoding in (None, "utf-8") else self._made(str(encoding))
        self._begun = False

    def __call__(self, data: bytes, last: bool) -> tuple[bytes, bytes]:
        """A chunk in UTF-8, and the bytes at its end that begin a character of the next one."""
        if not self._begun and self.encoding is None and data[:2] in _UTF16:
            self.encoding, self._decoder = "utf-16", self._made("utf-16")
        self._begun = True
        if self.encoding is None:
            if data.isascii():
                return data, b""
            try:
                complete = codecs.utf_8_decode(data, "strict", last)[1]
                if data[:complete].isascii():  # the only other bytes may begin a character of either encoding
                    return data[:complete], data[complete:]
                self.encoding = "utf-8"
            except UnicodeDecodeError:
                if _mostly_utf8(data):
                    raise
                self.encoding, self._decoder = "cp1252", self._made("cp1252")
        if self._decoder is not None:
            return self._decoder.decode(data, last).encode(), b""
        complete = len(data) if data.isascii() else codecs.utf_8_decode(data, "strict", last)[1]
        return data[:complete], data[complete:]

    @staticmethod
    def _made(encoding: str) -> codecs.IncrementalDecoder:
        errors = "infrec.same-number" if encoding == "cp1252" else "strict"
        return codecs.getincrementaldecoder(encoding)(errors)


def _mostly_utf8(data: bytes) -> bool:
    """Whether more characters beyond ASCII are sound UTF-8 than are not: then some bytes are damaged."""
    beyond = re.sub(r"[\x00-\x7f]+", "", data.decode("utf-8", "replace"))
    return 2 * beyond.count("\ufffd") < len(beyond)
