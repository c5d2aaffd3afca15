"""Build the wheel and the source archive, look into them, and try each in an environment of its own.

Everything lies in build/release, the two files to upload in build/release/dist.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACE = ROOT / "build" / "release"
DIST = PLACE / "dist"
IN_BOTH = ("infrec/cli/app.py", "infrec/py.typed", "infrec/report/page.css", "infrec/serve/static/index.html")
COMMANDS = (
    ("--version",),
    ("fit", "demo", "--model", "ease", "--set", "reg=200", "--out", "model"),
    ("recommend", "model", "--history", "304", "-k", "3"),
    ("evaluate", "demo", "--model", "poprec"),
)


def version() -> str:
    """The version that pyproject.toml names."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(r'^version = "(.+)"$', project, re.MULTILINE)
    assert found, "pyproject.toml has no version"
    return found[1]


def environment(name: str, *packages: str) -> Path:
    """The folder of programs of a new environment with these packages."""
    home = PLACE / name
    venv.create(home, clear=True, with_pip=True)
    pip = [str(home / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, "-c", str(ROOT / "constraints.txt"), *packages], check=True)
    return home / "bin"


def faults(names: list[str], *, wheel: bool) -> list[str]:
    """What is wrong with the files of an archive.

    Args:
        names: The files' names, below the archive's own folder.
        wheel: Whether it is a wheel; else a source archive.
    """
    in_source = (*(f"src/{name}" for name in IN_BOTH), "README.md", "CHANGELOG.md", "LICENSE")
    wanted = IN_BOTH if wheel else in_source
    missing = [f"{name} is missing" for name in wanted if name not in names]
    strangers = [f"{name} does not belong there" for name in names if "__pycache__" in name]
    if wheel:
        home = re.compile(rf"infrec(-{re.escape(version())}\.dist-info)?/")
        strangers += [f"{name} does not belong there" for name in names if not home.match(name)]
    return missing + strangers


def contents(archive: Path) -> list[str]:
    """The files of a wheel or a source archive, the latter's without its first folder."""
    if archive.suffix == ".whl":
        return zipfile.ZipFile(archive).namelist()
    with tarfile.open(archive) as opened:
        return [member.name.partition("/")[2] for member in opened.getmembers() if member.isfile()]


def tried(archive: Path) -> None:
    """Install an archive into an environment of its own, and use it there."""
    programs = environment(f"with-{archive.suffix.strip('.')}", str(archive))
    with tempfile.TemporaryDirectory() as directory:
        for words in COMMANDS:
            print(f"{archive.name}: infrec {' '.join(words)}", flush=True)
            subprocess.run([str(programs / "infrec"), *words], cwd=directory, check=True)


def main() -> int:
    shutil.rmtree(PLACE, ignore_errors=True)
    heading = f"## {version()}"
    if heading not in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"):
        sys.exit(f"CHANGELOG.md has no heading {heading!r}; write what changed there.")
    build = environment("building", "build")
    subprocess.run([str(build / "python"), "-m", "build", "--outdir", str(DIST), str(ROOT)], check=True)
    archives = sorted(DIST.iterdir())
    wrong = [
        f"{archive.name}: {fault}"
        for archive in archives
        for fault in faults(contents(archive), wheel=archive.suffix == ".whl")
    ]
    if wrong:
        sys.exit("\n".join(wrong))
    for archive in archives:
        tried(archive)
    print("Ready to upload:", *archives, sep="\n  ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
