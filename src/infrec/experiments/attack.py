"""Who is re-identified from a release: by matching where it has real users, by prediction where it has none.

The paper's appendix: the attacker has a copy of the data with names in it, of which only a part of each
history is left and in which a share of all items is flipped for everybody. Against a sample, a user is found
when the Narayanan–Shmatikov matching claims the right row. A summary has no such row: there, a user counts as
found when ∞-AE, fitted on the summary and told how many items are missing from the copy, names exactly these.
What is popular names some of them as well, whatever was released: that is the second line of such a record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from infrec.data import Interactions
from infrec.experiments.cells import DISTILLED, Cell
from infrec.experiments.noise import flip
from infrec.progress import Progress, silent
from infrec.randomness import generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

IDENTIFIED, MISTAKEN, STRANGERS, NAMED = "identified", "mistaken", "strangers", "named"


def measured(cell: Cell, log: Interactions, released: Interactions, progress: Progress = silent) -> list[Any]:
    """The attack of a cell on what was released of a log."""
    level = dict(cell.attack)
    reveal, noise = float(level["reveal"]), float(level["noise"])
    if cell.data.source == DISTILLED:
        return predicted(log, released, reveal, noise, seed=cell.seed)
    return matched(log, released, reveal, noise, seed=cell.seed, progress=progress)


def copy_of(log: Interactions, reveal: float, noise: float, *, seed: int) -> sp.csr_array:
    """What the attacker knows of each user: a share of the items, then flips; 0/1.

    Of everybody at least one item is known and, unless everything is, one is not (where there are two).
    """
    from infrec.privacy.groups import kept, picked

    n = log.user_counts
    known = n if reveal >= 1 else np.clip(np.round(reveal * n).astype(np.int64), 1, np.maximum(1, n - 1))
    chosen = picked(log.matrix, known, generator(seed, "attacker's copy"))
    return flip(log.with_matrix(kept(log.matrix, chosen)), noise, seed=seed).matrix


def matched(
    log: Interactions,
    released: Interactions,
    reveal: float,
    noise: float,
    *,
    seed: int,
    progress: Progress = silent,
) -> list[dict[str, Any]]:
    """A release of real users, known by their ids here alone: the attacker sees only the rows.

    strangers: as many users who are not in the release, where there are any; claiming one is a mistake.
    """
    from infrec.privacy import match

    rows = log.users.positions(released.users.ids)
    others = np.setdiff1d(np.arange(log.n_users), rows)
    if len(others) > len(rows):
        others = np.sort(generator(seed, "strangers").choice(others, len(rows), replace=False))
    own, theirs = (copy_of(log.select_users(who), reveal, noise, seed=seed) for who in (rows, others))
    found = match(own, released.matrix, progress=progress)
    truth = np.arange(len(rows))
    shares = {IDENTIFIED: found.correct(truth), MISTAKEN: found.wrong(truth)}
    if len(others):
        shares[STRANGERS] = match(theirs, released.matrix, progress=progress).accepted
    return [line("matching", shares)]


def predicted(
    log: Interactions, released: Interactions, reveal: float, noise: float, *, seed: int
) -> list[dict[str, Any]]:
    """A release of synthetic users: can the missing items of each real one be named, all of them?"""
    from infrec.models import InfiniteAE
    from infrec.privacy.reconstruction import hits

    log = log.select_users(np.flatnonzero(log.user_counts >= 2))
    given = copy_of(log, reveal, noise, seed=seed)
    rest = log.matrix.copy()
    rest.data = np.ones_like(rest.data)
    rest = sp.csr_array(rest - rest.multiply(given != 0))
    rest.eliminate_zeros()
    asked = np.flatnonzero(np.diff(rest.indptr))
    given, rest = sp.csr_array(given[asked]), sp.csr_array(rest[asked])
    reg = getattr(released, "reg", None)  # the λ that the summary itself brings
    model = InfiniteAE(**({} if reg is None else {"reg": reg})).fit(released)
    counts = np.asarray(released.matrix.sum(axis=0)).ravel()
    by = {
        "infinite-ae": hits(given, rest, model=model),
        "poprec": hits(given, rest, counts=counts),
    }
    return [line(name, {IDENTIFIED: shares == 1, NAMED: shares}) for name, shares in by.items()]


def line(model: str, shares: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Means over users in percent; of those that are yes or no, with Clopper–Pearson intervals."""
    from infrec.privacy.roc import rate

    metrics, intervals = {}, {}
    for name, values in shares.items():
        metrics[name] = 100.0 * float(values.mean()) if len(values) else None
        if values.dtype == bool and len(values):
            found = rate(float(values.sum()), len(values))
            intervals[name] = [100.0 * found.low, 100.0 * found.high]
    return {"model": model, "settings": {}, "metrics": metrics, "intervals": intervals}
