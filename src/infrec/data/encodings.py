"""Text in any encoding as UTF-8, chunk by chunk; which encoding it is in is seen from the bytes."""

from __future__ import annotations

import codecs
import re

from infrec.errors import ConfigError

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


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
