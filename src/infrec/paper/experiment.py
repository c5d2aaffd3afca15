"""An experiment and the plan it is run with, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from infrec.paper.cells import (
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
from infrec.report.document import Findings

if TYPE_CHECKING:
    from infrec.paper.results import Results

SEEDS = (42, 1, 2, 3, 4, 5, 6, 7, 8, 9)
BUDGETS = (50, 100, 200, 500, 1000, 2000)
QUICK_BUDGETS = (25, 100)
QUICK_STEPS = {"steps": 24, "validate_every": 8}
QUICK_EPOCHS = 5
BEYOND = "beyond the paper"  # the source of an experiment whose claims are ours


# ---- before: what is to be run ----------------------------------------------------------------------------
@dataclass(frozen=True)
class Plan:
    """The plan of a grid. users: of each dataset's train part. selected: committed settings of a model.

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
            replace(cell, seed=seed, quick=self.quick and cell.learnt, quick_look=self.quick)
            for cell in cells
            for seed in (self.seeds if cell.by_chance else SEEDS[:1])
        ]

    def shorter(self, model: str) -> dict[str, object]:
        """Settings that make the training of a model a quick one."""
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
    from infrec.distillation.settings import DistillSettings

    mode = str(settings.get("mode", DEFAULT_MODE))
    usual = {**vars(DistillSettings.of(mode, targets=TARGETS)), "mode": DEFAULT_MODE}
    return {name: value for name, value in settings.items() if name not in usual or usual[name] != value}
