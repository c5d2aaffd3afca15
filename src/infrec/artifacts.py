"""The one way a directory is written and read: safetensors, Parquet and a manifest with each file's SHA-256.

Whole or not at all (`infrec.drafts`): everything is written to a hidden sibling, the manifest last, and then
takes the target's place. A process killed at any moment leaves the old directory as it was, or the new one
complete; `read` also finds an old one that was just renamed aside. What was read is checked again as it is
taken out (`infrec.contents`): hashes that fit say nothing about who made them.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from infrec import drafts, machine
from infrec.contents import Artifact, read_arrays, read_table
from infrec.errors import ArtifactError

if TYPE_CHECKING:
    from numpy.typing import NDArray

logger = logging.getLogger(__name__)
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
ARRAYS = "arrays.safetensors"
CARD = ("card.html", "card.json")  # written beside the files of a summary, and no part of it
_LIBRARIES = ("infrec", "numpy", "scipy", "pyarrow", "safetensors", "jax")
_OWN = ("format", "format_version", "kind", "versions", "files", "seal")  # keys that are ours to write


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
        if arrays:
            from safetensors.numpy import save_file

            (file := folder / ARRAYS).touch()
            mode = file.stat().st_mode  # `save_file` sets 0600 whatever the umask; others may have to read it
            save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, file)
            file.chmod(mode)
        for name, table in (tables or {}).items():
            pq.write_table(table, folder / f"{name}.parquet", compression="zstd")
        for name, content in (files or {}).items():
            (folder / name).write_bytes(content)


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
        folder = drafts.beside(target)
        folder.mkdir()
    except OSError as failure:
        why = f"{failure.strerror}; choose a place you may write to."
        raise ArtifactError(f"cannot write {target}: {why}") from None
    try:
        yield folder
        _seal_draft(folder, kind, manifest)
        drafts.take_place(folder, target)
        logger.info("wrote a %s: %s", kind, target)
    except OSError as failure:
        raise ArtifactError(
            f"writing {target} failed: {failure.strerror or failure}; what was there before is intact."
        ) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def read(path: str | PathLike[str], *, kind: str | None = None) -> Artifact:
    """Read a directory back, after checking that every byte is what was written and every number finite."""
    folder, manifest = opened(path, kind=kind)
    for name in manifest["files"]:
        check(folder, manifest, name)
    arrays = read_arrays(folder / ARRAYS) if ARRAYS in manifest["files"] else {}
    names = [name for name in manifest["files"] if name.endswith(".parquet")]
    tables = {name.removesuffix(".parquet"): read_table(folder / name) for name in names}
    return Artifact(folder, manifest, arrays, tables)


def opened(path: str | PathLike[str], *, kind: str | None = None) -> tuple[Path, dict[str, Any]]:
    """Where a directory lies and its manifest, for a reader that takes its files one by one.

    All files are there and as long as the manifest says; whether each byte is right, `check` says.
    """
    folder = _existing(Path(path))
    manifest = _manifest(folder)
    if kind is not None and manifest["kind"] != kind:
        is_data = manifest["kind"] in ("summary", "sample", "dataset")
        makes = f", which infrec fit {folder} makes of it" if kind == "model" and is_data else ""
        raise ArtifactError(f"{folder} holds a {manifest['kind']}; expected a {kind}{makes}.")
    for name, facts in manifest["files"].items():
        _check_length(folder, name, facts["bytes"])
    return folder, manifest


def check(folder: Path, manifest: Mapping[str, Any], name: str) -> Path:
    """The path of one file, after checking that every byte of it is what was written."""
    if name not in manifest["files"]:
        raise ArtifactError(f"{folder} is not whole: its manifest does not list {name!r}; write it again.")
    expected = manifest["files"][name]["sha256"]
    try:
        sha256 = _digest(folder / name)
    except OSError as failure:
        raise ArtifactError(f"cannot read {folder / name}: {failure.strerror}.") from None
    if sha256 != expected:
        raise ArtifactError(
            f"{folder / name} is damaged: its SHA-256 is {sha256[:12]}…, the manifest says {expected[:12]}…; "
            "copy it again or write it again."
        )
    return folder / name


def seal(manifest: Mapping[str, Any]) -> str:
    """SHA-256 of a manifest, which holds that of every file: one name for the whole content."""
    text = json.dumps(manifest, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def kind_of(path: str | PathLike[str]) -> str | None:
    """The kind of artifact in a directory, by its manifest; None where infrec did not write it."""
    try:
        document = _document(Path(path) / MANIFEST)
        return document["kind"] if document.get("format") == "infrec" else None
    except (OSError, ValueError):
        return None


def is_artifact(path: str | PathLike[str]) -> bool:
    """Whether a directory was written by `write` (which says nothing about its being undamaged)."""
    return kind_of(path) is not None


def strangers(path: str | PathLike[str]) -> list[str]:
    """Files of a directory that infrec did not write into it (hidden ones aside): replacing it loses them."""
    try:
        ours = {MANIFEST, *CARD, *_document(Path(path) / MANIFEST)["files"]}
        return sorted(n for each in Path(path).iterdir() if (n := each.name) not in ours and n[0] != ".")
    except (OSError, ValueError):
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
        drafts.sync(file)
    document = {
        "format": "infrec",
        "format_version": FORMAT_VERSION,
        "kind": kind,
        **drafts.plain(manifest),
        "versions": {name: one for name, one in machine.versions(_LIBRARIES).items() if one is not None},
        "files": sums,
    }
    document["seal"] = seal(document)
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    (folder / MANIFEST).write_text(text, encoding="utf-8")
    drafts.sync(folder / MANIFEST)
    drafts.sync(folder)


# ---- reading -----------------------------------------------------------------------------------------------
def _existing(folder: Path) -> Path:
    if folder.is_dir():
        return folder
    if drafts.aside(folder).is_dir():  # a process died between the two renames
        return drafts.aside(folder)
    if folder.exists():
        raise ArtifactError(f"{folder} is a file; expected a directory that infrec wrote.")
    raise ArtifactError(f"there is no directory {folder}; expected one that infrec wrote.")


def _document(file: Path) -> dict[str, Any]:
    """A manifest as it stands, of the expected form; ValueError where it is not, whatever is wrong."""
    if file.exists() and not file.is_file():
        raise ValueError("it is no plain file")
    try:
        document = json.loads(file.read_bytes(), parse_float=_number, parse_constant=_number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise ValueError("it names no kind")
    files = document.get("files")
    if not isinstance(files, dict) or not all(isinstance(facts, dict) for facts in files.values()):
        raise ValueError("it lists no files")
    for facts in files.values():
        if type(facts.get("bytes")) is not int or not isinstance(facts.get("sha256"), str):
            raise ValueError("it lists files without their lengths and sums")
    json.dumps(document, ensure_ascii=False).encode()  # half a character (a lone surrogate) fails here
    return document


def _number(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text} is no number")
    return value


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        document = _document(folder / MANIFEST)
    except FileNotFoundError:
        raise ArtifactError(
            f"{folder} has no {MANIFEST}: it is half-written or was not written by infrec; write it again."
        ) from None
    except (OSError, ValueError):
        raise ArtifactError(
            f"{folder / MANIFEST} is damaged: it is no manifest in JSON; write it again."
        ) from None
    if document.get("format") != "infrec":
        raise ArtifactError(f"{folder / MANIFEST} was not written by infrec; expected a directory that was.")
    version = document.get("format_version")
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise ArtifactError(
            f"{folder} has format version {version}, this infrec reads up to {FORMAT_VERSION}; "
            "install a newer infrec."
        )
    if document.pop("seal", None) != seal(document):
        raise ArtifactError(f"{folder / MANIFEST} is damaged: its checksum does not match; write it again.")
    return document


def _check_length(folder: Path, name: str, expected: int) -> None:
    """Before anything is read: is the file there, a plain one, and as long as it was?"""
    file = folder / name
    if Path(name).name != name:
        raise ArtifactError(f"{folder / MANIFEST} names {name!r}; expected plain file names.")
    try:
        facts = file.stat()
    except (OSError, ValueError):  # ValueError: a name with a zero byte
        raise ArtifactError(
            f"{folder} lacks {name}, which its manifest lists; copy it whole or write it again."
        ) from None
    if not stat.S_ISREG(facts.st_mode) or facts.st_size != expected:
        what = f"it has {facts.st_size:,} bytes" if stat.S_ISREG(facts.st_mode) else "it is no plain file"
        raise ArtifactError(
            f"{file} is damaged: {what}, the manifest says {expected:,} bytes; copy it or write it again."
        )


def _digest(file: Path) -> str:
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
