"""Every public function and class documents its parameters, in one format: `Args:`, then `name: sentence`.

Public is what a room's `__init__` offers. Fields of settings say what they mean in their declaration.
"""

from __future__ import annotations

import importlib
import inspect
import pydoc
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from infrec import EASE, InfiniteAE, InfiniteAEPlus, PopRec
from infrec.models.base import Recommender
from infrec.models.explanation import Explainable
from infrec.models.lists import OFFERED
from infrec.settings import Settings

ROOMS = (
    "", "data", "splits", "metrics", "search", "models", "samplers", "distillation", "evaluation", "privacy",
    "serve",
)  # fmt: skip


def documented(text: str) -> set[str]:
    """The names in the `Args:` block of a docstring."""
    blocks = inspect.cleandoc(text).split("\nArgs:\n")[1:]
    lines = [line for block in blocks for line in block.split("\n\n")[0].splitlines()]
    names = (match[1] for line in lines if (match := re.match(r"    (\*{0,2}\w+(?:, \w+)*): ", line)))
    return {name for group in names for name in group.replace("*", "").split(", ")}


def taken(function: Callable[..., Any]) -> set[str]:
    """The names of a function's parameters."""
    return set(inspect.signature(function).parameters) - {"self", "cls"}


def inherited(thing: type, method: str) -> str:
    """The docstrings of a method and of those it overrides."""
    found = (getattr(parent, method, None) for parent in thing.__mro__)
    return "\n\n".join(inspect.cleandoc(one.__doc__ or "") for one in found if one is not None)


def offered(room: str) -> Iterator[tuple[str, set[str], str]]:
    """Name, parameters and docstring of what a room offers: functions, constructors and public methods."""
    module = importlib.import_module(f"infrec.{room}".rstrip("."))
    for name in module.__all__:
        thing = getattr(module, name)
        if inspect.isfunction(thing):
            yield name, taken(thing), thing.__doc__ or ""
        if inspect.isclass(thing) and not issubclass(thing, BaseException):
            # Fields of settings carry their help; a protocol has no constructor of its own.
            if not issubclass(thing, Settings) and not getattr(thing, "_is_protocol", False):
                yield name, taken(thing), thing.__doc__ or ""
            for method, value in vars(thing).items():
                function = getattr(value, "__func__", value)
                if inspect.isfunction(function) and not method.startswith("_"):
                    yield f"{name}.{method}", taken(function), inherited(thing, method)


def signatures(room: str) -> Iterator[tuple[str, str]]:
    """Name and signature, as `help` shows it, of each function, class and public method of a room."""
    module = importlib.import_module(f"infrec.{room}".rstrip("."))
    for name in module.__all__:
        thing = getattr(module, name)
        if callable(thing) and not (inspect.isclass(thing) and issubclass(thing, BaseException)):
            yield name, str(inspect.signature(thing))
        for method in dir(thing) if inspect.isclass(thing) else ():
            if inspect.isfunction(value := getattr(thing, method)) and not method.startswith("_"):
                yield f"{name}.{method}", str(inspect.signature(value))


@pytest.mark.parametrize("room", ROOMS)
def test_help_shows_no_addresses(room: str) -> None:
    """Defaults have texts that mean something: no `<function silent at 0x7f…>`."""
    assert [name for name, signature in signatures(room) if " at 0x" in signature] == []


@pytest.mark.parametrize("room", ROOMS)
def test_parameters_are_documented(room: str) -> None:
    missing = {name: params - documented(text) for name, params, text in offered(room)}
    assert {name: sorted(params) for name, params in missing.items() if params} == {}


@pytest.mark.parametrize("model", [InfiniteAE, InfiniteAEPlus, EASE, PopRec])
def test_help_shows_what_people_call_and_no_internals(model: type[Recommender]) -> None:
    shown = {name for name in dir(model) if not name.startswith("_")}
    assert (
        {"fit", "recommend", "score", "similar", "save", "load", "get_params", "selected"} <= shown <= OFFERED
    )
    assert ("explain" in shown) is issubclass(model, Explainable)
    words = pydoc.plaintext.document(model)
    assert "recommend(self" in words and "block_there" not in words and "check_size" not in words
    assert set(dir(model())) >= shown and "check_size" not in dir(model())


def test_what_others_add_to_a_model_is_shown() -> None:
    class Ours(PopRec):
        def invented(self) -> None: ...

    assert {"invented", "fit"} <= set(dir(Ours)) and "check_size" not in dir(Ours)
