"""One contract for every sampler: a log, a strategy and a size in; a `Summary` over the same items out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from infrec.data import Interactions, Summary, grids
from infrec.errors import ConfigError, DataError
from infrec.progress import Progress, silent
from infrec.randomness import generator
from infrec.samplers import ar_cf, orders


@dataclass(frozen=True)
class Sampler:
    """A strategy. label, colour (of a page's nine), marker (of Matplotlib): its looks in tables and figures.

    order: the users in the order in which they are taken, whole, from the front. draw: instead of it, makes a
    sample of so many users or such a share of the interactions. whole: whether users in the sample have whole
    histories. tunable: whether `draw` takes settings.
    """

    label: str
    colour: int
    marker: str
    order: Callable[[Interactions, int], Iterable[int]] | None = None
    draw: Callable[..., Interactions] | None = None
    whole: bool = True
    tunable: bool = False


def some_interactions(
    log: Interactions, users: int | None, share: float | None, seed: int, progress: Progress
) -> Interactions:
    """Exactly the rounded share of the interactions; of N users, the share N / all users of them."""
    share = users / log.n_users if users is not None else share
    assert share is not None
    n = max(1, round(share * log.n_interactions))
    chosen = np.sort(generator(seed, "interaction-rns").choice(log.n_interactions, n, replace=False))
    owner = np.repeat(np.arange(log.n_users), log.user_counts)[chosen]
    taken = (log.matrix.data[chosen], (owner, log.matrix.indices[chosen]))
    matrix = sp.csr_array(taken, shape=log.matrix.shape, dtype=np.float32)
    time = None if log.time is None else log.time[chosen]
    return log.with_matrix(matrix, time=time).select_users(np.unique(owner))


SAMPLERS = {
    "interaction-rns": Sampler("Interaction-RNS", 5, "v", draw=some_interactions, whole=False),
    "user-rns": Sampler("User-RNS", 3, "s", orders.at_random),
    "head-user": Sampler("Head-user", 4, "^", orders.most_active_first),
    "svp-cf": Sampler("SVP-CF", 2, "D", orders.hardest_first),
    "herding": Sampler("Herding", 6, "P", lambda log, seed: orders.herd(log.matrix)),
    "ar-cf": Sampler("AR-CF", 8, "X", draw=ar_cf.draw, tunable=True),
}
STRATEGIES = tuple(SAMPLERS)


def sampler(strategy: str) -> Sampler:
    """The sampler of a strategy.

    Args:
        strategy: One of `STRATEGIES`.
    """
    if strategy not in tuple(SAMPLERS):
        raise ConfigError(f"strategy is {strategy!r}; expected one of {', '.join(SAMPLERS)}.")
    return SAMPLERS[strategy]


def sample(
    log: Interactions,
    *,
    strategy: str = "user-rns",
    percent: float | None = None,
    users: int | None = None,
    seed: int = 42,
    progress: Progress = silent,
    **settings: Any,
) -> Summary:
    """A part of the log, by percent of its interactions or by number of users; the items stay the same.

    Args:
        log: The log to sample from.
        strategy: One of `STRATEGIES`; by default users at random.
        percent: Size in percent of the interactions.
        users: Size in users, instead of `percent`.
        seed: Seed of what is random.
        progress: Called while `ar-cf` trains.
        settings: Settings of `ar-cf`, by name; the others have none.

    Samplers of users return exactly `users` users, or the fewest whole users from the front of their order
    that together hold `percent` % of the interactions. `interaction-rns` returns exactly the rounded number
    of interactions (for `users` = N: the share N / all users of them); users left without any are dropped.
    `ar-cf` is trained on the log and returns users of its own, numbered.
    """
    chosen, share = sampler(strategy), None if percent is None else percent / 100
    _check_size(log, percent, users)
    if settings and not chosen.tunable:
        raise ConfigError(f"{strategy} has no setting {next(iter(settings))!r}; expected none.")
    if chosen.draw is not None:
        drawn = chosen.draw(log, users, share, seed, progress, **settings)
    else:
        assert chosen.order is not None
        costs = log.user_counts if users is None else np.ones(log.n_users, np.int64)
        # A budget of 100 % may exceed the whole by rounding.
        budget = users if share is None else share * log.n_interactions * (1 - 1e-12)
        assert budget is not None
        drawn = log.select_users(np.sort(orders.front(chosen.order(log, seed), costs, budget)))
    about = {"strategy": strategy, "percent": percent, "seed": seed, "reg_grid": grids.SAMPLE}
    return Summary.of(drawn, about=about, kind="sample")


def _check_size(log: Interactions, percent: float | None, users: int | None) -> None:
    if (percent is None) == (users is None):
        raise ConfigError(
            "the size of a sample is given by `percent` or by `users`; expected exactly one of them."
        )
    if percent is not None and not 0 < percent <= 100:
        raise ConfigError(f"percent is {percent:g}; expected more than 0 and at most 100.")
    if users is not None and users < 1:
        raise ConfigError(f"users is {users}; expected at least 1.")
    if users is not None and users > log.n_users:
        raise ConfigError(
            f"{users:,} users were asked for, but the log has {log.n_users:,}; expected at most that."
        )
    if log.n_interactions == 0:
        raise DataError("the log has no interactions; expected some to sample from.")
