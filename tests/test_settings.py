"""A setting is declared once; checks, parsing, manifests and documentation follow from the declaration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrec import models
from infrec.distillation import DistillSettings
from infrec.errors import ConfigError
from infrec.settings import AUTO, Auto, Settings, setting


@dataclass(frozen=True)
class Example(Settings):
    """One setting of each kind."""

    reg: float | Auto = setting(AUTO, "ridge", least=0, search=(1, 5), fallback=5)
    depth: int = setting(1, "layers", least=0, most=9)
    share: float = setting(0.5, "part", above=0, below=1)
    solver: Literal["auto", "exact"] = setting(AUTO, "way", decided_by_data=True)
    steps: int | None = setting(None, "how many", least=1)
    careful: bool = setting(True, "slow")
    grid: tuple[float, ...] = setting((1.0, 2.0), "values", least=0)
    metric: str = setting("HR@100", "what is measured")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"reg": -1}, "reg is -1; expected a number of at least 0 or 'auto'."),
        ({"reg": "warm"}, "reg is 'warm'; expected a number of at least 0 or 'auto'."),
        ({"reg": float("nan")}, "reg is nan; expected a number"),
        ({"reg": float("inf")}, "reg is inf; expected a number"),
        ({"reg": True}, "reg is True; expected a number"),
        ({"reg": None}, "reg is None; expected a number"),
        ({"depth": 1.0}, "depth is 1.0; expected a whole number of at least 0 and at most 9."),
        ({"depth": 10}, "depth is 10;"),
        ({"share": 0}, "share is 0; expected a number above 0 and below 1."),
        ({"share": 1.0}, "share is 1.0;"),
        ({"solver": "lucky"}, "solver is 'lucky'; expected 'auto' or 'exact'."),
        ({"steps": 0}, "steps is 0; expected a whole number of at least 1 or none."),
        ({"careful": 1}, "careful is 1; expected true or false."),
        ({"grid": ()}, r"grid is \(\); expected one or more of: a number of at least 0."),
        ({"grid": (1.0, -1.0)}, r"grid is \(1.0, -1.0\);"),
        ({"grid": 5.0}, "grid is 5.0;"),
        ({"metric": 5}, "metric is 5; expected a text."),
    ],
)
def test_what_a_setting_refuses(wrong: dict, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Example(**wrong)


def test_numbers_of_numpy_become_pythons() -> None:
    made = Example(reg=np.float32(0.5), depth=np.int64(2), grid=np.array([1.0, 3.0]))
    assert (made.reg, made.depth, made.grid) == (0.5, 2, (1.0, 3.0))
    assert {type(made.reg), type(made.depth), type(made.grid[0])} == {float, int}


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ("reg=auto", "auto"), ("reg=5", 5), ("reg=0.5", 0.5), ("depth=2", 2), ("solver=exact", "exact"),
        ("steps=none", None), ("careful=False", False), ("grid=1,2.5", (1.0, 2.5)),
        ("metric= NDCG@10", "NDCG@10"),
    ],
)  # fmt: skip
def test_a_text_becomes_a_value_of_its_setting(pair: str, value: object) -> None:
    parsed = Example.parse([pair], "example")
    assert list(parsed.values()) == [value] and type(*parsed.values()) is type(value)


@pytest.mark.parametrize(
    ("pair", "says"),
    [
        ("reg", "'reg' is not of the form key=value"),
        ("rge=1", "example has no setting 'rge'. Did you mean reg"),
        ("depth=1.5", "depth is '1.5'; expected a whole number"),
        ("careful=perhaps", "expected true or false"),
        ("grid=1,x", "grid is '1,x'; expected one or more"),
    ],
)
def test_texts_that_are_refused(pair: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Example.parse([pair], "example")


@given(
    reg=st.just(AUTO) | st.floats(0, 1e6),
    depth=st.integers(0, 9),
    steps=st.none() | st.integers(1, 10**9),
    grid=st.lists(st.floats(0, 1e6), min_size=1).map(tuple),
)
def test_settings_survive_a_manifest_and_the_command_line(reg, depth, steps, grid) -> None:
    made = Example(reg=reg, depth=depth, steps=steps, grid=grid)
    assert Example.from_dict(made.to_dict()) == made
    texts = [f"reg={reg}", f"depth={depth}", f"steps={steps}", f"grid={','.join(map(repr, grid))}"]
    assert Example(**Example.parse(texts, "example")) == made


def test_a_manifest_of_a_version_with_more_settings_is_read() -> None:
    assert Example.from_dict({"reg": 5, "no_longer_there": 3}) == Example(reg=5)


def test_search_spaces_follow_from_the_declaration() -> None:
    assert Example.search_space() == {"reg": (1, 5)}
    assert Example.fallbacks() == {"reg": 5}
    assert Example.decided_by_data() == {"solver"}


@pytest.mark.parametrize("name", models.NAMES)
def test_every_model_shows_its_settings(name: str) -> None:
    """The constructor's signature and docstring name every setting, and each has a meaning."""
    import inspect

    kind = models.class_of(name)
    assert list(inspect.signature(kind).parameters) == kind.settings_type.names()
    for setting_name, _, _, meaning in kind.settings_type.documentation():
        assert meaning and f"    {setting_name}: " in (kind.__doc__ or "")
    with pytest.raises(ConfigError, match=f"{name} has no setting 'colour'"):
        kind(colour="red")


def test_every_setting_of_distillation_has_a_meaning() -> None:
    assert all(meaning for *_, meaning in DistillSettings.documentation())
