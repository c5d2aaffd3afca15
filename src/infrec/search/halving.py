"""Successive halving: many candidates trained a little, the best third of them longer, and so on to the end.

Asynchronous successive halving (Li et al., 2020) with one worker. Whenever a rung has three results more, its
best one that has not gone on goes on to the next rung, from where it stopped; otherwise a new candidate
begins. So the time is spent where it pays without knowing beforehand what an epoch costs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from infrec.errors import InfrecError, SolveError
from infrec.progress import Progress, silent
from infrec.search.criterion import Candidate, Judge

ETA = 3  # one of so many goes on
RUNGS = 4  # at 1/27, 1/9, 1/3 of the epochs, and at their end
PAUSED = 16  # trainings kept in memory at most; a worse one that goes on after all begins again


class Training(Protocol):
    """A training as the search sees it: it can pause, and pausing changes nothing."""

    epoch: int  # done
    epochs: int  # the most it will do
    every: int  # epochs between two validations
    best_score: float | None  # on validation so far

    @property
    def done(self) -> bool:
        """Whether it has come to its end, by its epochs or by early stopping."""

    @property
    def best(self) -> Any:
        """The fitted model of the best validation so far."""

    def run(self, until: int, validate: Judge | None = None, progress: Progress = silent) -> object:
        """Go on up to this epoch."""


@dataclass(eq=False)
class _Trial:
    settings: dict[str, Any]
    training: Training | None = None
    out: bool = False  # no result still to come can bring it to its next rung
    scores: list[float] = field(default_factory=list)  # the best score so far, at each rung reached
    measured: list[tuple[int, float]] = field(default_factory=list)  # (epochs, the same)
    seconds: float = 0.0
    error: str | None = None


@dataclass(frozen=True, eq=False)
class Raced:
    """The winner of a search, trained to its end, and the record of all that began."""

    model: Any
    settings: dict[str, Any]
    candidates: list[Candidate]


def rungs(epochs: int, every: int) -> list[int]:
    """The epochs at which candidates are compared: thirds of thirds, where there is a validation."""
    marks = {-(-epochs // ETA**power // every) * every for power in range(1, RUNGS)}
    return sorted({min(mark, epochs) for mark in marks} | {epochs})


def halve(
    begin: Callable[[Mapping[str, Any]], Training],
    variants: Sequence[Mapping[str, Any]],
    validate: Judge,
    *,
    seconds: float,
    progress: Progress = silent,
    clock: Callable[[], float] = time.perf_counter,
) -> Raced:
    """Search the variants in the order given for so many seconds, then train the best one to its end.

    At least one variant is measured. A variant that fails is recorded and skipped. The time is looked at
    every few epochs; what is measured when it is over counts.
    """
    began = clock()
    race = _Race(begin, variants, validate, clock, began + seconds)
    total = seconds if seconds < float("inf") else None
    while (race.best is None or not race.is_over) and (trial := race.next()) is not None:
        race.advance(trial)
        score = race.best.training.best_score if race.best and race.best.training else None
        spent = min(seconds, clock() - began)
        progress("choose settings", spent, total, tried=len(race.trials), of=len(variants), score=score)
    winner = race.best
    if winner is None or winner.training is None:
        last = race.trials[-1].error if race.trials else "there was nothing to try"
        raise SolveError(f"all {len(race.trials)} candidate settings failed; the last one said: {last}")
    start = clock()
    training = winner.training
    try:
        training.run(training.epochs, validate, progress)
    except SolveError as failure:  # what it was before it broke down is still the best
        winner.error = str(failure)
    race.record(winner, start)
    return Raced(training.best, winner.settings, [race.candidate(trial, winner) for trial in race.trials])


@dataclass(eq=False)
class _Race:
    """Who has come how far."""

    begin: Callable[[Mapping[str, Any]], Training]
    variants: Sequence[Mapping[str, Any]]
    validate: Judge
    clock: Callable[[], float]
    deadline: float
    trials: list[_Trial] = field(default_factory=list)
    rungs: list[int] = field(default_factory=list)  # known with the first training

    @property
    def is_over(self) -> bool:
        return self.clock() >= self.deadline

    @property
    def best(self) -> _Trial | None:
        """The candidate to win if the race ended now; of equals, the one that came furthest."""
        going = [trial for trial in self.trials if trial.training is not None and trial.measured]
        return max(going, key=lambda trial: (trial.measured[-1][1], len(trial.scores)), default=None)

    def standing(self, rung: int) -> list[_Trial]:
        """All that have reached a rung, the best there first."""
        there = [trial for trial in self.trials if len(trial.scores) > rung and trial.error is None]
        return sorted(there, key=lambda trial: -trial.scores[rung])

    def next(self) -> _Trial | None:
        """Who runs now: the highest that deserves the next rung, else a new candidate."""
        fresh = len(self.trials) < len(self.variants)
        for rung in reversed(range(len(self.rungs) - 1)):
            there = self.standing(rung)
            quota = len(there) // ETA if fresh else max(1, len(there) // ETA)
            for trial in there[:quota]:
                if len(trial.scores) == rung + 1 and not trial.out:
                    return trial
        if not fresh:
            return None
        trial = _Trial(dict(self.variants[len(self.trials)]))
        self.trials.append(trial)
        return trial

    def advance(self, trial: _Trial) -> None:
        """Up to the next rung, or until the time is over."""
        start = self.clock()
        try:
            training = trial.training = trial.training or self.begin(trial.settings)
            self.rungs = self.rungs or rungs(training.epochs, training.every)
            goal = self.rungs[len(trial.scores)]
            while training.epoch < goal and not training.done:
                training.run(min(goal, training.epoch + training.every), self.validate)
                if self.is_over:
                    break
        except InfrecError as failure:
            trial.error, trial.training = str(failure), None
            trial.seconds += self.clock() - start
            self.readmit()
            return
        self.record(trial, start)
        if (training.epoch >= goal or training.done) and training.best_score is not None:
            trial.scores.append(training.best_score)
            self.release(len(trial.scores) - 1)

    def record(self, trial: _Trial, start: float) -> None:
        trial.seconds += self.clock() - start
        training = trial.training
        if training is not None and training.best_score is not None:
            entry = (training.epoch, training.best_score)
            if not trial.measured or trial.measured[-1] != entry:
                trial.measured.append(entry)

    def release(self, rung: int) -> None:
        """Let go of the trainings that will not go on, and of the worst where too many are paused."""
        for trial in self.standing(rung)[self.places(rung) :]:
            if len(trial.scores) == rung + 1:
                trial.out, trial.training = True, None
        paused = [trial for trial in self.trials if trial.training is not None and trial.measured]
        for trial in sorted(paused, key=lambda trial: trial.measured[-1][1])[:-PAUSED]:
            trial.training = None

    def readmit(self) -> None:
        """One has failed: whoever was out because of it may go on after all, and begins again."""
        for rung in range(len(self.rungs)):
            for trial in self.standing(rung)[: self.places(rung)]:
                trial.out &= len(trial.scores) > rung + 1  # out at a later rung

    def places(self, rung: int) -> int:
        """How many of all variants go on from a rung."""
        return max(1, len(self.variants) // ETA ** (rung + 1))

    def candidate(self, trial: _Trial, winner: _Trial) -> Candidate:
        """A trial as it is recorded, with the reason why it is not the winner."""
        reason = None
        if trial is winner or trial.error is not None:
            pass
        elif len(trial.scores) == len(self.rungs):
            reason = "trained to its end and not the best"
        elif trial.scores:
            there = self.standing(len(trial.scores) - 1)
            # Fewer than the rung's if it stopped early.
            epochs = min(self.rungs[len(trial.scores) - 1], trial.measured[-1][0])
            reason = f"{there.index(trial) + 1} of {len(there)} after {epochs} epochs"
        else:
            reason = "the time was over before its first comparison"
        return Candidate(
            trial.settings,
            trial.measured[-1][1] if trial.measured else None,
            trial.error,
            trial.seconds,
            rungs=tuple(trial.measured),
            dropped=reason,
        )
