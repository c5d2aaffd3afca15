"""∞-AE-plus: ∞-AE on weighted histories, beside an ∞-AE between items; in closed form, tuned by itself.

    u(x) = Θ(x̃, X̃) α · pop^p
    score(x) = ( u(x)  +  w s ‖x‖^−t x B  +  ½ w s′ u(x) B ) · pop^−o

u is ∞-AE between users; B belongs to an ∞-AE between items, which reads the history and what u expects of it.
`two_sides` has both and what the weights mean, `infinite_ae_plus_search` how settings are chosen. s and s′
bring the terms to one scale. Everything but Θ and the sum over x is folded into α and B once, after the fit.

Plain ∞-AE is the case r = p = t = o = w = 0. `docs/quality.md` shows what each part contributes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec import machine
from infrec.contents import Artifact
from infrec.data import Interactions
from infrec.errors import DataError, SolveError
from infrec.kernels import devices, gram, nystrom, ridge
from infrec.models import centres, infinite_ae_plus_search
from infrec.models.base import Recommender
from infrec.models.explanation import Contributions, Explanation, explain
from infrec.models.infinite_ae import DEEPEST, InfiniteAE
from infrec.models.infinite_ae_plus_device import DeviceTrial
from infrec.models.infinite_ae_plus_trial import ENOUGH, Trial, ratio, spread, trials_with_room
from infrec.models.selection import Candidate, validate_alignment
from infrec.models.two_sides import COMPLETED, ItemSide, Scales, UserSide
from infrec.progress import Progress, silent
from infrec.randomness import generator
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
    depth: int | Auto = setting(
        AUTO, "hidden layers of the user side's kernel", least=0, most=DEEPEST, search=(1, 2, 3), fallback=1
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
    item_reg: float | Auto = setting(
        AUTO, "λ of the item side", least=0, search=(0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0), fallback=3.0
    )
    item_depth: int | Auto = setting(
        AUTO, "hidden layers of the item side's kernel", least=1, most=DEEPEST, search=(1, 2, 3), fallback=1
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
            depth=1 if self.depth == AUTO else self.depth,
            dtype=self.dtype,
            solver=self.solver,
            centres=self.centres,
            seed=self.seed,
        )


LADDERS = InfiniteAEPlusSettings.search_space()  # the values of each setting, in order
START = InfiniteAEPlusSettings.fallbacks()  # where the search begins: good on most data


class InfiniteAEPlus(Recommender):
    """No setting to choose: `fit` finds them on validation, or on what it hides from itself."""

    name: ClassVar[str] = "infinite-ae-plus"
    settings_type: ClassVar = InfiniteAEPlusSettings
    settings: InfiniteAEPlusSettings

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._scales: Scales | None = None
        self._core: InfiniteAE | None = None  # over weighted histories; its α carries the items' factors
        self._weights: NDArray[np.float32] | None = None  # B with all its factors; None without an item side
        self._centre_rows: NDArray[np.integer] | None = None

    @property
    def selected(self) -> dict[str, Any]:
        """The settings in use; an exact fit has no centres to speak of."""
        every = super().selected
        return {k: v for k, v in every.items() if k != "centres" or every["solver"] != "exact"}

    def variants(self, space: Mapping[str, Sequence[Any]] | None = None) -> list[dict[str, Any]]:
        """Where the search begins. It goes on from there instead of trying every combination."""
        return [{name: START[name] for name in self.auto_settings}]

    # ---- fitting -------------------------------------------------------------------------------------------
    def fit(
        self,
        interactions: Interactions,
        *,
        validation: Interactions | None = None,
        context: sp.csr_array | None = None,
        seconds: float | None = None,
        progress: Progress = silent,
    ) -> Self:
        """Fit in place. "auto" settings are chosen on `validation`; where it is small, also on parts hidden
        from `interactions` in turn; without one, on such parts alone. The fit is then on all `interactions`.

        context: the validation users' histories, where they are not the users of `interactions`.
        seconds: begin no further candidate after that time.
        """
        if interactions.n_interactions == 0:
            raise DataError(f"there are no interactions to fit {self.name} on; expected at least one.")
        if (asked := self._as_asked()) is not self:
            asked.fit(
                interactions, validation=validation, context=context, seconds=seconds, progress=progress
            )
            return self._take_over(asked)
        if validation is not None:
            validate_alignment(interactions, validation, known_users=context is None)
        if not self.auto_settings:
            return self._become(self._fitted(interactions, {}, progress), [])
        fixed = {name: value for name, value in self.selected.items() if name in LADDERS and value != AUTO}
        if not ItemSide.fits(interactions.n_items):
            fixed["item_weight"] = 0.0
        trials = self._trials(interactions, validation, context)
        if not trials:
            settings = {name: START[name] for name in self.auto_settings} | fixed
            reason = "used as it is: no user has enough interactions to hold one out"
            return self._become(
                self._fitted(interactions, settings, progress), [Candidate(settings, error=reason)]
            )
        best, candidates = infinite_ae_plus_search.search(
            trials, LADDERS, START, fixed, seconds=seconds, progress=progress
        )
        del trials
        return self._become(self._fitted(interactions, best, progress), candidates)

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
        room = trials_with_room(log.n_users, log.n_items)
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
        if self._shell().decide(log)[0] == "exact" or log.n_users <= _SEARCH_USERS:
            return None
        chosen = generator(self.settings.seed, "users to choose by").choice(
            log.n_users, _SEARCH_USERS, replace=False
        )
        return np.sort(chosen)

    def _fit(self, interactions: Interactions, progress: Progress = silent) -> Self:
        s, matrix = self.selected, interactions.matrix
        self._check_size(interactions)
        solver, why = self._shell().decide(interactions)
        self.about = {"solver": solver, "why": why}
        self.settings = replace(self.settings, solver=solver)
        scales = self._scales = Scales.of(matrix)
        progress("user side", 0, 1)
        sample = spread(matrix.shape[0])
        if solver == "exact":
            side = UserSide(matrix, scales, s["depth"], s["user_power"], s["item_power"], s["dtype"])
            alpha = side.solve(s["reg"], s["target_power"])
            wide = side.fitted(alpha, s["reg"], s["target_power"], sample)
            self._core = self._shell(interactions.with_matrix(side.inputs), alpha)
            del side
        else:
            alpha = self._few_centres(interactions, scales, progress)
            wide = self._core_score(matrix[sample])
        progress("user side", 1, 1)
        alpha *= scales.of_items(-s["item_power"]).astype(alpha.dtype)
        if s["item_weight"]:
            by_users = wide * scales.of_items(-s["item_power"]).astype(wide.dtype)
            self._weights = self._with_item_side(alpha, by_users, matrix, sample, progress)
        alpha *= scales.of_items(s["popularity_power"]).astype(alpha.dtype)
        assert self._core is not None
        self._core._right = None  # an accelerator may hold α as it was before the factors
        for part in (alpha, self._weights):
            if part is not None and not np.isfinite(part.sum(dtype=np.float64)):
                raise SolveError(
                    f"the scores overflow in {s['dtype']} (item_weight={s['item_weight']:g}, "
                    f"popularity_power={s['popularity_power']:g}); use smaller ones."
                )
        return self

    def _few_centres(self, log: Interactions, scales: Scales, progress: Progress) -> NDArray[Any]:
        """Nyström: a few users stand for all, in one pass over everybody."""
        s = self.selected
        chosen = centres.choose(log, s["centres"], seed=s["seed"])
        self._centre_rows = np.asarray(log.users.positions(chosen.users.ids))
        inputs = scales.weigh(chosen.matrix, s["user_power"], s["item_power"])
        features = devices.nystrom_features(inputs, self._shell().settings.kernel, s["dtype"])
        item_columns = scales.of_items(s["item_power"])

        def blocks() -> Any:
            for x, _ in nystrom.same(log.matrix):
                rows = scales.of_rows(x, s["target_power"])
                yield scales.weigh(x, s["user_power"], s["item_power"]), gram.scaled(x, rows, item_columns)

        sums = features.sums(log.n_items)
        sums.add_all(blocks(), total=log.n_users, progress=progress)
        alpha = sums.solve(s["reg"])
        self._core = self._shell(chosen.with_matrix(inputs), alpha)
        return alpha

    def _with_item_side(
        self,
        alpha: NDArray[Any],
        by_users: NDArray[Any],
        matrix: sp.csr_array,
        sample: NDArray[np.integer],
        progress: Progress,
    ) -> NDArray[np.float32]:
        """The item side's weights; α takes in, in place, what the item side makes of the user side."""
        s = self.selected
        assert self._scales is not None
        progress("item side", 0, 1)
        weights = ItemSide(matrix, self._scales).weights(s["item_depth"], s["item_reg"])
        ours = float(by_users.std())
        of_histories = float(gram.sparse_times(self._item_rows(matrix[sample]), weights).std())
        of_expected = float((by_users @ weights).std())
        again = COMPLETED * s["item_weight"] * ratio(ours, of_expected)
        devices.add_product(alpha, weights, again)
        factor = s["item_weight"] * ratio(ours, of_histories)
        weights *= (factor * self._scales.of_items(s["popularity_power"])).astype(np.float32)
        progress("item side", 1, 1)
        return weights

    def _shell(self, log: Interactions | None = None, alpha: NDArray[Any] | None = None) -> InfiniteAE:
        """∞-AE over weighted histories, with an α that was solved here."""
        core = self.settings.core()
        core._log, core._alpha = log, alpha
        return core

    # ---- scores --------------------------------------------------------------------------------------------
    @property
    def core(self) -> InfiniteAE:
        """The user side: ∞-AE over weighted histories."""
        _ = self.log  # raises when not fitted
        assert self._core is not None
        return self._core

    def _weighted(self, histories: sp.csr_array) -> sp.csr_array:
        assert self._scales is not None
        s = self.selected
        return self._scales.weigh(histories, s["user_power"], s["item_power"])

    def _core_score(self, histories: sp.csr_array) -> NDArray[np.float32]:
        assert self._core is not None
        return self._core._score(self._weighted(histories))

    def _item_rows(self, histories: sp.csr_array) -> sp.csr_array:
        """Histories as the item side takes them: divided by the target power of their norm."""
        assert self._scales is not None
        return gram.scaled(histories, self._scales.of_rows(histories, self.selected["target_power"]))

    def _score(self, histories: sp.csr_array) -> NDArray[np.float32]:
        out = self._core_score(histories)
        if self._weights is not None:
            out += gram.sparse_times(self._item_rows(histories), self._weights)
        return out

    def explain(self, history: Sequence[object], item: object) -> Explanation:
        """How much each item of the history and each training user contributed to the score of `item`.

        Items add up to score − baseline. Users add up to the score without what the item side makes of the
        history itself, which knows items alone.
        """
        return explain(self, history, item)

    @property
    def centres(self) -> Interactions:
        """The users that the user side's scores are sums over."""
        return self.core.centres

    def contributions(self, history: sp.csr_array, items: NDArray[np.integer]) -> Contributions:
        """Contributions to the scores of several items at once, for one history (a CSR row)."""
        parts = self.core.contributions(self._weighted(history), items)
        if self._weights is None:
            return parts
        row = self._item_rows(history)
        added = row.data[:, None].astype(np.float64) * self._weights[np.ix_(row.indices, items)]
        return Contributions(
            parts.by_item + added, parts.by_user, parts.kernel, parts.baseline, added.sum(axis=0)
        )

    def _similarity(self, item: int) -> NDArray[np.floating[Any]]:
        """Scores of a history of this item alone, less those of an empty one: score({item}) − score({})."""
        one = sp.csr_array(([1.0], ([0], [item])), shape=(2, self.log.n_items), dtype=np.float32)
        with_it, without = self._score(one)
        return with_it - without

    # ---- disk ----------------------------------------------------------------------------------------------
    def _arrays(self) -> dict[str, NDArray[Any]]:
        if self.log.n_users <= _SOLVE_AGAIN:
            return {}
        arrays: dict[str, NDArray[Any]] = {"alpha": self.core.alpha}
        if self._weights is not None:
            arrays["weights"] = self._weights
        if self._centre_rows is not None:
            arrays["centres"] = self._centre_rows
        return arrays

    def _restore(self, artifact: Artifact) -> None:
        n_users, n_items = self.log.n_users, self.log.n_items
        if "alpha" not in artifact.arrays and n_users <= _SOLVE_AGAIN:
            self._fit(self.log)
            return
        self._scales, among = Scales.of(self.log.matrix), self.log
        if self.settings.item_weight:
            self._weights = artifact.array("weights", n_items, n_items)
        if "centres" in artifact.arrays:
            self._centre_rows = artifact.positions("centres", None, n_users)
            among = self.log.select_users(self._centre_rows)
        alpha = artifact.array("alpha", among.n_users, n_items)
        self._core = self._shell(among.with_matrix(self._weighted(among.matrix)), alpha)

    def _check_size(self, interactions: Interactions) -> None:
        self._shell()._check_size(interactions)
        if self.settings.item_weight not in (AUTO, 0):
            machine.require_memory(
                ridge.ItemRidge.needs(interactions.n_items),
                f"the item side of {self.name} over {interactions.n_items:,} items",
                "leave it out (item_weight=0; `--set item_weight=0`), or use a machine with more memory",
            )
