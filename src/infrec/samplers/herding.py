"""Herding: a few rows whose mean stays as near as can be to the mean of all (Welling, 2009).

With φ the rows, each of length 1, and μ their mean, rows are taken one after the other:

    x_t = argmax ⟨w_{t−1}, φ(x)⟩ over those not taken,   w_t = w_{t−1} + μ − φ(x_t),   w_0 = μ

Since all lengths are 1, that is the row which brings the mean of those taken nearest to μ.

ADER chooses its exemplars this way, in the representation of the model that it carries on. As a sampler of
users it has no model, and takes their histories as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from numpy.typing import NDArray


def herd(
    rows: NDArray[np.floating[Any]] | sp.csr_array, costs: NDArray[np.integer], budget: float
) -> NDArray[np.int64]:
    """The rows that are taken, in their order, until together they cost `budget` (or all are taken).

    Equals in the order of the rows. A row of zeros is nowhere near anything: it comes last.
    """
    length = np.sqrt(np.maximum(np.asarray((rows * rows).sum(axis=1), np.float64).ravel(), 1e-30))
    sparse = sp.issparse(rows)
    unit: Any = sp.csr_array(sp.diags_array(1 / length) @ rows) if sparse else rows / length[:, None]
    mean = np.asarray(unit.mean(axis=0), np.float64).ravel()
    empty = np.where(length <= 1e-14, 1e9, 0.0)
    w, spent = mean.copy(), 0.0
    taken: list[int] = []
    out = np.zeros(len(length), bool)
    while spent < budget and len(taken) < len(length):
        # One product with all rows for each row taken: scores are exact, however many are taken.
        near = np.where(out, -np.inf, np.asarray(unit @ w).ravel() - empty)
        best = int(np.argmax(near))
        taken.append(best)
        out[best] = True
        spent += float(costs[best])
        w += mean
        w -= unit[[best]].toarray().ravel() if sparse else unit[best]
    return np.array(taken, np.int64)
