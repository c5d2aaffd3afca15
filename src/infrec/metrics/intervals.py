"""How sure a mean over users is: the percentile bootstrap.

With very many users the mean is as good as normal and resampling them would only take long: there the
interval is mean ± 1.96 standard errors.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from infrec.errors import ConfigError
from infrec.randomness import generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

Interval = tuple[float, float]
RESAMPLES = 1000
LEVEL = 0.95
MANY = 200_000  # users beyond which intervals are those of the normal distribution
_BLOCK_ENTRIES = 1 << 22


def resampled_means(
    values: NDArray[np.float64], *, resamples: int = RESAMPLES, seed: int = 42
) -> NDArray[np.float64]:
    """Means of `values` [n, m] over n users drawn with replacement, `resamples` times: [resamples, m].

    Every column sees the same draws, so differences of columns are paired. Drawing the users is turned into
    how often each was drawn, and the means into one matrix product per block.
    """
    n = len(values)
    if not n:
        raise ConfigError("there are no users to resample; expected one or more.")
    rng = generator(seed, "bootstrap")
    out = np.empty((resamples, values.shape[1]))
    step = max(1, _BLOCK_ENTRIES // n)
    for start in range(0, resamples, step):
        size = min(step, resamples - start)
        drawn = rng.integers(0, n, (size, n), dtype=np.int64)
        drawn += np.arange(size)[:, None] * n
        times = np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n)
        out[start : start + size] = times.astype(np.float64) @ values / n
    return out


def bootstrap(
    values: NDArray[np.float64], *, resamples: int = RESAMPLES, seed: int = 42
) -> NDArray[np.float64]:
    """The 95 % interval of the mean of each column of `values` [n, m]: [2, m], low and high.

    Args:
        values: One row per user, one column per metric.
        resamples: How often users are drawn again.
        seed: Seed of the draws.
    """
    outside = (1.0 - LEVEL) / 2.0
    if len(values) > MANY:
        error = NormalDist().inv_cdf(1.0 - outside) * values.std(axis=0) / len(values) ** 0.5
        return values.mean(axis=0) + np.array([-1.0, 1.0])[:, None] * error
    means = resampled_means(values, resamples=resamples, seed=seed)
    return np.quantile(means, [outside, 1.0 - outside], axis=0)


def intervals_of(contributions: dict[str, NDArray[np.float64]], *, seed: int = 42) -> dict[str, Interval]:
    """The interval of each metric from the per-user values that it is the mean of."""
    if not contributions:
        return {}
    low, high = bootstrap(np.stack(list(contributions.values()), axis=1), seed=seed)
    out = {name: (float(low[at]), float(high[at])) for at, name in enumerate(contributions)}
    if "AUC" in out:  # pseudo-values are not confined to 0…1
        out["AUC"] = (max(0.0, out["AUC"][0]), min(1.0, out["AUC"][1]))
    return out
