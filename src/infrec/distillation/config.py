"""Every setting of a distillation, checked when it is made.

Public words and the paper's symbols: `draws` is γ of the Gumbel sampling, `mass` is γ of the soft summary
(both the number of interactions a row can hold), `tau` is τ, `reg` is λ, `l1` is λ₂ before it is divided by
the mean number of interactions, `users` is μ.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np

from infrec.errors import ConfigError, DataError

Mode = Literal["discrete", "soft", "published"]
Start = Literal["popularity", "users", "summary"]
MODES: tuple[Mode, ...] = ("discrete", "soft", "published")
STARTS: tuple[Start, ...] = ("popularity", "users", "summary")  # the last: where one is continued
REG_GRID = (1e-5, 1e-3, 0.1, 1.0, 5.0, 50.0)  # the paper's, inside Distill-CF
FINER_GRID = (1e-5, 1e-3, 0.1, 0.3, 1.0, 2.0, 5.0, 50.0)
SMALL_DATA = 200_000  # interactions below which the second schedule holds: validation is cheap there
SCHEDULE = {  # steps, and steps between validations, of large and of small data
    "discrete": ((200, 25), (200, 25)),
    "discrete, own targets": ((400, 50), (200, 25)),
    "soft": ((150, 25), (150, 10)),
    "published": ((200, 25), (200, 25)),
}
OWN_HIDDEN = 0.2  # of `discrete` with own targets: the more is shown, the better it is learnt by heart
FEW_USERS = 250  # below this, synthetic users of equal size are better on validation

# The paper's search space, and τ = 10, which its published numbers need; γ depends on the data.
SEARCH_SPACE: dict[str, tuple[float, ...]] = {"tau": (0.3, 0.5, 0.7, 5.0, 10.0), "l1": (1e-3, 10.0)}


@dataclass(frozen=True)
class Config:
    """Settings of a distillation. `Config.of(mode)` has good ones for a mode; `None` means: from the data."""

    mode: Mode = "discrete"
    users: int = 500
    start: Start = "popularity"
    start_scale: float = 1.0
    start_noise: float = 0.1
    seed: int = 42
    # size
    per_user: float | None = None  # mean interactions of a synthetic user
    size_power: float | None = None  # row sizes follow the data's activity to this power; 0: all equal
    # relaxation
    tau: float = 3.0
    mass: float | None = None
    draws: int | None = None
    surrogate: Literal["softmax", "sigmoid", "identity"] = "softmax"
    # objective
    loss: Literal["multinomial", "standardised", "binary"] = "multinomial"
    targets: Literal["own", "others"] = "own"  # a user's own items, or what all others predict for the user
    hidden: float = 0.0
    hide_one: bool = False
    sharpness: float = 1.0
    user_power: float = 0.0
    l1: float = 0.0
    depth: int = 1
    reg: float = 1.0
    reg_grid: tuple[float, ...] = REG_GRID
    reg_rate: float = 0.0  # λ may also follow its own gradient, at this rate of ln λ
    rechoose: bool = (
        True  # train on with the λ that was best on validation (but for the one before the first step)
    )
    # schedule
    steps: int | None = None
    rate: float = 0.04
    rate_end: float = 1.0  # of the rate, at the last step; the way there is a cosine
    average: float = (
        0.0  # decay of a running mean of the logits, which is then what is validated and released
    )
    validate_every: int | None = None
    patience: int | None = 150
    criterion: str = "HR@100"
    batch: int | None = None  # users of a mini-batch; None: everybody
    accumulate: int = 1
    precision: Literal["default", "highest", "bfloat16"] = "default"  # of the products with real users

    @classmethod
    def of(cls, mode: str = "discrete", **changes: Any) -> Self:
        """The defaults of a mode with some settings changed."""
        if mode not in MODES:
            raise ConfigError(f"mode is {mode!r}; expected one of {', '.join(MODES)}.")
        unknown = sorted(set(changes) - {f.name for f in fields(cls)})
        if unknown:
            raise ConfigError(
                f"there is no setting {unknown[0]!r}; expected one of "
                f"{', '.join(f.name for f in fields(cls))}."
            )
        base = {"mode": mode, **DEFAULTS[mode]}
        if changes.get("loss", "standardised") != "standardised":
            changes = {"targets": "own"} | changes  # the other losses know no other
        if mode == "discrete" and changes.get("targets") == "own":
            base["hidden"] = OWN_HIDDEN
        return cls(**base | changes)

    def __post_init__(self) -> None:
        for setting in fields(self):  # numpy's numbers would fit into no manifest
            object.__setattr__(self, setting.name, _plain(getattr(self, setting.name)))
        if not isinstance(self.reg_grid, Iterable):
            raise ConfigError(
                f"reg_grid is {self.reg_grid!r}; expected the λ values to try, for example (1, 5)."
            )
        object.__setattr__(self, "reg_grid", tuple(_plain(reg) for reg in self.reg_grid))
        _one_of("mode", self.mode, MODES)
        _one_of("start", self.start, STARTS)
        _one_of("surrogate", self.surrogate, ("softmax", "sigmoid", "identity"))
        _one_of("loss", self.loss, ("multinomial", "standardised", "binary"))
        _one_of("targets", self.targets, ("own", "others"))
        _one_of("precision", self.precision, ("default", "highest", "bfloat16"))
        for name in ("users", "steps", "validate_every", "accumulate", "batch", "draws", "patience"):
            _check(name, getattr(self, name), "a whole number of at least 1", lambda v: v >= 1 and _whole(v))
        for name in ("depth", "seed"):
            _check(name, getattr(self, name), "a whole number of 0 or more", lambda v: v >= 0 and _whole(v))
        for name in ("tau", "mass", "per_user", "rate", "sharpness", "start_scale"):
            _check(name, getattr(self, name), "a finite number above 0", lambda v: v > 0)
        for name in ("l1", "start_noise", "user_power", "size_power", "reg_rate", "reg"):
            _check(name, getattr(self, name), "a finite number of 0 or more", lambda v: v >= 0)
        _check("hidden", self.hidden, "at least 0 and less than 1", lambda v: 0 <= v < 1)
        _check("average", self.average, "at least 0 and less than 1", lambda v: 0 <= v < 1)
        _check("rate_end", self.rate_end, "between 0 and 1", lambda v: 0 <= v <= 1)
        if not self.reg_grid:
            raise ConfigError("reg_grid is empty; expected at least one λ to try.")
        for reg in self.reg_grid:
            _check("reg_grid", reg, "finite numbers of 0 or more", lambda v: v >= 0)
        if self.targets == "others" and self.loss != "standardised":
            raise ConfigError(
                f"targets is 'others', but loss is {self.loss!r}; expected loss=standardised, or targets=own."
            )
        if self.hide_one and not self.hidden:
            raise ConfigError(
                "hide_one is set, but hidden is 0; expected a share to hide, for example hidden=0.3."
            )

    def resolved(self, *, n_users: int, n_items: int, interactions: int) -> Self:
        """The same with everything that was left to the data filled in; refuses what the data cannot give."""
        if n_users < 2:
            raise DataError(
                f"the log has {n_users} user; expected at least 2: there is nothing to summarise."
            )
        if interactions == 0:
            raise DataError("the log has no interactions; expected some to distil.")
        if self.users > n_users:
            raise ConfigError(
                f"{self.users:,} synthetic users were asked for, but the log has {n_users:,} users; "
                "expected fewer, or there is nothing to gain."
            )
        mean = interactions / n_users
        per_user = self.per_user
        if per_user is None:
            per_user = default_per_user(mean, n_items)
        if per_user > n_items:
            raise ConfigError(
                f"{per_user:g} interactions per synthetic user were asked for, but there are {n_items:,} "
                "items; expected at most that."
            )
        power = self.size_power
        if power is None:
            power = 0.5 if self.users >= FEW_USERS else 0.0
        small = interactions < SMALL_DATA
        own = self.mode == "discrete" and self.targets == "own"
        steps, every = SCHEDULE["discrete, own targets" if own else self.mode][small]
        steps, every = self.steps or steps, self.validate_every or every
        return replace(
            self,
            per_user=per_user,
            size_power=power,
            mass=self.mass or self.per_user or min(100.0, float(n_items)),
            draws=self.draws or math.ceil(self.per_user or default_draws(mean)),
            steps=steps,
            validate_every=min(every, steps),
        )

    def compiled_for(self) -> Self:
        """Without what a compiled step does not depend on: another seed needs no new compilation."""
        return replace(
            self, seed=0, reg=1.0, reg_grid=(1.0,), patience=None, criterion="", validate_every=None,
            batch=None, start="popularity", start_scale=1.0, start_noise=0.0, size_power=None, per_user=None,
            rechoose=True,
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """For a manifest."""
        return asdict(self) | {"reg_grid": list(self.reg_grid)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        return cls(**{**values, "reg_grid": tuple(values["reg_grid"])})


_OURS: dict[str, Any] = {
    "loss": "standardised", "sharpness": 0.25, "user_power": 0.5, "criterion": "NDCG@100", "rate_end": 0.0,
    "patience": None, "reg_grid": FINER_GRID,
}  # fmt: skip
DEFAULTS: dict[str, dict[str, Any]] = {
    "published": {
        "start": "users", "start_noise": 0.0, "tau": 10.0, "rate": 0.04, "l1": 1e-3, "reg": 0.1,
    },
    "soft": {**_OURS, "start_scale": 0.5, "tau": 3.0, "hidden": 0.5, "rate": 0.04, "reg": 0.1},
    "discrete": {
        **_OURS, "surrogate": "identity", "tau": 1.0, "targets": "others", "hidden": 0.4,
        "rate": 0.05, "average": 0.9,
    },
}  # fmt: skip


OPTIONAL = frozenset(setting.name for setting in fields(Config) if str(setting.type).endswith("| None"))


def stated(asked: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked for. None says nothing, but for settings that may be None (patience: never stop)."""
    return {name: value for name, value in asked.items() if value is not None or name in OPTIONAL}


def search_space(mean_interactions: float, n_items: int) -> dict[str, tuple[float, ...]]:
    """What `--search` tries. The paper's γ: {50, 100, 200} for Magazine, {200, 500, 700} for ML-1M."""
    base = default_draws(mean_interactions)
    factors = (0.5, 1.0, 2.0) if base == 100 else (1.0, 2.5, 3.5)
    draws = tuple(dict.fromkeys(min(round(base * factor), n_items) for factor in factors))
    return {**SEARCH_SPACE, "gamma": draws}


def default_draws(mean_interactions: float) -> int:
    """γ as the paper's code has it by dataset: 200 for ML-1M (132 per user), 100 where users have few."""
    return max(100, 50 * math.ceil(1.5 * mean_interactions / 50))


def default_per_user(mean_interactions: float, n_items: int) -> float:
    """The data's own mean, but no fewer than 10: of shorter rows a summary learns little."""
    return min(max(10.0, mean_interactions), float(n_items))


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ConfigError(f"{name} is {value!r}; expected one of {', '.join(known)}.")


def _check(name: str, value: Any, expected: str, holds: Any) -> None:
    if value is not None and not (isinstance(value, Real) and math.isfinite(value) and holds(value)):
        raise ConfigError(f"{name} is {value!r}; expected {expected}.")


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _whole(value: Any) -> bool:
    return isinstance(value, Integral)  # 4.0 is no number of rows
