"""What an experiment is, what it is run with, and what is found in its records: all of it plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from infrec.experiments.cells import (
    CHOSEN_ANEW,
    CLOSED_FORM,
    DEFAULT_MODE,
    DISTILLED,
    TARGETS,
    Cell,
    Data,
    Fit,
    pairs,
)

if TYPE_CHECKING:
    from infrec.experiments.rows import Results

SEEDS = (42, 1, 2, 3, 4, 5, 6, 7, 8, 9)
BUDGETS = (50, 100, 200, 500, 1000, 2000)
QUICK_BUDGETS = (25, 100)
QUICK_STEPS = {"steps": 24, "validate_every": 8}
QUICK_EPOCHS = 5
BEYOND = "beyond the paper"  # the source of an experiment whose claims are ours
Verdict = Literal["holds", "does not hold", "cannot be tested here"]


# ---- before: what is to be run ----------------------------------------------------------------------------
@dataclass(frozen=True)
class Plan:
    """What a grid is made for. users: of each dataset's train part. selected: committed settings of a model.

    search: seconds for searching the settings of a trained model, instead of the committed ones.
    """

    datasets: tuple[str, ...]
    seeds: tuple[int, ...]
    users: Mapping[str, int]
    quick: bool = False
    search: float | None = None
    selected: Callable[[str, str], Mapping[str, object]] = lambda dataset, model: {}

    def budgets(self, dataset: str, of: Sequence[int] = BUDGETS) -> list[int]:
        """The numbers of users that are fewer than the dataset has; a quarter of them if none is."""
        wanted = QUICK_BUDGETS if self.quick else of
        return [users for users in wanted if users < self.users[dataset]] or [
            max(2, self.users[dataset] // 4)
        ]

    def fit(self, dataset: str, model: str, *, whole: bool = True) -> Fit:
        """A model with its committed settings; one in closed form chooses on validation each time.

        whole: it is fitted on all users. On fewer, an epoch is shorter: how many there are is decided anew.
        """
        if model in CHOSEN_ANEW:
            return Fit(model)
        if self.search is not None and whole:
            return Fit(model, search=self.search)
        chosen = {key: v for key, v in self.selected(dataset, model).items() if whole or key != "epochs"}
        return Fit(model, pairs(**(chosen | self.shorter(model))))

    def distilled(self, users: int, mode: str = DEFAULT_MODE, noise: float = 0.0, **settings: object) -> Data:
        """A summary of so many users."""
        quick = QUICK_STEPS if self.quick else {}
        return Data(DISTILLED, users, noise, pairs(**(quick | unusual({"mode": mode, **settings}))))

    def grid(self, cells: Sequence[Cell]) -> list[Cell]:
        """Each cell for each seed, where chance has a part in it; for one where it has none."""
        return [
            replace(cell, seed=seed, quick=self.quick and cell.learnt, look=self.quick)
            for cell in cells
            for seed in (self.seeds if cell.by_chance else SEEDS[:1])
        ]

    def shorter(self, model: str) -> dict[str, object]:
        """What makes the training of a model a quick one."""
        from infrec import models

        by_epochs = model not in CLOSED_FORM and "epochs" in models.create(model).selected
        return {"epochs": QUICK_EPOCHS} if self.quick and by_epochs else {}


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper. datasets: those it runs on, where they are found.

    seeds: for what is random. cells: the grid. findings: what the records say. rows: the same for programs.
    """

    name: str
    title: str
    source: str
    about: str
    cells: Callable[[Plan], list[Cell]]
    findings: Callable[[Results], Findings]
    datasets: tuple[str, ...] = ("ml-1m", "magazine", "douban-book", "douban", "netflix")
    seeds: int = 3
    rows: Callable[[Results], list[dict[str, Any]]] = lambda results: [row.as_dict() for row in results.rows]


def unusual(settings: Mapping[str, object]) -> dict[str, object]:
    """The settings of a distillation without those that it has here anyway: one cell, one name."""
    from infrec.distillation.settings import Config

    mode = str(settings.get("mode", DEFAULT_MODE))
    usual = {**vars(Config.of(mode, targets=TARGETS)), "mode": DEFAULT_MODE}
    return {name: value for name, value in settings.items() if name not in usual or usual[name] != value}


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
        """The same, but a quick look at these datasets decides nothing."""
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
