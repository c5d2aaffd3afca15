"""Options about what weights count for: functions of them by name, and ages."""

from __future__ import annotations

import re
from dataclasses import dataclass

from infrec.errors import ConfigError
from infrec.settings import Settings, setting

RAW, NONE = "raw", "none"
EVEN = (NONE, "log1p", "quantile", "cap:10")  # those that are tried, the plainest first
_UNITS = {"h": 3600.0, "d": 86400.0, "w": 7 * 86400.0, "y": 365.25 * 86400.0}


@dataclass(frozen=True)
class StrengthOptions(Settings):
    """Options about weights: a function of them, and how they fade."""

    weight_as: str | None = setting(
        None,
        "what a weight of --weight counts for: log1p, cap:N, quantile, raw (as it is) or none (every "
        "interaction alike); chosen on validation unless given",
    )
    half_life: str | None = setting(
        None, "halve the weight of an interaction for each such age, as in 90d (h, d, w, y)"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weight_as is not None:
            check(self.weight_as)
        if self.half_life is not None:
            seconds(self.half_life)


def check(how: str) -> None:
    """Refuse a name that is no function of weights.

    Args:
        how: The name.
    """
    if how in (RAW, NONE, "log1p", "quantile"):
        return
    if not 0 < cap(how) < float("inf"):
        raise ConfigError(
            f"weight_as is {how!r}; expected log1p, cap:N with a number N above 0, quantile, raw or none."
        )


def cap(how: str) -> float:
    """N of "cap:N"; 0 where it is none.

    Args:
        how: The name of a function.
    """
    name, _, number = how.partition(":")
    try:
        return float(number) if name == "cap" else 0.0
    except ValueError:
        return 0.0


def seconds(age: str) -> float:
    """An age such as `90d` in seconds: hours, days, weeks or years.

    Args:
        age: A number and its unit: h, d, w or y.
    """
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([hdwy])", age.strip())
    if found is None or not float(found[1]) > 0:
        raise ConfigError(
            f"half_life is {age!r}; expected a number above 0 with its unit h, d, w or y, such as 90d."
        )
    return float(found[1]) * _UNITS[found[2]]
