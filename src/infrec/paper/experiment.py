"""An experiment: cells that are measured, claims that their records decide, and how both are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from infrec.paper.cells import (
    CHOSEN_ANEW,
    CLOSED_FORM,
    DEFAULT_MODE,
    DISTILLED,
    FULL,
    PUBLISHED_KIND,
    TARGETS,
    Cell,
    Data,
    Fit,
    pairs,
)
from infrec.paper.verdicts import Answer, Untestable
from infrec.report.document import UNTESTABLE, Claim, Figure, Table, Verdict

if TYPE_CHECKING:
    from infrec.paper.results import Results

# ---- the plan of a grid -----------------------------------------------------------------------------------
SEEDS = (42, 1, 2, 3, 4, 5, 6, 7, 8, 9)
BUDGETS = (50, 100, 200, 500, 1000, 2000)
QUICK_BUDGETS = (25, 100)
QUICK_STEPS = {"steps": 24, "validate_every": 8}
QUICK_EPOCHS = 5
WHOLE = Data()  # the whole log, as it is
# λ for samples, summaries and noise: the models' own grids, and more on both sides.
WIDE: Mapping[str, tuple[float, ...]] = {
    "ease": (0.01, 0.1, 1, 10, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000, 100000, 300000, 1000000),
    "infinite-ae": (0, 0.2, 1, 5, 20, 50, 100, 200, 500, 1000, 3000, 10000),
}


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
        wanted, users = QUICK_BUDGETS if self.quick else of, self.users[dataset]
        return [budget for budget in wanted if budget < users] or [max(2, users // 4)]

    def fit(self, dataset: str, model: str, data: Data = WHOLE) -> Fit:
        """A model with its committed settings; one in closed form chooses on validation each time.

        data: what it is fitted on. λ of a sample, of a summary or under noise lies elsewhere than that of the
        whole log, so its grid is wider; ∞-AE has on a summary the grid that the summary brings. On fewer
        users than all, an epoch is shorter: how many there are is decided anew.
        """
        whole = data.source == FULL
        if model in CHOSEN_ANEW:
            own = data == WHOLE or (model == "infinite-ae" and data.source == DISTILLED)
            return Fit(model) if own or model not in WIDE else Fit(model, space=pairs(reg=WIDE[model]))
        if self.search is not None and whole:
            return Fit(model, search=self.search)
        chosen = {key: v for key, v in self.selected(dataset, model).items() if whole or key != "epochs"}
        return Fit(model, pairs(**(chosen | self.shorter(model))))

    def cell(self, dataset: str, data: Data, *models: str, beyond: tuple[str, ...] = ()) -> Cell:
        """Models on data, each as `fit` has it; `Experiment.cells` gives it its seeds."""
        return Cell(dataset, 0, data, tuple(self.fit(dataset, model, data) for model in models), beyond)

    def distilled(
        self, users: int | None, mode: str = DEFAULT_MODE, noise: float = 0.0, **settings: object
    ) -> Data:
        """A summary of so many users, or of as many as its other budget comes to."""
        quick = QUICK_STEPS if self.quick else {}
        return Data(DISTILLED, users, noise, pairs(**(quick | unusual({"mode": mode, **settings}))))

    def shorter(self, model: str) -> dict[str, object]:
        """Settings that make the training of a model a quick one."""
        from infrec import models

        by_epochs = model not in CLOSED_FORM and "epochs" in models.create(model).selected
        return {"epochs": QUICK_EPOCHS} if self.quick and by_epochs else {}


def unusual(settings: Mapping[str, object]) -> dict[str, object]:
    """The settings of a distillation without those that it has here anyway: one cell, one name."""
    from infrec.distillation.settings import DistillSettings

    mode = str(settings.get("mode", DEFAULT_MODE))
    usual = {**vars(DistillSettings.of(mode, targets=TARGETS)), "mode": DEFAULT_MODE}
    return {name: value for name, value in settings.items() if name not in usual or usual[name] != value}


# ---- experiments ------------------------------------------------------------------------------------------
BEYOND = "beyond the paper"  # the source of an experiment whose claims are ours
# In the order of pages: the paper's first, then others. An experiment runs on those of `EVERY_DATASET` that
# are found, and on any that is named.
EVERY_DATASET = ("magazine", "ml-1m", "douban", "netflix", "netflix-sample", "douban-book")
KNOWN_DATASETS = (*EVERY_DATASET, "lastfm-2k", "gowalla")
Judged = tuple[Answer, str]  # whether a claim holds, and the figures that say so
VERDICTS: Mapping[Answer, Verdict] = {
    True: "holds",
    False: "does not hold",
    None: "undecided within the intervals",
}


@dataclass(frozen=True)
class Claimed:
    """A claim in words, and the function that judges it by the results on one dataset, or raises Untestable.

    of_summaries: it is about summaries, and is judged on the paper's own kind and on ours.
    """

    text: str
    judge: Callable[..., Judged]
    of_summaries: bool = False

    def on(self, here: Results, *, quick: bool) -> Claim:
        """The claim with its verdict on a dataset; without one where there is only a quick look at it."""
        ours: Verdict | None = None
        if self.of_summaries:
            verdict, figures = self._verdict(here, PUBLISHED_KIND)
            ours, our_figures = self._verdict(here, DISTILLED)
            figures = f"As published: {figures}. Ours: {our_figures}"
        else:
            verdict, figures = self._verdict(here)
        if quick or here.quick_datasets():
            verdict, ours = UNTESTABLE, ours and UNTESTABLE
            figures = f"a quick look only: {figures}"
        return Claim(self.text, here.dataset, verdict, f"{figures}.", ours)

    def _verdict(self, *arguments: Any) -> tuple[Verdict, str]:
        try:
            answer, figures = self.judge(*arguments)
        except Untestable as reason:
            return UNTESTABLE, str(reason)
        return VERDICTS[answer], figures


def claimed(text: str) -> Callable[[Callable[[Results], Judged]], Claimed]:
    """Turns the function below it into the claim of these words."""
    return partial(Claimed, text)


def claimed_of_summaries(text: str) -> Callable[[Callable[[Results, str], Judged]], Claimed]:
    """Turns the function below it, of results and a kind of summaries, into the claim of these words."""
    return partial(Claimed, text, of_summaries=True)


@dataclass(frozen=True)
class Findings:
    """Everything that the page of an experiment shows. notes: where ours differs from the paper, and why."""

    claims: Sequence[Claim] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper. about: in a sentence. source: where the paper has it.

    varied: the cells of one dataset. claims: judged on each dataset. figures, tables: of the results on each
    dataset, in order. notes: how it was done, and where it differs. datasets: those it runs on, if they are
    found. seeds: for what is random. rows: the figures for programs. shown: whether there is anything to show
    of the results on a dataset.
    """

    name: str
    title: str
    source: str
    about: str
    varied: Callable[[Plan, str], Iterable[Cell]]
    claims: Sequence[Claimed] = ()
    figures: Callable[[list[Results]], Iterable[Figure]] = lambda each: ()
    tables: Callable[[list[Results]], Iterable[Table]] = lambda each: ()
    notes: Sequence[str] = ()
    datasets: tuple[str, ...] = EVERY_DATASET
    seeds: int = 3
    rows: Callable[[Results], list[dict[str, Any]]] = lambda results: [row.as_dict() for row in results.rows]
    shown: Callable[[Results], bool] = lambda here: True

    def cells(self, plan: Plan) -> list[Cell]:
        """Each cell for each seed, where chance has a part in it; for one where it has none."""
        return [
            replace(cell, seed=seed, quick=plan.quick and cell.learnt, quick_look=plan.quick)
            for dataset in plan.datasets
            for cell in self.varied(plan, dataset)
            for seed in (plan.seeds if cell.by_chance else SEEDS[:1])
        ]

    def findings(self, results: Results, *, quick: bool = False) -> Findings:
        """Everything that the records say. quick: whether they are those of a quick look."""
        each = [here for here in results.each() if self.shown(here)]
        return Findings(
            claims=[one.on(here, quick=quick) for here in each for one in self.claims],
            figures=list(self.figures(each)) if each else (),
            tables=list(self.tables(each)) if each else (),
            notes=self.notes,
        )
