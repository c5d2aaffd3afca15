"""Model × split → numbers, a batch of users at a time; and two models user by user."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from infrec import machine, metrics
from infrec.data import Interactions
from infrec.errors import ConfigError, DataError
from infrec.evaluation.tally import Scorer, Tally, scores_of
from infrec.metrics.intervals import LEVEL, RESAMPLES, Interval, intervals_of, resampled_means
from infrec.progress import Progress, silent
from infrec.randomness import generator
from infrec.splits import Split

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from infrec.data.interactions import InteractionsLike

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The quality of one model on one split under one protocol.

    Args:
        protocol: Name of the protocol.
        split: Name of the split.
        n_users: How many users were measured.
        k: Lengths of the lists.
        metrics: Name → value. HR (or Recall), NDCG, PSP and coverage in percent, AUC and gini in 0…1, novelty
            in bits, popularity in train histories, disliked in items held out as dislikes.
        per_user: Name → one value per user, in the unit of the metric, whose mean is the metric.
        user_counts, item_counts: Interactions in train.
        exposure: K → in how many lists each item stands.
        item_hits: K → how often each was a hit.
        item_held_out: How often each item was held out.
        auc_contributions: Pseudo-values of a pooled AUC, one per user (`metrics.pooled_auc_by_user`).
        intervals: Name → (low, high), 95 %, by resampling users; not for coverage and gini, which are not
            means.
        population: Of how many users; more than `n_users` when only a sample was measured.
    """

    protocol: str
    split: str
    n_users: int
    k: tuple[int, ...]
    metrics: Mapping[str, float]
    per_user: Mapping[str, NDArray[np.float64]]
    user_counts: NDArray[np.int64]
    item_counts: NDArray[np.int64]
    exposure: Mapping[int, NDArray[np.int64]]
    item_hits: Mapping[int, NDArray[np.int64]]
    item_held_out: NDArray[np.int64]
    auc_contributions: NDArray[np.float64] | None = None
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    population: int = 0

    @property
    def contributions(self) -> dict[str, NDArray[np.float64]]:
        """Every metric that is a mean over users, as the values it is the mean of: what resampling needs."""
        pooled = {} if self.auc_contributions is None else {"AUC": self.auc_contributions}
        return {**pooled, **self.per_user}

    def __repr__(self) -> str:
        first = ", ".join(f"{name} {value:.4g}" for name, value in list(self.metrics.items())[:3])
        return f"Evaluation({first}, …; {self.n_users:,} users, {self.protocol}, {self.split})"

    def _repr_html_(self) -> str:
        """Each metric with its interval."""
        from infrec.data.rows import as_html

        nothing = (None, None)
        rows = [(name, value, *self.intervals.get(name, nothing)) for name, value in self.metrics.items()]
        return as_html(repr(self), ("metric", "value", "95 % from", "to"), rows)


def evaluate(
    model: Scorer,
    split: Split | InteractionsLike,
    *,
    protocol: str = "paper-code",
    k: Sequence[int] | None = None,
    seed: int = 42,
    batch: int | None = None,
    intervals: bool = True,
    sample_users: int | None = None,
    progress: Progress = silent,
) -> Evaluation:
    """Every metric of a fitted model on the test part of a split.

    The context of a user is train and validation together; its items are masked out of the ranking, not out
    of the AUC, and so is what the user is known to dislike. Means are over all users; those with nothing held
    out count as 0, or under `graph` not at all.
    A model that was fitted on half of what is held out, or more, is refused; one that was fitted on some of
    it brings a warning.

    Args:
        model: A fitted model over the items of the split.
        split: The split whose test part is measured; or what was held out of the model's log, as a frame, a
            matrix or `Interactions`: then the users in it are measured.
        protocol: `paper-code` pools its AUC over all users, against 50 random negatives each (seeded);
            `textbook` and `graph` take each user's own, against all.
        k: Lengths of the lists: 10 and 100, under `graph` 20, unless given.
        seed: Of negatives, of the bootstrap and of `sample_users`.
        batch: How many users are scored at once; as many as fit 64 MB of scores unless told. Beside a
            batch's scores, only arrays with a few numbers per user are held.
        intervals: Whether 95 % intervals are made by resampling users.
        sample_users: Measure on so many users, drawn at random; intervals are those of the sample.
        progress: Called with how many users are done.
    """
    people: NDArray[np.intp] | None = None
    if not isinstance(split, Split):
        log = getattr(model, "log", None)
        if not isinstance(log, Interactions):
            raise ConfigError(
                f"a {type(model).__name__} knows no log that these interactions were held out of; expected a "
                "Split."
            )
        split = Split.of(log, split)
        people = np.flatnonzero(split.test.user_counts)
    metrics.check_protocol(protocol)
    k = metrics.LENGTHS[protocol] if k is None else k
    if not k or min(k) < 1:
        raise ConfigError(f"k is {tuple(k)}; expected list lengths of 1 or more.")
    if not split.test.n_interactions:
        raise DataError("nothing is held out for test; expected a split with test interactions.")
    for name, number in (("sample_users", sample_users), ("batch", batch)):
        if number is not None and number < 1:
            raise ConfigError(f"{name} is {number}; expected 1 or more.")
    if protocol == "graph":
        people = np.flatnonzero(split.test.user_counts)
    check_model(model, split)
    able = split.train.n_users if people is None else len(people)
    if sample_users is not None and sample_users < able:
        people = drawn_users(np.arange(able) if people is None else people, sample_users, seed)
    lengths = tuple(dict.fromkeys(k))
    n = split.train.n_users if people is None else len(people)
    check_memory(split, n)
    name = split.name + (f", {n:,} of {able:,} users (seed {seed})" if n < able else "")
    tally = Tally(split, name, people, protocol, lengths, seed)
    step = batch or max(16, BATCH_BYTES // (4 * split.train.n_items))
    for start in range(0, n, step):
        stop = min(n, start + step)
        context = tally.train[start:stop].maximum(tally.val[start:stop])
        rows = np.arange(start, stop) if people is None else people[start:stop]
        scores = scores_of(model, context, split.train.users.take(rows), step)
        tally.add(start, stop, scores, context)
        progress("evaluate", stop, n)
    logger.info("evaluated on %d users (%s, %s)", n, tally.name, protocol)
    result = Evaluation(**tally.figures())
    return replace(result, intervals=intervals_of(result.contributions, seed=seed)) if intervals else result


def drawn_users(users: NDArray[np.intp], count: int, seed: int) -> NDArray[np.intp]:
    """So many of the users, drawn at random: the same for everything that is measured with a seed.

    Args:
        users: Rows of the users.
        count: How many are drawn.
        seed: Seed of the draw.
    """
    return np.sort(generator(seed, "evaluated users").choice(users, count, replace=False))


@dataclass(frozen=True)
class Difference:
    """How much better the first is.

    Args:
        value: Mean of the first minus mean of the second.
        low, high: Its 95 % interval.
        p_value: Two-sided, of no difference.
    """

    value: float
    low: float
    high: float
    p_value: float


def compare(
    a: Evaluation, b: Evaluation, *, resamples: int = RESAMPLES, seed: int = 42
) -> dict[str, Difference]:
    """How much better a is than b in each metric, user by user (paired bootstrap over users).

    A pooled AUC is compared through its contributions.

    Args:
        a, b: Evaluations from the same split and protocol.
        resamples: How often users are drawn again.
        seed: Seed of the draws.
    """
    if (a.protocol, a.split, a.n_users) != (b.protocol, b.split, b.n_users):
        raise ConfigError(
            f"one evaluation is {a.protocol} on {a.n_users} users ({a.split}), the other {b.protocol} on "
            f"{b.n_users} ({b.split}); expected the same users, split and protocol."
        )
    ours, theirs = a.contributions, b.contributions
    names = [name for name in ours if name in theirs]
    if not names:
        return {}
    differences = np.stack([ours[name] - theirs[name] for name in names], axis=1)
    means = resampled_means(differences, resamples=resamples, seed=seed)
    low, high = np.quantile(means, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0], axis=0)
    # One is added so that a p-value is never exactly 0: 1,000 resamples cannot show that.
    tail = np.minimum((means <= 0).sum(axis=0), (means >= 0).sum(axis=0)) + 1
    p = np.minimum(1.0, 2.0 * tail / (resamples + 1))
    value = differences.mean(axis=0)
    return {
        name: Difference(float(value[at]), float(low[at]), float(high[at]), float(p[at]))
        for at, name in enumerate(names)
    }


# ---- before measuring: the items of the model, what it was fitted on, and the memory that is left ---------
BATCH_BYTES = 64 << 20  # of float32 scores
USERS_COMPARED = 1 << 16  # at a time


def check_model(model: Scorer, split: Split) -> None:
    """Refuse a model over other items, or fitted on half of what is measured; warn where it knows some of it.

    Another number of items is refused where the scores come.

    Args:
        model: A fitted model.
        split: The split whose test part is measured.
    """
    log, items = getattr(model, "log", None), split.train.items
    if not isinstance(log, Interactions):
        return
    same = log.items == items or len(log.items) != len(items)
    if not same and (log.items.positions(items.ids) != np.arange(len(items))).any():
        raise DataError(
            "the model was fitted over other items than the split's, or over the same in another order; "
            "expected the same: fit it on data over the split's items (align_items() brings them in order)."
        )
    if log.synthetic_users or log.matrix is split.train.matrix:
        return
    known, of = held_out_in(log, split)
    if not known:
        return
    found = (
        f"the model was fitted on {known:,} of {of:,} interactions that are held out for test: its figures "
        "would say what it remembers, not what it foresees"
    )
    if 2 * known >= of:
        raise DataError(f"{found}; fit it on the split's train part (split.train).")
    warnings.warn(f"{found}.", stacklevel=3)


def held_out_in(log: Interactions, split: Split) -> tuple[int, int]:
    """How many interactions of the test part a log holds too, by the same user, and of how many.

    Users whom the log does not know do not count, nor items that they have in train or validation as well.

    Args:
        log: The log that a model was fitted on.
        split: The split whose test part is compared, over the same items.
    """
    if log.n_items != split.train.n_items:
        return 0, 0
    at = log.users.positions(split.train.users.ids)
    rows, known, of = np.flatnonzero(at >= 0), 0, 0
    for start in range(0, len(rows), USERS_COMPARED):
        some = rows[start : start + USERS_COMPARED]
        train, val, test = (part.matrix[some] != 0 for part in (split.train, split.val, split.test))
        new = test > (train + val)
        known += new.multiply(log.matrix[at[some]] != 0).nnz
        of += new.nnz
    return known, of


def check_memory(split: Split, users: int) -> None:
    """Refuse to measure so many users of a split where that would not fit in memory.

    Args:
        split: The split whose test part is measured.
        users: How many of its users.
    """
    machine.require_memory(
        memory_needed(users, split.train.n_items, split.test.n_interactions * users // split.train.n_users),
        f"an evaluation of {users:,} users",
        "measure on a sample of them (sample_users; `--sample-users 100000`)",
    )


def memory_needed(users: int, items: int, held_out: int) -> int:
    """Bytes of an evaluation beside the data and the model.

    Always: 14 numbers for each user and the scores that the pooled AUC compares (50 negatives and the
    held-out items of each user). At the worst, either a batch of scores with its copies while the negatives
    of a block of users are drawn, or at the end the AUC's sorted copy, the scores' users and a chunk's ranks.
    """
    compared = held_out + 50 * users
    negatives = 8 * 50 * min(users, 1 << 18)
    drawing = 3 * max(BATCH_BYTES, 4 * 16 * items) + 4 * negatives
    comparing = negatives + 8 * compared + 36 * min(compared, 1 << 22)
    return 14 * 8 * users + 4 * compared + max(drawing, comparing)
