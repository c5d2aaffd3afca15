"""The package as a stranger meets it: small surface, quick import, a wheel that runs by itself."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import infrec
from tests.conftest import LONG

ROOT = Path(__file__).parents[1]


def test_every_public_name_resolves_and_there_are_few() -> None:
    assert len(infrec.__all__) <= 15
    for name in infrec.__all__:
        assert getattr(infrec, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nope'"):
        _ = infrec.Nope


def test_type_checkers_know_the_public_names(tmp_path: Path) -> None:
    """A right program has the types that it should have, and each line of a wrong one is an error."""
    right = """
from infrec import EASE, InfiniteAE, InfiniteAEPlus, Interactions, Summary, distill, evaluate, holdout, load

log = Interactions.read("ratings.csv", user="userId", positive="rating >= 4")
split = holdout(log, seed=42)
model: InfiniteAE = InfiniteAE(depth=2).fit(split.train, validation=split.val)
auto: float | str = EASE(reg=500.0).fit({"user": [1], "item": [2]}).settings.reg
quality: float = evaluate(InfiniteAEPlus().fit(log), split).metrics["HR@10"]
summary: Summary = distill(log, users=500)
InfiniteAE(centres=summary).set_params(reg=2.0).fit(log)
load("model").recommend(["u17"])
"""
    wrong = """
import infrec
from infrec.models import MF
infrec.InfiniteAE(nonsense=3)
infrec.InfiniteAE(depth="deep")
infrec.EASE(lam=3)
infrec.PopRec(reg=1)
MF(latent=2.5)
infrec.Nope
infrec.evaluate(infrec.EASE())
infrec.holdout(3, seed="x")
text: str = infrec.InfiniteAEPlus()
"""
    (tmp_path / "right.py").write_text(right)
    (tmp_path / "wrong.py").write_text(wrong)
    # Nothing of other packages: their types are not ours to check, and reading them takes longest.
    others = "jax.*,numpy.*,optax.*,pyarrow.*,rich.*,safetensors.*,scipy.*,typer.*"
    (tmp_path / "mypy.ini").write_text(
        f"[mypy]\nstrict=true\nfollow_imports=silent\n"
        f"[mypy-{others}]\nignore_missing_imports=true\nfollow_imports=skip\n"
    )
    options = ["--config-file", "mypy.ini", "--cache-dir", str(ROOT / ".pytest_cache" / "mypy")]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "right.py", "wrong.py"],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(SOURCE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    found = {line.split(": error")[0] for line in done.stdout.splitlines() if ": error" in line}
    lines = range(4, len(wrong.splitlines()) + 1)
    assert found == {f"wrong.py:{number}" for number in lines}, done.stdout + done.stderr


def test_importing_infrec_imports_nothing_heavy() -> None:
    heavy = ("jax", "numpy", "scipy", "pyarrow", "torch")
    code = f"import sys, infrec; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_core_has_the_eight_dependencies_of_the_design() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    block = re.search(r"^dependencies = \[(.*?)^\]", text, re.S | re.M)
    assert block is not None
    names = re.findall(r'"([a-z]+)', block.group(1))
    assert sorted(names) == ["jax", "numpy", "optax", "pyarrow", "rich", "safetensors", "scipy", "typer"]


def test_version_is_the_same_everywhere() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    assert f'version = "{infrec.__version__}"' in text
    assert infrec.__version__ in (ROOT / "CHANGELOG.md").read_text()


def test_the_files_of_tests_that_are_begun_first_are_there() -> None:
    assert [name for name in LONG if not (ROOT / "tests" / name).is_file()] == []


# ---- words -------------------------------------------------------------------------------------------------
SOURCE = ROOT / "src" / "infrec"
NAMELESS = re.compile(r"(The same|As|What)\b")  # a docstring that begins so does not name its object


def nameless_docstrings(code: str) -> list[str]:
    """First lines of the docstrings of a module, its classes and functions that do not name their object."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = [ast.get_docstring(node) for node in ast.walk(ast.parse(code)) if isinstance(node, documented)]
    return [text.splitlines()[0] for text in texts if text and NAMELESS.match(text)]


def test_a_docstring_names_its_object() -> None:
    found = {
        str(path.relative_to(SOURCE)): lines
        for path in sorted(SOURCE.rglob("*.py"))
        if (lines := nameless_docstrings(path.read_text(encoding="utf-8")))
    }
    nameless = [f"{name}: {line}" for name, lines in found.items() for line in lines]
    assert not nameless, "docstrings that begin with The same, As or What:\n" + "\n".join(nameless)


def test_a_docstring_that_names_nothing_is_found() -> None:
    code = '"""As it was."""\nclass A:\n    """Assets."""\n    def f(self):\n        """What\'s more."""\n'
    assert nameless_docstrings(code) == ["As it was.", "What's more."]


def dependencies(requirements: list[str]) -> set[str]:
    """The names of what is required, and of what that requires, without extras; all is installed here."""
    found: set[str] = set()
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        wanted = waiting.pop()
        if wanted.name in found or (wanted.marker and not wanted.marker.evaluate({"extra": ""})):
            continue
        found.add(wanted.name)
        assert wanted.specifier.contains(metadata.version(wanted.name), prereleases=True), wanted
        waiting += [Requirement(text) for text in metadata.requires(wanted.name) or ()]
    return found


def lend(name: str, site: Path) -> None:
    """An installed distribution, seen from another environment, too."""
    distribution = metadata.distribution(name)
    for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
        link = site / top
        if not link.exists():
            link.symlink_to(Path(str(distribution.locate_file(top))))


def test_the_wheel_runs_in_a_clean_environment(tmp_path: Path) -> None:
    """Build the wheel, install it beside its declared dependencies alone, then evaluate with it."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    build = subprocess.run(
        [*pip, "wheel", "--no-deps", "-w", str(tmp_path), str(ROOT)], capture_output=True, text=True
    )
    if build.returncode and "No matching distribution" in build.stderr and not os.environ.get("CI"):
        pytest.skip("needs a package index to build the wheel")
    assert build.returncode == 0, build.stderr
    (wheel,) = tmp_path.glob("infrec-*.whl")

    home = tmp_path / "clean"
    venv.create(home, symlinks=True)  # empty, even of pip: ours installs there
    python = str(home / "bin" / "python")
    install = [*pip, "--python", python, "install", "--no-deps", "--no-compile", str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    (site,) = home.glob("lib/python*/site-packages")
    (information,) = site.glob("infrec-*.dist-info")
    for name in dependencies(metadata.PathDistribution(information).requires or []):
        lend(name, site)
    assert not (site / "pytest").exists() and not (site / "matplotlib").exists()
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("INFREC", "PYTHON"))}
    done = subprocess.run(
        [str(home / "bin" / "infrec"), "evaluate", "demo", "--model", "infinite-ae", "--json"],
        cwd=tmp_path,
        env=clean,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["metrics"]["HR@10"] > 10
