"""How ∞-AE-plus chooses its settings: one at a time, up and down a ladder of values, on hidden interactions.

A trial is a log with some interactions hidden, and a candidate's quality is the mean of NDCG@100 and HR@100
(what is found, and in which order) of the users who had some hidden. Three things keep the search cheap and
its choice steady:

- Candidates share what they can: a kernel serves every λ and target power of its weighting, and what changes
  only the end of the computation (weight of the item side, popularity) reuses the scores before it.
- Where the given validation part is small, further parts of the log are hidden in turn until enough users
  judge (`ENOUGH`), so that no choice hangs on a few of them. A candidate that is clearly worse on the first
  trial is not taken through the others.
- The search starts at values that are good on most data and moves to a neighbour only when the same users,
  compared one by one, rank it better by more than a standard error of that comparison: noise leaves it there.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import scipy.sparse as sp

from infrec.errors import SolveError
from infrec.kernels import accelerated, gram, memory
from infrec.kernels.threads import in_parallel
from infrec.metrics.accuracy import truncated_ndcg, truncated_recall
from infrec.metrics.ranking import hits, top_k
from infrec.models.selection import Candidate, cutoff
from infrec.models.two_sides import COMPLETED, ItemSide, Scales, UserSide
from infrec.progress import Progress, silent
from infrec.randomness import generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = TypeVar("T")
Settings = dict[str, Any]

# The values of each setting, in order. The search begins at START.
LADDERS: Mapping[str, tuple[Any, ...]] = {
    "reg": tuple(5.0 * 2.0**k for k in range(-6, 7)),
    "user_power": (0.0, 0.5, 1.0),
    "item_power": (0.0, 0.1, 0.2, 0.3),
    "depth": (1, 2, 3),
    "target_power": (0.0, 0.5, 1.0),
    "item_reg": (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
    "item_depth": (1, 2, 3),
    "item_weight": (0.0, 0.25, 0.5, 1.0, 2.0),
    "popularity_power": (-0.1, 0.0, 0.1, 0.2, 0.3, 0.4),
}
START: Mapping[str, Any] = {
    "reg": 5.0,
    "user_power": 1.0,
    "item_power": 0.2,
    "depth": 1,
    "target_power": 0.5,
    "item_reg": 3.0,
    "item_depth": 1,
    "item_weight": 0.5,
    "popularity_power": 0.1,
}
# Costly ones (a kernel, then a solve) first and once; cheap ones until nothing changes.
ROUNDS = (
    ("reg", "item_weight", "popularity_power", "user_power", "item_power", "depth", "reg", "target_power"),
    ("item_depth", "item_reg", "item_weight", "popularity_power", "reg"),
    ("item_weight", "popularity_power", "reg"),
)
OF_USERS = ("depth", "user_power", "item_power", "reg", "target_power")  # what the user side depends on
OF_ITEMS = ("item_reg", "item_depth")
ENOUGH = 4000  # users with something hidden who judge, over all trials; more are not asked
MOST_TRIALS = 6
_SAMPLE = 1000  # training users from whose scores the two sides' scales are taken
_BLOCK = 256
_CLEARLY = 2.0  # standard errors by which a candidate is worse before the other trials are spared


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
    _by_users: OrderedDict[Any, Scores] = field(default_factory=OrderedDict)
    _by_items: OrderedDict[Any, Scores] = field(default_factory=OrderedDict)
    _completed: OrderedDict[Any, Scores] = field(default_factory=OrderedDict)
    _weights: OrderedDict[Any, NDArray[np.float32]] = field(default_factory=OrderedDict)
    _item_sides: OrderedDict[int, ItemSide] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        self.scales = Scales.of(self.matrix)
        rows = np.flatnonzero(np.diff(self.hidden.indptr))
        if len(rows) > ENOUGH:
            rows = np.sort(generator(0, "judges").choice(rows, ENOUGH, replace=False))
        self.rows = rows
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
        k = cutoff(self.matrix.shape[1])
        out = np.empty(len(self.rows))

        def judge(start: int) -> None:
            some = slice(start, start + _BLOCK)
            scores = sum(np.float32(factor) * part.judges[some] for part, factor in parts) * columns
            found = hits(top_k(scores, k, exclude=self.seen[some]), self.held[some])
            held = np.diff(self.held[some].indptr)
            out[some] = 50 * (truncated_ndcg(found, held) + truncated_recall(found, held))

        in_parallel(judge, range(0, len(out), _BLOCK))
        return out

    def by_users(self, s: Settings) -> Scores:
        """The user side."""
        of_kernel = (s["depth"], s["user_power"], s["item_power"])
        at = (s["reg"], s["target_power"])

        def compute() -> Scores:
            side = _cached(
                self._kernels,
                _kernels_with_room(self.matrix.shape[0]),
                of_kernel,
                lambda: UserSide(self.matrix, self.scales, *of_kernel, self.dtype),
            )
            alpha = side.solve(*at)
            columns = self.scales.of_items(-s["item_power"]).astype(alpha.dtype)
            if self.context is None:
                judges = side.fitted(alpha, *at, self.rows)
            else:
                inputs = self.scales.weigh(self.seen, s["user_power"], s["item_power"])
                judges = gram.kernel(inputs, side.inputs, depth=s["depth"], dtype=self.dtype) @ alpha
            return Scores(judges * columns, side.fitted(alpha, *at, self.sample) * columns)

        return _cached(self._by_users, 3, (*of_kernel, *at), compute)

    def by_items(self, s: Settings) -> Scores:
        """The item side on the histories."""

        def compute() -> Scores:
            def of(rows: sp.csr_array) -> NDArray[Any]:
                weighed = gram.scaled(rows, self.scales.of_rows(rows, s["target_power"]))
                return gram.sparse_times(weighed, self._item_weights(s))

            return Scores(of(self.seen), of(self.matrix[self.sample]))

        return _cached(self._by_items, 2, (s["item_depth"], s["item_reg"], s["target_power"]), compute)

    def completed(self, s: Settings) -> Scores:
        """The item side on what the user side expects."""

        def compute() -> Scores:
            given, weights = self.by_users(s), self._item_weights(s)
            return Scores(accelerated.product(given.judges, weights), given.sample @ weights)

        return _cached(self._completed, 2, tuple(s[name] for name in (*OF_USERS, *OF_ITEMS)), compute)

    def _item_weights(self, s: Settings) -> NDArray[np.float32]:
        depth, reg = s["item_depth"], s["item_reg"]

        def compute() -> NDArray[np.float32]:
            side = _cached(self._item_sides, 1, depth, lambda: ItemSide(self.matrix, self.scales, depth))
            return side.weights(reg)

        return _cached(self._weights, 2, (depth, reg), compute)


def search(
    trials: Sequence[Trial],
    fixed: Mapping[str, Any],
    *,
    start: Mapping[str, Any] = START,
    bar: float = 1.0,
    seconds: float | None = None,
    progress: Progress = silent,
) -> tuple[Settings, list[Candidate]]:
    """The settings that rank what is hidden best, and everything that was tried. `fixed` ones stay.

    bar: the standard errors by which a candidate must be better; 0 believes every number.
    """
    return _Search(trials, {**start, **fixed}, frozenset(fixed), bar, seconds, progress).run()


class _Search:
    def __init__(
        self,
        trials: Sequence[Trial],
        start: Settings,
        fixed: frozenset[str],
        bar: float,
        seconds: float | None,
        progress: Progress,
    ) -> None:
        self.trials, self.bar, self.progress = trials, bar, progress
        self.open = [name for name in LADDERS if name not in fixed]
        self.deadline = None if seconds is None else time.perf_counter() + seconds
        self.best = start
        self.best_quality: list[NDArray[np.float64]] | None = None
        self.tried: dict[tuple[Any, ...], Candidate] = {}

    def run(self) -> tuple[Settings, list[Candidate]]:
        self.best_quality = self._measure(self.best)
        for axes in ROUNDS:
            before = self.best
            for axis in axes:
                if axis in self.open:
                    self._climb(axis)
            if before == self.best and axes is not ROUNDS[0]:
                break
        if self.best_quality is None:
            raise SolveError(
                f"all {len(self.tried)} candidate settings failed; the last one said: "
                f"{list(self.tried.values())[-1].error}"
            )
        return self.best, list(self.tried.values())

    def _climb(self, axis: str) -> None:
        """Step along one ladder while it helps; the other direction only where the first did not."""
        for step in (1, -1):
            moved = False
            while self._better(neighbour := self._neighbour(axis, step)):
                assert neighbour is not None
                self.best, moved = neighbour, True
            if moved:
                return

    def _neighbour(self, axis: str, step: int) -> Settings | None:
        ladder = LADDERS[axis]
        value = self.best[axis]
        nearest = int(np.argmin([abs(value - one) for one in ladder]))
        at = nearest + step
        if not 0 <= at < len(ladder):
            return None
        if axis in OF_ITEMS and not self.best["item_weight"]:
            return None
        changes = {axis: ladder[at]}
        ridge = {"depth": "reg", "item_depth": "item_reg"}.get(axis)
        if ridge in self.open:  # a deeper kernel has a larger diagonal for its content
            wanted = self.best[ridge] * value / ladder[at]
            changes[ridge] = min(LADDERS[ridge], key=lambda reg: abs(np.log(reg / wanted)))
        return self.best | changes

    def _better(self, candidate: Settings | None) -> bool:
        """Measure a candidate against the best; remember it when it is better by more than chance."""
        if candidate is None or _key(candidate) in self.tried or self._late():
            return False
        quality = self._measure(candidate)
        if quality is None:
            return False
        if self.best_quality is not None:
            gain, error = _compare(quality, self.best_quality)
            if not gain > self.bar * error:
                return False
        self.best_quality = quality
        return True

    def _measure(self, candidate: Settings) -> list[NDArray[np.float64]] | None:
        """Quality of each judge in each trial; None when it failed or was dropped after the first trial."""
        begin = time.perf_counter()
        quality: list[NDArray[np.float64]] = []
        error = dropped = None
        for trial in self.trials:
            try:
                quality.append(trial.quality(candidate))
            except SolveError as failure:
                error = str(failure)
                break
            if self.best_quality is not None and len(quality) < len(self.trials):
                gain, noise = _compare(quality, self.best_quality[: len(quality)])
                if gain < -_CLEARLY * noise:
                    dropped = f"clearly worse after {len(quality)} of {len(self.trials)} trials"
                    break
        whole = error is None and dropped is None
        score = float(np.concatenate(quality).mean()) if whole else None
        spent = time.perf_counter() - begin
        self.tried[_key(candidate)] = Candidate(dict(candidate), score, error, spent, dropped=dropped)
        self.progress("choose settings", len(self.tried), None, score=score)
        return quality if whole else None

    def _late(self) -> bool:
        return self.deadline is not None and time.perf_counter() >= self.deadline


def trials_with_room(n: int, items: int) -> int:
    """How many trials fit in memory side by side (kernels, weights, sets of scores of each); at least one."""
    each = 4 * (4 * n * n + 4 * items * items + 8 * min(n, ENOUGH) * items)
    return int(np.clip(memory.available() // (2 * each), 1, MOST_TRIALS))


def spread(n: int) -> NDArray[np.integer]:
    """Up to `_SAMPLE` of n rows, evenly spread."""
    return np.unique(np.linspace(0, n - 1, min(n, _SAMPLE)).astype(np.int64))


def ratio(user_scale: float, item_scale: float) -> float:
    """What brings the item side to the scale of the user side."""
    return user_scale / item_scale if item_scale > 0 else 0.0


def _compare(new: Sequence[NDArray[np.float64]], old: Sequence[NDArray[np.float64]]) -> tuple[float, float]:
    """The mean difference over the same judges, and its standard error."""
    difference = np.concatenate(new) - np.concatenate(old)
    return float(difference.mean()), float(difference.std() / np.sqrt(max(1, len(difference))))


def _key(settings: Settings) -> tuple[Any, ...]:
    without = settings if settings["item_weight"] else settings | dict.fromkeys(OF_ITEMS, 0.0)
    return tuple(sorted(without.items()))


def _cached(cache: OrderedDict[Any, T], size: int, key: Any, compute: Callable[[], T]) -> T:
    """The value of a key; the ones asked for longest ago make room before a new one is computed."""
    if key not in cache:
        while len(cache) >= size:
            cache.popitem(last=False)
        cache[key] = compute()
    cache.move_to_end(key)
    return cache[key]


def _kernels_with_room(n: int) -> int:
    return 2 if memory.fits(4 * 4 * n * n, memory.available()) else 1
