"""∞-AE after its log changed: equal to a fit on everything, and cheaper where that can be.

Exact, while only some users change and the items stay: rows of the inverse are exchanged
(kernels/ridge_update.py). The ridge λ · tr K / n stays the number that it was; λ in `settings` then says what
that is of the new mean diagonal, so that a fit from scratch with it is equal. (Another ridge moves every
eigenvalue: products of the inverse with α and with itself, which are a fit's cost.) Where it would leave the
λ of the fit by more than `DRIFT`, where items are new (the kernel divides by their number: it changes between
all users), or where many users change, the model is fitted again with the λ of the fit.

Nyström, while the items stay: the rows that changed are exchanged in the sums of the pass, and α is solved
for again. The centres stay the rows that they were, but for a user who is forgotten.

What this starts from is in memory alone. A loaded model is fitted again once, then goes on from that.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from infrec import machine
from infrec.data import Interactions
from infrec.data.change import Change
from infrec.errors import SolveError
from infrec.kernels import gram, nystrom, ridge
from infrec.kernels.resident import FactoredMatrix, ResidentMatrix
from infrec.kernels.ridge_update import Solution
from infrec.models.fitted import Fitted
from infrec.progress import Progress
from infrec.randomness import generator

if TYPE_CHECKING:
    from infrec.models.infinite_ae import InfiniteAE

DRIFT = 0.02  # of λ: how far it may be from that of the fit
ERROR = 5e-5  # of a reconstructed weight, at most; beyond, the model is fitted again
FEWEST = 1000  # users below whom a fit takes no time that is worth saving
SHARE = 8  # users for each one who may change
_CHECKED = 64  # users whose equations are looked at after an update
_NOMINAL = "reg_of_fit"


def follow(model: InfiniteAE, change: Change, progress: Progress) -> Fitted:
    """The fit after a change of the log.

    Args:
        model: The fitted model.
        change: The log before and after.
        progress: Called while it works.
    """
    fitted = _exchanged(model, change) if model.settings.solver == "exact" else _summed(model, change)
    if fitted is not None:
        return fitted
    nominal = model.about.get(_NOMINAL, model.settings.reg)
    changes: dict[str, Any] = {"reg": nominal}
    if model.settings.solver == "nystrom":
        changes["centres"] = _centres(model, change)
    unfitted = model.with_settings(**changes)
    unfitted.check_size(change.after)
    return replace(unfitted._fit(change.after, progress), candidates=model.fitted.candidates)


def _exchanged(model: InfiniteAE, change: Change) -> Fitted | None:
    """The exact fit with some rows exchanged; None where it has to be fitted again."""
    state, leave, come = model.state, change.taken_out, change.put_in
    before, after = change.before, change.after
    if (
        not isinstance(state.kept, ridge.Factor)
        or state.alpha is None
        or state.shift is None
        or change.has_new_items
        or min(before.n_users, after.n_users) < FEWEST
        or SHARE * (len(leave) + len(come)) > before.n_users
    ):
        return None
    n, itemsize = after.n_users, state.alpha.dtype.itemsize
    needed = itemsize * n * (n + n // SHARE * 2 + 2 * after.n_items)  # another inverse, α, and between
    if not machine.memory_fits(needed, machine.memory_available()):
        return None
    kernel, shift = model.settings.kernel, state.shift
    diagonal = kernel.diagonal(gram.squared_norms(after.matrix, np.float64), d=after.n_items)
    reg = shift / float(np.mean(diagonal, dtype=np.float64))
    nominal = model.about.get(_NOMINAL, model.settings.reg)
    if abs(reg - nominal) > DRIFT * nominal:
        return None
    stay = after.n_users < before.n_users  # users were forgotten: their rows stand there till the end
    x = before.matrix if stay else after.matrix
    try:
        solution = Solution(state.kept.inverse(), state.alpha.here, shift).exchange(kernel, x, leave, come)
    except np.linalg.LinAlgError:  # rounding has the last word
        return None
    solution = solution.keep(change.rows) if stay else solution
    if solution.error(kernel, after.matrix, _checked(after, come)) > ERROR:
        return None
    factor = ridge.Factor.inverted(solution.inverse, shift)
    alpha = ResidentMatrix(solution.alpha)
    if isinstance(state.alpha, FactoredMatrix):
        gram.mirror(solution.inverse)
        alpha = FactoredMatrix(solution.inverse.T, after.matrix)
    state = replace(state, centres=after, alpha=alpha, kept=factor)
    settings, about = replace(model.settings, reg=reg), {**model.about, _NOMINAL: nominal}
    return replace(model.fitted, settings=settings, log=after, state=state, about=about)


def _checked(log: Interactions, come: NDArray[np.integer]) -> NDArray[np.integer]:
    """Users whose equations are looked at: some of those that came, and others."""
    rng = generator(log.n_interactions, "checked after an update")
    some = rng.choice(log.n_users, min(_CHECKED, log.n_users), replace=False)
    return np.unique(np.concatenate([some, come[: _CHECKED // 4]]))


def _summed(model: InfiniteAE, change: Change) -> Fitted | None:
    """The Nyström fit from its sums; None where the pass has to be made again."""
    state, before, after = model.state, change.before, change.after
    if (
        not isinstance(state.kept, nystrom.Sums)
        or change.has_new_items
        or _centres(model, change) is not state.centres
    ):
        return None
    sums = copy(state.kept)
    sums.products, sums.targets = sums.products.copy(), sums.targets.copy()
    were, are = change.changed
    sums.exchange(before.matrix[were], after.matrix[are])
    gone, new = np.setdiff1d(change.taken_out, were), np.setdiff1d(change.put_in, are)
    for matrix, rows, sign in ((before.matrix, gone, -1), (after.matrix, new, 1)):
        if len(rows):
            sums.add_all(nystrom.same(matrix[rows]), sign=sign)
    try:
        alpha = ResidentMatrix(sums.solve(float(model.settings.reg)))
    except SolveError:
        return None
    state = replace(state, alpha=alpha, kept=sums)
    return replace(model.fitted, log=after, state=state)


def _centres(model: InfiniteAE, change: Change) -> Interactions:
    """The centres as they were, over the items of the new log; without those who are forgotten."""
    centres = model.centres
    if change.after.n_users < change.before.n_users:
        gone = change.before.users.take(change.taken_out)
        stays = np.ones(centres.n_users, bool)
        at = centres.users.positions(gone)
        stays[at[at >= 0]] = False
        if not stays.all():
            centres = centres.select_users(np.flatnonzero(stays))
    return centres if not change.has_new_items else centres.align_items(change.after.items)
