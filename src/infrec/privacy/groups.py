"""Who is attacked: the people whose histories went in, and a control group of people whose did not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.data import Interactions, Vocabulary
from infrec.data.interactions import canonical
from infrec.privacy.matching import item_weights, over
from infrec.randomness import generator
from infrec.splits.holdout import entries, place_in_row

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
