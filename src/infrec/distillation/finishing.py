"""Closed-form finishing: keep the synthetic users as centres, but solve α on all real users (Nyström).

The result is no longer a function of the summary alone: it is for those who may use the data and want a
small, fast model. It costs one pass over the users, whatever the number of λ tried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from infrec.errors import DataError
from infrec.models.infinite_ae import InfiniteAE
from infrec.progress import Progress, silent
from infrec.search.criterion import Candidate
from infrec.search.grid import select
from infrec.splits.holdout import held_out

if TYPE_CHECKING:
    from infrec.data import Interactions

REG_GRID = (0.1, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)


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
) -> InfiniteAE:
    """A model whose centres are the summary's users and whose α is solved on all of `train`; λ as in ∞-AE.

    reg: "auto" is chosen on `validation` (HR@100); without one, on a tenth that is set aside for it. The
    model holds the summary and α alone, nothing of a real user's history.
    """
    if summary.items != train.items:
        raise DataError(
            f"the summary has {summary.n_items} items and the log {train.n_items}, or in another order; "
            "expected the log that was distilled."
        )
    asked: Any = {"depth": depth, "dtype": dtype, "solver": "nystrom", "centres": summary}
    candidates: list[Candidate] = []
    best: InfiniteAE | None = None
    if reg == "auto":
        known = validation is not None and validation.n_interactions > 0
        shown, hidden = (train, validation) if known and validation is not None else held_out(train, seed)
        chosen, candidates = select(
            InfiniteAE(**asked), shown, hidden, [{"reg": each} for each in REG_GRID], progress=progress
        )
        best = chosen if known else None
        reg = chosen.settings.reg
    if best is None:
        best = InfiniteAE(reg=reg, **asked).fit(train, progress=progress)
    return best.with_candidates(candidates).with_only_centres()
