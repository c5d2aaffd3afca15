"""Narayanan–Shmatikov matching: which released row belongs to a person of whom a few items are known.

    w_i = 1 / log |supp(i)|,   score(a, r) = Σ_{i ∈ a ∩ r} w_i / (Σ_{i ∈ r} w_i)^p,
    eccentricity = (best − second best) / σ

a: what the attacker knows of one person; r: a released row; supp(i): the rows that hold item i; σ: the
standard deviation of a's scores over all released rows. The best row is accepted only where it stands out: at
an eccentricity of φ or more. From "Robust De-anonymization of Large Sparse Datasets" (IEEE S&P 2008), where
p = 0 and φ = 1.5, and the score has two more factors: how close the ratings and the dates are. Interactions
have neither, and without them a long row matches everybody. With p = 0.35 and φ = 3 instead, on releases of
500 and 3,000 users of ML-1M, everybody is found (p = 0, φ = 1.5: 93 % and 87 %), and fewer of those who are
not in it are claimed (0.3 % and 0.2 %, against 4.7 % and 3.1 %).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.data import Interactions, Vocabulary
from infrec.data.interactions import canonical
from infrec.errors import ConfigError, DataError
from infrec.progress import Progress, silent
from infrec.randomness import generator
from infrec.splits.holdout import entries, place_in_row

ECCENTRICITY = 3.0  # φ
LENGTH = 0.35  # p
SCORES_AT_ONCE = 2**24  # entries of the block of scores that is held in memory
ROUNDING = 1e-6  # scores closer than this share of the best are equal but for the order of summation


@dataclass(frozen=True, eq=False)
class Matches:
    """The best released row for each target, and how far it stands out.

    Args:
        index: The row of the release; −1 where no released row shares an item with the target.
        score, eccentricity: Of that row.
        ties: How many released rows have that score (0 where index is −1).
        accepted: Whether the attacker would claim it.
        own: How many of the tied rows are the target's, where it is known whose they are.
    """

    index: NDArray[np.int64]
    score: NDArray[np.float64]
    eccentricity: NDArray[np.float64]
    ties: NDArray[np.int64]
    accepted: NDArray[np.bool_]
    own: NDArray[np.int64] | None = None

    def correct(self, truth: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Which targets are claimed and rightly so.

        Args:
            truth: Each target's own row of the release, −1: none.
        """
        return self.accepted & (self.index == truth) & (self.index >= 0)

    def wrong(self, truth: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Which targets are claimed to be somebody they are not.

        Args:
            truth: Each target's own row of the release, −1: none.
        """
        return self.accepted & (self.index != truth)

    def at(self, eccentricity: float) -> Matches:
        """Matches under another threshold.

        Args:
            eccentricity: The threshold φ.
        """
        accepted = (self.index >= 0) & (self.ties == 1) & (self.eccentricity >= eccentricity)
        return replace(self, accepted=accepted)


def item_weights(support: NDArray[np.integer] | NDArray[np.floating]) -> NDArray[np.float64]:
    """1 / log(support): what sharing an item says. An item of one or two rows weighs 1 / log 2.

    Args:
        support: In how many histories each item stands.
    """
    return 1 / np.log(np.maximum(np.asarray(support, np.float64), 2.0))


def match(
    targets: Interactions | sp.csr_array,
    released: Interactions | sp.csr_array,
    *,
    support: NDArray[np.integer] | None = None,
    whose: tuple[NDArray[np.integer], NDArray[np.integer]] | None = None,
    eccentricity: float = ECCENTRICITY,
    length: float = LENGTH,
    progress: Progress = silent,
) -> Matches:
    """Match each target (a row of known items) with the released rows.

    Values of the targets are not looked at: an item is known or not. Those of the release are: a fractional
    entry counts as that part of an item. Where both are `Interactions`, items are matched by id, and those
    that the release lacks match nobody; matrices must have the same columns.

    Args:
        targets: Rows of known items.
        released: Rows of the release.
        support: In how many histories each of the release's items stands, as far as the attacker knows; the
            release's own counts where it is not given.
        whose: The person behind each released row and behind each target, by which the attack is judged
            afterwards.
        eccentricity: The threshold φ.
        length: The power p of a released row's own weight by which its scores are divided; 0 is the attack as
            published.
        progress: Called with the stage and how much of it is done.
    """
    if not eccentricity >= 0:
        raise ConfigError(f"eccentricity is {eccentricity}; expected a number of 0 or more.")
    if not 0 <= length <= 1:
        raise ConfigError(f"length is {length}; expected a power from 0 to 1.")
    if isinstance(targets, Interactions):
        targets = over(targets, released.items) if isinstance(released, Interactions) else targets.matrix
    columns = released.matrix if isinstance(released, Interactions) else sp.csr_array(released)
    rows = sp.csr_array(targets)
    if rows.shape[1] != columns.shape[1]:
        raise DataError(
            f"the targets have {rows.shape[1]} items and the release {columns.shape[1]}; "
            "expected rows over the same items."
        )
    if columns.shape[0] == 0:
        raise DataError("the release has no rows; expected at least one to match with.")
    counts = np.bincount(columns.indices, minlength=columns.shape[1]) if support is None else support
    if len(counts) != columns.shape[1]:
        raise DataError(
            f"support has {len(counts)} entries for {columns.shape[1]} items; expected one for each."
        )
    weights = item_weights(counts).astype(np.float32)
    total = np.maximum(columns @ weights, np.finfo(np.float32).tiny)
    transposed = sp.csr_array(sp.diags_array(total**-length) @ columns, dtype=np.float32).T.tocsr()
    n, size = rows.shape[0], max(1, SCORES_AT_ONCE // columns.shape[0])
    index, ties = np.full(n, -1, np.int64), np.zeros(n, np.int64)
    score, stands_out = np.zeros(n), np.zeros(n)
    own = None if whose is None else np.zeros(n, np.int64)
    for begin in range(0, n, size):
        part = rows[begin : begin + size]
        known = sp.csr_array((weights[part.indices], part.indices, part.indptr), shape=part.shape)
        here = slice(begin, begin + part.shape[0])
        scores = (known @ transposed).toarray()
        if own is not None and whose is not None:
            own[here] = (_tied(scores) & (whose[0][None, :] == whose[1][here, None])).sum(axis=1)
        index[here], score[here], stands_out[here], ties[here] = _best(scores)
        progress("matching", here.stop, n)
    everybody = np.ones(n, bool)
    return Matches(index, score, stands_out, ties, everybody, own).at(eccentricity)


def _best(scores: NDArray[np.float32]) -> tuple[NDArray[Any], ...]:
    """Best row, its score, its eccentricity and the number of rows as good, for each row of scores."""
    spread = scores.std(axis=1, dtype=np.float64)
    at = scores.argmax(axis=1)
    each = np.arange(len(scores))
    best = scores[each, at].astype(np.float64)
    ties = _tied(scores).sum(axis=1)
    scores[each, at] = -1.0
    second = scores.max(axis=1).astype(np.float64)
    shared = best > 0
    # With a single released row nothing is there to stand out from; with equal rows nothing does.
    apart = (spread > 0) & (ties == 1) & shared
    gap = np.divide(best - second, spread, out=np.zeros(len(scores)), where=apart)
    return np.where(shared, at, -1), best, gap, np.where(shared, ties, 0)


def _tied(scores: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Which rows are as good as the best."""
    return scores >= (scores.max(axis=1).astype(np.float64) * (1 - ROUNDING))[:, None]


def over(log: Interactions, items: Vocabulary) -> sp.csr_array:
    """The matrix of a log over other items; what is not among them is left out."""
    if log.items == items:
        return log.matrix
    matrix, to = log.matrix.tocoo(), items.positions(log.items.ids)
    there = to[matrix.col] >= 0
    where = (matrix.row[there], to[matrix.col[there]])
    return canonical(sp.csr_array((matrix.data[there], where), shape=(log.n_users, len(items))))


# ---- who is attacked: those whose histories went in, and a control group of people whose did not ----------
MOST = 20_000  # people of a group that are attacked; more of them narrow no interval that matters
AT_ONCE = 1024  # people


@dataclass(frozen=True, eq=False)
class Groups:
    """Histories over the items of the release, 0/1; people without any of these items are left out.

    control: no rows where there is no control. ids: of the members.
    """

    members: sp.csr_array
    control: sp.csr_array
    ids: Sequence[Any] = ()

    @classmethod
    def of(
        cls, members: Interactions, control: Interactions | None, items: Vocabulary, *, seed: int = 42
    ) -> Groups:
        """The two groups over the items of a release."""
        inside, ids = _known(members, items, seed)
        outside = sp.csr_array((0, len(items)), dtype=np.float32)
        return cls(inside, outside if control is None else _known(control, items, seed)[0], ids)

    @cached_property
    def everybody(self) -> sp.csr_array:
        """Members, then the control."""
        return sp.csr_array(sp.vstack([self.members, self.control], format="csr"))

    @cached_property
    def support(self) -> NDArray[np.int64]:
        """In how many of everybody's histories each item stands."""
        return np.bincount(self.everybody.indices, minlength=self.everybody.shape[1])

    @property
    def measurable(self) -> bool:
        """Whether there is a control."""
        return self.control.shape[0] > 0

    def split(self, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Values of everybody as those of members and of the control."""
        return values[: self.members.shape[0]], values[self.members.shape[0] :]


def _known(log: Interactions, items: Vocabulary, seed: int) -> tuple[sp.csr_array, list[Any]]:
    matrix = over(log, items)
    rows = np.flatnonzero(np.diff(matrix.indptr))
    if len(rows) > MOST:
        rows = np.sort(generator(seed, "audited people").choice(rows, MOST, replace=False))
    histories = canonical(matrix[rows])
    histories.data[:] = 1.0
    return histories, log.users.take(rows).to_pylist()


def parted(
    histories: sp.csr_array, quota: NDArray[np.integer], rng: np.random.Generator
) -> tuple[sp.csr_array, sp.csr_array]:
    """Each history in two parts: `quota` random entries of it, and the others."""
    place = place_in_row(histories, rng.random(histories.nnz))
    chosen = place < np.repeat(quota, np.diff(histories.indptr))
    return entries(histories, chosen), entries(histories, ~chosen)


class Nearest(NamedTuple):
    """Whom rows and people resemble most, and how much: 1 for equal ones, 0 with nothing shared.

    person: for each row the person most like it, −1 where it is like nobody. to_person: that likeness.
    to_row: for each person the likeness of the row most like them.
    """

    person: NDArray[np.int64]
    to_person: NDArray[np.float32]
    to_row: NDArray[np.float64]


def nearest(rows: sp.csr_array, people: sp.csr_array, support: NDArray[np.integer]) -> Nearest:
    """Released rows and people compared by the cosine, items weighted by what sharing them says.

    support: in how many histories each item stands.
    """
    scale = sp.diags_array(item_weights(support).astype(np.float32))
    columns = _unit(rows @ scale).T
    if columns.nnz > 0.05 * columns.shape[0] * columns.shape[1]:
        columns = columns.toarray()
    n = rows.shape[0]
    out = Nearest(np.full(n, -1), np.zeros(n, np.float32), np.zeros(people.shape[0]))
    for start in range(0, people.shape[0], AT_ONCE):
        product = _unit(people[start : start + AT_ONCE] @ scale) @ columns
        alike = product.toarray() if sp.issparse(product) else product
        out.to_row[start : start + AT_ONCE] = alike.max(axis=1)
        at = alike.argmax(axis=0)
        value = alike[at, np.arange(n)]
        better = value > out.to_person
        out.to_person[better], out.person[better] = value[better], start + at[better]
    return out


def _unit(x: sp.csr_array) -> sp.csr_array:
    norm = np.sqrt(np.asarray(x.multiply(x).sum(axis=1), np.float64).ravel())
    return sp.csr_array(sp.diags_array((1 / np.maximum(norm, 1e-12)).astype(np.float32)) @ x)
