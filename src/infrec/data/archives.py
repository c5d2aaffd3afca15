"""Files by name out of a folder or a zip, never extracted: only named members are opened, with limits."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, Protocol, cast

from infrec.errors import DataError

MEMBER_LIMIT = 4 << 30  # bytes one member may unpack to
RATIO_LIMIT = 200  # ratings pack to a fifth or a tenth; a bomb to a thousandth
SMALL = 16 << 20  # below this a ratio does no harm


class Files(Protocol):
    """A folder or an archive. Names are those of files in it or in its one top folder."""

    name: str

    def names(self) -> list[str]: ...

    def open(self, name: str) -> BinaryIO: ...


class Folder:
    """The files directly in a directory, and in a directory `training_set` in it (as Netflix packed them)."""

    def __init__(self, path: Path) -> None:
        self.name = path.name or str(path)
        self._path = path

    def names(self) -> list[str]:
        folders = (folder for folder in (self._path, self._path / "training_set") if folder.is_dir())
        files = (file for folder in folders for file in folder.iterdir() if file.is_file())
        return sorted(file.relative_to(self._path).as_posix() for file in files)

    def open(self, name: str) -> BinaryIO:
        try:
            return cast(BinaryIO, (self._path / name).open("rb"))
        except OSError as error:
            raise DataError(f"{name} cannot be opened ({error.strerror}); check it.") from None


class Zip:
    """A zip archive. Members whose names leave it, and whatever nobody asks for, are never touched."""

    def __init__(self, path: Path, limit: int = MEMBER_LIMIT) -> None:
        self.name = path.name
        self._path, self._limit = path, limit
        try:
            with zipfile.ZipFile(path) as archive:
                members = {
                    m.filename: m for m in archive.infolist() if _stays_inside(m.filename) and not m.is_dir()
                }
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            raise DataError(f"{self.name} is not a whole zip archive ({error}); get it again.") from None
        tops = {name.split("/")[0] if "/" in name else "" for name in members}
        cut = len(tops.pop()) + 1 if len(tops) == 1 and "" not in tops else 0  # its one top folder
        self._members = {name[cut:]: member for name, member in members.items()}

    def names(self) -> list[str]:
        return sorted(self._members)

    def open(self, name: str) -> BinaryIO:
        """A member as a stream that ends with an error where its limit does."""
        member = self._members.get(name)
        if member is None:
            raise DataError(f"{self.name} has no member {name!r}; it is not the archive that was expected.")
        if member.flag_bits & 1:
            raise DataError(f"{self.name}: {name} is encrypted; expected an open archive.")
        ratio = member.file_size / max(member.compress_size, 1)
        if member.file_size > self._limit or (member.file_size > SMALL and ratio > RATIO_LIMIT):
            raise DataError(
                f"{self.name}: {name} would be {member.file_size:,} bytes, {ratio:,.0f} times its size; "
                f"expected at most {self._limit:,} bytes and {RATIO_LIMIT} times, so it was not opened."
            )
        return cast(BinaryIO, _Member(self._path, member, self._limit, f"{self.name}: {name}"))


def _stays_inside(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return bool(parts) and ".." not in parts and parts[0] not in ("/", "__MACOSX") and "\\" not in name


class _Member(io.RawIOBase):
    """One member of a zip, unpacked as it is read; never more than its limit, whatever its header says."""

    def __init__(self, path: Path, member: zipfile.ZipInfo, limit: int, name: str) -> None:
        self._archive = zipfile.ZipFile(path)
        self._stream: IO[bytes] = io.BytesIO()  # until it is opened
        self._make, self._limit, self._name = member, limit, name
        self._begin()

    def _begin(self) -> None:
        try:
            self._stream = self._archive.open(self._make)
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, OSError) as error:
            raise DataError(f"{self._name} cannot be unpacked ({error}); get it again.") from None
        self._given = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        """Only back to the start."""
        if (offset, whence) != (0, 0):
            raise io.UnsupportedOperation("seek")
        self._begin()
        return 0

    def tell(self) -> int:
        return self._given

    def read(self, size: int = -1) -> bytes:
        try:
            data = self._stream.read(self._limit - self._given + 1 if size < 0 else size)
        except Exception as error:  # also zlib.error, which has no public base
            raise DataError(f"{self._name} is damaged ({error}); get it again.") from None
        self._given += len(data)
        if self._given > self._limit:
            raise DataError(
                f"{self._name} unpacks to more than {self._limit:,} bytes; it was not read further."
            )
        return data

    def close(self) -> None:
        self._stream.close()
        self._archive.close()
        super().close()
