"""Parts of a page, as plain records: figures, tables, values, claims with their verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

Verdict = Literal["holds", "does not hold", "cannot be tested here"]


# ---- after: what was found --------------------------------------------------------------------------------
@dataclass(frozen=True)
class Point:
    """One value of a figure: where, how much, its interval, and from how many seeds."""

    x: float
    value: float
    low: float
    high: float
    seeds: int = 1


@dataclass(frozen=True)
class Series:
    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Panel:
    """One pair of axes. ticks: names of the places on the x axis. line: a reference value with its name."""

    title: str
    x: str
    y: str
    series: tuple[Series, ...]
    log_x: bool = False
    ticks: tuple[tuple[float, str], ...] = ()
    line: tuple[float, str] | None = None


@dataclass(frozen=True)
class Figure:
    """Panels in rows, one legend for all. A single column of panels is laid out in rows of three.

    same_y: the panels of a row are compared with each other, so their y axes are the same.
    """

    name: str
    caption: str
    rows: tuple[tuple[Panel, ...], ...]
    same_y: bool = False

    def __post_init__(self) -> None:
        if len(self.rows) > 1 and all(len(row) == 1 for row in self.rows):
            every = [row[0] for row in self.rows]
            rows = tuple(tuple(every[at : at + 3]) for at in range(0, len(every), 3))
            object.__setattr__(self, "rows", rows)

    @property
    def panels(self) -> list[Panel]:
        return [panel for row in self.rows for panel in row]


@dataclass(frozen=True)
class Value:
    """A measured number in a table, beside the paper's where it has one."""

    metric: str
    value: float | None
    low: float | None = None
    high: float | None = None
    paper: float | None = None
    best: bool = False


@dataclass(frozen=True)
class Table:
    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str | Value, ...], ...]


@dataclass(frozen=True)
class Claim:
    """Something the paper says in words, and what the records say to it, with figures."""

    text: str
    dataset: str
    verdict: Verdict
    figures: str


@dataclass(frozen=True)
class Findings:
    """Everything a page shows. notes: where ours differs from the paper's, and why."""

    claims: Sequence[Claim] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str] = field(default_factory=tuple)

    def without_verdicts(self, datasets: Sequence[str]) -> Findings:
        """Findings without verdicts on these datasets, of which there is only a quick look."""
        claims = [
            replace(one, verdict="cannot be tested here", figures=f"a quick look only: {one.figures}")
            if one.dataset in datasets
            else one
            for one in self.claims
        ]
        return replace(self, claims=claims)


def claim(text: str, dataset: str, holds: bool | None, figures: str) -> Claim:
    """holds: None where what was measured does not decide it."""
    verdict: Verdict = "cannot be tested here" if holds is None else "holds" if holds else "does not hold"
    return Claim(text, dataset, verdict, figures)
