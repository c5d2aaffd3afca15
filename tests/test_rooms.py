"""The direction of imports: a room imports only rooms above it, the ground floor nothing of ours."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import infrec

SOURCE = Path(infrec.__file__).parent
GROUND_FLOOR = ("errors", "randomness", "progress", "drafts", "contents", "artifacts")
ROOMS = (
    "data",
    "splits",
    "metrics",
    "kernels",
    "models",
    "search",
    "samplers",
    "distillation",
    "evaluation",
    "privacy",
    "experiments",
    "report",
    "serve",
    "cli",
)
# Beyond "only what is above": distillation gets its validation as a callback, report computes nothing.
FORBIDDEN = {
    "distillation": {"search"},
    "kernels": {"data", "splits", "metrics"},
    "metrics": {"data", "splits"},
    "report": {"models", "search", "samplers", "distillation", "evaluation", "kernels", "splits"},
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


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_imports_only_what_is_above_it(module: Path) -> None:
    room = room_of(module)
    if room == "__init__":
        return
    assert room in GROUND_FLOOR + ROOMS, f"{module} is in no room of the house"
    floors = GROUND_FLOOR + ROOMS
    wrong = imports_of(module) - set(floors[: floors.index(room) + 1])
    assert not wrong, f"{module.relative_to(SOURCE)} imports {sorted(wrong)}, which are not above {room!r}"
    banned = imports_of(module) & FORBIDDEN.get(room, set())
    assert not banned, f"{room} may not know about {sorted(banned)}"


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
