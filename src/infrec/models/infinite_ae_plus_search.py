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
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from infrec.errors import SolveError
from infrec.models.infinite_ae_plus_trial import OF_ITEMS, Settings, Trial
from infrec.models.selection import Candidate
from infrec.progress import Progress, silent

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Costly ones (a kernel, then a solve) first and once; cheap ones until nothing changes.
ROUNDS = (
    ("reg", "item_weight", "popularity_power", "user_power", "item_power", "depth", "reg", "target_power"),
    ("item_depth", "item_reg", "item_weight", "popularity_power", "reg"),
    ("item_weight", "popularity_power", "reg"),
)
_CLEARLY = 2.0  # standard errors by which a candidate is worse before the other trials are spared


def search(
    trials: Sequence[Trial],
    ladders: Mapping[str, Sequence[Any]],
    start: Mapping[str, Any],
    fixed: Mapping[str, Any],
    *,
    bar: float = 1.0,
    seconds: float | None = None,
    progress: Progress = silent,
) -> tuple[Settings, list[Candidate]]:
    """The settings that rank what is hidden best, and everything that was tried. `fixed` ones stay.

    ladders: the values of each setting, in order. start: where the search begins.
    bar: the standard errors by which a candidate must be better; 0 believes every number.
    """
    return _Search(trials, ladders, {**start, **fixed}, frozenset(fixed), bar, seconds, progress).run()


class _Search:
    def __init__(
        self,
        trials: Sequence[Trial],
        ladders: Mapping[str, Sequence[Any]],
        start: Settings,
        fixed: frozenset[str],
        bar: float,
        seconds: float | None,
        progress: Progress,
    ) -> None:
        self.trials, self.ladders, self.bar, self.progress = trials, ladders, bar, progress
        self.open = [name for name in ladders if name not in fixed]
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
        ladder = self.ladders[axis]
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
            changes[ridge] = min(self.ladders[ridge], key=lambda reg: abs(np.log(reg / wanted)))
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


def _compare(new: Sequence[NDArray[np.float64]], old: Sequence[NDArray[np.float64]]) -> tuple[float, float]:
    """The mean difference over the same judges, and its standard error."""
    difference = np.concatenate(new) - np.concatenate(old)
    return float(difference.mean()), float(difference.std() / np.sqrt(max(1, len(difference))))


def _key(settings: Settings) -> tuple[Any, ...]:
    without = settings if settings["item_weight"] else settings | dict.fromkeys(OF_ITEMS, 0.0)
    return tuple(sorted(without.items()))
