"""One strategy of continual learning carried through the periods of a log: update, remember, look ahead.

After each period the model is updated and measured on the next one (`splits.ahead`). What an update sees:

    joint        all periods so far; trained from the beginning
    individual   the period alone; trained from the beginning
    fine-tune    the period alone; goes on from the last model (not in the paper: what exemplars must beat)
    ader         as fine-tune, with exemplars chosen by herding and replayed with ADER's loss
    distill-cf   as ader, but the exemplars are a summary that Distill-CF carries on from period to period
    distill-cf-data   the same summary, in the training data beside the period's users; else as fine-tune

Both kinds of exemplars have exactly as many interactions. A tenth of the period's interactions decides when
training stops, in the same way for every strategy.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from infrec.checkpoints import CheckpointedLoop
from infrec.data import Interactions
from infrec.paper.ader import Memory, Update, UpdatedMVAE, adaptive_weight
from infrec.paper.cells import DEFAULT_MODE, TARGETS, Cell
from infrec.paper.records import SPLIT_SEED, figures, plain
from infrec.paper.timeline import active, beside, cut, timeline, together
from infrec.progress import Progress, Stopwatch
from infrec.randomness import generator
from infrec.splits import ahead, hide

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from infrec.contents import Artifact
    from infrec.models.batches import PaddedSizes

INJECTED = "distill-cf-data"
STRATEGIES = ("joint", "individual", "fine-tune", "ader", "distill-cf", INJECTED)
REMEMBERING = ("ader", "distill-cf", INJECTED)
FROM_THE_BEGINNING = ("joint", "individual")
HIDDEN = 0.1  # of a period, to stop on
ROOMS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # periods that a compiled function of `joint` is made for


@dataclass
class State:
    """State that goes from one period to the next, with the measurements so far."""

    memory: Memory
    done: int = 0  # periods
    summary: dict[str, Any] | None = None  # what is known of exemplars that were distilled
    measured: list[dict[str, Any]] = field(default_factory=list)


# ---- a cell ----------------------------------------------------------------------------------------------
def run(
    cell: Cell, folder: Path, watch: Stopwatch, progress: Progress
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Figures about the data, and the strategy's: means over the periods, and each period by itself.

    folder: where the state after each period is kept until the cell is done; a run that was killed goes on
    from there.
    """
    settings = dict(cell.data.settings)
    with watch("load"):
        logs = cut(cell.dataset, settings["periods"])
    budget = round(settings["exemplars"] / 100 * logs[0].n_interactions)
    place = folder / f"{cell.hash}.periods"
    walk = Walk(cell, logs, budget, watch, progress)
    with CheckpointedLoop("walk through periods", walk, place, signals=False) as checkpoints:
        while walk.state.done < len(logs) - 1:
            progress("periods", walk.state.done, len(logs) - 1)
            walk.step()
            checkpoints.after_part(save=True)
    shutil.rmtree(place, ignore_errors=True)
    log = timeline(cell.dataset)
    about = {
        "users": log.n_users,
        "items": log.n_items,
        "interactions": log.n_interactions,
        "periods": len(logs),
        "budget": budget if settings["strategy"] in REMEMBERING else 0,
    }
    head = {"model": cell.fits[0].model, "settings": dict(cell.fits[0].settings)}
    return about, [{**head, **means(walk.state.measured), "periods": walk.state.measured}]


def means(measured: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over the periods. Periods have other users, so the squares of the intervals' halves add up."""
    names = measured[0]["metrics"]
    average = {name: float(np.mean([each["metrics"][name] for each in measured])) for name in names}
    intervals = {}
    for name in measured[0]["intervals"]:
        half = [(high - low) / 2 for low, high in (each["intervals"][name] for each in measured)]
        spread = float(np.sqrt(np.sum(np.square(half))) / len(half))
        intervals[name] = [average[name] - spread, average[name] + spread]
    return {"metrics": average, "intervals": intervals}


class Walk:
    """A strategy on its way through the periods."""

    def __init__(
        self, cell: Cell, logs: tuple[Interactions, ...], budget: int, watch: Stopwatch, progress: Progress
    ) -> None:
        self.cell, self.logs, self.budget, self.watch, self.progress = cell, logs, budget, watch, progress
        self.settings = dict(cell.data.settings)
        self.strategy = self.settings["strategy"]
        self.state = State(Memory(np.zeros(logs[0].n_items, bool)))
        self.room: PaddedSizes | None = None

    def step(self) -> None:
        """Update with the next period, measure on the one after, choose what is remembered."""
        from infrec.evaluation import evaluate

        at, state = self.state.done, self.state
        weight, before = self._update(at)
        with self.watch("evaluate"):
            split = ahead(together(self.logs[: at + 1]), self.logs[at + 1])
            evaluation = evaluate(self.model, split, seed=SPLIT_SEED)
        unseen = float(split.test.item_counts[~state.memory.known].sum()) / split.test.n_interactions
        state.measured.append(
            plain(
                {
                    "period": at + 2,
                    **figures(evaluation),
                    "users": split.test.n_users,
                    "unseen_percent": 100 * unseen,
                    "weight": weight,
                    "exemplars": before,
                    "epochs": self.epochs,
                    "validation": self.validation,
                }
            )
        )
        state.done = at + 1
        with self.watch("exemplars"):
            self._remember(active(self.logs[at]))

    # ---- training ----------------------------------------------------------------------------------------
    def _update(self, at: int) -> tuple[float, int]:
        """The model after period `at`; λ, and the interactions of the exemplars that were replayed."""
        from infrec.search.criterion import early_stopping

        memory, new = self.state.memory, active(self.logs[at])
        shown, hidden = hide(new, share=HIDDEN, seed=self.cell.seed)
        fit_on, context = shown, shown.matrix
        if self.strategy == "joint" and at:
            earlier = together(self.logs[:at])
            fit_on = active(together((earlier, Interactions.from_data(shown, over=earlier))))
            rows = earlier.users.positions(shown.users.ids)
            context = shown.matrix.maximum(earlier.matrix[rows])
        if self.strategy == INJECTED and memory.exemplars is not None:
            fit_on = beside(shown, memory.exemplars)
        past, known = memory, memory.known | (fit_on.item_counts > 0)
        if self.strategy in FROM_THE_BEGINNING:
            past = Memory(memory.known)
        elif self.strategy == INJECTED:
            past = replace(memory, exemplars=None, taught=None)
        held = 0 if past.exemplars is None else int(past.exemplars.sum())
        weight = adaptive_weight(int(past.known.sum()), int(known.sum()), held, fit_on.n_interactions)
        update = Update(past, known, weight, self._room(at))
        fit = self.cell.fits[0]
        model = UpdatedMVAE(**{"seed": self.cell.seed, **dict(fit.settings)}).with_update(update)
        with self.watch("train"):
            training = model.training(fit_on)
            if not training.fixed:  # records without these settings are of less patient updates
                training.patience = self.settings.get("patience", training.patience)
                training.epochs = self.settings.get("most_epochs", training.epochs)
            validate = None if training.fixed else early_stopping(shown, hidden, context)
            self.training = training.run(None, validate, self.progress)
        self.model: UpdatedMVAE = training.best
        self.epochs, self.validation = training.best_epoch or training.epoch, training.best_score
        steps = past.steps + self.epochs * training.steps
        self.state.memory = replace(memory, known=known, parameters=training.best_parameters, steps=steps)
        return weight, held

    def _room(self, at: int) -> PaddedSizes:
        """Shapes that periods share, so that few functions are compiled."""
        from infrec.models.batches import PaddedSizes

        if self.strategy == "joint":
            count = min(next(n for n in (*ROOMS, at + 1) if n > at), len(self.logs) - 1)
            return PaddedSizes.for_all([active(together(self.logs[:count]))])
        if self.room is None:
            room = PaddedSizes.for_all([active(log) for log in self.logs[:-1]])
            if self.strategy == INJECTED:  # its users stand beside the period's
                summary = max(1, round(room.users * self.budget / max(1, room.interactions)))
                more = {"users": room.users + 2 * summary, "interactions": room.interactions + self.budget}
                room = room._replace(**more)
            self.room = room
        return self.room

    # ---- exemplars ---------------------------------------------------------------------------------------
    def _remember(self, new: Interactions) -> None:
        """The exemplars after a period, and what the model says about them now."""
        if self.strategy in REMEMBERING:
            exemplars = self._herded(new) if self.strategy == "ader" else self._distilled(new)
            taught = self.model.probabilities(exemplars)
            self.state.memory = replace(self.state.memory, exemplars=exemplars, taught=taught)

    def _herded(self, new: Interactions) -> sp.csr_array:
        """Of the period's users and the old exemplars, those that herding takes; the last one is cut."""
        from infrec.samplers.sample import front, herd

        old = self.state.memory.exemplars
        rows = new.matrix if old is None else sp.csr_array(sp.vstack([new.matrix, old]))
        costs = np.diff(rows.indptr)
        taken = rows[front(herd(self.model.represent(rows)), costs, self.budget)]
        over = taken.nnz - self.budget
        if over <= 0:
            return taken
        kept = np.ones(taken.nnz, bool)
        last = np.arange(taken.indptr[-2], taken.indptr[-1])
        rng = generator(self.cell.seed, "last exemplar", str(self.state.done))
        kept[rng.choice(last, over, replace=False)] = False
        ends = taken.indptr.copy()
        ends[-1] -= over
        return sp.csr_array((taken.data[kept], taken.indices[kept], ends), shape=taken.shape)

    def _distilled(self, new: Interactions) -> sp.csr_array:
        """A summary of the period, or the last one carried on into it."""
        from infrec.data import Summary
        from infrec.distillation import distill

        state, exemplars = self.state, self.state.memory.exemplars
        mine: dict[str, Any] = {
            name: self.settings[name] for name in ("steps", "validate_every") if name in self.settings
        }
        if state.summary is None or exemplars is None:
            users = max(1, round(self.budget * new.n_users / new.n_interactions))
            mine |= {"mode": DEFAULT_MODE, "targets": TARGETS, "total": self.budget}
            summary = distill(new, users, seed=self.cell.seed, progress=self.progress, **mine)
        else:
            rows = Interactions.from_csr(exemplars, items=new.items.ids)
            before = Summary.of(rows, about=state.summary)
            summary = distill(new, previous=before, seed=self.cell.seed, progress=self.progress, **mine)
        state.summary = {name: value for name, value in summary.about.items() if name != "history"}
        return summary.matrix

    # ---- checkpoints -------------------------------------------------------------------------------------
    @property
    def position(self) -> str:
        """Where it stands."""
        return f"period {self.state.done + 1} of {len(self.logs)}"

    def identity(self) -> dict[str, Any]:
        """The cell, of which a checkpoint must be."""
        return {"cell": self.cell.hash}

    def checkpoint(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The state as figures and arrays."""
        state, memory = self.state, self.state.memory
        arrays: dict[str, NDArray[Any]] = {f"parameter.{n}": a for n, a in memory.parameters.items()}
        arrays["known"] = memory.known
        if memory.exemplars is not None and memory.taught is not None:
            arrays["taught"] = memory.taught
            arrays |= {f"exemplars.{n}": getattr(memory.exemplars, n) for n in ("data", "indices", "indptr")}
        facts = {name: getattr(state, name) for name in ("done", "summary", "measured")}
        return {**facts, "steps": memory.steps}, arrays

    def restore(self, artifact: Artifact) -> None:
        """Go on from a checkpoint."""
        arrays, prefix, known = artifact.arrays, "parameter.", self.state.memory.known
        facts = dict(artifact.manifest["state"])
        exemplars = None
        if "taught" in arrays:
            rows = len(artifact.array("exemplars.indptr", None, kind="i")) - 1
            exemplars = artifact.csr("exemplars", "data", rows, len(known))
        memory = Memory(
            known=artifact.array("known", len(known), kind=known.dtype.kind),
            parameters={n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)},
            steps=facts.pop("steps"),
            exemplars=exemplars,
            taught=arrays.get("taught"),
        )
        self.state = State(memory, **facts)
