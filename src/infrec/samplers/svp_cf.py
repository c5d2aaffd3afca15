"""How hard each user is for a simple model: the order in which SVP-CF takes users (paper, appendix).

The proxy is Bias-only, r̂_ui = a + b_u + b_i, trained by epochs on the train part with one sampled negative
per interaction and the logistic loss. After each epoch every user has an AUC: the share of (own item, other
item) pairs that the model puts in the right order. A user's score is 1/AUC, averaged over the epochs.

Within a user only b_i orders the items, and in the same way for everybody. So the AUC over *all* items a user
does not have is a sum of mid-ranks: exact, and one pass over the interactions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from scipy.stats import rankdata

from infrec.data import Interactions
from infrec.models.bias import BiasOnly

if TYPE_CHECKING:
    from numpy.typing import NDArray

EPOCHS = 10
RATE = 0.05


def inverse_auc(matrix: sp.csr_array, *, seed: int, epochs: int = EPOCHS) -> NDArray[np.float64]:
    """1/AUC of each user, averaged over the epochs of the proxy."""
    proxy = BiasOnly(solver="epochs", rate=RATE, epochs=epochs, seed=seed)
    training = proxy.training(Interactions.from_csr(matrix))
    total = np.zeros(matrix.shape[0])
    for epoch in range(1, epochs + 1):
        items = training.run(epoch).model().parameters["items"]
        total += 1 / auc_per_user(matrix, items)
    return total / epochs


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
