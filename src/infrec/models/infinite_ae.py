"""∞-AE: an autoencoder of infinite width, trained to the end, in closed form (the paper, section 3).

The whole model, for a binary (or weighted) matrix X of n users × d items:

    K = Θ(X, X)                          the Neural Tangent Kernel between users       kernels/{ntk,gram}.py
    α = (K + λ · (tr K / n) · I)⁻¹ X     ridge, λ relative to the mean diagonal         kernels/ridge.py
    score(x) = Θ(x, X) α                 any history x, of a user seen or never seen

One consequence makes choosing λ cheap: K α = X − λ (tr K / n) α, so the training users' scores, which
validation ranks, need no second product with K.

K grows with the square of the users. Where it does not fit, a few users S stand for all of them (Nyström):
α = (K_SX K_XS + λ m K_SS)⁻¹ K_SX X, from one pass over the users, and score(x) = Θ(x, S) α.
kernels/nystrom.py
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec import machine
from infrec.contents import Artifact
from infrec.data import Interactions, Vocabulary
from infrec.data.change import Change
from infrec.data.partitioned import PartitionedLog
from infrec.errors import DataError, InfrecError, SolveError
from infrec.kernels import Kernel, devices, kernel_of, nystrom, ridge, scores_gpu
from infrec.kernels.attribution import Contributions, attribute
from infrec.kernels.collectives import Team
from infrec.kernels.resident import ResidentMatrix
from infrec.kernels.scores_gpu import KernelScorer
from infrec.models import dislikes, infinite_ae_update
from infrec.models.dual import ExactSolver, InfiniteAEState, NystromSolver, Solver, arrays_of
from infrec.models.explanation import Explainable
from infrec.models.fitted import Fitted
from infrec.progress import Progress, silent
from infrec.search.criterion import JUDGES
from infrec.settings import AUTO, Auto, Settings, setting

logger = logging.getLogger(__name__)
DEEPEST = 100  # hidden layers; deeper kernels are the same for all pairs of users

GIVEN_CENTRES_GRID = (0.1, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)  # λ where a summary's users are centres
_BATCH = 1024  # histories whose kernel with all centres exists at a time
_OF_NYSTROM = ("centres", "seed")
_SOLVE_AGAIN = 1000  # up to so many users, α is solved again at loading instead of stored


@dataclass(frozen=True)
class InfiniteAESettings(Settings):
    """∞-AE has one hyper-parameter, `reg`; the others say how it is computed."""

    reg: float | Auto = setting(
        AUTO,
        "λ of the ridge, relative to the kernel's mean diagonal",
        least=0,
        search=(0, 1, 5, 20, 50, 100),  # the paper's grid
        fallback=5,
    )
    depth: int = setting(1, "hidden layers of the infinitely wide network", least=0, most=DEEPEST)
    dtype: Literal["float32", "float64"] = setting("float32", "precision of the solve")
    solver: Literal["auto", "exact", "nystrom"] = setting(
        AUTO,
        "`nystrom` lets a few users, the centres, stand for all; `auto` is exact where its memory suffices",
        decided_by_data=True,
    )
    centres: int = setting(
        2000,
        "how many users stand for all with `nystrom`, at random; or these users: `Interactions` in Python, "
        "`--centres SUMMARY`",
        least=1,
    )
    seed: int = setting(42, "seed of that choice", least=0)
    dislikes: float | Auto = setting(AUTO, dislikes.HELP, least=0, decided_by_data=True)

    @property
    def kernel(self) -> Kernel:
        """Θ between users."""
        return kernel_of(self.depth)


class InfiniteAE(Explainable):
    """One hyper-parameter, no training loop: fit is a kernel, a factorisation and a solve."""

    name: ClassVar[str] = "infinite-ae"
    settings_type: ClassVar = InfiniteAESettings
    state_type: ClassVar = InfiniteAEState
    settings: InfiniteAESettings
    state: InfiniteAEState

    if TYPE_CHECKING:  # `takes` knows numbers of centres alone

        def __init__(
            self,
            reg: float | Auto = ...,
            depth: int = ...,
            dtype: Literal["float32", "float64"] = ...,
            solver: Literal["auto", "exact", "nystrom"] = ...,
            *,
            centres: int | Interactions = ...,
            seed: int = ...,
            dislikes: float | Auto = ...,
        ) -> None: ...

    def __init__(  # type: ignore[no-redef]
        self, *args: Any, centres: int | Interactions = 2000, **settings: Any
    ) -> None:
        given = centres if isinstance(centres, Interactions) else None
        if isinstance(centres, Interactions):
            solver = settings.get("solver", AUTO)
            settings["solver"] = "nystrom" if solver == AUTO else solver
            centres = centres.n_users
        super().__init__(*args, centres=centres, **settings)
        self._given = given
        self._kernel_rows: dict[bytes, NDArray[Any]] | None = None  # while λ is chosen: all ask for them
        self._there: tuple[InfiniteAEState, KernelScorer] | None = None

    def path(
        self, interactions: Interactions, variants: Sequence[Mapping[str, Any]], progress: Progress = silent
    ) -> Iterator[tuple[dict[str, Any], Self | InfrecError]]:
        """One kernel for all λ, one factorisation for each, in one buffer; or one pass over the users."""
        solver: Solver | None = None
        solved_for, kernel_rows = None, dict[bytes, NDArray[Any]]()
        for changes in variants:
            model = self.with_settings(**changes)
            reg, but_reg = float(model.settings.reg), (replace(model.settings, reg=0), model._given)
            if solver is None or solved_for != but_reg:
                solver, solved_for = None, but_reg  # free the old first
                kernel_rows.clear()
                model.check_size(interactions)
                name, why = model.decide(interactions)
                logger.info("%s: solver %s: %s", self.name, name, why)
                solver = model._solver(name, interactions, progress)
            settings = replace(model.settings, solver=name)
            try:
                state = solver.state(reg, only=len(variants) == 1)
            except SolveError as failure:
                cause = ridge.with_cause(failure, settings.kernel, interactions.matrix, reg, settings.dtype)
                yield dict(changes), cause
                continue
            model = model.with_fit(Fitted(settings, interactions, state, {"solver": name, "why": why}))
            del state
            model._kernel_rows = kernel_rows
            try:
                yield dict(changes), model
            finally:
                model._kernel_rows = None  # it was judged; what it kept is for the next one

    def _solver(self, solver: str, log: Interactions, progress: Progress) -> Solver:
        s = self.settings
        if solver == "exact":
            return ExactSolver(log, s.kernel, s.dtype, progress)
        centres = self.given_centres(log.items) or _drawn_centres(log, s)
        return NystromSolver(log, centres, s.kernel, s.dtype, progress)

    @property
    def alpha(self) -> NDArray[np.floating[Any]]:
        """The dual solution, users × items."""
        return self._alpha.here

    @property
    def _alpha(self) -> ResidentMatrix:
        """At λ = 0 validation needs none, so it may be solved only here."""
        if self.state.alpha is None:
            self._fitted = replace(self.fitted, state=self._fit(self.log).state)
        assert self.state.alpha is not None
        return self.state.alpha

    def kernel(self, histories: sp.csr_array) -> NDArray[np.floating[Any]]:
        """Θ between histories and the centres.

        Args:
            histories: CSR rows over the model's items.
        """
        _ = self._alpha  # solved, if it was not
        return self.state.compared.kernel_rows(self.settings.kernel, histories)

    def _score(self, histories: sp.csr_array) -> NDArray[np.float32]:
        out = np.empty(histories.shape, np.float32)
        for start in range(0, histories.shape[0], _BATCH):
            some = slice(start, start + _BATCH)
            out[some] = self._times_alpha(self.kernel(histories[some]))
        return out

    def _times_alpha(self, kernel: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
        return self._alpha.left_multiply(kernel).astype(np.float32, copy=False)

    @property
    def is_interpolating(self) -> bool:
        """At λ = 0 the exact solution gives every training user their own history back."""
        return self.state.shift == 0

    def fitted_scores(self, rows: slice | NDArray[np.integer]) -> NDArray[np.float32]:
        """K α = X − λ (tr K / n) α, without K; with Nyström, from kernel rows kept for the next λ."""
        if self.state.shift is None:
            if self.settings.solver != "nystrom" or isinstance(rows, slice):
                return super().fitted_scores(rows)
            kept, key = self._kernel_rows if self._kernel_rows is not None else {}, rows.tobytes()
            if key not in kept:
                kept[key] = self.kernel(self.log.matrix[rows])
            return self._times_alpha(kept[key])
        scores = self.log.matrix[rows].toarray()
        if not self.is_interpolating:
            scores -= self._alpha.dtype.type(self.state.shift) * self._alpha.rows(rows)
        return scores

    def block_there(self, histories: sp.csr_array, size: int) -> Any:
        if self._there is None or self._there[0] is not self.state:
            alpha, among = self._alpha, self.state.centres.matrix
            n, items = alpha.shape
            if not alpha.goes_there() or not devices.has_room(KernelScorer.needs(n, items, size)):
                return None
            self._there = self.state, KernelScorer(among, self.settings.kernel, alpha.there)
        return self._there[1].scores(sp.csr_array(histories, dtype=np.float32), size)

    def fitted_block_there(self, rows: NDArray[np.integer], size: int) -> Any:
        if not self.needs_no_kernel or not self._alpha.goes_there():
            return None
        histories = sp.csr_array(self.log.matrix[rows], dtype=np.float32)
        return scores_gpu.fitted(histories, self._alpha.there, rows, self.state.shift or 0.0, size)

    @property
    def needs_no_kernel(self) -> bool:
        return bool(self.state.shift)

    # ---- more data, and less -------------------------------------------------------------------------------
    def check_update(self) -> None:
        """The log must be there: with centres alone, nobody else is known."""
        super().check_update()
        if self.state.popularity is not None:
            raise DataError(
                f"this model holds {self.centres.n_users:,} centres and not the log that it was fitted on, "
                "so it cannot be updated; fit it again on everything."
            )

    def _follow(self, change: Change, progress: Progress) -> Fitted:
        return infinite_ae_update.follow(self, change, progress)

    # ---- settings ------------------------------------------------------------------------------------------
    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments that make such a model; `centres` are those that were given, if any were."""
        given = {} if self._given is None else {"centres": self._given}
        return super().get_params(deep) | given

    def with_settings(self, **changes: Any) -> Self:
        """An unfitted variant, with the same given centres unless others are named."""
        if self._given is not None and "centres" not in changes:
            changes["centres"] = self._given
        return super().with_settings(**changes)

    @property
    def selected(self) -> dict[str, Any]:
        """The settings in use; an exact fit has no centres to speak of."""
        every = super().selected
        return {k: v for k, v in every.items() if k not in _OF_NYSTROM or every["solver"] != "exact"}

    def space_for(self, interactions: Interactions) -> dict[str, Sequence[Any]]:
        """On a summary, λ is tried from the grid that was made with it; with given centres, from theirs."""
        grid = interactions.reg_grid if self._given is None else GIVEN_CENTRES_GRID
        return {"reg": grid} if grid and self.settings.reg == AUTO else {}

    def decide(self, interactions: Interactions) -> tuple[Literal["exact", "nystrom"], str]:
        """Exact or Nyström, and why.

        Args:
            interactions: The log to fit on.
        """
        n, s = interactions.n_users, self.settings
        if s.solver != "auto":
            return s.solver, "as the settings say" if self._given is None else "the centres were given"
        needed, free, where = devices.exact_fit_budget(n, interactions.n_items, s.dtype)
        facts = (
            f"an exact fit of {n:,} users needs {machine.memory_size(needed)} and {where} has "
            f"{machine.memory_size(free)}"
        )
        if machine.memory_fits(needed, free) or n <= s.centres:
            return "exact", facts
        return "nystrom", f"{facts}, so {s.centres:,} users stand for all of them (Nyström)"

    def check_size(self, interactions: Interactions) -> None:
        """Before anything large is allocated: does it fit, and if not, what would?"""
        n, d, s = interactions.n_users, interactions.n_items, self.settings
        if self.decide(interactions)[0] == "nystrom":
            centres = min(s.centres, n) if self._given is None else self._given.n_users
            devices.require_nystrom(centres, d, s.dtype, rows=n, kept=min(n, JUDGES))
            return
        needed, free, _ = devices.exact_fit_budget(n, d, s.dtype)
        room = devices.users_that_fit(d, itemsize=np.dtype(s.dtype).itemsize, free=free)
        machine.require_memory(
            needed,
            f"an exact fit of {n:,} users",
            "let a few users stand for all of them (solver='nystrom'; `--set solver=nystrom`); or fit on "
            f"fewer users ({room:,} would fit): a sample (`infrec sample`), a summary (`infrec distill`); or "
            "use the model 'ease', whose size depends on the items alone",
            free=free,
        )

    # ---- few centres, many users ---------------------------------------------------------------------------
    @property
    def centres(self) -> Interactions:
        return self.state.centres

    def given_centres(self, items: Vocabulary) -> Interactions | None:
        """The centres that the caller brought for a log over these items; None: they are still to choose.

        Args:
            items: Items of the log.
        """
        if self._given is not None and self._given.items != items:
            raise DataError(
                f"the centres have {self._given.n_items} items and the log {len(items)}, or in "
                "another order; expected the same: align_items() brings a summary into the log's order."
            )
        return self._given

    def fit_prepared(
        self, dataset: PartitionedLog, *, team: Team | None = None, progress: Progress = silent
    ) -> Self:
        """Fit in place on a prepared dataset, partition by partition; see
        `infrec.models.infinite_ae_partitioned`.

        Memory does not grow with the log. The model knows its centres and no other user: ask it with
        histories.

        Args:
            dataset: The prepared dataset.
            team: The processes that fit together; only the first one has α afterwards.
            progress: Called while it works.
        """
        from infrec.models.infinite_ae_partitioned import PartitionedFit

        model = copy.copy(self)
        model._fitted = None
        self._fitted = PartitionedFit(model, dataset, team or Team(), progress).run()
        return self

    def with_only_centres(self) -> Self:
        """A model with equal scores that holds its centres and α alone, and knows no other user."""
        if self.log.dislikes is not None:
            raise DataError(
                "a model that keeps its centres alone has no place for dislikes, which belong to users; "
                "expected none: leave `negative` out, or keep all users."
            )
        state = InfiniteAEState(self.centres, self._alpha, popularity=self.popularity)
        return self.with_fit(replace(self.fitted, log=self.centres, state=state))

    def without_users(self) -> Self:
        few = self.settings.solver == "nystrom"
        return super(InfiniteAE, self.with_only_centres() if few else self).without_users()

    @property
    def popularity(self) -> NDArray[np.float32]:
        """The sum of each item's weights, over the log that was fitted."""
        return super().popularity if self.state.popularity is None else self.state.popularity

    def contributions(
        self, history: sp.csr_array, items: NDArray[np.integer], user: int | None = None
    ) -> Contributions:
        fitted, said = self.fitted, self.fitted.dislikes
        own = fitted.columns(self._alpha.columns, items)
        parts = attribute(self.settings.kernel, self.centres.matrix, own, history)
        if said is None:
            return parts
        lowered = said.contributions(history, fitted.columns(lambda at: said.alpha[:, at], items), user)
        same_users = self.centres.n_users == self.log.n_users == len(said.users)
        return parts.less(lowered, float(self.settings.dislikes), same_users=same_users)

    # ---- disk ----------------------------------------------------------------------------------------------
    def _arrays(self) -> dict[str, NDArray[Any]]:
        if self.settings.solver == "exact":
            return {} if self.log.n_users <= _SOLVE_AGAIN else arrays_of(self._alpha)
        if self.centres is self.log:
            known = self.state.popularity
            return arrays_of(self._alpha) | ({} if known is None else {"popularity": known})
        rows = self.centres.matrix
        parts = {"indptr": rows.indptr, "indices": rows.indices, "weights": rows.data}
        return arrays_of(self._alpha) | {f"centres.{name}": part for name, part in parts.items()}

    def _tables(self) -> dict[str, pa.Table]:
        return {} if self.centres is self.log else {"centres": pa.table({"id": self.centres.users.ids})}

    def _restore(self, artifact: Artifact, log: Interactions) -> InfiniteAEState:
        is_stored = not artifact.arrays.keys().isdisjoint(("alpha", "inverse"))
        if not is_stored and log.n_users <= _SOLVE_AGAIN and self.settings.solver == "exact":
            return self._fit(log).state
        return InfiniteAEState.read(artifact, self.settings, log)


def _drawn_centres(log: Interactions, settings: InfiniteAESettings) -> Interactions:
    """Users who stand for all; the log itself where it has no more."""
    rows = nystrom.draw_centres(log.user_counts, settings.centres, seed=settings.seed)
    if len(rows) == log.n_users:
        return log
    return Interactions(log.matrix[rows], Vocabulary(log.users.take(rows)), log.items)
