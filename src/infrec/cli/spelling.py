"""Options of reading as Python has them, `` `user="who"` ``, and as a command line has them, `--user who`.

Sentences of the package name options in the first way; commands print them in the second.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Mapping, Sequence

from infrec.data.columns import ReadOptions

_IN_PYTHON = re.compile(r"`([a-z_]+=[^`]*)`")


def as_options(values: Mapping[str, object]) -> list[str]:
    """Options of reading as words of a command line."""
    words: list[str] = []
    for name, value in values.items():
        words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return words


def advised(text: str) -> list[dict[str, object]]:
    """The options of reading that a text advises, each of its proposals by itself: `` `user="who"` ``."""
    proposals = []
    for written in _IN_PYTHON.findall(text):
        try:
            call = ast.parse(f"read({written})", mode="eval").body
            values = {str(one.arg): ast.literal_eval(one.value) for one in getattr(call, "keywords", ())}
        except (SyntaxError, ValueError):
            continue
        proposals += [values] if values.keys() <= set(ReadOptions.names()) else []
    return proposals


def in_words_of_the_command_line(text: str) -> str:
    """A sentence that names options as Python has them, with those of a command instead."""

    def spelled(match: re.Match[str]) -> str:
        return "".join(shlex.join(as_options(values)) for values in advised(match[0])) or match[0]

    name, verb, rest = text.partition(" is ")
    if verb and name in ReadOptions.names():  # "min_user is 0; expected …"
        text = f"{as_options({name: True})[0]} is {rest}"
    return _IN_PYTHON.sub(spelled, text)


def next_command(argv: Sequence[str], text: str) -> str | None:
    """The command line with what a text advises first; None where it advises nothing."""
    proposals = advised(text)
    if not proposals:
        return None
    words = list(argv)
    for name, value in proposals[0].items():
        flag = as_options({name: True})[0]
        if flag in words:
            at = words.index(flag)
            del words[at : at + (1 if value is True else 2)]
        words += as_options({name: value})
    return shlex.join(["infrec", *words])
