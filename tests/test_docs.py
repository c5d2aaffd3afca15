"""The documentation is complete and right: every command, option and setting is there, examples parse."""

from __future__ import annotations

import importlib.util
import inspect
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from infrec.cli.app import UsageError, app

ROOT = Path(__file__).parent.parent
CLI = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
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
VOLUME = next(
    line for line in CLI.splitlines() if line.startswith("- **`--quiet`**")
)  # of nearly every command


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


def test_every_command_and_option_is_documented() -> None:
    missing = []
    for path, command in COMMANDS:
        text = section(path)
        if "data options" in text.lower():
            text += DATA_OPTIONS
        text += VOLUME
        missing += [
            f"docs/cli.md, `{' '.join(path)}`: {name} not documented"
            for name in options(command)
            if not re.search(rf"`[^`]*(?<![\w-]){re.escape(name)}(?![\w-])", text)
        ]
    assert not missing, "\n".join(missing)


def test_every_command_helps_and_takes_json() -> None:
    missing = []
    for path, command in COMMANDS:
        words = " ".join(path)
        if f"infrec {path[1]}" not in (command.help or ""):
            missing.append(f"the help of {words} has no example")
        if "--json" not in options(command):
            missing.append(f"{words} has no --json")
        missing += [
            f"{words} {parameter.opts} has no help"
            for parameter in command.params
            if not parameter.help and parameter.name != "help"
        ]
    assert not missing, "\n".join(missing)


def test_global_options_are_documented() -> None:
    missing = [name for name in options(TREE) if f"`{name}`" not in CLI and f"`infrec {name}`" not in CLI]
    assert not missing


def examples() -> list[tuple[str, str]]:
    """Every `infrec …` command line in the README, the docs, and the help texts."""
    found = []
    for page in PAGES:
        for block in re.findall(
            r"```(?:sh|bash|console|shell)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL
        ):
            for line in block.replace("\\\n", " ").splitlines():
                line = re.split(r"\s[|>&](?:\s|$)", line.strip().removeprefix("$ "))[0]
                if line.startswith("infrec "):
                    found.append((page.name, line))
    for path, command in COMMANDS:
        for line in (command.help or "").splitlines():
            if line.strip().startswith("infrec "):
                found.append((f"{' '.join(path)} --help", line.strip()))
    return found


def complaint(page: str, line: str) -> str | None:
    """One sentence about a command line that the parser refuses, None for one that it takes."""
    words = shlex.split(line, comments=True)[1:]
    command: Any = TREE
    path = ["infrec"]
    while getattr(command, "commands", None) is not None and words and words[0] in command.commands:
        path.append(words[0])
        command = command.commands[words.pop(0)]
    if command is TREE:
        known = bool(words) and all(word in options(TREE) for word in words)
        return None if known else f"{page}: no such command: {line}"
    try:
        command.make_context(" ".join(path), words)
    except UsageError as error:
        return f"{page}: {line}: {error}"
    return None


def test_every_example_parses() -> None:
    found = [complaint(page, line) for page, line in examples()]
    assert len(found) > 100
    assert not any(found), "\n".join(filter(None, found))


def test_an_example_that_does_not_parse_is_a_complaint() -> None:
    assert complaint("p", "infrec evaluate demo") is None
    assert complaint("p", "infrec --version") is None
    assert complaint("p", "infrec dance") == "p: no such command: infrec dance"
    assert "--no-such-option" in (complaint("p", "infrec evaluate demo --no-such-option") or "")


def test_readme_names_the_two_commands_that_matter() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for command in ("make demo", "make test", "infrec evaluate", "infrec fit", "infrec recommend"):
        assert command in readme


def test_the_readme_is_read_in_five_minutes() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 900


def test_links_between_pages_lead_somewhere() -> None:
    dead = [
        f"{page.name} links to {target}, which is not there"
        for page in PAGES
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert not dead, "\n".join(dead)


# ---- paper and code ----------------------------------------------------------------------------------------
SOURCE = ROOT / "src" / "infrec"


def lost_names(page: str, words: set[str]) -> list[str]:
    """Names and files in the second column of a page's tables that are not in the code."""
    rows = [re.split(r"(?<!\\)\|", line) for line in page.splitlines() if line.startswith("| ")]
    quoted = [text for row in rows for text in re.findall(r"`([^`]+)`", row[2])]
    files = [text for text in quoted if text.endswith(".py")]
    names = [name for text in quoted if text not in files for name in re.findall(r"[^\W\d]\w*", text)]
    return [text for text in files if not (SOURCE / text).is_file()] + [n for n in names if n not in words]


def test_every_name_of_the_notation_is_in_the_code() -> None:
    page = (ROOT / "docs" / "notation.md").read_text(encoding="utf-8")
    code = (path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    words = {word for text in code for word in re.findall(r"\w+", text)}
    assert page.count("\n| ") > 25
    assert lost_names(page, words) == []
    assert lost_names("| λ | `reg`, `gone` in `kernels/gone.py` | – |", {"reg"}) == [
        "kernels/gone.py",
        "gone",
    ]


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


def test_every_line_that_bounds_a_contribution_is_there() -> None:
    lost = [
        line for name, line in BOUNDS if line.replace("\\|", "|") not in inspect.getsource(resolved(name))
    ]
    assert not lost, "\n".join(lost)


def test_the_proof_bounds_each_step_and_each_sum() -> None:
    assert len(BOUNDS) == 12
    for test in re.findall(r"`(tests/[\w/.]+)`", PROOF):
        assert (ROOT / test).is_file()
