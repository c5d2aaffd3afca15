"""Settings are chosen one at a time, up and down a ladder of values, on hidden interactions.

A trial is a log with some interactions hidden; it says how good a candidate is for each user who had some
hidden. Three things keep the search cheap and its choice steady:

- A candidate that is clearly worse on the first trial is not taken through the others.
- A candidate that would take longer than the search may is left out; cheaper ones are still tried.
- The search starts at values that are good on most data and moves to a neighbour only when the same users,
  compared one by one, rank it better by more than a standard error of that comparison: noise leaves it there.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from infrec.errors import SolveError
from infrec.progress import Progress, silent
from infrec.search.criterion import Candidate

if TYPE_CHECKING:
    from numpy.typing import NDArray

Settings = dict[str, Any]

_CLEARLY = 2.0  # standard errors by which a candidate is worse before the other trials are spared


class Trial(Protocol):
    """A log with some interactions hidden."""

    def quality(self, settings: Settings) -> NDArray[np.float64]:
        """How well these settings rank what was hidden, for each user who judges, in percent."""

    def cost(self, settings: Settings) -> float:
        """About how many operations `quality` will need, with what it has kept of earlier settings."""


@dataclass(frozen=True)
class Ladders:
    """The settings of a model that are climbed.

    Args:
        values: The values of each setting, in order.
        start: Where the search begins.
        rounds: The order in which settings are climbed, round by round; all but the first round end the
            search when nothing changed.
        idle: The settings that change nothing while another one is 0, by the name of that one.
        beside: A setting that is also moved one step, up or down, where the one it is named by is: the two
            make up for each other, so that neither helps alone.
    """

    values: Mapping[str, Sequence[Any]]
    start: Mapping[str, Any]
    rounds: Sequence[Sequence[str]]
    idle: Mapping[str, Sequence[str]] = field(default_factory=dict)
    beside: Mapping[str, str] = field(default_factory=dict)

    def idle_at(self, settings: Settings) -> set[str]:
        """The settings that change nothing here."""
        return {name for switch, names in self.idle.items() if not settings[switch] for name in names}


@dataclass(eq=False)
class Climb:
    """A search along the ladders.

    Args:
        trials: What candidates are judged by.
        ladders: The values to try.
        fixed: Settings that keep their value.
        bar: The standard errors by which a candidate must be better; 0 believes every number.
        seconds: Leave out what would end after that time, by its cost and the speed so far; the start is
            measured in any case.
        operations: Leave out what would take more than that in all.
        progress: Called after each candidate.
    """

    trials: Sequence[Trial]
    ladders: Ladders
    fixed: Mapping[str, Any]
    bar: float = 1.0
    seconds: float | None = None
    operations: float | None = None
    progress: Progress = silent

    def __post_init__(self) -> None:
        self.open = [name for name in self.ladders.values if name not in self.fixed]
        self.begun, self.spent = time.perf_counter(), 0.0
        self.best: Settings = {**self.ladders.start, **self.fixed}
        self.best_quality: list[NDArray[np.float64]] | None = None
        self.tried: dict[tuple[Any, ...], Candidate] = {}
        self.expected = 0.0

    def run(self) -> tuple[Settings, list[Candidate]]:
        """The settings that rank what is hidden best, and everything that was tried."""
        self.best_quality = self._measure(self.best)
        for number, axes in enumerate(self.ladders.rounds):
            before = self.best
            for axis in axes:
                if axis in self.open:
                    self._climb(axis)
            if before == self.best and number:
                break
        if self.best_quality is None:
            raise SolveError(
                f"all {len(self.tried)} candidate settings failed; the last one said: "
                f"{list(self.tried.values())[-1].error}"
            )
        return self.best, list(self.tried.values())

    def _climb(self, axis: str) -> None:
        """Step along one ladder while it helps; the other direction only where the first did not."""
        for step in (-1, 1):
            moved = False
            while self._moves(axis, step):
                moved = True
            if moved:
                return

    def _moves(self, axis: str, step: int) -> bool:
        """Whether the best is now one step further along, with another setting one step beside or not."""
        before = self._neighbour(self.best, axis, step)
        if before is None:
            return False
        beside = self.ladders.beside.get(axis)
        also = [self._neighbour(before, beside, way) for way in (1, -1)] if beside in self.open else []
        return sum(self._better(one) for one in (before, *also)) > 0

    def _neighbour(self, settings: Settings, axis: str, step: int) -> Settings | None:
        if axis in self.ladders.idle_at(settings):
            return None
        ladder = self.ladders.values[axis]
        at = int(np.argmin([abs(settings[axis] - one) for one in ladder])) + step
        return settings | {axis: ladder[at]} if 0 <= at < len(ladder) else None

    def _better(self, candidate: Settings | None) -> bool:
        """Measure a candidate against the best; remember it when it is better by more than chance."""
        if candidate is None or self._key(candidate) in self.tried or self._takes_too_long(candidate):
            return False
        quality = self._measure(candidate)
        if quality is None:
            return False
        if self.best_quality is not None:
            gain, error = _compare(quality, self.best_quality)
            if not gain > self.bar * error:
                return False
        self.best, self.best_quality = candidate, quality
        return True

    def _measure(self, candidate: Settings) -> list[NDArray[np.float64]] | None:
        """Quality of each judge in each trial; None when it failed or was dropped after the first trial."""
        begin = time.perf_counter()
        quality: list[NDArray[np.float64]] = []
        error = dropped = None
        for trial in self.trials:
            self.spent += trial.cost(candidate)
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
        self.tried[self._key(candidate)] = Candidate(dict(candidate), score, error, spent, dropped=dropped)
        self.expected = self.expected or self.spent + self._of_neighbours(candidate)
        facts = {} if score is None else {"score": score}
        self.progress("choose settings", len(self.tried), None, **facts, words=self._words())
        return quality if whole else None

    def _of_neighbours(self, settings: Settings) -> float:
        """Operations of one step to either side along each ladder of the first round."""
        steps = [(axis, step) for axis in {*self.ladders.rounds[0]} & {*self.open} for step in (-1, 1)]
        candidates = (self._neighbour(settings, *step) for step in steps)
        return sum(trial.cost(one) for one in candidates if one is not None for trial in self.trials)

    def _words(self) -> str:
        """How long the search will still take, as far as its start can tell."""
        elapsed = time.perf_counter() - self.begun
        left = (self.expected / self.spent - 1) * elapsed
        if self.seconds is not None:
            left = min(left, self.seconds - elapsed)
        if not left > 1:
            return ""
        return f"about {left:.0f} s left" if left < 100 else f"about {left / 60:.0f} min left"

    def _takes_too_long(self, candidate: Settings) -> bool:
        after = self.spent + sum(trial.cost(candidate) for trial in self.trials)
        if self.operations is not None and after > self.operations:
            return True
        elapsed = time.perf_counter() - self.begun
        return self.seconds is not None and elapsed * after / self.spent > self.seconds

    def _key(self, settings: Settings) -> tuple[Any, ...]:
        """Equal for settings that differ only in what changes nothing."""
        return tuple(sorted((settings | dict.fromkeys(self.ladders.idle_at(settings), 0.0)).items()))


def _compare(new: Sequence[NDArray[np.float64]], old: Sequence[NDArray[np.float64]]) -> tuple[float, float]:
    """The mean difference over the same judges, and its standard error."""
    difference = np.concatenate(new) - np.concatenate(old)
    return float(difference.mean()), float(difference.std() / np.sqrt(max(1, len(difference))))
