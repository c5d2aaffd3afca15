"""Who is attacked: the people whose histories went in, and a control group of people whose did not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from infrec.data import Interactions
from infrec.data.interactions import canonical
from infrec.randomness import generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from infrec.data import Vocabulary

MOST = 20_000  # people of a group that are attacked; more of them narrow no interval that matters


@dataclass(frozen=True, eq=False)
class Groups:
    """Histories over the items of the release, 0/1. control: no rows where there is no control.

    ids: of the members. control_from: where the control comes from, in words.
    """

    members: sp.csr_array
    control: sp.csr_array
    ids: Sequence[Any]
    control_from: str

    @property
    def everybody(self) -> sp.csr_array:
        """Members, then the control."""
        return sp.csr_array(sp.vstack([self.members, self.control], format="csr"))

    @property
    def measurable(self) -> bool:
        """Whether there is a control."""
        return self.control.shape[0] > 0

    def split(self, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Values of everybody as those of members and of the control."""
        return values[: self.members.shape[0]], values[self.members.shape[0] :]


def groups(
    members: Interactions,
    control: Interactions | None,
    items: Vocabulary,
    *,
    control_from: str = "",
    seed: int = 42,
    most: int = MOST,
) -> Groups:
    """The two groups over the items of the release; people without any of these items are left out."""
    inside, ids = _known(members, items, most, seed)
    outside = sp.csr_array((0, len(items)), dtype=np.float32)
    if control is not None:
        outside, _ = _known(control, items, most, seed)
    return Groups(inside, outside, ids, control_from)


def _known(log: Interactions, items: Vocabulary, most: int, seed: int) -> tuple[sp.csr_array, list[Any]]:
    matrix = over(log, items)
    rows = np.flatnonzero(np.diff(matrix.indptr))
    if len(rows) > most:
        rows = np.sort(generator(seed, "audited people").choice(rows, most, replace=False))
    return canonical(matrix[rows]), log.users.take(rows).to_pylist()


def over(log: Interactions, items: Vocabulary) -> sp.csr_array:
    """The log as 0/1 over other items; what is not among them is left out."""
    matrix = log.matrix.tocoo()
    to = np.arange(len(items)) if log.items == items else items.positions(log.items.ids)
    there = to[matrix.col] >= 0
    ones = np.ones(int(there.sum()), np.float32)
    where = (matrix.row[there], to[matrix.col[there]])
    out = canonical(sp.csr_array((ones, where), shape=(log.n_users, len(items))))
    out.data[:] = 1.0
    return out


def cosine(people: sp.csr_array, rows: sp.csr_array, weights: NDArray[np.floating]) -> NDArray[np.float32]:
    """Similarity of every person with every row, items weighted: 1 for equal rows, 0 with nothing shared."""
    scale = sp.diags_array(np.sqrt(weights).astype(np.float32))
    a, b = (_unit(sp.csr_array(x @ scale)) for x in (people, rows))
    dense = b.nnz > 0.05 * b.shape[0] * b.shape[1]
    product = a @ (b.T.toarray() if dense else b.T)
    return np.asarray(product if dense else product.toarray(), np.float32)


def _unit(x: sp.csr_array) -> sp.csr_array:
    norm = np.sqrt(np.asarray(x.multiply(x).sum(axis=1), np.float64).ravel())
    return sp.csr_array(sp.diags_array((1 / np.maximum(norm, 1e-12)).astype(np.float32)) @ x)


def picked(
    histories: sp.csr_array, quota: NDArray[np.integer], rng: np.random.Generator
) -> NDArray[np.bool_]:
    """For each stored entry, whether it is among `quota` random ones of its row."""
    counts = np.diff(histories.indptr)
    row = np.repeat(np.arange(histories.shape[0]), counts)
    order = np.lexsort((rng.random(histories.nnz), row))
    place = np.empty(histories.nnz, np.int64)
    place[order] = np.arange(histories.nnz) - np.repeat(histories.indptr[:-1], counts)
    return place < quota[row]


def kept(histories: sp.csr_array, chosen: NDArray[np.bool_]) -> sp.csr_array:
    """Histories with only the chosen entries."""
    row = np.repeat(np.arange(histories.shape[0]), np.diff(histories.indptr))
    where = (row[chosen], histories.indices[chosen])
    return canonical(sp.csr_array((histories.data[chosen], where), shape=histories.shape))


def by_popularity(
    counts: NDArray[np.floating], sizes: NDArray[np.integer], rng: np.random.Generator
) -> sp.csr_array:
    """Rows of these sizes that know nothing but how popular items are: drawn in proportion, no item twice."""
    keys = np.log(np.maximum(counts, 1e-9))[None, :] + rng.gumbel(size=(len(sizes), len(counts)))
    order = np.argsort(-keys, axis=1)
    taken = np.arange(len(counts))[None, :] < sizes[:, None]
    row, place = np.nonzero(taken)
    ones = np.ones(len(row), np.float32)
    return canonical(sp.csr_array((ones, (row, order[row, place])), shape=keys.shape))
