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
from infrec.models.two_sides import COMPLETED, ItemSide, LowPass, Scales, UserSide, count_compared
from infrec.search import criterion

if TYPE_CHECKING:
    from numpy.typing import NDArray

Settings = dict[str, Any]

_KERNEL = ("user_power", "item_power")
_SMOOTHER = (*_KERNEL, "reg")
_BY_USERS = (*_SMOOTHER, "target_power")
DEPENDS_ON = {  # the settings that each part, and each step towards one, depends on
    "kernel": _KERNEL,
    "smoother": _SMOOTHER,
    "by_users": _BY_USERS,
    "low_pass": ("target_power",),
    "weights": ("item_reg",),
    "by_items": ("item_reg", "target_power"),
    "completed": (*_BY_USERS, "item_reg"),
}
_SIZES = {"kernel": 2, "by_users": 3, "low_pass": 1}  # how many values of a part are kept, where it is not 2
ENOUGH = 4000  # users with something hidden who judge, over all trials; more are not asked
MOST_TRIALS = 6
SAMPLE = 1000  # training users from whose scores the two sides' scales are taken
_BLOCK = 256
_SPARSE = 18.0  # operations of a dense product in the time of a stored entry times a column
_ENTRY = 60.0  # … and in that of an entry of a kernel, or of scores that are added up and ranked


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
    _kept: dict[str, Kept] = field(default_factory=dict)
    _item_side: ItemSide | None = None

    def __post_init__(self) -> None:
        self.scales = Scales.of(self.matrix)
        able = np.flatnonzero(np.diff(self.hidden.indptr))
        self.rows = rows = criterion.draw_judges(able, ENOUGH, "judges")
        self.seen = (self.matrix if self.context is None else self.context)[rows]
        self.held = self.hidden[rows]
        self.sample = spread(self.matrix.shape[0])
        self._kept = {name: Kept(_SIZES.get(name, 2)) for name in DEPENDS_ON}
        self._kept["kernel"].size = self._kernels_with_room()

    def quality(self, s: Settings) -> NDArray[np.float64]:
        """The mean of NDCG@100 and HR@100 of each judge, in percent."""
        self._candidate += 1
        users = self.part("by_users", s)
        others = []
        if s["low_pass_weight"]:
            others.append((self.part("low_pass", s), s["low_pass_weight"]))
        if s["item_weight"]:
            others.append((self.part("by_items", s), s["item_weight"]))
            others.append((self.part("completed", s), s["item_weight"] * COMPLETED))
        parts = [
            (users, 1.0),
            *((part, weight * ratio(users.spread, part.spread)) for part, weight in others),
        ]
        columns = self.scales.of_items(s["popularity_power"]).astype(np.float32)
        return 100 * self._judged(parts, columns)

    def part(self, name: str, s: Settings) -> Any:
        """A part of the scores, or a step towards one, computed where it is not kept.

        Args:
            name: One of `DEPENDS_ON`.
            s: The settings of the candidate.
        """
        return self._kept[name].of(_key(name, s), self._candidate, lambda: getattr(self, f"_{name}")(s))

    def cost(self, s: Settings) -> float:
        """About how many operations `quality` needs for what is not kept, in those of a matrix product.

        Args:
            s: The settings of the candidate.
        """
        wanted = ["by_users"] + ["low_pass"] * bool(s["low_pass_weight"])
        wanted += ["by_items", "completed", "weights"] if s["item_weight"] else []
        new = {name for name in wanted if _key(name, s) not in self._kept[name]}
        if "by_users" in new:
            new |= {name for name in ("kernel", "smoother") if _key(name, s) not in self._kept[name]}
        (n, items), asked = self.matrix.shape, len(self.rows) + len(self.sample)
        compared, stored = count_compared(n, items), self.matrix.nnz
        costs = {
            "kernel": n * (_SPARSE * stored + _ENTRY * n),
            "smoother": n**3 / 3 + min(2 * n**3 / 3, 2 * n * n * asked),
            "by_users": _SPARSE * asked * stored,
            "weights": compared * (_SPARSE * stored + _ENTRY * compared + compared**2),
            "completed": 2 * asked * compared**2,
        }
        return _ENTRY * asked * items * len(wanted) + sum(costs.get(name, 0.0) for name in new)

    @staticmethod
    def with_room(n: int, items: int) -> int:
        """How many fit in memory side by side (kernels, weights, sets of scores of each); at least one."""
        each = 4 * (4 * n * n + 4 * count_compared(n, items) ** 2 + 8 * min(n, ENOUGH) * items)
        return int(np.clip(machine.memory_available() // (2 * each), 1, MOST_TRIALS))

    @cached_property
    def filter(self) -> LowPass:
        """The low-pass of the trial's log."""
        return LowPass.of(self.matrix, self.scales)

    # ---- how they are computed, and where ------------------------------------------------------------------
    def _kernel(self, s: Settings) -> UserSide:
        return UserSide(self.matrix, self.scales, s["user_power"], s["item_power"], self.dtype)

    def _smoother(self, s: Settings) -> Any:
        own = self.rows if self.context is None else self.rows[:0]
        others = None if self.context is None else self.seen
        return self.part("kernel", s).smoother(s["reg"], np.concatenate([own, self.sample]), others)

    def _by_users(self, s: Settings) -> Any:
        scores = np.asarray(self.part("kernel", s).expected(self.part("smoother", s), s["target_power"]))
        return Scores(scores[: len(self.rows)], scores[len(self.rows) :])

    def _of_histories(self, s: Settings, times: Callable[[sp.csr_array], NDArray[Any]]) -> Scores:
        """Scores by a linear part of the histories, which are divided by the target power of their norm."""

        def of(rows: sp.csr_array) -> NDArray[Any]:
            return times(gram.scaled(rows, self.scales.of_rows(rows, s["target_power"])))

        return Scores(of(self.seen), of(self.matrix[self.sample]))

    def _low_pass(self, s: Settings) -> Any:
        return self._of_histories(s, self.filter.times)

    def _by_items(self, s: Settings) -> Any:
        return self._of_histories(s, self.part("weights", s).times)

    def _completed(self, s: Settings) -> Any:
        given, weights = self.part("by_users", s), self.part("weights", s)
        return Scores(weights.times_expected(given.judges), weights.times_expected(given.sample))

    def _weights(self, s: Settings) -> Any:
        if self._item_side is None:
            self._item_side = ItemSide(self.matrix, self.scales)
        return self._item_side.weights(s["item_reg"])

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


def _key(name: str, s: Settings) -> tuple[Any, ...]:
    return tuple(s[setting] for setting in DEPENDS_ON[name])


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

    def __contains__(self, key: Any) -> bool:
        return key in self._values
