"""Closed-form finishing: keep the synthetic users as centres, but solve α on all real users (Nyström).

The result is no longer a function of the summary alone: it is for those who may use the data and want a
small, fast model. It costs one pass over the users, whatever the number of λ tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from infrec.data import Interactions
from infrec.distillation.holdout import held_out
from infrec.errors import DataError
from infrec.kernels import gram, ntk, nystrom
from infrec.models.infinite_ae import InfiniteAE
from infrec.models.selection import Candidate, validation_score
from infrec.progress import Progress, silent

if TYPE_CHECKING:
    from numpy.typing import NDArray

REG_GRID = (0.1, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_ROWS = 2048


class Finished(InfiniteAE):
    """∞-AE with synthetic users as centres and α solved on the whole log; loaded as an `InfiniteAE`."""

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"alpha": self.alpha}


def finish(
    summary: Interactions,
    train: Interactions,
    reg: float | Literal["auto"] = "auto",
    *,
    validation: Interactions | None = None,
    depth: int = 1,
    dtype: Literal["float32", "float64"] = "float32",
    seed: int = 42,
    progress: Progress = silent,
) -> Finished:
    """A model whose centres are the summary's users and whose α is solved on all of `train`; λ as in ∞-AE.

    reg: "auto" is chosen on `validation` (HR@100); without one, on a tenth that is set aside for it.
    """
    if summary.items != train.items:
        raise DataError(
            f"the summary has {summary.n_items} items and the log {train.n_items}, or in another order; "
            "expected the log that was distilled."
        )
    candidates: list[Candidate] = []
    if reg == "auto":
        known = validation is not None and validation.n_interactions > 0
        shown, hidden = (train, validation) if known and validation is not None else held_out(train, seed)
        for model in _models(summary, shown, REG_GRID, depth, dtype, progress):
            score = validation_score(model, hidden.matrix, context=shown.matrix)
            candidates.append(Candidate({"reg": model.settings.reg}, score))
            if score >= max(candidate.score or 0.0 for candidate in candidates):
                best = model
        if not known:
            (best,) = _models(summary, train, (float(best.settings.reg),), depth, dtype, progress)
    else:
        (best,) = _models(summary, train, (float(reg),), depth, dtype, progress)
    best.candidates = candidates
    return best


def _models(
    summary: Interactions,
    train: Interactions,
    regs: tuple[float, ...],
    depth: int,
    dtype: Literal["float32", "float64"],
    progress: Progress,
) -> Iterator[Finished]:
    """One pass over the users, then a model for each λ."""
    centres = summary.matrix
    sums = nystrom.Sums.empty(summary.n_users, train.n_items)
    for start in range(0, train.n_users, _ROWS):
        rows = train.matrix[start : start + _ROWS]
        squares = gram.squared_norms(rows)
        sums.add(
            gram.kernel(rows, centres, depth=depth).astype(np.float64),
            rows,
            ntk.diagonal(squares, d=train.n_items, depth=depth),
        )
        progress("finish", min(start + _ROWS, train.n_users), train.n_users)
    between = gram.kernel(centres, depth=depth)
    for reg in regs:
        model = Finished(reg=reg, depth=depth, dtype=dtype)
        model._log = summary
        model._alpha = sums.solve(between, reg=reg).astype(dtype)
        yield model
