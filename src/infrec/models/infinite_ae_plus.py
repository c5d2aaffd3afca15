"""∞-AE-plus: ∞-AE on weighted histories, beside an ∞-AE between items; in closed form, tuned by itself.

    u(x) = Θ(x̃, X̃) α · pop^p
    score(x) = ( u(x)  +  v s″ ‖x‖^−t x F  +  w s ‖x‖^−t x B  +  ½ w s′ u(x) B ) · pop^−o

u is ∞-AE between users; F keeps the leading singular vectors of the log; B belongs to an ∞-AE between items,
which reads the history and what u expects of it. `two_sides` has the three and what the weights mean,
`search.ladder` how settings are chosen. s, s′ and s″ bring the terms to one scale. Everything but Θ and the
sum over x is folded into α, F and B once, after the fit.

Plain ∞-AE is the case r = p = t = o = v = w = 0. `docs/quality.md` shows what each part contributes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec import machine
from infrec.contents import Artifact
from infrec.data import Interactions
from infrec.errors import SolveError
from infrec.kernels import devices, gram, nystrom
from infrec.kernels.attribution import Contributions
from infrec.kernels.resident import ResidentMatrix
from infrec.models.dual import InfiniteAEState
from infrec.models.explanation import Explainable
from infrec.models.fitted import Fitted, State
from infrec.models.infinite_ae import InfiniteAE
from infrec.models.infinite_ae_plus_trial import ENOUGH, Trial, ratio, spread
from infrec.models.infinite_ae_plus_trial_gpu import DeviceTrial
from infrec.models.two_sides import COMPLETED, ItemSide, ItemWeights, LowPass, Scales, UserSide
from infrec.progress import Progress, silent
from infrec.randomness import generator
from infrec.search.criterion import Candidate
from infrec.search.ladder import Climb, Ladders
from infrec.search.tunable import Strategy, takes
from infrec.settings import AUTO, Auto, Settings, setting

_SOLVE_AGAIN = 1000  # up to so many users, everything is solved again at loading instead of stored
_SEARCH_USERS = 6000  # where not all users fit in memory, settings are chosen on so many of them


@dataclass(frozen=True)
class InfiniteAEPlusSettings(Settings):
    """The search tries the values of a setting in order, and begins at its fallback."""

    reg: float | Auto = setting(
        AUTO,
        "λ of the user side, relative to its kernel's mean diagonal",
        least=0,
        search=tuple(5.0 * 2.0**k for k in range(-6, 7)),
        fallback=5.0,
    )
    user_power: float | Auto = setting(
        AUTO, "histories are divided by this power of their norm", search=(0.0, 0.5, 1.0), fallback=1.0
    )
    item_power: float | Auto = setting(
        AUTO, "and by this power of the items' popularity", search=(0.0, 0.1, 0.2, 0.3), fallback=0.2
    )
    target_power: float | Auto = setting(
        AUTO,
        "what is reconstructed is divided by this power of the norm",
        search=(0.0, 0.5, 1.0),
        fallback=0.5,
    )
    low_pass_weight: float | Auto = setting(
        AUTO,
        "weight of the history's part in the log's leading singular vectors",
        least=0,
        search=(0.0, 0.25, 0.5, 1.0),
        fallback=0.25,
    )
    item_reg: float | Auto = setting(
        AUTO, "λ of the item side", least=0, search=(0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0), fallback=3.0
    )
    item_weight: float | Auto = setting(
        AUTO, "weight of the item side, 0 for none", least=0, search=(0.0, 0.25, 0.5, 1.0, 2.0), fallback=0.5
    )
    popularity_power: float | Auto = setting(
        AUTO,
        "scores are divided by this power of the items' popularity",
        search=(-0.1, 0.0, 0.1, 0.2, 0.3, 0.4),
        fallback=0.1,
    )
    solver: Literal["auto", "exact", "nystrom"] = setting(
        AUTO,
        "`nystrom` lets a few users, the centres, stand for all; `auto` is exact where its memory suffices",
        decided_by_data=True,
    )
    centres: int = setting(2000, "how many users stand for all with `nystrom`, at random", least=1)
    seed: int = setting(42, "seed of the centres and of what the search hides", least=0)
    dtype: Literal["float32", "float64"] = setting("float32", "precision of the solve")

    def core(self) -> InfiniteAE:
        """∞-AE with the settings that the user side shares with it."""
        return InfiniteAE(
            reg=1.0 if self.reg == AUTO else self.reg,
            dtype=self.dtype,
            solver=self.solver,
            centres=self.centres,
            seed=self.seed,
        )


# Candidates share what they can: a kernel serves every λ and target power of its weighting, and what changes
# only the end of the computation (weight of the item side, popularity) reuses the scores before it. So
# settings that cost a kernel, then a solve, come first and once; cheap ones until nothing changes.
_ROUNDS = (
    (
        "reg",
        "low_pass_weight",
        "item_weight",
        "popularity_power",
        "user_power",
        "item_power",
        "target_power",
        "reg",
    ),
    ("item_reg", "item_weight", "low_pass_weight", "popularity_power", "reg"),
    ("item_weight", "low_pass_weight", "popularity_power", "reg"),
)
LADDERS = Ladders(
    values=InfiniteAEPlusSettings.search_space(),
    start=InfiniteAEPlusSettings.fallbacks(),  # good on most data
    rounds=_ROUNDS,
    idle={"item_weight": ("item_reg",)},
    beside={"reg": "popularity_power"},  # less smoothing of the user side leaves less popularity to take away
)


@dataclass(frozen=True, eq=False)
class InfiniteAEPlusState(State):
    """Both sides, with all their factors.

    Args:
        scales: Size of histories and popularity of items in the log.
        core: The user side: ∞-AE over weighted histories, whose α carries the items' factors.
        weights: B of the item side with all its factors; None without an item side.
        low_pass: F with all its factors; None without it.
        centre_rows: The rows of the centres in the log; None where all users are.
        shift: λ m of the user side, with which scores of training users need no kernel; None where few
            centres stand for all.
        share: How much `weights` count on what the user side expects, beside the history.
    """

    scales: Scales
    core: InfiniteAE
    weights: ItemWeights | None = None
    low_pass: LowPass | None = None
    centre_rows: NDArray[np.integer] | None = None
    shift: float | None = None
    share: float = 0.0


_MOST_OPERATIONS = 6e13  # of a search in main memory that has no limit of time: ten minutes at 100 GFLOP/s


class InfiniteAEPlus(Explainable):
    """No setting to choose: `fit` finds them on validation, or on what it hides from itself."""

    name: ClassVar[str] = "infinite-ae-plus"
    strategy: ClassVar[Strategy] = "ladder"
    settings_type: ClassVar = InfiniteAEPlusSettings
    state_type: ClassVar = InfiniteAEPlusState
    settings: InfiniteAEPlusSettings
    state: InfiniteAEPlusState

    @takes(InfiniteAEPlusSettings)
    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)

    @property
    def selected(self) -> dict[str, Any]:
        """The settings in use; an exact fit has no centres to speak of."""
        every = super().selected
        return {k: v for k, v in every.items() if k != "centres" or every["solver"] != "exact"}

    def variants(self, space: Mapping[str, Sequence[Any]] | None = None) -> list[dict[str, Any]]:
        """Where the search begins. It goes on from there instead of trying every combination."""
        return [{name: LADDERS.start[name] for name in self.auto_settings}]

    # ---- fitting -------------------------------------------------------------------------------------------
    def climb(
        self,
        log: Interactions,
        validation: Interactions | None,
        *,
        context: sp.csr_array | None,
        seconds: float | None,
        progress: Progress,
    ) -> tuple[dict[str, Any], list[Candidate]]:
        """The "auto" settings, chosen on `validation`; where it is small, also on parts hidden from `log` in
        turn; without one, on such parts alone."""
        begun = time.perf_counter()
        fixed = {
            name: value for name, value in self.selected.items() if name in LADDERS.values and value != AUTO
        }
        if not machine.memory_fits(ItemSide.needs(log.n_users, log.n_items), machine.memory_available()):
            fixed["item_weight"] = 0.0
        trials = self._trials(log, validation, context)
        if not trials:
            settings = {name: LADDERS.start[name] for name in self.auto_settings} | fixed
            reason = "used as it is: no user has enough interactions to hold one out"
            return settings, [Candidate(settings, error=reason)]
        most = None
        if seconds is not None:
            seconds -= time.perf_counter() - begun
        elif type(trials[0]) is Trial:
            most = _MOST_OPERATIONS
        return Climb(trials, LADDERS, fixed, seconds=seconds, operations=most, progress=progress).run()

    def _trials(
        self, log: Interactions, validation: Interactions | None, context: sp.csr_array | None
    ) -> list[Trial]:
        """The given validation part, then parts of the log hidden in turn until enough users judge."""
        from infrec.splits import hide

        rows = self._searched(log)
        if rows is not None:  # the kernel of all users has no room: choose on some of them
            log = log.select_users(rows)
            if validation is not None and context is None:
                validation = validation.select_users(rows)
        parts: list[tuple[sp.csr_array, sp.csr_array, sp.csr_array | None]] = []
        if validation is not None and validation.n_interactions:
            parts.append((log.matrix, validation.matrix, context))
        room = Trial.with_room(log.n_users, log.n_items)
        while len(parts) < room and sum(np.count_nonzero(np.diff(part[1].indptr)) for part in parts) < ENOUGH:
            left, hidden = hide(log, seed=self.settings.seed + len(parts))
            if not hidden.n_interactions or not left.n_interactions:
                break
            parts.append((left.matrix, hidden.matrix, None))
        dtype = self.settings.dtype
        there = DeviceTrial.fits(log.n_users, log.n_items, dtype, trials=len(parts))
        kind = DeviceTrial if there else Trial
        return [kind(*part, dtype) for part in parts]

    def _searched(self, log: Interactions) -> NDArray[np.integer] | None:
        """The users on whom settings are chosen; None for all of them."""
        if self.settings.core().decide(log)[0] == "exact" or log.n_users <= _SEARCH_USERS:
            return None
        rows = generator(self.settings.seed, "users to choose by").choice(
            log.n_users, _SEARCH_USERS, replace=False
        )
        return np.sort(rows)

    def _fit(self, interactions: Interactions, progress: Progress = silent) -> Fitted:
        solver, why = self.settings.core().decide(interactions)
        s: Any = replace(self.settings, solver=solver)  # none of them is "auto" here
        matrix, scales = interactions.matrix, Scales.of(interactions.matrix)
        sample, centre_rows, weights, low_pass = spread(matrix.shape[0]), None, None, None
        shift, share = None, 0.0
        progress("user side", 0, 1)
        if solver == "exact":
            side = UserSide(matrix, scales, s.user_power, s.item_power, s.dtype)
            alpha = side.solve(s.reg, s.target_power)
            wide = side.fitted(alpha, s.reg, s.target_power, sample)
            among, shift = interactions.with_matrix(side.inputs), s.reg * side.mean_diagonal
            del side
        else:
            centre_rows = nystrom.draw_centres(interactions.user_counts, s.centres, seed=s.seed)
            among = interactions.select_users(centre_rows)
            among = among.with_matrix(scales.weigh(among.matrix, s.user_power, s.item_power))
            alpha = ResidentMatrix(self._few_centres(interactions, among.matrix, scales, progress))
            histories = scales.weigh(matrix[sample], s.user_power, s.item_power)
            wide = _user_side(s, among, alpha)._score(histories)
        progress("user side", 1, 1)
        alpha.scale_columns(scales.of_items(-s.item_power))
        by_users = wide * scales.of_items(-s.item_power).astype(wide.dtype)
        histories = gram.scaled(matrix[sample], scales.of_rows(matrix[sample], s.target_power))
        columns = scales.of_items(s.popularity_power)
        if s.low_pass_weight:
            low_pass = LowPass.of(matrix, scales)
            scale = ratio(float(by_users.std()), float(low_pass.times(histories).std()))
            low_pass = low_pass.times_columns(s.low_pass_weight * scale * columns)
        if s.item_weight:
            progress("item side", 0, 1)
            weights, share = self._item_side(alpha, by_users, matrix, scales, histories)
            weights.scale_columns(columns)
            progress("item side", 1, 1)
        alpha.scale_columns(columns)
        parts = [alpha]
        parts += [] if weights is None else [weights.matrix]
        parts += [] if low_pass is None else [ResidentMatrix(low_pass.back)]
        for part in parts:
            if not part.is_finite:
                raise SolveError(
                    f"the scores overflow in {s.dtype} (item_weight={s.item_weight:g}, "
                    f"popularity_power={s.popularity_power:g}); use smaller ones."
                )
        core = _user_side(s, among, alpha)
        state = InfiniteAEPlusState(scales, core, weights, low_pass, centre_rows, shift, share)
        return Fitted(s, interactions, state, {"solver": solver, "why": why})

    def _few_centres(
        self, log: Interactions, inputs: sp.csr_array, scales: Scales, progress: Progress
    ) -> NDArray[Any]:
        """α of a few users who stand for all (Nyström), in one pass over everybody."""
        s: Any = self.settings
        features = devices.nystrom_features(inputs, s.core().settings.kernel, s.dtype)
        item_columns = scales.of_items(s.item_power)

        def blocks() -> Any:
            for x, _ in nystrom.same(log.matrix):
                rows = scales.of_rows(x, s.target_power)
                yield scales.weigh(x, s.user_power, s.item_power), gram.scaled(x, rows, item_columns)

        sums = features.sums(log.n_items)
        sums.add_all(blocks(), total=log.n_users, progress=progress)
        return sums.solve(s.reg)

    def _item_side(
        self,
        alpha: ResidentMatrix,
        by_users: NDArray[Any],
        matrix: sp.csr_array,
        scales: Scales,
        histories: sp.csr_array,
    ) -> tuple[ItemWeights, float]:
        """The item side's weights; α takes in, in place, what they make of the user side, times the share
        that is returned too."""
        s: Any = self.settings
        weights = ItemSide(matrix, scales).weights(s.item_reg)
        of_histories = float(weights.times(histories).std())
        share = COMPLETED * ratio(of_histories, float(weights.times_expected(by_users).std()))
        factor = s.item_weight * ratio(float(by_users.std()), of_histories)
        weights.add_expected(alpha, factor * share)
        weights.scale_columns(np.full(matrix.shape[1], factor))
        return weights, share

    # ---- scores --------------------------------------------------------------------------------------------
    def _weighted(self, histories: sp.csr_array) -> sp.csr_array:
        s: Any = self.settings
        return self.state.scales.weigh(histories, s.user_power, s.item_power)

    def _linear_rows(self, histories: sp.csr_array) -> sp.csr_array:
        """Histories as low-pass and item side take them: divided by the target power of their norm."""
        s: Any = self.settings
        return gram.scaled(histories, self.state.scales.of_rows(histories, s.target_power))

    def _score(self, histories: sp.csr_array) -> NDArray[np.float32]:
        out, rows = self.state.core._score(self._weighted(histories)), self._linear_rows(histories)
        for part in (self.state.low_pass, self.state.weights):
            if part is not None:
                out += part.times(rows)
        return out

    def fitted_scores(self, rows: slice | NDArray[np.integer]) -> NDArray[np.float32]:
        """K α is targets − λ m α before the item side reads it, so no kernel is needed."""
        s: Any = self.settings
        state = self.state
        if state.shift is None:
            return super().fitted_scores(rows)
        histories = self._linear_rows(self.log.matrix[rows])
        out = state.core._alpha.rows(rows)
        out *= out.dtype.type(-state.shift)
        targets = gram.scaled(histories, None, state.scales.of_items(s.popularity_power))
        out[gram.rows_of(targets), targets.indices] += targets.data
        if state.low_pass is not None:
            out += state.low_pass.times(histories)
        if state.weights is not None:
            out += np.float32(1 + state.share) * state.weights.times(histories)
        return out.astype(np.float32, copy=False)

    @property
    def needs_no_kernel(self) -> bool:
        return bool(self.state.shift)

    def block_there(self, histories: sp.csr_array, size: int) -> Any:
        state, rows = self.state, self._linear_rows(histories)
        parts = [part for part in (state.low_pass, state.weights) if part is not None]
        room = 2 * sum(part.nbytes for part in parts)
        if not devices.use_accelerator(state.core.centres.n_users, "float32") or not devices.has_room(room):
            return None
        scores = state.core.block_there(self._weighted(histories), size)
        for part in parts if scores is not None else ():
            scores = part.add_there(scores, rows)
        return scores

    @property
    def centres(self) -> Interactions:
        return self.state.core.centres

    def contributions(
        self, history: sp.csr_array, items: NDArray[np.integer], user: int | None = None
    ) -> Contributions:
        state, placed = self.state, self.fitted.new_items
        core = state.core.with_fit(replace(state.core.fitted, new_items=placed))
        parts, row = core.contributions(self._weighted(history), items), self._linear_rows(history)
        added = np.zeros((len(row.indices), len(items)))
        for part in (state.low_pass, state.weights):
            if part is not None:
                added += self.fitted.columns(partial(part.between, row.indices), items)
        added *= row.data[:, None]
        return Contributions(
            parts.by_item + added, parts.by_user, parts.kernel, parts.baseline, added.sum(axis=0)
        )

    # ---- disk ----------------------------------------------------------------------------------------------
    def _arrays(self) -> dict[str, NDArray[Any]]:
        if self.log.n_users <= _SOLVE_AGAIN:
            return {}
        state = self.state
        arrays = {"alpha": state.core.alpha, "centres": state.centre_rows}
        if state.shift is not None:
            arrays["fitted"] = np.array([state.shift, state.share])
        if state.weights is not None:
            arrays |= {"weights": state.weights.matrix.here, "compared": state.weights.columns}
        if state.low_pass is not None:
            arrays |= {"low_pass_into": state.low_pass.into, "low_pass_back": state.low_pass.back}
        return {name: array for name, array in arrays.items() if array is not None}

    @classmethod
    def _saved_settings(cls, artifact: Artifact) -> dict[str, Any]:
        """Models saved before 0.2.0 have depths, which were 1 nearly always, and no low-pass."""
        for name in ("depth", "item_depth"):
            if artifact.manifest["settings"].get(name, 1) != 1:
                raise artifact.unsound(f"its {name} is not 1, which this version cannot do: fit it again")
        return {"low_pass_weight": 0.0, **super()._saved_settings(artifact)}

    def _restore(self, artifact: Artifact, log: Interactions) -> InfiniteAEPlusState:
        n_users, n_items = log.n_users, log.n_items
        if "alpha" not in artifact.arrays and n_users <= _SOLVE_AGAIN:
            return self._fit(log).state
        s: Any = self.settings
        scales, among, weights, low_pass, centre_rows = Scales.of(log.matrix), log, None, None, None
        if s.low_pass_weight:
            back = artifact.array("low_pass_back", None, n_items)
            low_pass = LowPass(artifact.array("low_pass_into", *back.shape[::-1]), back)
        if s.item_weight:
            every = np.arange(n_items)  # before 0.2.0 all were
            some = artifact.positions("compared", None, n_items) if "compared" in artifact.arrays else every
            weights = ItemWeights(some, ResidentMatrix(artifact.array("weights", len(some), len(some))))
        if "centres" in artifact.arrays:
            centre_rows = artifact.positions("centres", None, n_users)
            among = log.select_users(centre_rows)
        alpha = artifact.array("alpha", among.n_users, n_items)
        fitted = artifact.array("fitted", 2) if "fitted" in artifact.arrays else (None, 0.0)  # since 0.2.0
        among = among.with_matrix(scales.weigh(among.matrix, s.user_power, s.item_power))
        core = _user_side(s, among, ResidentMatrix(alpha))
        return InfiniteAEPlusState(scales, core, weights, low_pass, centre_rows, *fitted)

    def check_size(self, interactions: Interactions) -> None:
        self.settings.core().check_size(interactions)
        if self.settings.item_weight not in (AUTO, 0):
            machine.require_memory(
                ItemSide.needs(interactions.n_users, interactions.n_items),
                f"the item side of {self.name} over {interactions.n_items:,} items",
                "leave it out (item_weight=0; `--set item_weight=0`), or use a machine with more memory",
            )


def _user_side(settings: InfiniteAEPlusSettings, among: Interactions, alpha: ResidentMatrix) -> InfiniteAE:
    """∞-AE over weighted histories, with an α that was solved elsewhere."""
    core = settings.core()
    return core.with_fit(Fitted(core.settings, among, InfiniteAEState(among, alpha)))
