"""Every setting of a distillation, checked when it is made.

Public words and the paper's symbols: `draws` is γ of the Gumbel sampling, `mass` is γ of the soft summary
(both the number of interactions a row can hold), `tau` is τ, `reg` is λ, `l1` is λ₂ before it is divided by
the mean number of interactions, `users` is μ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, Self

from infrec.data import SUMMARY_REG_GRID
from infrec.errors import ConfigError, DataError
from infrec.settings import Settings, setting

if TYPE_CHECKING:
    from infrec.kernels import Kernel

Mode = Literal["weighted", "discrete", "soft", "published"]
Start = Literal["popularity", "users", "summary"]
MODES: tuple[Mode, ...] = ("weighted", "discrete", "soft", "published")
STARTS: tuple[Start, ...] = ("popularity", "users", "summary")  # the last: where one is continued
FINER_GRID = (1e-5, 1e-3, 0.1, 0.3, 1.0, 2.0, 5.0, 50.0)
SMALL_DATA = 200_000  # interactions below which a step is cheap enough to take more of them
# Mean interactions of a user below which the objective is that of sparse logs: it was found on logs of 2 to
# 40 a user, with 6,000 to 210,000 interactions in all, and the other one on a log of 131 a user.
SPARSE_DATA = 100
SHORT_HISTORIES = 10  # the mean below which a model of users helps nobody and only gives people away
SCHEDULE = {  # steps, and steps between validations, of large and of small data
    "discrete": ((200, 25), (200, 25)),
    "discrete, own targets": ((400, 50), (200, 25)),
    "soft": ((150, 25), (150, 10)),
    "weighted": ((200, 25), (200, 25)),
    "weighted, sparse": ((150, 50), (150, 50)),
    "published": ((200, 25), (200, 25)),
}
INVENTED_MODE: Mode = "discrete"  # of summaries of invented users, under (ε, δ): measured in this form
OWN_HIDDEN = 0.2  # of `discrete` with own targets: the more is shown, the better it is learnt by heart
FEW_USERS = 250  # below this, synthetic users of equal size are better on validation

# The paper's search space, and τ = 10, which its published numbers need; γ depends on the data.
SEARCH_SPACE: dict[str, tuple[float, ...]] = {"tau": (0.3, 0.5, 0.7, 5.0, 10.0), "l1": (1e-3, 10.0)}


@dataclass(frozen=True)
class DistillSettings(Settings):
    """Settings of a distillation; `None` means: from the data. `of(mode)` has the defaults of a mode."""

    mode: Mode = setting(
        "weighted", "form of the summary: few weights a row, 0/1, our fractional one, or as published"
    )
    users: int = setting(500, "synthetic users", least=1)
    start: Start = setting("popularity", "starting logits; `summary` where one is carried on")
    start_scale: float = setting(1.0, "factor of the starting logits", above=0)
    start_noise: float = setting(0.1, "deviation of normal noise added to them", least=0)
    seed: int = setting(42, "seed of everything random", least=0)
    # size
    per_user: float | None = setting(
        None, "mean interactions of a synthetic user; –: the data's own, at least 10", above=0
    )
    size_power: float | None = setting(
        None,
        "row sizes follow the data's activity to this power; –: ½, below 250 users 0: all equal",
        least=0,
    )
    # relaxation
    tau: float = setting(3.0, "τ: temperature; in `discrete` the width of the threshold", above=0)
    mass: float | None = setting(
        None, "γ of a soft row; –: 100 (`weighted`: at most a tenth of the items)", above=0
    )
    draws: int | None = setting(
        None, "γ: Gumbel draws; –: 200 for ML-1M, 100 where users have few interactions", least=1
    )
    # objective
    loss: Literal["multinomial", "standardised", "correlation", "binary"] | None = setting(
        "multinomial",
        "likelihood of the scores as they are (the paper's code) or standardised (ours), their correlation "
        "with the targets (ours), or the paper's equation; –: correlation with targets from others where a "
        "user has 10 to 100 interactions, else standardised",
    )
    targets: Literal["own", "others"] = setting(
        "own", "the loss asks for a user's own items, or for what all others predict for the user"
    )
    others: Literal["items", "both"] | None = setting(
        None,
        "who says what others predict: a model of items, or also one of users; –: `both` in `weighted` where "
        "a user has 10 to 100 interactions",
    )
    own_share: float = setting(
        0.0, "with targets from others: the share that is the user's own items all the same", least=0, most=1
    )
    hidden: float | None = setting(
        0.0,
        "share of a user's items hidden in each step; `discrete` with own targets: 0.2; –: 0.3 where a user "
        "has less than 10 interactions, 0.2 below 100, else 0.5",
        least=0,
        below=1,
    )
    sharpness: float | None = setting(
        1.0, "factor of the scores in the softmax; –: 0.15 below 100 interactions a user, else 0.25", above=0
    )
    user_power: float = setting(0.0, "a user with n targets weighs n^−power", least=0)
    l1: float = setting(0.0, "λ₂", least=0)
    depth: int = setting(1, "hidden layers of the network behind the kernel", least=0)
    reg: float = setting(1.0, "λ to begin with", least=0)
    reg_grid: tuple[float, ...] = setting(SUMMARY_REG_GRID, "λ values tried at each validation", least=0)
    rechoose: bool = setting(
        True, "train on with the best λ of a validation (but for the one before the first step)"
    )
    # schedule
    steps: int | None = setting(
        None,
        "at most so many; –: 200 (`soft`, and `weighted` below 100 interactions a user: 150; `discrete` with "
        "own targets on a large log: 400)",
        least=1,
    )
    rate: float | None = setting(
        0.04, "learning rate of Adam; –: 0.08 below 100 interactions a user, else 0.04", above=0
    )
    rate_end: float = setting(1.0, "its share at the last step; a cosine leads there", least=0, most=1)
    average: float = setting(
        0.0, "decay of a running mean of the logits, which is validated and released", least=0, below=1
    )
    validate_every: int | None = setting(
        None,
        "steps between two validations; –: 25 (50 of 400, and in `weighted` below 100 interactions a user; "
        "`soft` on a small log: 10)",
        least=1,
    )
    patience: int | None = setting(
        150, "stop after so many steps without improvement; –: never (`--set patience=none`)", least=1
    )
    criterion: str = setting("HR@100", "metric that validation maximises")
    batch: int | None = setting(None, "users of a step; –: everybody", least=1)
    precision: Literal["default", "highest", "bfloat16"] = setting(
        "default", "of the products with real users (default: TF32 on a GPU)"
    )

    @classmethod
    def of(cls, mode: str = "weighted", **changes: Any) -> Self:
        """The defaults of a mode with some settings changed.

        Args:
            mode: `weighted`, `discrete`, `soft` or `published`.
            changes: Settings by name.
        """
        if mode not in MODES:
            raise ConfigError(f"mode is {mode!r}; expected one of {', '.join(MODES)}.")
        cls.check_names(changes, "distill")
        base = {"mode": mode, **DEFAULTS[mode]}
        if changes.get("loss") in ("multinomial", "binary"):
            changes = {"targets": "own"} | changes  # the other losses know no other
        if mode == "discrete" and changes.get("targets") == "own":
            base["hidden"] = OWN_HIDDEN
        return cls(**base | changes)

    @property
    def kernel(self) -> Kernel:
        """Θ between users."""
        from infrec.kernels import kernel_of

        return kernel_of(self.depth)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.targets == "others" and self.loss in ("multinomial", "binary"):
            raise ConfigError(
                f"targets is 'others', but loss is {self.loss!r}; expected loss=standardised or "
                "loss=correlation, or targets=own."
            )

    def resolved(self, *, n_users: int, n_items: int, interactions: int) -> Self:
        """Settings with everything that was left to the data filled in; refuses what the data cannot give.

        Args:
            n_users: Users of the log.
            n_items: Its items.
            interactions: Its interactions.
        """
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
        sparse, short = mean < SPARSE_DATA, mean < SHORT_HISTORIES
        middling = sparse and not short
        kind: str = self.mode
        if kind == "discrete" and self.targets == "own":
            kind = "discrete, own targets"
        if kind == "weighted" and sparse:
            kind = "weighted, sparse"
        steps, every = SCHEDULE[kind][interactions < SMALL_DATA]
        steps, every = self.steps or steps, self.validate_every or every
        mass = self.mass or self.per_user or min(100.0, float(n_items))
        if self.mode == "weighted":  # far fewer than the items, or many would be cut off at 1
            mass = self.mass or min(100.0, n_items / 10)
        return replace(
            self,
            per_user=per_user,
            size_power=power,
            mass=mass,
            loss=self.loss or ("correlation" if middling and self.targets == "others" else "standardised"),
            hidden=(0.3 if short else 0.2 if sparse else 0.5) if self.hidden is None else self.hidden,
            rate=self.rate or (0.08 if sparse else 0.04),
            sharpness=(0.15 if sparse else 0.25) if self.sharpness is None else self.sharpness,
            others=self.others or ("both" if middling and self.mode == "weighted" else "items"),
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


@dataclass(frozen=True)
class SummarySize(Settings):
    """The size of a summary in other words than users and interactions per user."""

    target: float | None = setting(
        None, "instead of --users: the fewest that reach this share of full-data quality, such as 0.95"
    )
    total: int | None = setting(None, "interactions in all")
    percent: float | None = setting(None, "interactions in percent of the train part's")
    bytes: int | None = setting(None, "bytes that interactions.parquet may take")


@dataclass(frozen=True)
class Promise(Settings):
    """Options for people's sake: users set aside for an audit; (ε, δ)."""

    set_aside: float | None = setting(
        None, "keep this share of the users out, such as 0.1: the control group of infrec audit"
    )
    epsilon: float | None = setting(
        None, "distil with user-level differential privacy of this ε; needs --delta"
    )
    delta: float | None = setting(None, "its δ, below one over twice the number of users, such as 1e-6")
    noise_multiplier: float | None = setting(
        None, "instead of --epsilon: the noise itself, where dp-accounting is not installed"
    )
    catalogue: str | None = setting(
        None, "the public list of items; without it, items too are only named under (ε, δ)"
    )

    @property
    def promised(self) -> bool:
        """Whether a guarantee is asked for."""
        return not (self.epsilon is None and self.delta is None and self.noise_multiplier is None)


_OURS: dict[str, Any] = {
    "loss": "standardised", "sharpness": 0.25, "user_power": 0.5, "criterion": "NDCG@100", "rate_end": 0.0,
    "patience": None, "reg_grid": FINER_GRID,
}  # fmt: skip
DEFAULTS: dict[str, dict[str, Any]] = {
    "published": {
        "start": "users", "start_noise": 0.0, "tau": 10.0, "rate": 0.04, "l1": 1e-3, "reg": 0.1,
    },
    "soft": {**_OURS, "start_scale": 0.5, "tau": 3.0, "hidden": 0.5, "rate": 0.04, "reg": 0.1},
    "weighted": {
        **_OURS, "start_scale": 0.5, "tau": 3.0, "targets": "others", "reg": 0.1, "loss": None,
        "hidden": None, "sharpness": None, "rate": None,
    },
    "discrete": {
        **_OURS, "tau": 1.0, "targets": "others", "hidden": 0.4, "rate": 0.05, "average": 0.9,
    },
}  # fmt: skip


OPTIONAL = frozenset(name for name, kind in DistillSettings.kinds().items() if kind.none)


def given_only(options: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that were given. None says nothing, but for those that may be None (patience: never stop)."""
    return {name: value for name, value in options.items() if value is not None or name in OPTIONAL}


def search_grid(
    given: Mapping[str, Any], *, mean_interactions: float, n_items: int
) -> list[dict[str, float]]:
    """The paper's search space less what is given, one dict for each combination.

    Its γ: {50, 100, 200} for Magazine, {200, 500, 700} for ML-1M; not searched where the size is given, as it
    is in `discrete`.

    Args:
        given: Keywords of `distill`; None where one is open.
        mean_interactions: Interactions of a real user, on average.
        n_items: Items of the log.
    """
    base = default_draws(mean_interactions)
    factors = (0.5, 1.0, 2.0) if base == 100 else (1.0, 2.5, 3.5)
    space = dict(SEARCH_SPACE)
    sized = any(given.get(name) is not None for name in ("per_user", "total", "percent"))
    if given["mode"] in ("soft", "published") and not sized:
        space["gamma"] = tuple(dict.fromkeys(min(round(base * factor), n_items) for factor in factors))
    values = {name: values for name, values in space.items() if given.get(name) is None}
    return [dict(zip(values, combination, strict=True)) for combination in product(*values.values())]


def default_draws(mean_interactions: float) -> int:
    """γ as the paper's code has it by dataset: 200 for ML-1M (132 per user), 100 where users have few."""
    return max(100, 50 * math.ceil(1.5 * mean_interactions / 50))


def default_per_user(mean_interactions: float, n_items: int) -> float:
    """The data's own mean, but no fewer than 10: of shorter rows a summary learns little."""
    return min(max(10.0, mean_interactions), float(n_items))
