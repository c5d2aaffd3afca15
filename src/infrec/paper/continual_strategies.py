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

import hashlib
import shutil
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from infrec.checkpoints import CheckpointedLoop
from infrec.data import Interactions, datasets
from infrec.errors import DataError
from infrec.paper.ader import Memory, Update, UpdatedMVAE, adaptive_weight
from infrec.paper.cells import DEFAULT_MODE, TARGETS, Cell
from infrec.paper.records import SPLIT_SEED, figures, plain
from infrec.progress import Progress, Stopwatch
from infrec.randomness import generator
from infrec.splits import ahead, hide, periods
from infrec.splits.holdout import rows_of

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


# ---- a log in periods: ML-1M known by its data, its times from a file of their own, rows together ---------
TIMES = "ml-1m-times.parquet"
ML_1M_SIZES = (6040, 3706, 1_000_209)  # users, items, ratings
ML_1M_ITEMS = "2da11f7b9acef76ac578b2371e51b156a57ba8cc7d200a5750b59a88c2b281b9"


@lru_cache(maxsize=2)
def timeline(dataset: str) -> Interactions:
    """The log with a time for everything.

    ML-1M as prepared has no times across users, only places in each user's own history. Where a file of its
    times is found, they are taken. Else the order is (−user, place in the user's own history): its user ids
    run backwards in time, and most users rated in one sitting.
    """
    log = replace(datasets.load(dataset), parts=None)
    if are_times(log):
        return log
    if not is_ml_1m(log):
        found = "has no times" if log.time is None else "has places in each user's own history for times"
        raise DataError(
            f"{dataset} {found}; expected times that can be compared across users, to cut it into periods "
            "by: name another dataset."
        )
    if (path := times_of(dataset)) is not None:
        return replace(log, time=times_in(path, log))
    if log.time is None:
        raise DataError(f"{dataset} has no times; expected the file {TIMES} beside it.")
    backwards = np.repeat(np.arange(log.n_users)[::-1], log.user_counts)
    return replace(log, time=backwards * (int(log.time.max()) + 1) + log.time)


def are_times(log: Interactions) -> bool:
    """Whether a log has times that can be compared across users, not places in each user's own history."""
    if log.time is None or not log.n_interactions:
        return log.time is not None
    return bool(log.time.max() > log.user_counts.max() or log.time.min() < 0)


def is_ml_1m(log: Interactions) -> bool:
    """Whether this is MovieLens-1M, by its data: how many users, items and ratings, and what was rated."""
    if (log.n_users, log.n_items, log.n_interactions) != ML_1M_SIZES:
        return False
    return hashlib.sha256(log.matrix.indices.astype("<i8").tobytes()).hexdigest() == ML_1M_ITEMS


def has_times(dataset: str) -> bool:
    """Whether this is ML-1M with real times: its own, or those of a file that is found."""
    if dataset in datasets.entries and datasets.locate(dataset) is None:
        return False  # nothing is downloaded for a plan
    log = datasets.load(dataset)
    return is_ml_1m(log) and (are_times(log) or times_of(dataset) is not None)


def times_of(dataset: str) -> Path | None:
    """The file of ML-1M's times: beside the dataset, in `$INFREC_DATA` or in the cache."""
    beside = [Path(dataset).parent] if Path(dataset).is_file() else []
    folders = (*beside, datasets.data_folder(), datasets.cache_folder())
    paths = (folder / TIMES for folder in folders if folder is not None)
    return next((path for path in paths if path.is_file()), None)


def times_in(path: Path, log: Interactions) -> NDArray[np.int64]:
    """The time of each interaction of a log, from a table (user, item, time).

    Args:
        path: The file of the table.
        log: The log, each of whose interactions must be in the table.
    """
    import pyarrow.parquet as parquet

    table = parquet.read_table(path, columns=["user", "item", "time"])
    rows, columns = (getattr(log, name).positions(table[name[:-1]]) for name in ("users", "items"))
    known = (rows >= 0) & (columns >= 0)
    keys = rows[known] * log.n_items + columns[known]
    order = np.argsort(keys, kind="stable")
    wanted = rows_of(log.matrix) * log.n_items + log.matrix.indices
    place = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
    if not len(keys) or (keys[order][place] != wanted).any():
        raise DataError(f"{path} lacks times of ratings of the dataset; expected one for each: remove it.")
    return table["time"].to_numpy()[known][order][place].astype(np.int64)


@lru_cache(maxsize=2)
def cut(dataset: str, count: int) -> tuple[Interactions, ...]:
    return tuple(periods(timeline(dataset), count))


def active(log: Interactions) -> Interactions:
    """Without the users who have nothing in it."""
    return log.select_users(np.flatnonzero(log.user_counts))


def together(logs: tuple[Interactions, ...]) -> Interactions:
    """Several periods as one log of the same users and items; nobody has the same item in two."""
    return logs[0].with_matrix(sp.csr_array(sum(log.matrix for log in logs)))


def beside(log: Interactions, rows: sp.csr_array) -> Interactions:
    """A log with further users, who are nobody: ids are text, so that theirs are no real user's."""
    users = [f"user {each}" for each in log.users.ids.to_pylist()]
    users += [f"synthetic {number}" for number in range(rows.shape[0])]
    return Interactions.from_csr(sp.vstack([log.matrix, rows]), users=users, items=log.items.ids)
