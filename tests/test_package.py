"""The package as a stranger meets it: small surface, quick import, a wheel that runs by itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import infrec

ROOT = Path(__file__).parents[1]


def test_every_public_name_resolves_and_there_are_few() -> None:
    assert len(infrec.__all__) <= 15
    for name in infrec.__all__:
        assert getattr(infrec, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nope'"):
        _ = infrec.Nope


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


def test_the_wheel_runs_in_a_clean_environment(tmp_path: Path) -> None:
    """Build the wheel, install it with its declared dependencies and nothing else, then evaluate with it."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    build = subprocess.run(
        [*pip, "wheel", "--no-deps", "-w", str(tmp_path), str(ROOT)], capture_output=True, text=True
    )
    if build.returncode and "No matching distribution" in build.stderr and not os.environ.get("CI"):
        pytest.skip("needs a package index to build the wheel")
    assert build.returncode == 0, build.stderr
    (wheel,) = tmp_path.glob("infrec-*.whl")

    home = tmp_path / "clean"
    venv.create(home)  # empty, even of pip: ours installs there
    python, constraints = str(home / "bin" / "python"), str(ROOT / "constraints.txt")
    install = [*pip, "--python", python, "install", "--no-compile", "-c", constraints, str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("INFREC", "PYTHON"))}
    done = subprocess.run(
        [str(home / "bin" / "infrec"), "evaluate", "demo", "--model", "infinite-ae", "--json"],
        cwd=tmp_path,
        env=clean,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["metrics"]["HR@10"] > 10
