"""The documentation is complete and right: every command, option and setting is there, examples parse."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from infrec import models
from infrec.cli.app import UsageError, app

ROOT = Path(__file__).parent.parent
CLI = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
TREE = typer.main.get_command(app)


def commands(
    command: Any = TREE, path: tuple[str, ...] = ("infrec",)
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that does something, with the words that call it."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
    else:
        for name, child in inner.items():
            yield from commands(child, (*path, name))


def section(path: tuple[str, ...]) -> str:
    """The part of the page under the heading of a command, up to the next heading of its level or above."""
    heading = re.search(rf"^(#+) {re.escape(' '.join(path))}$", CLI, re.MULTILINE)
    assert heading, f"docs/cli.md has no section `{' '.join(path)}`"
    rest = CLI[heading.end() :]
    end = re.search(rf"^#{{1,{len(heading[1])}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


COMMANDS = list(commands())
DATA_OPTIONS = CLI[CLI.index("## Data options") : CLI.index("## infrec demo")]


def options(command: Any) -> list[str]:
    return [name for parameter in command.params for name in parameter.opts if name.startswith("-")]


def test_the_tree_is_what_the_design_names() -> None:
    top = {path[1] for path, _ in COMMANDS}
    assert {"demo", "datasets", "fit", "recommend", "evaluate", "doctor"} <= top
    assert {path[2] for path, _ in COMMANDS if path[1] == "datasets"} >= {
        "list",
        "stats",
        "download",
        "generate",
    }


@pytest.mark.parametrize(
    ("path", "command"), COMMANDS, ids=lambda x: " ".join(x) if isinstance(x, tuple) else ""
)
def test_every_command_and_option_is_documented(path: tuple[str, ...], command: Any) -> None:
    text = section(path)
    if "data options" in text.lower():
        text += DATA_OPTIONS
    missing = [
        name
        for name in options(command)
        if not re.search(rf"`[^`]*(?<![\w-]){re.escape(name)}(?![\w-])", text)
    ]
    assert not missing, f"docs/cli.md, `{' '.join(path)}`: {missing} not documented"


@pytest.mark.parametrize(
    ("path", "command"), COMMANDS, ids=lambda x: " ".join(x) if isinstance(x, tuple) else ""
)
def test_every_command_helps_and_takes_json(path: tuple[str, ...], command: Any) -> None:
    assert command.help, f"{' '.join(path)} has no help text"
    assert f"infrec {path[1]}" in command.help, f"the help of {' '.join(path)} has no example"
    assert "--json" in options(command)
    for parameter in command.params:
        assert parameter.help or parameter.name == "help", f"{' '.join(path)} {parameter.opts} has no help"


def test_global_options_are_documented() -> None:
    missing = [name for name in options(TREE) if f"`{name}`" not in CLI and f"`infrec {name}`" not in CLI]
    assert not missing


@pytest.mark.parametrize("name", models.NAMES)
def test_every_model_setting_is_documented(name: str) -> None:
    table = CLI[CLI.index("## Models and their settings") :].split("\n## ")[0]
    rows = [
        [cell.strip(" `") for cell in line.split("|")[1:3]]
        for line in table.splitlines()
        if line.startswith("|")
    ]
    documented: dict[str, set[str]] = {}
    model = ""
    for first, setting in rows[2:]:
        model = first or model
        documented.setdefault(model, set()).add(setting)
    assert name in documented, f"docs/cli.md does not list the model {name}"
    fields = {field.name for field in dataclasses.fields(models.create(name).settings)}
    assert fields == documented[name] - {"none"}


def examples() -> list[tuple[str, str]]:
    """Every `infrec …` command line in the README, the docs, and the help texts."""
    found = []
    for page in PAGES:
        for block in re.findall(
            r"```(?:sh|bash|console|shell)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL
        ):
            for line in block.replace("\\\n", " ").splitlines():
                line = line.strip().removeprefix("$ ")
                if line.startswith("infrec "):
                    found.append((page.name, line))
    for path, command in COMMANDS:
        for line in (command.help or "").splitlines():
            if line.strip().startswith("infrec "):
                found.append((f"{' '.join(path)} --help", line.strip()))
    return found


@pytest.mark.parametrize(("page", "line"), examples())
def test_every_example_parses(page: str, line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    command: Any = TREE
    path = ["infrec"]
    while getattr(command, "commands", None) is not None and words and words[0] in command.commands:
        path.append(words[0])
        command = command.commands[words.pop(0)]
    if command is TREE:
        assert words and all(word in options(TREE) for word in words), f"{page}: no such command: {line}"
        return
    try:
        command.make_context(" ".join(path), words)
    except UsageError as error:
        pytest.fail(f"{page}: {line}: {error}")


def test_readme_names_the_two_commands_that_matter() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for command in ("make demo", "make test", "infrec evaluate", "infrec fit", "infrec recommend"):
        assert command in readme


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


# ---- the proof ---------------------------------------------------------------------------------------------
PROOF = (ROOT / "docs" / "guarantee.md").read_text(encoding="utf-8")
BOUNDS = re.findall(r"^\|.*\| `(infrec[\w.]+)` \| `(.+)` \|$", PROOF, re.MULTILINE)


def resolved(name: str) -> Any:
    """The object of a dotted name: the longest part that is a module, and then attributes."""
    module, _, rest = name.partition(".")
    found: Any = importlib.import_module(module)
    while rest:
        step, _, rest = rest.partition(".")
        module = f"{module}.{step}"
        if hasattr(found, "__path__") and importlib.util.find_spec(module):
            found = importlib.import_module(module)
        else:
            found = getattr(found, step)
    return found


def test_every_function_of_the_proof_exists() -> None:
    names = set(re.findall(r"`(infrec\.[\w.]+)`", PROOF))
    assert len(names) > 12
    for name in names:
        assert resolved(name) is not None, name


@pytest.mark.parametrize(("name", "line"), BOUNDS, ids=[line for _, line in BOUNDS])
def test_every_line_that_bounds_a_contribution_is_there(name: str, line: str) -> None:
    assert line.replace("\\|", "|") in inspect.getsource(resolved(name))


def test_the_proof_bounds_each_step_and_each_sum() -> None:
    assert len(BOUNDS) == 12
    for test in re.findall(r"`(tests/[\w/.]+)`", PROOF):
        assert (ROOT / test).is_file()
