"""Fetch a publisher's file once: resumable, checked, put in place atomically, verified at every use."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import BinaryIO

from infrec.errors import DataError
from infrec.progress import Progress, silent

CHUNK = 1 << 20
ATTEMPTS = 4
TIMEOUT = 30
LIMIT = 8 << 30  # bytes: no dataset we know is larger


def fetch(
    url: str,
    to: Path,
    *,
    md5: str | None = None,
    md5_url: str | None = None,
    limit: int = LIMIT,
    progress: Progress = silent,
) -> Path:
    """Download `url` to `to` unless it is there, and check it.

    md5: what the publisher states. md5_url: where the publisher states it. The SHA-256 of the first download
    is recorded beside the file and must be the same ever after.
    """
    if not to.exists():
        _request(url, {})  # refuses what is not a web address
        to.parent.mkdir(parents=True, exist_ok=True)
        part = _Part(url, to.with_name(to.name + ".part"), limit, progress)
        with part.path.open("ab") as part.file:
            try:
                fcntl.flock(part.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise DataError(f"{to.name} is being downloaded by another process; wait for it.") from None
            part.complete()
            os.fsync(part.file.fileno())
            publisher_md5 = md5 or (_stated_md5(md5_url) if md5_url else None)
            if publisher_md5 is not None and (own_md5 := digest(part.path, "md5")) != publisher_md5:
                part.forget()
                raise DataError(
                    f"{url} has the MD5 checksum {own_md5}, but its publisher states {publisher_md5}: "
                    "the download was damaged or the file replaced; it was deleted, try again."
                )
            part.tag.unlink(missing_ok=True)
            part.path.replace(to)
    verify(to, md5=md5)
    return to


def verify(path: Path, *, md5: str | None = None) -> None:
    """Compare a file with the SHA-256 recorded at its first use; record it if this is the first."""
    record = path.with_name(path.name + ".sha256")
    checksum = digest(path, "sha256")
    if record.exists():
        expected = record.read_text().split()[0] if record.stat().st_size else ""
        if checksum != expected:
            raise DataError(
                f"{path} has the SHA-256 checksum {checksum[:16]}…, but {expected[:16]}… was recorded when "
                f"it was downloaded: it was changed or damaged; delete it and {record.name} to get it again."
            )
        return
    if md5 is not None and (own_md5 := digest(path, "md5")) != md5:
        raise DataError(
            f"{path} has the MD5 checksum {own_md5}, but its publisher states {md5}; delete it and try again."
        )
    temporary = record.with_name(f"{record.name}.{os.getpid()}")
    temporary.write_text(f"{checksum}  {path.name}\n")
    temporary.replace(record)


def digest(path: Path, kind: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(kind, usedforsecurity=False)).hexdigest()


class _Part:
    """The beginning of a file that is being downloaded; `tag`: which version of the file it is a part of."""

    file: BinaryIO

    def __init__(self, url: str, path: Path, limit: int, progress: Progress) -> None:
        self.url, self.path, self.limit, self.progress = url, path, limit, progress
        self.tag = path.with_name(path.name + ".tag")

    @property
    def size(self) -> int:
        return self.path.stat().st_size

    def complete(self) -> None:
        """Append until it is whole; a broken connection is taken up where it broke."""
        for attempt in range(ATTEMPTS):
            try:
                if self._append():
                    return
                reason = "the connection ended early"
            except urllib.error.HTTPError as error:
                if error.code != 416:
                    self._forget_if_empty()
                    raise DataError(
                        f"{self.url} answered {error.code} ({error.reason}); check whether it has moved."
                    ) from None
                self._restart()  # it is not a beginning of what is there now
                reason = "the file changed"
            except (OSError, HTTPException) as error:
                cause = getattr(error, "reason", error)
                reason = getattr(cause, "strerror", None) or str(cause) or type(error).__name__
            time.sleep(0.05 * 4**attempt if attempt < ATTEMPTS - 1 else 0)
        size = self.size
        self._forget_if_empty()
        have = f"; {size:,} bytes are kept and the next try goes on from there" if size else ""
        raise DataError(
            f"{self.url} could not be downloaded ({reason}){have}: check the connection and try again."
        )

    def forget(self) -> None:
        self.path.unlink(missing_ok=True)
        self.tag.unlink(missing_ok=True)

    def _append(self) -> bool:
        """One request; whether the file is whole afterwards."""
        have = self.size
        headers = {"User-Agent": "infrec", "Accept-Encoding": "identity"}
        if have and self.tag.exists() and (tag := self.tag.read_text()):
            headers |= {"Range": f"bytes={have}-", "If-Range": tag}
        elif have:  # nothing says that the rest would belong to this beginning
            have = self._restart()
        with urllib.request.urlopen(_request(self.url, headers), timeout=TIMEOUT) as answer:
            given = answer.headers.get("Content-Range") or ""
            resumed = answer.status == 206 and given.startswith(f"bytes {have}-")
            if have and not resumed:
                have = self._restart()
            if answer.status == 206 and not resumed:
                return False
            tag = answer.headers.get("ETag") or answer.headers.get("Last-Modified") or ""
            if not tag.startswith("W/"):
                self.tag.write_text(tag)
            length = answer.headers.get("Content-Length")
            total = have + int(length) if length and length.isdigit() else None
            self._check_limit(total or 0)
            while data := answer.read(CHUNK):
                have += len(data)
                self._check_limit(have)
                self.file.write(data)
                self.progress(f"downloading {self.url.rsplit('/', 1)[-1]}", have, total)
            self.file.flush()
            return total is None or have == total

    def _restart(self) -> int:
        self.file.truncate(0)
        self.tag.unlink(missing_ok=True)
        return 0

    def _forget_if_empty(self) -> None:
        if self.path.exists() and self.size == 0:
            self.forget()

    def _check_limit(self, size: int) -> None:
        if size > self.limit:
            self.forget()
            raise DataError(f"{self.url} is larger than {self.limit:,} bytes; it was not downloaded.")


def _request(url: str, headers: dict[str, str]) -> urllib.request.Request:
    if not url.startswith(("https://", "http://")):
        raise DataError(f"{url} is not a web address; expected https://….")
    return urllib.request.Request(url, headers=headers)


def _stated_md5(url: str) -> str:
    """The checksum in a publisher's `.md5` file, in either of the usual forms."""
    try:
        with urllib.request.urlopen(_request(url, {"User-Agent": "infrec"}), timeout=TIMEOUT) as answer:
            text = answer.read(4096).decode("ascii", "replace")
    except (OSError, HTTPException) as error:
        raise DataError(
            f"the publisher's checksum {url} could not be fetched ({error}); try again."
        ) from None
    checksums = re.findall(r"\b[0-9a-fA-F]{32}\b", text)
    if len(checksums) != 1:
        raise DataError(f"{url} holds {len(checksums)} MD5 checksums; expected one.")
    return str(checksums[0]).lower()
