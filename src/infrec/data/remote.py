"""Data that lies elsewhere: copied once to a temporary folder of this machine, and read there like any other.

Web addresses are downloaded. `s3://`, `gs://` and the like (files, folders) go through Arrow's file systems;
these find credentials where their own tools do (environment, configuration files, the machine's role) and
take options behind a question mark (`endpoint_override`, `scheme`).
"""

from __future__ import annotations

import os
import re
import tempfile
from functools import cache
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pyarrow as pa

from infrec.data.download import fetch
from infrec.errors import DataError, first_line

RETRY_SECONDS = (
    20  # how long a request to Google Cloud Storage is tried again; Arrow's own limit is 15 minutes
)


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Whether a path is an address with a scheme, such as `https://…` or `s3://…`."""
    scheme, separator, _ = os.fspath(path).partition("://")
    return bool(separator) and scheme.isalnum()


@cache
def local_copy(address: str) -> Path:
    """Where the file or folder of an address lies on this machine; copied when it is first asked for.

    Args:
        address: A web address, or an address that Arrow's file systems understand.
    """
    if address.startswith(("http://", "https://")):
        return fetch(address, _folder() / (_name(urlsplit(address).path) or "data"))
    from pyarrow import fs

    try:
        files, place = fs.FileSystem.from_uri(_with_retry_limit(address))
        info = files.get_file_info(place)
        target = _folder() / (_name(place) or "data")
        if info.type == fs.FileType.NotFound:
            raise DataError(f"there is nothing at {address}; check the address.")
        if info.type == fs.FileType.Directory:
            target.mkdir()
        fs.copy_files(
            place, str(target), source_filesystem=files, destination_filesystem=fs.LocalFileSystem()
        )
    except (OSError, pa.ArrowException, ValueError) as error:
        raise DataError(
            f"{address} cannot be read ({_reason(error)}); check the address, the connection and your "
            f"credentials{_without_credentials(address)}."
        ) from None
    return target


def _is_google(address: str) -> bool:
    return address.startswith(("gs://", "gcs://"))


def _with_retry_limit(address: str) -> str:
    """An address of Google Cloud Storage with a limit of retries unless it has one; any other as it is."""
    query = urlsplit(address).query
    if not _is_google(address) or "retry_limit_seconds" in parse_qs(query, keep_blank_values=True):
        return address
    return f"{address}{'&' if query else '?'}retry_limit_seconds={RETRY_SECONDS}"


def _reason(error: Exception) -> str:
    """An error in short; of Google Cloud Storage what the server said, or why there was no answer."""
    stated = re.search(
        r"with a last message of (?:PerformWork\(\) - )?(?:CURL error \[\d+\]=)?(.+)", str(error)
    )
    if stated is None:
        return first_line(error)
    return first_line(OSError(re.split(r" error_info=|(?<=\.) ", stated[1])[0]))


def _without_credentials(address: str) -> str:
    """How a public bucket is named where that needs saying."""
    if not _is_google(address) or urlsplit(address).username is not None:
        return ""
    return " (none are needed for a public bucket named as gs://anonymous@BUCKET/…)"


def _name(path: str) -> str:
    """The last part of a path."""
    return unquote(path).rstrip("/").rsplit("/", 1)[-1]


@cache
def _all_copies() -> tempfile.TemporaryDirectory[str]:
    """The folder of all copies, which goes when the process ends."""
    return tempfile.TemporaryDirectory(prefix="infrec-")


def _folder() -> Path:
    return Path(tempfile.mkdtemp(dir=_all_copies().name))
