"""Successive halving: the best survives, poor ones cost little, time is kept, a seed decides the order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrec.errors import SolveError
from infrec.search import halving
from infrec.search.halving import Raced, halve, rungs


@dataclass
class Clock:
    """A clock that goes only when somebody works."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Curve:
    """A training whose score is known beforehand: limit · epoch / (epoch + half). An epoch takes a second."""

    clock: Clock
    limit: float
    half: float = 3.0
    breaks_at: int | None = None
    epochs: int = 81
    every: int = 1
    epoch: int = 0
    best_score: float | None = None
    best: Any = None
    calls: list[int] = field(default_factory=list)

    @property
    def done(self) -> bool:
        return self.epoch >= self.epochs

    def run(self, until: int, validate: Callable[[Any], float] | None = None, progress: Any = None) -> None:
        self.calls.append(until)
        while self.epoch < until and not self.done:
            self.epoch += 1
            self.clock.now += 1
            if self.epoch == self.breaks_at:
                raise SolveError("the loss is NaN")
            assert validate is not None
            score = validate(self)
            if self.best_score is None or score > self.best_score:
                self.best_score, self.best = score, (self.limit, self.epoch)

    @property
    def score(self) -> float:
        return self.limit * self.epoch / (self.epoch + self.half)


def race(limits: list[float], seconds: float, **curves: Any) -> tuple[Raced, list[Curve], Clock]:
    clock = Clock()
    begun: list[Curve] = []

    def begin(settings: Mapping[str, Any]) -> Any:
        begun.append(Curve(clock, settings["limit"], **curves.get(f"at_{settings['limit']:g}", {})))
        return begun[-1]

    variants = [{"limit": limit} for limit in limits]
    found = halve(begin, variants, lambda curve: curve.score, seconds=seconds, clock=clock)  # type: ignore[arg-type, attr-defined]
    return found, begun, clock


def test_the_rungs_are_thirds_and_fall_on_validations() -> None:
    assert rungs(81, 1) == [3, 9, 27, 81]
    assert rungs(100, 5) == [5, 15, 35, 100]
    assert rungs(4, 5) == [4]
    assert rungs(1, 1) == [1]


@given(st.permutations([float(n) for n in range(1, 28)]))
def test_the_best_wins_and_the_others_cost_what_their_rung_costs(limits: list[float]) -> None:
    """With curves that never cross, every order gives the same: the best wins, the worst stops first."""
    found, begun, clock = race(limits, seconds=1e9)
    assert found.settings == {"limit": 27.0}
    assert found.model == (27.0, 81)
    assert len(found.candidates) == 27
    epochs = {curve.limit: curve.epoch for curve in begun}
    assert epochs[27.0] == 81
    assert sum(done >= 9 for done in epochs.values()) >= 9  # a third of all, and in bad luck some more
    assert all(done >= 27 for limit, done in epochs.items() if limit >= 25)
    assert clock.now < 27 * 81
    worst = next(c for c in found.candidates if c.settings["limit"] == 1.0)
    assert worst.dropped is not None and worst.dropped.endswith("epochs")
    assert next(c for c in found.candidates if c.settings["limit"] == 27.0).dropped is None


def test_halving_costs_a_fraction_of_the_whole_grid() -> None:
    found, begun, clock = race([float(n) for n in range(27, 0, -1)], seconds=1e9)
    # Best first, nobody is promoted in error: 27 × 3, then 9 × 6, 3 × 18 and 1 × 54 epochs more.
    assert clock.now == 27 * 3 + 9 * 6 + 3 * 18 + 1 * 54
    by_rung = [len([c for c in begun if c.epoch >= mark]) for mark in (3, 9, 27, 81)]
    assert by_rung == [27, 9, 3, 1]
    assert [mark for mark, _ in found.candidates[0].rungs] == [3, 9, 27, 81]
    assert found.candidates[26].dropped == "27 of 27 after 3 epochs"


def test_nobody_goes_on_before_a_third_is_known() -> None:
    """The first is the better of two, but not the best of three: it never leaves the first rung."""
    _, begun, _ = race([2.0, 1.0, 3.0], seconds=1e9)
    assert [curve.epoch for curve in begun] == [3, 3, 81]


def test_a_survivor_goes_on_from_where_it_stopped() -> None:
    _, begun, _ = race([float(n) for n in range(9, 0, -1)], seconds=1e9)
    best = begun[0]
    assert best.calls == sorted(best.calls)
    assert best.epoch == 81  # each epoch once: the clock of the test above would have run further
    assert len(begun) == 9  # nothing begins twice


@pytest.mark.parametrize("seconds", [0.5, 10, 50, 200])
def test_the_budget_is_kept_and_the_winner_then_trains_to_its_end(seconds: float) -> None:
    found, begun, clock = race([float(n % 10) + 1 for n in range(189)], seconds=seconds)
    winner = next(candidate for candidate in found.candidates if candidate.dropped is None)
    assert winner.rungs[-1][0] == 81
    before = winner.rungs[-2][0]  # where it stood when the time was over
    assert sum(curve.epoch for curve in begun) == clock.now <= seconds + 1 + (81 - before)
    assert len(found.candidates) == len(begun) < 189
    assert sum(candidate.dropped is None for candidate in found.candidates) == 1


def test_few_paused_trainings_give_the_same_for_more_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = [float((7 * n) % 27) + 1 for n in range(27)]
    whole, begun, clock = race(limits, seconds=1e9)
    monkeypatch.setattr(halving, "PAUSED", 1)
    few, again, longer = race(limits, seconds=1e9)
    assert few.settings == whole.settings
    assert [c.rungs for c in few.candidates] == [c.rungs for c in whole.candidates]
    assert len(again) > len(begun) == 27
    assert longer.now > clock.now


def test_one_candidate_is_measured_however_short_the_time() -> None:
    found, begun, _ = race([5.0, 6.0], seconds=1e-9)
    assert found.settings == {"limit": 5.0}
    assert len(begun) == 1


def test_few_candidates_are_raced_to_the_end_too() -> None:
    found, _, _ = race([5.0, 6.0], seconds=1e9)
    assert found.settings == {"limit": 6.0}
    assert found.candidates[0].dropped == "2 of 2 after 3 epochs"


def test_failures_are_recorded_and_skipped() -> None:
    curves = {"at_9": {"breaks_at": 2}, "at_8": {"breaks_at": 5}}
    found, _, _ = race([9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0], seconds=1e9, **curves)
    assert found.settings == {"limit": 7.0}
    assert [c.error for c in found.candidates[:2]] == ["the loss is NaN"] * 2
    assert found.candidates[0].score is None
    with pytest.raises(SolveError, match="all 2 candidate settings failed"):
        race([9.0, 8.0], seconds=1e9, at_9={"breaks_at": 1}, at_8={"breaks_at": 1})


def test_where_the_best_breaks_down_the_next_one_goes_on() -> None:
    """It was out, since only one of three goes on; then that one failed, and with it the whole search."""
    found, begun, _ = race([9.0, 8.0, 7.0], seconds=1e9, at_9={"breaks_at": 20})
    assert found.settings == {"limit": 8.0}
    assert found.model == (8.0, 81)
    assert [c.error for c in found.candidates] == ["the loss is NaN", None, None]
    assert [curve.limit for curve in begun] == [9.0, 8.0, 7.0, 8.0]
    late, _, _ = race([9.0, 8.0, 7.0], seconds=20, at_9={"breaks_at": 13})  # the time is over by then
    assert late.settings == {"limit": 8.0}


def test_a_winner_that_breaks_down_at_the_end_is_taken_as_it_was() -> None:
    found, _, _ = race([9.0], seconds=10, at_9={"breaks_at": 60})
    assert found.model == (9.0, 59)
    assert found.candidates[0].error == "the loss is NaN"


def test_early_stopping_counts_as_the_end() -> None:
    class Stops(Curve):
        @property
        def done(self) -> bool:
            return self.epoch >= 5

    clock = Clock()
    found = halve(
        lambda settings: Stops(clock, settings["limit"]),
        [{"limit": 1.0}, {"limit": 2.0}],
        lambda curve: curve.score,  # type: ignore[attr-defined]
        seconds=1e9,
        clock=clock,
    )
    assert found.settings == {"limit": 2.0}
    assert found.candidates[1].rungs[-1][0] == 5
