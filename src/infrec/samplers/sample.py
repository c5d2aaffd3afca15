"""One contract for every sampler: a log, a strategy and a size in; a `Summary` over the same items out.

`hardest_first` is SVP-CF (paper, appendix). Its proxy is Bias-only, r̂_ui = a + b_u + b_i, trained by epochs
on the train part with one sampled negative per interaction and the logistic loss. After each epoch every user
has an AUC: the share of (own item, other item) pairs that the model puts in the right order. A user's score
is 1/AUC, averaged over the epochs. Within a user only b_i orders the items, and in the same way for
everybody: so the AUC over *all* items a user does not have is a sum of mid-ranks, exact, and one pass over
the interactions.

`herd` is herding (Welling, 2009): rows whose mean stays as near as can be to the mean of all. With φ the
rows, each of length 1, and μ their mean, rows are taken one after the other:

    x_t = argmax ⟨w_{t−1}, φ(x)⟩ over those not taken,   w_t = w_{t−1} + μ − φ(x_t),   w_0 = μ

Since all lengths are 1, that is the row which brings the mean of those taken nearest to μ. ADER chooses its
exemplars this way, in the representation of the model that it carries on. As a sampler of users it has no
model, and takes their histories as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.stats import rankdata

from infrec.data import Interactions, Summary
from infrec.errors import ConfigError, DataError
from infrec.models.bias import BiasOnly
from infrec.progress import Progress, silent
from infrec.randomness import generator
from infrec.samplers import ar_cf
from infrec.splits.holdout import keep
from infrec.splits.provenance import source_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

EPOCHS, RATE = 10, 0.05  # of the proxy of SVP-CF
# λ of ∞-AE on a sample: the paper's values for logs and those for summaries, so that neither is favoured.
REG_GRID = (1e-5, 1e-3, 0.1, 1.0, 5.0, 20.0, 50.0, 100.0)


def front(order: Iterable[int], costs: NDArray[np.integer], budget: float) -> NDArray[np.int64]:
    """The first of an order that together cost the budget: as few as can be, or all."""
    taken, spent, rest = [], 0.0, iter(order)
    while spent < budget and (one := next(rest, None)) is not None:
        taken.append(one)
        spent += float(costs[one])
    return np.array(taken, np.int64)


def at_random(log: Interactions, seed: int) -> NDArray[np.int64]:
    """Every order of the users is equally likely."""
    return generator(seed, "user-rns").permutation(log.n_users)


def most_active_first(log: Interactions, seed: int) -> NDArray[np.int64]:
    """Most interactions first; equals in the order of the users."""
    return np.argsort(-log.user_counts, kind="stable")


# ---- SVP-CF ------------------------------------------------------------------------------------------------
def hardest_first(log: Interactions, seed: int) -> NDArray[np.int64]:
    """Largest inverse AUC under the proxy first; who has no item, or every one, comes last."""
    proxy = BiasOnly(solver="epochs", rate=RATE, epochs=EPOCHS, seed=seed)
    training = proxy.training(Interactions.from_csr(log.matrix))
    total = np.zeros(log.n_users)
    for epoch in range(1, EPOCHS + 1):
        total += 1 / auc_per_user(log.matrix, training.run(epoch).model().parameters["items"])
    judged = (log.user_counts > 0) & (log.user_counts < log.n_items)
    return np.argsort(-np.where(judged, total / EPOCHS, 0.0), kind="stable")


def auc_per_user(matrix: sp.csr_array, item_scores: NDArray[np.floating]) -> NDArray[np.float64]:
    """AUC of each user when all users see the same order of items; ½ where there are no pairs, never 0.

    Equal scores count half. An AUC of 0 is raised to half a pair, so that its inverse stays finite.
    """
    own = np.diff(matrix.indptr).astype(np.float64)
    others = matrix.shape[1] - own
    ranks = np.append(rankdata(item_scores), 0.0)  # the last one lets empty rows point somewhere
    sums = np.add.reduceat(np.append(ranks[matrix.indices], 0.0), np.minimum(matrix.indptr[:-1], matrix.nnz))
    pairs = own * others
    with np.errstate(divide="ignore", invalid="ignore"):
        auc = np.maximum((sums - own * (own + 1) / 2) / pairs, 0.5 / pairs)
    return np.where(pairs > 0, auc, 0.5)


# ---- herding -----------------------------------------------------------------------------------------------
def herd(rows: NDArray[np.floating[Any]] | sp.csr_array) -> Iterator[int]:
    """All rows, each chosen in view of those before; one of zeros is nowhere near anything and comes last."""
    length = np.sqrt(np.maximum(np.asarray((rows * rows).sum(axis=1), np.float64).ravel(), 1e-30))
    sparse = sp.issparse(rows)
    unit: Any = sp.csr_array(sp.diags_array(1 / length) @ rows) if sparse else rows / length[:, None]
    mean = np.asarray(unit.mean(axis=0), np.float64).ravel()
    behind, w = np.where(length <= 1e-14, 1e9, 0.0), mean.copy()
    for _ in range(len(length)):
        # One product with all rows for each row taken: scores are exact, however many are taken.
        best = int(np.argmax(np.asarray(unit @ w).ravel() - behind))
        yield best
        behind[best] = np.inf
        w += mean
        w -= unit[[best]].toarray().ravel() if sparse else unit[best]


# ---- the samplers ------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Sampler:
    """A strategy.

    order: the users in the order in which they are taken, whole, from the front. draw: instead of it, makes a
    sample of so many users or such a share of the interactions. whole: whether users in the sample have whole
    histories. tunable: whether `draw` takes settings.
    """

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
    wanted = np.zeros(log.n_interactions, bool)
    wanted[generator(seed, "interaction-rns").choice(log.n_interactions, n, replace=False)] = True
    drawn = keep(log, wanted)
    return drawn.select_users(np.flatnonzero(drawn.user_counts))


SAMPLERS = {
    "interaction-rns": Sampler(draw=some_interactions, whole=False),
    "user-rns": Sampler(at_random),
    "head-user": Sampler(most_active_first),
    "svp-cf": Sampler(hardest_first),
    "herding": Sampler(lambda log, seed: herd(log.matrix)),
    "ar-cf": Sampler(draw=ar_cf.draw, tunable=True),
}
STRATEGIES = tuple(SAMPLERS)
PLAIN = {
    "random-users": "user-rns",
    "random-interactions": "interaction-rns",
}  # the paper's names in plain words


def sampler(strategy: str) -> Sampler:
    """The sampler of a strategy.

    Args:
        strategy: One of `STRATEGIES`, or of `PLAIN`.
    """
    if strategy not in (known := (*SAMPLERS, *PLAIN)):  # a damaged file may hold anything in its place
        raise ConfigError(f"strategy is {strategy!r}; expected one of {', '.join(known)}.")
    return SAMPLERS[PLAIN.get(strategy, strategy)]


def sample(
    log: Interactions,
    *,
    strategy: str = "random-users",
    percent: float | None = None,
    users: int | None = None,
    seed: int = 42,
    progress: Progress = silent,
    **settings: Any,
) -> Summary:
    """A part of the log, by percent of its interactions or by number of users; the items stay the same.

    Args:
        log: The log to sample from.
        strategy: One of `STRATEGIES`, or `random-users`, the default, or `random-interactions`.
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
        drawn = log.select_users(np.sort(front(chosen.order(log, seed), costs, budget)))
    about: dict[str, Any] = {"strategy": PLAIN.get(strategy, strategy), "percent": percent, "seed": seed}
    about |= {"reg_grid": REG_GRID, "source": source_of(log)}
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
