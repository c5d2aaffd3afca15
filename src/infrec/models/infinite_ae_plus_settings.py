"""The settings of ∞-AE-plus, with the ladder of values that its search walks and where it begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from infrec.models.infinite_ae import InfiniteAE
from infrec.models.infinite_ae_settings import DEEPEST
from infrec.settings import AUTO, Auto, Settings, setting


@dataclass(frozen=True)
class InfiniteAEPlusSettings(Settings):
    """The search tries the values of a setting in order, and begins at its fallback."""

    reg: float | Auto = setting(
        AUTO,
        "λ of the user side, relative to its kernel's mean diagonal",
        least=0,
        search=tuple(5.0 * 2.0**k for k in range(-6, 7)),
        fallback=5.0,
    )
    depth: int | Auto = setting(
        AUTO, "hidden layers of the user side's kernel", least=0, most=DEEPEST, search=(1, 2, 3), fallback=1
    )
    user_power: float | Auto = setting(
        AUTO, "histories are divided by this power of their norm", search=(0.0, 0.5, 1.0), fallback=1.0
    )
    item_power: float | Auto = setting(
        AUTO, "and by this power of the items' popularity", search=(0.0, 0.1, 0.2, 0.3), fallback=0.2
    )
    target_power: float | Auto = setting(
        AUTO,
        "what is reconstructed is divided by this power of the norm",
        search=(0.0, 0.5, 1.0),
        fallback=0.5,
    )
    item_reg: float | Auto = setting(
        AUTO, "λ of the item side", least=0, search=(0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0), fallback=3.0
    )
    item_depth: int | Auto = setting(
        AUTO, "hidden layers of the item side's kernel", least=1, most=DEEPEST, search=(1, 2, 3), fallback=1
    )
    item_weight: float | Auto = setting(
        AUTO, "weight of the item side, 0 for none", least=0, search=(0.0, 0.25, 0.5, 1.0, 2.0), fallback=0.5
    )
    popularity_power: float | Auto = setting(
        AUTO,
        "scores are divided by this power of the items' popularity",
        search=(-0.1, 0.0, 0.1, 0.2, 0.3, 0.4),
        fallback=0.1,
    )
    solver: Literal["auto", "exact", "nystrom"] = setting(
        AUTO,
        "`nystrom` lets a few users, the centres, stand for all; `auto` is exact where its memory suffices",
        decided_by_data=True,
    )
    centres: int = setting(2000, "how many users stand for all with `nystrom`, at random", least=1)
    seed: int = setting(42, "seed of the centres and of what the search hides", least=0)
    dtype: Literal["float32", "float64"] = setting("float32", "precision of the solve")

    def core(self) -> InfiniteAE:
        """∞-AE with the settings that the user side shares with it."""
        return InfiniteAE(
            reg=1.0 if self.reg == AUTO else self.reg,
            depth=1 if self.depth == AUTO else self.depth,
            dtype=self.dtype,
            solver=self.solver,
            centres=self.centres,
            seed=self.seed,
        )
