"""Help of every command: what it does, every option with its meaning, in words for people."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from infrec.cli.app import app
from tests.cli.conftest import Infrec


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command below one, with the words that lead to it."""
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


COMMANDS = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_has_every_option_and_its_meaning(infrec: Infrec, path: tuple[str, ...]) -> None:
    ran = infrec(*path, "--help")
    assert ran.code == 0 and ran.err == ""
    for parameter in COMMANDS[path].params:
        name = max(parameter.opts, key=len) if parameter.opts[0].startswith("-") else parameter.metavar
        assert re.search(rf"^(-\w, )?{re.escape(name)}[ \n].*\S", ran.out, re.M), f"{name} is not explained"
    assert ran.out.startswith("\nUsage: infrec " + " ".join(path))
    assert not re.search(r"\[/|\[bold|<str>|<int|Annotated|0x|\bself\b", ran.out), "not for people"


def test_what_stands_in_brackets_is_shown(infrec: Infrec) -> None:
    """A default is not taken for markup, and examples keep their lines."""
    out = infrec("fit", "-h").out
    assert "[default: infinite-ae]" in out and "[required]" in out
    assert "\n  infrec fit demo -o model\n" in out
