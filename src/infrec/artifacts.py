"""The one way a directory is written and read: safetensors, Parquet and a manifest with each file's SHA-256.

Whole or not at all. Everything is written to a hidden sibling and synced; the manifest comes last. The
sibling then takes the target's place: by a rename where there is nothing yet, and by exchanging the two names
in one step where there is an older one (Linux; elsewhere the old one is renamed aside first, and `read` finds
it there should the process die between the two renames). A process killed at any moment leaves the old
directory as it was, or the new one complete; what it leaves beside them the next write removes.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.metadata
import json
import os
import secrets
import shutil
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from infrec.errors import ArtifactError

if TYPE_CHECKING:
    from numpy.typing import NDArray

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
ARRAYS = "arrays.safetensors"
CARD = ("card.html", "card.json")  # written beside the files of a summary, and no part of it
_LIBRARIES = ("infrec", "numpy", "scipy", "pyarrow", "safetensors", "jax")
_OWN = ("format", "format_version", "kind", "versions", "files", "seal")  # keys that are ours to write


@dataclass(frozen=True, eq=False)
class Artifact:
    """What `read` found: the manifest, the arrays and tables by name, and any other files by name."""

    path: Path
    manifest: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    tables: Mapping[str, pa.Table] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return str(self.manifest["kind"])

    @property
    def seal(self) -> str:
        """SHA-256 of the manifest, which holds that of every file: one name for the whole content."""
        return _seal(self.manifest)


def write(
    path: str | PathLike[str],
    *,
    kind: str,
    manifest: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]] | None = None,
    tables: Mapping[str, pa.Table] | None = None,
    files: Mapping[str, bytes] | None = None,
) -> None:
    """Write a directory, or replace an older one of ours; never a directory that holds anything else."""
    with draft(path, kind=kind, manifest=manifest) as folder:
        _fill(folder, arrays or {}, tables or {}, files or {})


@contextmanager
def draft(path: str | PathLike[str], *, kind: str, manifest: Mapping[str, Any]) -> Iterator[Path]:
    """A hidden folder to be filled with files; at the end it takes the place of `path`, whole or not at all.

    The manifest may still be added to inside the block. What lies in subfolders is no part of the artifact.
    """
    target = Path(os.path.abspath(path))  # noqa: PTH100 (a symbolic link to an artifact stays one)
    if target.is_symlink():
        target = target.resolve()
    _check_replaceable(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(target)
        folder = target.with_name(f".{target.name}.{_owner()}.{secrets.token_hex(4)}.partial")
        folder.mkdir()
    except OSError as failure:
        why = f"{failure.strerror}; choose a place you may write to."
        raise ArtifactError(f"cannot write {target}: {why}") from None
    try:
        yield folder
        _seal_draft(folder, kind, manifest)
        _take_place(folder, target)
    except OSError as failure:
        raise ArtifactError(
            f"writing {target} failed: {failure.strerror or failure}; what was there before is intact."
        ) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def read(path: str | PathLike[str], *, kind: str | None = None) -> Artifact:
    """Read a directory back, after checking that every byte is what was written."""
    folder, manifest = opened(path, kind=kind)
    for name in manifest["files"]:
        check(folder, manifest, name)
    arrays: dict[str, NDArray[Any]] = {}
    if ARRAYS in manifest["files"]:
        from safetensors.numpy import load_file

        arrays = load_file(folder / ARRAYS)
    names = [name for name in manifest["files"] if name.endswith(".parquet")]
    tables = {name.removesuffix(".parquet"): pq.read_table(folder / name) for name in names}
    return Artifact(folder, manifest, arrays, tables)


def opened(path: str | PathLike[str], *, kind: str | None = None) -> tuple[Path, dict[str, Any]]:
    """Where a directory lies and its manifest, for a reader that takes its files one by one."""
    folder = _existing(Path(path))
    manifest = _manifest(folder)
    if kind is not None and manifest["kind"] != kind:
        raise ArtifactError(f"{folder} holds a {manifest['kind']}; expected a {kind}.")
    return folder, manifest


def check(folder: Path, manifest: Mapping[str, Any], name: str) -> Path:
    """The path of one file, after checking that every byte of it is what was written."""
    _check_file(folder, name, manifest["files"][name]["sha256"])
    return folder / name


def kind_of(path: str | PathLike[str]) -> str | None:
    """What a directory holds according to its manifest; None where infrec did not write it."""
    try:
        document = json.loads((Path(path) / MANIFEST).read_bytes())
        return str(document["kind"]) if document.get("format") == "infrec" else None
    except (OSError, ValueError, AttributeError, KeyError):
        return None


def is_artifact(path: str | PathLike[str]) -> bool:
    """Whether a directory was written by `write` (which says nothing about its being undamaged)."""
    return kind_of(path) is not None


def strangers(path: str | PathLike[str]) -> list[str]:
    """What somebody else put into a directory of ours (hidden files aside), and replacing it would lose."""
    try:
        ours = {MANIFEST, *CARD, *json.loads((Path(path) / MANIFEST).read_bytes())["files"]}
        return sorted(n for each in Path(path).iterdir() if (n := each.name) not in ours and n[0] != ".")
    except (OSError, ValueError, TypeError, KeyError):
        return []


# ---- writing -----------------------------------------------------------------------------------------------
def _check_replaceable(target: Path) -> None:
    if target.exists() and not target.is_dir():
        raise ArtifactError(f"{target} is a file; expected a new directory, or one that infrec wrote.")
    if target.is_dir() and any(target.iterdir()) and not is_artifact(target):
        raise ArtifactError(
            f"{target} is a directory that infrec did not write; expected a new one, so nothing is lost."
        )
    if strange := strangers(target):
        raise ArtifactError(
            f"{target} also holds {strange[0]!r}, which infrec did not write and replacing it would lose; "
            "move that away, or choose a new directory."
        )


def _fill(
    folder: Path,
    arrays: Mapping[str, NDArray[Any]],
    tables: Mapping[str, pa.Table],
    files: Mapping[str, bytes],
) -> None:
    if arrays:
        from safetensors.numpy import save_file

        (file := folder / ARRAYS).touch()
        mode = file.stat().st_mode  # `save_file` sets 0600 whatever the umask; others may have to read it
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, file)
        file.chmod(mode)
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet", compression="zstd")
    for name, content in files.items():
        (folder / name).write_bytes(content)


def _seal_draft(folder: Path, kind: str, manifest: Mapping[str, Any]) -> None:
    """Remove scratch folders, then the manifest, with the SHA-256 of every file; all of it synced."""
    taken = sorted(set(manifest) & set(_OWN))
    if taken:
        raise ArtifactError(f"the manifest may not set {taken[0]!r}: it is written by the format itself.")
    sums = {}
    for file in sorted(folder.iterdir()):
        if file.is_dir():
            shutil.rmtree(file)
            continue
        sums[file.name] = {"sha256": _digest(file), "bytes": file.stat().st_size}
        _sync(file)
    document = {
        "format": "infrec",
        "format_version": FORMAT_VERSION,
        "kind": kind,
        **manifest,
        "versions": _versions(),
        "files": sums,
    }
    document["seal"] = _seal(document)
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    (folder / MANIFEST).write_text(text, encoding="utf-8")
    _sync(folder / MANIFEST)
    _sync(folder)


def _take_place(draft: Path, target: Path) -> None:
    """Put `draft` where `target` is; afterwards `draft` is gone, or holds the old one for removal."""
    if not target.exists() or not any(target.iterdir()):
        draft.rename(target)
    elif not _exchange(draft, target):
        aside = _aside(target)
        shutil.rmtree(aside, ignore_errors=True)
        target.rename(aside)
        draft.rename(target)
        shutil.rmtree(aside, ignore_errors=True)
    _sync(target.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two names in one step (renameat2 with RENAME_EXCHANGE); False where the system cannot."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(renameat2(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0)


def _aside(target: Path) -> Path:
    return target.with_name(f".{target.name}.previous")


def _owner() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"


def _remove_leftovers(target: Path) -> None:
    """Remove what a killed process of this machine left behind; another machine's may still be at work."""
    prefix = f".{target.name}.{socket.gethostname()}-"
    for left in target.parent.iterdir():
        if left.name.startswith(prefix) and left.name.endswith(".partial"):
            pid = left.name.removeprefix(prefix).split(".")[0]
            if pid.isdigit() and not _alive(int(pid)):
                shutil.rmtree(left, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _versions() -> dict[str, str]:
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for library in _LIBRARIES:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[library] = importlib.metadata.version(library)
    return found


# ---- reading -----------------------------------------------------------------------------------------------
def _existing(folder: Path) -> Path:
    if folder.is_dir():
        return folder
    if _aside(folder).is_dir():  # a process died between the two renames
        return _aside(folder)
    if folder.exists():
        raise ArtifactError(f"{folder} is a file; expected a directory that infrec wrote.")
    raise ArtifactError(f"there is no directory {folder}; expected one that infrec wrote.")


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        document = json.loads((folder / MANIFEST).read_bytes())
    except FileNotFoundError:
        raise ArtifactError(
            f"{folder} has no {MANIFEST}: it is half-written or was not written by infrec; write it again."
        ) from None
    except (OSError, ValueError):
        raise ArtifactError(f"{folder / MANIFEST} is damaged: it is no JSON; write it again.") from None
    if not isinstance(document, dict) or document.get("format") != "infrec":
        raise ArtifactError(f"{folder / MANIFEST} was not written by infrec; expected a directory that was.")
    version = document.get("format_version")
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise ArtifactError(
            f"{folder} has format version {version}, this infrec reads up to {FORMAT_VERSION}; "
            "install a newer infrec."
        )
    if document.pop("seal", None) != _seal(document):
        raise ArtifactError(f"{folder / MANIFEST} is damaged: its checksum does not match; write it again.")
    return document


def _check_file(folder: Path, name: str, expected: str) -> None:
    if Path(name).name != name:
        raise ArtifactError(f"{folder / MANIFEST} names {name!r}; expected plain file names.")
    try:
        found = _digest(folder / name)
    except FileNotFoundError:
        raise ArtifactError(
            f"{folder} lacks {name}, which its manifest lists; copy it whole or write it again."
        ) from None
    except OSError as failure:
        raise ArtifactError(f"cannot read {folder / name}: {failure.strerror}.") from None
    if found != expected:
        raise ArtifactError(
            f"{folder / name} is damaged: its SHA-256 is {found[:12]}…, the manifest says {expected[:12]}…; "
            "copy it again or write it again."
        )


def _digest(file: Path) -> str:
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _seal(document: Mapping[str, Any]) -> str:
    """SHA-256 of the manifest without this entry, whatever its layout."""
    text = json.dumps(document, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
