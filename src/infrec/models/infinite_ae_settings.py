"""What ∞-AE can be told, checked when it is said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from infrec.errors import ConfigError
from infrec.models.base import AUTO, plain
from infrec.models.centres import CHOICES

DEEPEST = 100  # hidden layers; deeper kernels are the same for all pairs of users
_WORDS = {
    "dtype": ("float32", "float64"),
    "solver": ("auto", "exact", "nystrom"),
    "centre_choice": (*CHOICES, "given"),
}


@dataclass(frozen=True)
class InfiniteAESettings:
    """reg: λ relative to the kernel's mean diagonal, or "auto"; depth: hidden layers; dtype: of the solve.

    solver: "exact", "nystrom", or "auto": exact where it fits in memory. With Nyström, centres: how many
    users stand for all; centre_choice: which ("random", "activity", "leverage"; "given" by the caller); seed:
    of that choice.
    """

    reg: float | Literal["auto"] = AUTO
    depth: int = 1
    dtype: str = "float32"
    solver: Literal["auto", "exact", "nystrom"] = AUTO
    centres: int = 2000
    centre_choice: Literal["random", "activity", "leverage", "given"] = "random"
    seed: int = 42

    def __post_init__(self) -> None:
        plain(self)
        if self.reg != AUTO and not (_is_number(self.reg) and 0 <= float(self.reg) < np.inf):
            raise ConfigError(f"reg is {self.reg!r}; expected a number of 0 or more, or 'auto'.")
        depth = self.depth
        if not isinstance(depth, int) or isinstance(depth, bool) or not 0 <= depth <= DEEPEST:
            raise ConfigError(
                f"depth is {depth!r}; expected a whole number of hidden layers, 0 to {DEEPEST}."
            )
        for name, words in _WORDS.items():
            if getattr(self, name) not in words:
                raise ConfigError(
                    f"{name} is {getattr(self, name)!r}; expected {', '.join(map(repr, words[:-1]))} "
                    f"or {words[-1]!r}."
                )
        for name, least in (("centres", 1), ("seed", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ConfigError(f"{name} is {value!r}; expected a whole number of {least} or more.")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
