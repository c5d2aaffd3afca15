"""One trial of ∞-AE-plus's search: how well a log with some interactions hidden ranks what was hidden.

    parts:   by_users    the user side                                  a kernel, then a solve for each λ
             by_items    the item side on the histories                 an inverse for each μ
             completed   the item side on what the user side expects    one product
    quality: their sum, ranked for the judges

Each part is kept while candidates ask for it again. This is the trial in main memory;
`infinite_ae_plus_trial_gpu` has the one whose arrays never leave an accelerator.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import scipy.sparse as sp

from infrec import machine
from infrec.kernels import devices, gram
from infrec.machine import in_parallel
from infrec.models.two_sides import COMPLETED, ItemSide, Scales, UserSide
from infrec.search import criterion

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = TypeVar("T")
Settings = dict[str, Any]

OF_KERNEL = ("depth", "user_power", "item_power")  # what the kernel between users depends on
OF_USERS = (*OF_KERNEL, "reg", "target_power")  # … and the user side
OF_ITEMS = ("item_reg", "item_depth")
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
    _kernels: OrderedDict[Any, UserSide] = field(default_factory=OrderedDict)
    _by_users: OrderedDict[Any, Any] = field(default_factory=OrderedDict)
    _by_items: OrderedDict[Any, Any] = field(default_factory=OrderedDict)
    _completed: OrderedDict[Any, Any] = field(default_factory=OrderedDict)
    _weights: OrderedDict[Any, Any] = field(default_factory=OrderedDict)
    _item_side: ItemSide | None = None

    def __post_init__(self) -> None:
        self.scales = Scales.of(self.matrix)
        able = np.flatnonzero(np.diff(self.hidden.indptr))
        self.rows = rows = criterion.draw_judges(able, ENOUGH, "judges")
        self.seen = (self.matrix if self.context is None else self.context)[rows]
        self.held = self.hidden[rows]
        self.sample = spread(self.matrix.shape[0])

    def quality(self, s: Settings) -> NDArray[np.float64]:
        """The mean of NDCG@100 and HR@100 of each judge, in percent."""
        parts = [(self.by_users(s), 1.0)]
        if s["item_weight"]:
            ours = parts[0][0].spread
            for other, factor in zip((self.by_items(s), self.completed(s)), (1.0, COMPLETED), strict=True):
                parts.append((other, factor * s["item_weight"] * ratio(ours, other.spread)))
        columns = self.scales.of_items(s["popularity_power"]).astype(np.float32)
        return 100 * self._judged(parts, columns)

    # ---- parts, each kept under the settings that it depends on --------------------------------------------
    def by_users(self, s: Settings) -> Any:
        """The user side."""
        return _cached(self._by_users, 3, tuple(s[name] for name in OF_USERS), lambda: self._new_by_users(s))

    def by_items(self, s: Settings) -> Any:
        """The item side on the histories."""
        key = (s["item_depth"], s["item_reg"], s["target_power"])
        return _cached(self._by_items, 2, key, lambda: self._new_by_items(s))

    def completed(self, s: Settings) -> Any:
        """The item side on what the user side expects."""
        key = tuple(s[name] for name in (*OF_USERS, *OF_ITEMS))
        return _cached(self._completed, 2, key, lambda: self._new_completed(s))

    def _item_weights(self, s: Settings) -> Any:
        depth, reg = s["item_depth"], s["item_reg"]
        return _cached(self._weights, 2, (depth, reg), lambda: self._new_weights(depth, reg))

    def _user_side(self, s: Settings) -> UserSide:
        key = tuple(s[name] for name in OF_KERNEL)
        return _cached(self._kernels, self._kernels_with_room(), key, lambda: self._new_user_side(*key))

    # ---- how they are computed, and where ------------------------------------------------------------------
    def _new_user_side(self, depth: int, user_power: float, item_power: float) -> UserSide:
        return UserSide(self.matrix, self.scales, depth, user_power, item_power, self.dtype)

    def _new_by_users(self, s: Settings) -> Any:
        side, at = self._user_side(s), (s["reg"], s["target_power"])
        alpha = side.solve(*at)
        columns = self.scales.of_items(-s["item_power"]).astype(alpha.dtype)
        if self.context is None:
            judges = side.fitted(alpha, *at, self.rows)
        else:
            inputs = self.scales.weigh(self.seen, s["user_power"], s["item_power"])
            judges = side.solver.predict(inputs, alpha)
        return Scores(judges * columns, side.fitted(alpha, *at, self.sample) * columns)

    def _new_by_items(self, s: Settings) -> Any:
        def of(rows: sp.csr_array) -> NDArray[Any]:
            weighed = gram.scaled(rows, self.scales.of_rows(rows, s["target_power"]))
            return gram.sparse_times(weighed, self._item_weights(s))

        return Scores(of(self.seen), of(self.matrix[self.sample]))

    def _new_completed(self, s: Settings) -> Any:
        given, weights = self.by_users(s), self._item_weights(s)
        return Scores(devices.product(given.judges, weights), given.sample @ weights)

    def _new_weights(self, depth: int, reg: float) -> Any:
        if self._item_side is None:
            self._item_side = ItemSide(self.matrix, self.scales)
        return self._item_side.weights(depth, reg)

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
            return 2 if machine.memory_fits((2 - len(self._kernels)) * needed, free) else 1
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


def _cached(cache: OrderedDict[Any, T], size: int, key: Any, compute: Callable[[], T]) -> T:
    """The value of a key; the ones asked for longest ago make room before a new one is computed."""
    if key not in cache:
        while len(cache) >= size:
            cache.popitem(last=False)
        cache[key] = compute()
    cache.move_to_end(key)
    return cache[key]
