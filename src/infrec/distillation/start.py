"""Where the logits begin, and how many interactions each synthetic user gets.

`users` takes the rows of random real users: quick and good, but a released summary may still resemble its
seeds. `popularity` knows only how often each item occurs, and adds noise: it touches no single user.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from infrec.errors import ConfigError
from infrec.randomness import generator

if TYPE_CHECKING:
    import scipy.sparse as sp
    from numpy.typing import NDArray

    from infrec.distillation.settings import DistillSettings
    from infrec.distillation.update import Past

LARGEST_SHARE = 0.25  # of the items in one synthetic user

MEANING = {
    "users": (
        "The logits started as the rows of random real users, so a synthetic user may still resemble its "
        "seed: what must not be said of these users must not be passed on either."
    ),
    "popularity": (
        "The logits started from how often each item occurs, and noise: no single user's history was "
        "a starting point."
    ),
    "summary": (
        "The logits started as the users of an earlier summary: what that one reveals of its users, this one "
        "may reveal too."
    ),
}


def row_sizes(train: sp.csr_array, settings: DistillSettings) -> NDArray[np.int32]:
    """How many interactions each synthetic user has: quantiles of the real activity, scaled to the mean."""
    activity = np.sort(np.diff(train.indptr)).astype(float)
    at = (np.arange(settings.users) + 0.5) / settings.users
    assert settings.per_user is not None and settings.size_power is not None
    sizes = np.maximum(np.quantile(activity, at), 1e-9) ** settings.size_power
    largest = max(1.0, LARGEST_SHARE * train.shape[1], settings.per_user)
    for _ in range(20):  # clipping moves the mean; scaling it back moves the clipped ones
        sizes = np.clip(sizes * settings.per_user / sizes.mean(), 1, largest)
    return np.sort(rounded(sizes, round(settings.per_user * settings.users))).astype(np.int32)


def rounded(sizes: NDArray[np.float64], total: int) -> NDArray[np.int64]:
    """Whole numbers of at least 1 with this sum where possible, as near to the sizes as can be."""
    whole = np.maximum(np.floor(sizes).astype(np.int64), 1)
    left = int(np.clip(total - whole.sum(), 0, len(whole)))
    whole[np.argsort(whole - sizes, kind="stable")[:left]] += 1
    return whole


def logits(train: sp.csr_array, settings: DistillSettings, past: Past | None = None) -> NDArray[np.float32]:
    """[users, items] to start from. past: an old summary that is continued with `train`."""
    rng = generator(settings.seed, "start")
    n, d = train.shape
    if settings.start == "users":
        if settings.users > n:
            raise ConfigError(
                f"start is 'users', but there are {n:,} of them for {settings.users:,} rows; use another "
                "start."
            )
        rows = rng.choice(n, settings.users, replace=False)
        # Small rows first, as `row_sizes` has them.
        rows = rows[np.argsort(np.diff(train.indptr)[rows], kind="stable")]
        first = np.minimum(train[rows].toarray(), 1.0)
    else:
        counts = np.bincount(train.indices, minlength=d)
        prior = np.log((counts + 0.5) / (n + 1.0))
        first = prior[None, :] + rng.gumbel(size=(settings.users, d))
        first /= first.std()
    noise = rng.standard_normal((settings.users, d)) * settings.start_noise if settings.start_noise else 0.0
    begun = (settings.start_scale * first + noise).astype(np.float32)
    if settings.start != "summary":
        return begun
    if past is None:
        raise ConfigError("start is 'summary', but there is none to continue; expected popularity or users.")
    # As many old rows go on as the past has of all users; the others are free for what is new.
    share = past.represents / (past.represents + n)
    kept = rng.permutation(settings.users) < round(share * settings.users)
    return np.where(kept[:, None], past.logits(settings, rng), begun)
