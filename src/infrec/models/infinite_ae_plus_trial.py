"""One trial of ∞-AE-plus's search: how well a log with some interactions hidden ranks what was hidden.

    parts:   by_users    the user side                                  a kernel, then a solve for each λ
             low_pass    the histories' part in the leading vectors     one product
             by_items    the item side on the histories                 an inverse for each μ
             completed   the item side on what the user side expects    one product
    quality: their sum, ranked for the judges

Nothing is solved for anybody but the judges and a sample.

Each part is kept while candidates ask for it again. This is the trial in main memory;
`infinite_ae_plus_trial_gpu` has the one whose arrays never leave an accelerator.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from infrec import machine
from infrec.kernels import devices, gram
from infrec.machine import in_parallel
from infrec.models.two_sides import COMPLETED, ItemSide, LowPass, Scales, UserSide
from infrec.search import criterion

if TYPE_CHECKING:
    from numpy.typing import NDArray

Settings = dict[str, Any]

OF_KERNEL = ("user_power", "item_power")  # what the kernel between users depends on
OF_SMOOTHER = (*OF_KERNEL, "reg")  # … and what makes scores of its targets
OF_USERS = (*OF_SMOOTHER, "target_power")  # … and the user side
ENOUGH = 4000  # users with something hidden who judge, over all trials; more are not asked
MOST_TRIALS = 6
SAMPLE = 1000  # training users from whose scores the two sides' scales are taken
_BLOCK = 256


@dataclass(frozen=True, eq=False)
class Scores:
    """One part of the scores: of the judges, and of a sample of training users, whose spread is its scale."""

    judges: NDArray[Any]
    sample: NDArray[Any]

    @cached_property
    def spread(self) -> float:
        return float(self.sample.std())


@dataclass(eq=False)
class Trial:
    """A log to fit on, the users who judge, and what was hidden from them; with what candidates share."""

    matrix: sp.csr_array
    hidden: sp.csr_array
    context: sp.csr_array | None = None  # the judges' histories, where they are not the log's own users
    dtype: str = "float32"
    rows: NDArray[np.integer] = field(init=False)
    _candidate: int = 0
    _kernels: Kept = field(default_factory=lambda: Kept(2))
    _smoothers: Kept = field(default_factory=lambda: Kept(2))
    _by_users: Kept = field(default_factory=lambda: Kept(3))
    _low_pass: Kept = field(default_factory=lambda: Kept(1))
    _by_items: Kept = field(default_factory=lambda: Kept(2))
    _completed: Kept = field(default_factory=lambda: Kept(2))
    _weights: Kept = field(default_factory=lambda: Kept(2))
    _item_side: ItemSide | None = None

    def __post_init__(self) -> None:
        self.scales = Scales.of(self.matrix)
        able = np.flatnonzero(np.diff(self.hidden.indptr))
        self.rows = rows = criterion.draw_judges(able, ENOUGH, "judges")
        self.seen = (self.matrix if self.context is None else self.context)[rows]
        self.held = self.hidden[rows]
        self.sample = spread(self.matrix.shape[0])
        self._kernels.size = self._kernels_with_room()

    def quality(self, s: Settings) -> NDArray[np.float64]:
        """The mean of NDCG@100 and HR@100 of each judge, in percent."""
        self._candidate += 1
        users = self.by_users(s)
        others = []
        if s["low_pass_weight"]:
            others.append((self.low_pass(s), s["low_pass_weight"]))
        if s["item_weight"]:
            others.append((self.by_items(s), s["item_weight"]))
            others.append((self.completed(s), s["item_weight"] * COMPLETED))
        parts = [
            (users, 1.0),
            *((part, weight * ratio(users.spread, part.spread)) for part, weight in others),
        ]
        columns = self.scales.of_items(s["popularity_power"]).astype(np.float32)
        return 100 * self._judged(parts, columns)

    # ---- parts, each kept under the settings that it depends on --------------------------------------------
    def by_users(self, s: Settings) -> Any:
        """The user side."""
        return self._by_users.of(
            tuple(s[name] for name in OF_USERS), self._candidate, lambda: self._new_by_users(s)
        )

    def low_pass(self, s: Settings) -> Any:
        """The histories' part in the leading vectors."""
        return self._low_pass.of(s["target_power"], self._candidate, lambda: self._new_low_pass(s))

    def by_items(self, s: Settings) -> Any:
        """The item side on the histories."""
        key = (s["item_reg"], s["target_power"])
        return self._by_items.of(key, self._candidate, lambda: self._new_by_items(s))

    def completed(self, s: Settings) -> Any:
        """The item side on what the user side expects."""
        key = tuple(s[name] for name in (*OF_USERS, "item_reg"))
        return self._completed.of(key, self._candidate, lambda: self._new_completed(s))

    def _item_weights(self, s: Settings) -> Any:
        return self._weights.of(s["item_reg"], self._candidate, lambda: self._new_weights(s["item_reg"]))

    def _user_side(self, s: Settings) -> UserSide:
        key = tuple(s[name] for name in OF_KERNEL)
        return self._kernels.of(key, self._candidate, lambda: self._new_user_side(*key))

    def _smoother(self, s: Settings) -> Any:
        key = tuple(s[name] for name in OF_SMOOTHER)
        return self._smoothers.of(key, self._candidate, lambda: self._new_smoother(s))

    @cached_property
    def filter(self) -> LowPass:
        """The low-pass of the trial's log."""
        return LowPass.of(self.matrix, self.scales)

    # ---- how they are computed, and where ------------------------------------------------------------------
    def _new_user_side(self, user_power: float, item_power: float) -> UserSide:
        return UserSide(self.matrix, self.scales, user_power, item_power, self.dtype)

    def _new_smoother(self, s: Settings) -> Any:
        own = self.rows if self.context is None else self.rows[:0]
        others = None if self.context is None else self.seen
        return self._user_side(s).smoother(s["reg"], np.concatenate([own, self.sample]), others)

    def _new_by_users(self, s: Settings) -> Any:
        scores = self._user_side(s).expected(self._smoother(s), s["target_power"])
        return Scores(scores[: len(self.rows)], scores[len(self.rows) :])

    def _of_histories(self, s: Settings, times: Callable[[sp.csr_array], NDArray[Any]]) -> Scores:
        """Scores by a linear part of the histories, which are divided by the target power of their norm."""

        def of(rows: sp.csr_array) -> NDArray[Any]:
            return times(gram.scaled(rows, self.scales.of_rows(rows, s["target_power"])))

        return Scores(of(self.seen), of(self.matrix[self.sample]))

    def _new_low_pass(self, s: Settings) -> Any:
        return self._of_histories(s, self.filter.times)

    def _new_by_items(self, s: Settings) -> Any:
        return self._of_histories(s, self._item_weights(s).times)

    def _new_completed(self, s: Settings) -> Any:
        given, weights = self.by_users(s), self._item_weights(s)
        return Scores(weights.times_expected(given.judges), weights.times_expected(given.sample))

    def _new_weights(self, reg: float) -> Any:
        if self._item_side is None:
            self._item_side = ItemSide(self.matrix, self.scales)
        return self._item_side.weights(reg)

    def _judged(
        self, parts: Sequence[tuple[Any, float]], columns: NDArray[np.float32]
    ) -> NDArray[np.float64]:
        """The quality of each judge, 0 to 1, from the parts and their factors and a factor for each item."""
        out = np.empty(len(self.rows))

        def judge(start: int) -> None:
            some = slice(start, start + _BLOCK)
            scores = sum(np.float32(factor) * part.judges[some] for part, factor in parts) * columns
            out[some] = criterion.quality(scores, self.seen[some], self.held[some], "both")

        in_parallel(judge, range(0, len(out), _BLOCK))
        return out

    def _kernels_with_room(self) -> int:
        """Two, so that the best one is kept while another is tried; or one."""
        n, items = self.matrix.shape
        if devices.use_accelerator(n, self.dtype):
            needed, free, _ = devices.exact_fit_budget(n, items, self.dtype)
            return 2 if machine.memory_fits(2 * needed, free) else 1
        return 2 if machine.memory_fits(4 * 4 * n * n, machine.memory_available()) else 1


def trials_with_room(n: int, items: int) -> int:
    """How many trials fit in memory side by side (kernels, weights, sets of scores of each); at least one."""
    each = 4 * (4 * n * n + 4 * items * items + 8 * min(n, ENOUGH) * items)
    return int(np.clip(machine.memory_available() // (2 * each), 1, MOST_TRIALS))


def spread(n: int) -> NDArray[np.integer]:
    """Up to `SAMPLE` of n rows, evenly spread."""
    return np.unique(np.linspace(0, n - 1, min(n, SAMPLE)).astype(np.int64))


def ratio(user_scale: float, item_scale: float) -> float:
    """The factor that brings the item side to the scale of the user side."""
    return user_scale / item_scale if item_scale > 0 else 0.0


@dataclass(eq=False)
class Kept:
    """The last few values of a computation; those that only one candidate asked for make room first, so that
    the best candidate's stay while others are tried beside it."""

    size: int
    _values: OrderedDict[Any, tuple[int, Any]] = field(default_factory=OrderedDict)

    def of(self, key: Any, candidate: int, compute: Callable[[], Any]) -> Any:
        """The value of a key.

        Args:
            key: What the value depends on.
            candidate: The number of the candidate that asks.
            compute: Called for a new key, after others have made room.
        """
        if key in self._values:
            first, value = self._values[key]
            if first != candidate:
                self._values.move_to_end(key)
            return value
        while len(self._values) >= self.size:
            self._values.popitem(last=False)
        value = compute()
        self._values[key] = candidate, value
        self._values.move_to_end(key, last=False)
        return value

    def __len__(self) -> int:
        return len(self._values)
