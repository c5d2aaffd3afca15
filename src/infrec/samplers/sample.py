"""One contract for every sampler: a log, a strategy and a size in; a `Summary` over the same items out.

`user-rns`, `head-user` and `svp-cf` put the users in an order and take them from the front, whole, until the
number of users or the share of interactions is reached. `herding` does the same, each user chosen in view of
those before. `interaction-rns` takes interactions one by one. `ar-cf` chooses nobody: it makes users.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from infrec.data import Interactions, Summary, grids
from infrec.errors import ConfigError, DataError
from infrec.progress import Progress, silent
from infrec.randomness import generator
from infrec.samplers import ar_cf, svp_cf
from infrec.samplers.herding import herd

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _random_order(log: Interactions, seed: int) -> NDArray[np.int64]:
    """User-RNS: every order of the users is equally likely."""
    return generator(seed, "user-rns").permutation(log.n_users)


def _most_active_first(log: Interactions, seed: int) -> NDArray[np.int64]:
    """Head-user: most interactions first; equals in the order of the users."""
    return np.argsort(-log.user_counts, kind="stable")


def _hardest_first(log: Interactions, seed: int) -> NDArray[np.int64]:
    """SVP-CF user: largest inverse AUC under a proxy model first; equals in the order of the users.

    Who has no item, or every one, is neither hard nor easy, and comes last.
    """
    judged = (log.user_counts > 0) & (log.user_counts < log.n_items)
    return np.argsort(-np.where(judged, svp_cf.inverse_auc(log.matrix, seed=seed), 0.0), kind="stable")


ORDERS: dict[str, Callable[[Interactions, int], NDArray[np.int64]]] = {
    "user-rns": _random_order,
    "head-user": _most_active_first,
    "svp-cf": _hardest_first,
}
GENERATORS = ("ar-cf",)  # whose users are nobody's
STRATEGIES = ("interaction-rns", *ORDERS, "herding", *GENERATORS)


def sample(
    log: Interactions,
    *,
    strategy: str,
    percent: float | None = None,
    users: int | None = None,
    seed: int = 42,
    progress: Progress = silent,
    **settings: Any,
) -> Summary:
    """A part of the log, by percent of its interactions or by number of users; the items stay the same.

    Args:
        log: The log to sample from.
        strategy: One of `STRATEGIES`.
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
    if strategy not in STRATEGIES:
        raise ConfigError(f"strategy is {strategy!r}; expected one of {', '.join(STRATEGIES)}.")
    _check_size(log, percent, users)
    chosen = _chosen(log, strategy, percent, users, seed, progress, settings)
    about = {"strategy": strategy, "percent": percent, "seed": seed, "reg_grid": grids.SAMPLE}
    return Summary.of(chosen, about=about, kind="sample")


def _chosen(
    log: Interactions,
    strategy: str,
    percent: float | None,
    users: int | None,
    seed: int,
    progress: Progress,
    settings: Mapping[str, Any],
) -> Interactions:
    if strategy == "ar-cf":
        maker = ar_cf.fitted(log, progress, seed=seed, **settings)
        if percent is None:
            return maker.generate(_whole(users))
        return maker.generate_share(percent / 100 * log.n_interactions)
    if settings:
        raise ConfigError(f"{strategy} has no setting {next(iter(settings))!r}; expected none.")
    if strategy == "interaction-rns":
        share = percent / 100 if percent is not None else _whole(users) / log.n_users
        return _interactions(log, max(1, round(share * log.n_interactions)), seed)
    # A budget of 100 % may exceed the whole by rounding.
    budget = None if percent is None else percent / 100 * log.n_interactions * (1 - 1e-12)
    if strategy == "herding":
        costs = np.ones(log.n_users, np.int64) if budget is None else log.user_counts
        return log.select_users(np.sort(herd(log.matrix, costs, _whole(users) if budget is None else budget)))
    order = ORDERS[strategy](log, seed)
    if budget is not None:
        users = min(int(np.searchsorted(np.cumsum(log.user_counts[order]), budget)) + 1, log.n_users)
    return log.select_users(np.sort(order[: _whole(users)]))


def _interactions(log: Interactions, n: int, seed: int) -> Interactions:
    chosen = np.sort(generator(seed, "interaction-rns").choice(log.n_interactions, n, replace=False))
    owner = np.repeat(np.arange(log.n_users), log.user_counts)[chosen]
    matrix = sp.csr_array(
        (log.matrix.data[chosen], (owner, log.matrix.indices[chosen])),
        shape=log.matrix.shape,
        dtype=np.float32,
    )
    time = None if log.time is None else log.time[chosen]
    return log.with_matrix(matrix, time=time).select_users(np.unique(owner))


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


def _whole(users: int | None) -> int:
    assert users is not None
    return users
