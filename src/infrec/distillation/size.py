"""How large a summary is: a budget in users, interactions, bytes or quality becomes rows and their length.

Without a budget there are 500 synthetic users, or half as many as real ones; they have as many interactions
in all as so many real ones, but at least seven for each item that counts or a third of the log's, whichever
is fewer, and at most half. How many items count is the exponential of the entropy of their popularity: a few
hits need fewer interactions than a long tail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from infrec.data import Interactions, Vocabulary
from infrec.data.interactions import canonical
from infrec.data.summary import LEVELS, Summary
from infrec.distillation.settings import DistillSettings, default_per_user
from infrec.errors import ConfigError, DataError
from infrec.progress import Progress
from infrec.randomness import generator

FEWEST = 25  # users that a search for the smallest summary begins with
MOST_USERS = 500  # that are made where nobody says how many
SHORTEST = 10  # interactions of a synthetic user, on average, before there are fewer users instead
LARGEST_SHARE = 0.5  # of the log's interactions, where nobody says how many
PER_ITEM = 7  # interactions at least for each item that counts, where nobody says how many,
LEAST_SHARE = 1 / 3  # or this share of the log's, whichever is fewer
SPARSE = ("discrete", "weighted")  # modes whose rows have a number of interactions
BUDGETS = ("per_user", "total", "percent", "bytes")


def sized(
    base: DistillSettings, users: int | None, size: Mapping[str, Any], train: Interactions
) -> DistillSettings:
    """Settings with the rows that a budget comes to.

    Args:
        base: The settings before.
        users: How many synthetic users were asked for, if any.
        size: At most one of `BUDGETS`, and `gamma`.
        train: The log.
    """
    budgets = {name: size[name] for name in BUDGETS if size[name] is not None}
    if size["gamma"] is not None and base.mode in SPARSE and not budgets:
        budgets = {"per_user": float(size["gamma"])}
    if base.per_user is not None and not budgets:
        budgets = {"per_user": base.per_user}
    if len(budgets) > 1:
        raise ConfigError(
            f"{' and '.join(budgets)} are given, and each sets the size of the summary; expected at most one "
            f"of them ({', '.join(BUDGETS)})."
        )
    for name, value in budgets.items():
        if not value > 0:
            raise ConfigError(f"{name}, the size of the summary, is {value}; expected a number above 0.")
    if "per_user" in budgets:
        return replace(base, users=_users(users, None, train), per_user=budgets["per_user"])
    total = _total(budgets, users, base, train)
    users = _users(users, total, train)
    if total is None:
        return replace(base, users=users)
    if total < users:
        raise ConfigError(
            f"{total:,.0f} interactions for {users:,} synthetic users were asked for; expected at least one "
            "for each: use fewer users or a larger size."
        )
    return replace(base, users=users, per_user=total / users)


def reason(asked: Mapping[str, Any], made: Summary, train: Interactions) -> str:
    """Why a summary has its size, for the card.

    Args:
        asked: The number of users and the budgets that were asked for, None where they were not.
        made: The summary.
        train: The log.
    """
    share = made.n_interactions / train.n_interactions
    given = " and ".join(f"{name}={value:g}" for name, value in asked.items() if value is not None)
    if not given:
        mean = default_per_user(train.n_interactions / train.n_users, train.n_items)
        if share > 0.99 * LARGEST_SHARE:
            given = "half of a small log"
        elif made.n_interactions > 1.01 * mean * made.n_users:
            given = f"{PER_ITEM} for each of {_items_that_count(train):,.0f} items that count, or a third"
        else:
            given = "rows as long as the log's, but 10 or more"
    return f"{share:.0%} of the log's interactions ({given})"


def _users(asked: int | None, total: float | None, train: Interactions) -> int:
    """How many synthetic users: as asked for, else so few that their rows are no shorter than `SHORTEST`."""
    if asked is not None:
        return asked
    most = min(MOST_USERS, max(train.n_users // 2, 1))
    return most if total is None else int(np.clip(total // SHORTEST, 1, most))


def _total(
    budgets: Mapping[str, Any], users: int | None, base: DistillSettings, train: Interactions
) -> float | None:
    """Interactions in all, by the budget; None where each row has as many as a real user."""
    n = train.n_interactions
    if "bytes" in budgets:
        return _within(budgets["bytes"], users, base, train)
    if "percent" in budgets or "total" in budgets:
        total = budgets["total"] if "total" in budgets else budgets["percent"] / 100 * n
        if total > n:
            raise ConfigError(
                f"{total:,.0f} interactions were asked for, but the log has {n:,}; expected fewer, or there "
                "is nothing to gain."
            )
        return total
    if base.mode != "weighted":
        return None
    rows = _users(users, None, train)
    total = rows * default_per_user(n / train.n_users, train.n_items)
    if users is None:
        total = max(total, min(PER_ITEM * _items_that_count(train), LEAST_SHARE * n))
    return max(min(total, LARGEST_SHARE * n), rows)


def _items_that_count(train: Interactions) -> float:
    """The exponential of the entropy of the items' popularity: all of them, where all are equally popular."""
    counts = train.item_counts
    shares = counts[counts > 0] / counts.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))


# ---- bytes -----------------------------------------------------------------------------------------------
def _within(budget: int, users: int | None, base: DistillSettings, train: Interactions) -> int:
    """The most interactions of which `interactions.parquet` takes no more than so many bytes."""
    if base.mode not in SPARSE:
        raise ConfigError(
            f"bytes is given, but mode is {base.mode!r}, whose rows hold every item; expected discrete or "
            "weighted."
        )
    whole = Summary.of(train).bytes
    if budget > whole:
        raise ConfigError(
            f"{budget:,} bytes were asked for, but the log takes {whole:,}; expected fewer, or there is "
            "nothing to gain."
        )

    def fits(total: int) -> bool:
        return _mixed_up(total, _users(users, total, train), base.mode, train).bytes <= budget

    least = users or 1
    if not fits(least):
        raise ConfigError(
            f"{budget:,} bytes were asked for, too few for one interaction of each synthetic user "
            f"({least:,}); expected more bytes or fewer users."
        )
    low, high = least, train.n_interactions
    while high - low > max(1, low // 100):
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low


def _mixed_up(total: int, users: int, mode: str, train: Interactions) -> Summary:
    """A summary of this size with random items and weights, which takes as many bytes as a real one."""
    rng, cells = generator(0, "size"), users * train.n_items
    at = np.unique(rng.integers(0, cells, min(total, cells)))  # a few fewer, where two fall together
    level = np.clip(np.round(rng.normal(6, 1, len(at))), 0, LEVELS - 1) if mode == "weighted" else 0 * at
    matrix = sp.csr_array(
        ((2.0 ** (-level / 2)).astype(np.float32), (at // train.n_items, at % train.n_items)),
        shape=(users, train.n_items),
    )
    return Summary(canonical(matrix), Vocabulary.numbered(users), train.items)


def trimmed(summary: Summary, budget: int) -> Summary:
    """A summary without its smallest weights, as few as need go for `interactions.parquet` to fit.

    Args:
        summary: The summary.
        budget: Bytes that it may take.
    """
    while summary.bytes > budget:
        matrix = summary.matrix.copy()
        matrix.data[np.argsort(matrix.data, kind="stable")[: -(-matrix.nnz // 100)]] = 0
        summary = replace(summary, matrix=canonical(matrix))
    return summary


# ---- quality ---------------------------------------------------------------------------------------------
def smallest(
    of_size: Callable[[int], Summary],
    target: float,
    train: Interactions,
    val: Interactions,
    progress: Progress,
) -> Summary:
    """The summary of the fewest users that reaches the target: doubling, then bisection to within an eighth.

    Args:
        of_size: Makes a summary of so many users.
        target: Share of full-data quality on validation.
        train: The log.
        val: Its validation items.
        progress: Called after each summary.
    """
    judge, full, largest = _judge(train, val), _full_quality(train, val, progress), train.n_users
    quality: dict[int, float] = {}
    summaries: dict[int, Summary] = {}

    def reaches(count: int) -> bool:
        summaries[count] = of_size(count)
        quality[count] = judge(summaries[count]) / full
        progress("target", len(quality), None, users=count, share=quality[count], target=target)
        return quality[count] >= target

    low, high = 0, min(FEWEST, largest)
    while not reaches(high) and high < largest:
        low, high = high, min(2 * high, largest)
    while quality[high] >= target and high - low > max(1, high // 8):
        middle = (low + high) // 2
        if reaches(middle):
            high = middle
        else:
            low = middle
    best = high if quality[high] >= target else max(quality, key=lambda count: quality[count])
    note = {
        "asked": target,
        "reached": quality[best] >= target,
        "full_data": full,
        "tried": {str(count): round(share, 4) for count, share in quality.items()},
    }
    return replace(summaries[best], about={**summaries[best].about, "target": note})


def _full_quality(train: Interactions, val: Interactions, progress: Progress) -> float:
    """HR@100 on validation, in percent, of the exact ∞-AE on all users."""
    from infrec.models import InfiniteAE

    model = InfiniteAE().fit(train, validation=val, progress=progress)
    best = max((each.score for each in model.candidates if each.score is not None), default=0.0)
    if not best > 0:
        raise DataError(
            "∞-AE on all users finds no validation item, so a target has no meaning; give users instead."
        )
    return best


def _judge(train: Interactions, val: Interactions) -> Callable[[Summary], float]:
    """A function from a summary to the HR@100 on validation, in percent, of ∞-AE fitted on that summary.

    Users and list length are those of `_full_quality`: with fewer than 500 items the lists are shorter.
    """
    from infrec.models import InfiniteAE
    from infrec.search.criterion import Criterion

    criterion = Criterion(val.matrix, train.matrix)

    def of(summary: Summary) -> float:
        model = InfiniteAE(reg=summary.about["reg"], depth=summary.about["settings"]["depth"]).fit(summary)
        return criterion(model)

    return of
