"""The direction of imports: a room, or a file of the ground floor, imports only what stands above it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import infrec

SOURCE = Path(infrec.__file__).parent
GROUND_FLOOR = (
    "errors",
    "registry",
    "settings",
    "randomness",
    "progress",
    "drafts",
    "contents",
    "machine",
    "artifacts",
    "checkpoints",
)
ROOMS = (
    "data",
    "splits",
    "metrics",
    "kernels",
    "search",
    "models",
    "samplers",
    "distillation",
    "evaluation",
    "privacy",
    "report",
    "serve",
    "paper",
    "cli",
)
# Beyond "only what is above": kernels and metrics know arrays alone, report computes nothing.
FORBIDDEN = {
    "kernels": {"data", "splits", "metrics"},
    "metrics": {"data", "splits"},
    "report": {"models", "search", "samplers", "distillation", "kernels", "splits"},
}
MODULES = sorted(SOURCE.rglob("*.py"))


def room_of(module: Path) -> str:
    first = module.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


def imports_of(module: Path) -> set[str]:
    """The rooms that a module imports, wherever in the file the import stands."""
    found = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: imports are absolute"
            names = [
                f"{node.module}.{alias.name}" if node.module == "infrec" else node.module or ""
                for alias in node.names
            ]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("infrec.")}
    return found - {"__version__"}


def faults(module: Path, imports: set[str]) -> list[str]:
    """Sentences about the imports of a module that lead downwards or where its room may not look."""
    room, name = room_of(module), module.relative_to(SOURCE)
    if room in ("__init__", "__main__"):
        return []
    if room not in GROUND_FLOOR + ROOMS:
        return [f"{name} is in no room of the house"]
    floors = GROUND_FLOOR + ROOMS
    wrong = imports - set(floors[: floors.index(room) + 1])
    banned = imports & FORBIDDEN.get(room, set())
    return [f"{name} imports {one}, which is not above {room}" for one in sorted(wrong)] + [
        f"{name} imports {one}, which {room} may not know about" for one in sorted(banned)
    ]


def test_a_module_imports_only_what_is_above_it() -> None:
    found = [fault for module in MODULES for fault in faults(module, imports_of(module))]
    assert not found, "\n".join(found)


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Lazy imports count; those for type checkers do not."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
    try:
        from source_tree import Tree
    finally:
        sys.path.pop(0)
    assert Tree(SOURCE).cycles() == []


def test_an_import_in_the_wrong_direction_is_a_fault() -> None:
    assert faults(SOURCE / "data" / "x.py", {"errors", "data"}) == []
    assert faults(SOURCE / "data" / "x.py", {"models"}) == [
        "data/x.py imports models, which is not above data"
    ]
    assert faults(SOURCE / "errors.py", {"data"}) == ["errors.py imports data, which is not above errors"]
    assert faults(SOURCE / "metrics" / "x.py", {"splits", "artifacts"}) == [
        "metrics/x.py imports splits, which metrics may not know about"
    ]
    assert faults(SOURCE / "cellar" / "x.py", set()) == ["cellar/x.py is in no room of the house"]


def test_there_is_no_utils() -> None:
    assert not [path for path in MODULES if path.stem in {"utils", "helpers", "common", "misc"}]


def test_rooms_that_must_stay_free_of_jax_do_not_import_it_at_the_top() -> None:
    """`import infrec`, reading data and measuring never wait for JAX."""
    light = (*GROUND_FLOOR, "data", "splits", "metrics", "evaluation", "report", "serve", "cli")
    for module in MODULES:
        if room_of(module) in light:
            tree = ast.parse(module.read_text())
            top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
            names = {a.name for n in top if isinstance(n, ast.Import) for a in n.names}
            names |= {n.module or "" for n in top if isinstance(n, ast.ImportFrom)}
            assert not any(name.split(".")[0] in {"jax", "optax"} for name in names), module


def test_the_command_line_starts_without_arrays() -> None:
    """`infrec --help` waits for neither numpy, Arrow, scipy nor JAX."""
    heavy = ("numpy", "pyarrow", "scipy", "jax")
    code = f"import sys, infrec.cli.app; print([name for name in {heavy} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
