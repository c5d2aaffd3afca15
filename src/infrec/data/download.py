"""Fetch a publisher's file once: resumable, checked, put in place atomically, verified at every use."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import BinaryIO, cast

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
        part = to.with_name(to.name + ".part")
        with part.open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise DataError(f"{to.name} is being downloaded by another process; wait for it.") from None
            _transfer(url, file, part, limit, progress)
            file.flush()
            os.fsync(file.fileno())
            stated = md5 or (_stated_md5(md5_url) if md5_url else None)
            if stated is not None and (found := digest(part, "md5")) != stated:
                _forget(part)
                raise DataError(
                    f"{url} has the MD5 checksum {found}, but its publisher states {stated}: the download "
                    "was damaged or the file replaced; it was deleted, try again."
                )
            _validator(part).unlink(missing_ok=True)
            part.replace(to)
    verify(to, md5=md5)
    return to


def verify(path: Path, *, md5: str | None = None) -> None:
    """Compare a file with the SHA-256 recorded at its first use; record it if this is the first."""
    record = path.with_name(path.name + ".sha256")
    found = digest(path, "sha256")
    if record.exists():
        expected = record.read_text().split()[0] if record.stat().st_size else ""
        if found != expected:
            raise DataError(
                f"{path} has the SHA-256 checksum {found[:16]}…, but {expected[:16]}… was recorded when "
                f"it was downloaded: it was changed or damaged; delete it and {record.name} to get it again."
            )
        return
    if md5 is not None and (stated := digest(path, "md5")) != md5:
        raise DataError(
            f"{path} has the MD5 checksum {stated}, but its publisher states {md5}; delete it and try again."
        )
    temporary = record.with_name(f"{record.name}.{os.getpid()}")
    temporary.write_text(f"{found}  {path.name}\n")
    temporary.replace(record)


def digest(path: Path, kind: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(kind, usedforsecurity=False)).hexdigest()


def _transfer(url: str, file: BinaryIO | object, part: Path, limit: int, progress: Progress) -> None:
    """Append to the part until it is whole; a broken connection is taken up where it broke."""
    out = cast(BinaryIO, file)
    for attempt in range(ATTEMPTS):
        try:
            if _attempt(url, out, part, limit, progress):
                return
            reason = "the connection ended early"
        except urllib.error.HTTPError as error:
            if error.code == 416:  # the part is not a beginning of what is there now
                _restart(out, part)
                reason = "the file changed"
            else:
                _drop_empty(part)
                raise DataError(
                    f"{url} answered {error.code} ({error.reason}); check whether it has moved."
                ) from None
        except (OSError, HTTPException) as error:
            reason = str(getattr(error, "reason", error)) or type(error).__name__
        time.sleep(0.05 * 4**attempt if attempt < ATTEMPTS - 1 else 0)
    size = part.stat().st_size
    _drop_empty(part)
    have = f"; {size:,} bytes are kept and the next try goes on from there" if size else ""
    raise DataError(f"{url} could not be downloaded ({reason}){have}: check the connection and try again.")


def _attempt(url: str, out: BinaryIO, part: Path, limit: int, progress: Progress) -> bool:
    """One request; whether the file is whole afterwards."""
    have = part.stat().st_size
    validator = _validator(part)
    headers = {"User-Agent": "infrec", "Accept-Encoding": "identity"}
    if have and validator.exists() and (tag := validator.read_text()):
        headers |= {"Range": f"bytes={have}-", "If-Range": tag}
    elif have:  # nothing says that the rest would belong to this beginning
        have = _restart(out, part)
    with urllib.request.urlopen(_request(url, headers), timeout=TIMEOUT) as answer:
        resumed = answer.status == 206 and (answer.headers.get("Content-Range") or "").startswith(
            f"bytes {have}-"
        )
        if have and not resumed:
            have = _restart(out, part)
        if answer.status == 206 and not resumed:
            return False
        tag = answer.headers.get("ETag") or answer.headers.get("Last-Modified") or ""
        if not tag.startswith("W/"):
            validator.write_text(tag)
        length = answer.headers.get("Content-Length")
        total = have + int(length) if length and length.isdigit() else None
        if (total or 0) > limit:
            raise _too_large(url, part, limit)
        while data := answer.read(CHUNK):
            have += len(data)
            if have > limit:
                raise _too_large(url, part, limit)
            out.write(data)
            progress(f"downloading {url.rsplit('/', 1)[-1]}", have, total)
        out.flush()
        return total is None or have == total


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
    found = re.findall(r"\b[0-9a-fA-F]{32}\b", text)
    if len(found) != 1:
        raise DataError(f"{url} holds {len(found)} MD5 checksums; expected one.")
    return str(found[0]).lower()


def _validator(part: Path) -> Path:
    return part.with_name(part.name + ".tag")


def _restart(out: BinaryIO, part: Path) -> int:
    out.truncate(0)
    _validator(part).unlink(missing_ok=True)
    return 0


def _forget(part: Path) -> None:
    part.unlink(missing_ok=True)
    _validator(part).unlink(missing_ok=True)


def _drop_empty(part: Path) -> None:
    with contextlib.suppress(OSError):
        if part.stat().st_size == 0:
            _forget(part)


def _too_large(url: str, part: Path, limit: int) -> DataError:
    _forget(part)
    return DataError(f"{url} is larger than {limit:,} bytes; it was not downloaded.")
