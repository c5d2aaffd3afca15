"""How hard each user is for a simple model: the order in which SVP-CF takes users (paper, appendix).

The proxy is Bias-only, r̂_ui = a + b_u + b_i, trained by epochs on the train part with one sampled negative
per interaction and the logistic loss. After each epoch every user has an AUC: the share of (own item, other
item) pairs that the model puts in the right order. A user's score is 1/AUC, averaged over the epochs.

Within a user only b_i orders the items, and in the same way for everybody. So the AUC over *all* items a user
does not have is a sum of mid-ranks: exact, and one pass over the interactions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.stats import rankdata

from infrec.randomness import generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

EPOCHS = 10
BATCH = 4096
RATE = 0.05


def inverse_auc(matrix: sp.csr_array, *, seed: int, epochs: int = EPOCHS) -> NDArray[np.float64]:
    """1/AUC of each user, averaged over the epochs of the proxy."""
    proxy = _BiasOnly(matrix, generator(seed, "svp-cf"))
    total = np.zeros(matrix.shape[0])
    for _ in range(epochs):
        proxy.epoch()
        total += 1 / auc_per_user(matrix, proxy.item)
    return total / epochs


def auc_per_user(matrix: sp.csr_array, item_scores: NDArray[np.float64]) -> NDArray[np.float64]:
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


class _BiasOnly:
    """Global, user and item biases, by mini-batches of Adagrad."""

    def __init__(self, matrix: sp.csr_array, rng: np.random.Generator) -> None:
        self.rng = rng
        self.users = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        self.items = matrix.indices.astype(np.int64)
        self.n_items = matrix.shape[1]
        self.known = self.users * self.n_items + self.items  # sorted: a canonical CSR is
        self.bias = 0.0
        self.user = np.zeros(matrix.shape[0])
        self.item = np.zeros(matrix.shape[1])
        self._seen: list[Any] = [1e-8, np.full(matrix.shape[0], 1e-8), np.full(matrix.shape[1], 1e-8)]

    def epoch(self) -> None:
        """Each interaction once, in a fresh order, each with one fresh negative."""
        order = self.rng.permutation(len(self.users))
        users, items, negatives = self.users[order], self.items[order], self._negatives()[order]
        for at in range(0, len(order), BATCH):
            batch = slice(at, at + BATCH)
            self._step(
                np.concatenate([users[batch], users[batch]]),
                np.concatenate([items[batch], negatives[batch]]),
                np.repeat([1.0, 0.0], len(users[batch])),
            )

    def _step(self, user: NDArray[np.int64], item: NDArray[np.int64], label: NDArray[np.float64]) -> None:
        error = 1 / (1 + np.exp(-(self.bias + self.user[user] + self.item[item]))) - label
        self.bias -= float(self._rate(0, error.sum()))
        self.user -= self._rate(1, np.bincount(user, error, len(self.user)))
        self.item -= self._rate(2, np.bincount(item, error, len(self.item)))

    def _rate(self, which: int, gradient: Any) -> Any:
        self._seen[which] = self._seen[which] + gradient**2
        return RATE * gradient / np.sqrt(self._seen[which])

    def _negatives(self) -> NDArray[np.int64]:
        """For each interaction an item drawn evenly from those its user lacks (where there is one)."""
        out = self.rng.integers(0, self.n_items, len(self.users))
        for _ in range(50):
            wanted = self.users * self.n_items + out
            at = np.minimum(np.searchsorted(self.known, wanted), len(self.known) - 1)
            bad = np.flatnonzero(self.known[at] == wanted)
            if not len(bad):
                break
            out[bad] = self.rng.integers(0, self.n_items, len(bad))
        return out
