"""The settings of ∞-AE-plus: what each means, and which values are refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from infrec.errors import ConfigError
from infrec.models.base import AUTO, plain
from infrec.models.infinite_ae import InfiniteAE
from infrec.models.infinite_ae_plus_search import LADDERS
from infrec.models.infinite_ae_settings import DEEPEST

Number = float | Literal["auto"]


@dataclass(frozen=True)
class InfiniteAEPlusSettings:
    """Each is chosen on validation where it is "auto".

    reg: λ of the user side, relative to the kernel's mean diagonal; depth: hidden layers of that kernel.
    user_power, item_power: histories are divided by these powers of their norm and of the items' popularity.
    target_power: the same for the rows of the targets.
    item_weight: of the item side, 0 for none; item_reg: its λ; item_depth: hidden layers of its kernel.
    popularity_power: scores are divided by this power of the item's popularity.
    solver, centres, seed, dtype: as for ∞-AE.
    """

    reg: Number = AUTO
    depth: int | Literal["auto"] = AUTO
    user_power: Number = AUTO
    item_power: Number = AUTO
    target_power: Number = AUTO
    item_reg: Number = AUTO
    item_depth: int | Literal["auto"] = AUTO
    item_weight: Number = AUTO
    popularity_power: Number = AUTO
    solver: Literal["auto", "exact", "nystrom"] = AUTO
    centres: int = 2000
    seed: int = 42
    dtype: str = "float32"

    def __post_init__(self) -> None:
        plain(self)
        for name in LADDERS:
            value = getattr(self, name)
            if value == AUTO or name in ("depth", "item_depth"):
                continue
            if not isinstance(value, int | float) or isinstance(value, bool) or not np.isfinite(value):
                raise ConfigError(f"{name} is {value!r}; expected a number, or 'auto'.")
            if name in ("reg", "item_reg", "item_weight") and value < 0:
                raise ConfigError(f"{name} is {value!r}; expected a number of 0 or more, or 'auto'.")
        depth = self.item_depth
        whole = isinstance(depth, int) and not isinstance(depth, bool)
        if depth != AUTO and not (whole and 1 <= int(depth) <= DEEPEST):
            raise ConfigError(f"item_depth is {depth!r}; expected a whole number, 1 to {DEEPEST}, or 'auto'.")
        self.core()  # checks the rest

    def core(self) -> InfiniteAE:
        """∞-AE with the settings that the user side shares with it."""
        return InfiniteAE(
            reg=1.0 if self.reg == AUTO else self.reg,
            depth=1 if self.depth == AUTO else self.depth,
            dtype=self.dtype,  # type: ignore[arg-type]  # checked there
            solver=self.solver,
            centres=self.centres,
            seed=self.seed,
        )
