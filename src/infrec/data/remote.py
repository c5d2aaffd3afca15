"""Data that lies elsewhere: copied once to a temporary folder of this machine, and read there like any other.

Web addresses are downloaded. `s3://`, `gs://` and the like (files, folders) go through Arrow's file systems;
these find credentials where their own tools do (environment, configuration files, the machine's role).
"""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from infrec.data.download import fetch
from infrec.errors import DataError, first_line


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
        files, place = fs.FileSystem.from_uri(address)
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
            f"{address} cannot be read ({first_line(error)}); check the address, the connection and your "
            "credentials."
        ) from None
    return target


def _name(path: str) -> str:
    """The last part of a path."""
    return unquote(path).rstrip("/").rsplit("/", 1)[-1]


@cache
def _all_copies() -> tempfile.TemporaryDirectory[str]:
    """The folder of all copies, which goes when the process ends."""
    return tempfile.TemporaryDirectory(prefix="infrec-")


def _folder() -> Path:
    return Path(tempfile.mkdtemp(dir=_all_copies().name))
