"""How strongly an interaction counts: weights made even, and weights that fade with age.

Counts range over five orders of magnitude. Taken as they are, a few of them are all that a linear model sees.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from infrec.errors import ArtifactError, ConfigError, DataError
from infrec.settings import Settings, setting

if TYPE_CHECKING:
    import numpy as np
    import scipy.sparse as sp
    from numpy.typing import NDArray

    from infrec.data.interactions import Interactions

RAW, NONE = "raw", "none"
EVEN = (NONE, "log1p", "quantile", "cap:10")  # those that are tried, the plainest first
_UNITS = {"h": 3600.0, "d": 86400.0, "w": 7 * 86400.0, "y": 365.25 * 86400.0}
# Whole numbers that are seconds, milli-, micro- or nanoseconds of the years 1990 to 2100.
_EPOCHS = {scale: (6.3e8 * scale, 4.2e9 * scale) for scale in (1.0, 1e3, 1e6, 1e9)}
_FAINTEST = 1e-6


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


@dataclass(frozen=True)
class Strength:
    """A function of weights, divided by its mean over the log that it was made for.

    An interaction in a history that comes without weights is then one of average strength.

    Args:
        how: "log1p": log(1 + weight); "cap:N": N at most; "quantile": the share of weights that are no
            larger; "raw": as it is, undivided; "none": 1.
        mean: The mean that it is divided by.
        steps: Of "quantile": 101 quantiles of the weights.
    """

    how: str
    mean: float = 1.0
    steps: tuple[float, ...] = ()

    @classmethod
    def of(cls, how: str, log: Interactions) -> Strength:
        """The function for a log.

        Args:
            how: Its name.
            log: The log whose weights have the mean 1 afterwards.
        """
        import numpy as np

        check(how)
        weights = log.matrix.data
        steps: tuple[float, ...] = ()
        if how == "quantile" and len(weights):
            steps = tuple(np.quantile(weights, np.linspace(0, 1, 101)).tolist())
        if how in (RAW, NONE) or not len(weights):
            return cls(how, steps=steps)
        return cls(how, float(cls(how, steps=steps)._values(weights).mean()), steps)

    @property
    def about(self) -> dict[str, Any]:
        """This function as JSON has it."""
        return {"as": self.how, "mean": self.mean} | ({"steps": list(self.steps)} if self.steps else {})

    @classmethod
    def read(cls, about: Mapping[str, Any]) -> Strength:
        """The function that `about` told.

        Args:
            about: From a model's manifest.
        """
        try:
            strength = cls(
                str(about["as"]), float(about["mean"]), tuple(float(step) for step in about.get("steps", ()))
            )
            check(strength.how)
            if not (strength.mean > 0 and (strength.how != "quantile" or strength.steps)):
                raise ValueError(strength.mean)
        except (KeyError, TypeError, ValueError):
            raise ArtifactError("the model does not tell its weights as infrec does.") from None
        return strength

    def __call__(self, log: Interactions) -> Interactions:
        """The log with these strengths as its weights, in the parts of its own split too."""
        if self.how == RAW:
            return log
        parts = log.parts and {name: self._weighed(part) for name, part in log.parts.items()}
        return replace(log, matrix=self._weighed(log.matrix), parts=parts)

    def _weighed(self, matrix: sp.csr_array) -> sp.csr_array:
        return _with_weights(matrix, (self._values(matrix.data) / self.mean).astype("float32"))

    def _values(self, weights: NDArray[np.float32]) -> NDArray[np.float64]:
        import numpy as np

        wide = weights.astype(np.float64)
        if self.how == "log1p":
            return np.log1p(wide)
        if self.how == "quantile":
            at = np.searchsorted(self.steps, wide, side="right")
            return np.maximum(at, 1) / len(self.steps)
        if self.how == NONE:
            return np.ones_like(wide)
        return wide if self.how == RAW else np.minimum(wide, cap(self.how))


@dataclass(frozen=True, eq=False)
class Fading:
    """The share that is left of each interaction of a log, by its age.

    Args:
        log: The log.
        shares: Users × items, in (0, 1] where the log has something.
    """

    log: Interactions
    shares: sp.csr_array

    @classmethod
    def of(cls, log: Interactions, half_life: str) -> Fading:
        """½ for every half-life that lies between an interaction and the last one.

        Args:
            log: A log with times.
            half_life: Such as `90d`.
        """
        return cls(log, _shares(log, half_life))

    def __call__(self, part: Interactions) -> Interactions:
        """The log, or a part of it, with each weight times what is left of it; in its own split too."""
        shares = self.shares[self.log.users.positions(part.users.ids)]
        shares = shares[:, self.log.items.positions(part.items.ids)]
        parts = part.parts and {name: _times(one, shares) for name, one in part.parts.items()}
        return replace(part, matrix=_times(part.matrix, shares), parts=parts)


def faded(log: Interactions, half_life: str) -> Interactions:
    """The log with each weight times ½ for every half-life that lies between it and the last interaction.

    Args:
        log: A log with times.
        half_life: Such as `90d`.
    """
    return Fading.of(log, half_life)(log)


def _shares(log: Interactions, half_life: str) -> sp.csr_array:
    """The share that is left of each interaction, in the order of the log."""
    import numpy as np

    length = seconds(half_life)
    if log.time is None:
        raise DataError(
            "the log has no times, so nothing can fade by its age; expected a column of times: name it "
            "(`time=`), or leave half_life out."
        )
    last = int(log.time.max(initial=0))
    scale = next((scale for scale, (low, high) in _EPOCHS.items() if low <= last <= high), None)
    if scale is None:
        raise DataError(
            f"the times of the log end at {last}, which is no time since 1970 in seconds, milli-, micro- or "
            "nanoseconds; expected dates or such times, of which an age in days can be told."
        )
    age = (last - log.time) / scale
    kept = np.maximum(np.exp2(-age / length), _FAINTEST).astype(np.float32)
    return _with_weights(log.matrix, kept)


def _with_weights(matrix: sp.csr_array, weights: NDArray[np.float32]) -> sp.csr_array:
    """A matrix with other values in the same places."""
    import scipy.sparse as sp

    return sp.csr_array((weights, matrix.indices, matrix.indptr), shape=matrix.shape)


def _times(matrix: sp.csr_array, shares: sp.csr_array) -> sp.csr_array:
    """Weights times shares, which are there wherever there are weights."""
    import scipy.sparse as sp

    return sp.csr_array(matrix.multiply(shares))


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
