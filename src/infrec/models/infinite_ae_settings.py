"""The settings of ∞-AE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from infrec.settings import AUTO, Auto, Settings, setting

DEEPEST = 100  # hidden layers; deeper kernels are the same for all pairs of users


@dataclass(frozen=True)
class InfiniteAESettings(Settings):
    """∞-AE has one hyper-parameter, `reg`; the others say how it is computed."""

    reg: float | Auto = setting(
        AUTO,
        "λ of the ridge, relative to the kernel's mean diagonal",
        least=0,
        search=(0, 1, 5, 20, 50, 100),  # the paper's grid
        fallback=5,
    )
    depth: int = setting(1, "hidden layers of the infinitely wide network", least=0, most=DEEPEST)
    dtype: Literal["float32", "float64"] = setting("float32", "precision of the solve")
    solver: Literal["auto", "exact", "nystrom"] = setting(
        AUTO,
        "`nystrom` lets a few users, the centres, stand for all; `auto` is exact where its memory suffices",
        decided_by_data=True,
    )
    centres: int = setting(2000, "how many users stand for all with `nystrom`", least=1)
    centre_choice: Literal["random", "activity", "leverage", "given"] = setting(
        "random",
        "which users: at random, in proportion to their interactions, those whom few others resemble, or "
        "given by the caller (`--centres SUMMARY`)",
    )
    seed: int = setting(42, "seed of that choice", least=0)
