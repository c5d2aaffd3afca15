"""Orders of users, from whose front a sample takes them; equals in the order of the log.

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

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.stats import rankdata

from infrec.data import Interactions
from infrec.models.bias import BiasOnly
from infrec.randomness import generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

EPOCHS = 10
RATE = 0.05


def front(order: Iterable[int], costs: NDArray[np.integer], budget: float) -> NDArray[np.int64]:
    """The first of an order that together cost the budget: as few as can be, or all."""
    taken, spent, rest = [], 0.0, iter(order)
    while spent < budget and (one := next(rest, None)) is not None:
        taken.append(one)
        spent += float(costs[one])
    return np.array(taken, np.int64)


def at_random(log: Interactions, seed: int) -> Iterable[int]:
    """Every order of the users is equally likely."""
    return generator(seed, "user-rns").permutation(log.n_users)


def most_active_first(log: Interactions, seed: int) -> Iterable[int]:
    return np.argsort(-log.user_counts, kind="stable")


# ---- SVP-CF ------------------------------------------------------------------------------------------------
def hardest_first(log: Interactions, seed: int) -> Iterable[int]:
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
