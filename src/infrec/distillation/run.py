"""A distillation as a run: its beginning from the data, its checkpoints, what it reports."""

from __future__ import annotations

import math
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from infrec import checkpoints, machine
from infrec.checkpoints import CheckpointedLoop, fingerprint
from infrec.distillation import batches, start
from infrec.distillation.batches import UserBatches
from infrec.distillation.leave_one_out import EXPONENT, MOST_CENTRES, MOST_ITEMS, LeaveOneOutTargets
from infrec.distillation.loop import Data, Distillation, OnValidate, Track
from infrec.distillation.settings import DistillSettings
from infrec.kernels import device_arrays
from infrec.progress import Progress, silent
from infrec.randomness import generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from infrec.contents import Artifact
    from infrec.distillation.update import Past


class Run:
    """One distillation of a log: `go`, then read `best`, `track`, `seconds` and `ms_per_step`.

    Args:
        train: The log.
        settings: Settings that are `DistillSettings.resolved` for it.
        on_validate: Called with X̂ and the λ grid; says how good X̂ is and which λ is best.
        past: An old summary that is carried on, over the same items.
        directory: Where checkpoints are kept; SIGTERM and SIGINT then save and raise `Interrupted`.
        resume: Whether to go on from a checkpoint that is there.
        progress: Called as the work goes on.
    """

    def __init__(
        self,
        train: sp.csr_array,
        settings: DistillSettings,
        on_validate: OnValidate,
        *,
        past: Past | None = None,
        directory: Path | None = None,
        resume: bool = False,
        progress: Progress = silent,
    ) -> None:
        self.settings, self.progress, self.seconds = settings, progress, 0.0
        self._train, self._past, self._times = train, past, list[float]()
        on_gpu = device_arrays.on_gpu()
        if not on_gpu:
            what = f"distilling {settings.users:,} users × {train.shape[1]:,} items"
            advice = "use fewer synthetic users, or a smaller batch"
            machine.require_memory(memory_needed(train.shape[0], train.shape[1], settings), what, advice)
        logits, weights = start.logits(train, settings, past), None
        if past is not None:
            train, weights = past.beside(train)
        fit = partial(
            LeaveOneOutTargets.fit,
            train,
            sharpness=settings.sharpness or 1.0,
            weights=weights,
            kernel=settings.kernel if settings.others == "both" else None,
            exponent=EXPONENT if settings.loss == "correlation" else None,
            seed=settings.seed,
            progress=progress,
        )
        users = UserBatches(
            train,
            batch=settings.batch,
            seed=settings.seed,
            on_gpu=on_gpu,
            weights=weights,
            others=fit if settings.targets == "others" else None,
        )
        key = generator(settings.seed, "distillation").integers(0, 2**32, 2, dtype=np.uint32)
        data: Any = (start.row_sizes(train, settings), np.float32(train.nnz / train.shape[0]), key)
        self.loop = Distillation(logits, Data(*batches.everywhere(data)), users, settings, on_validate)
        self._checkpoints = CheckpointedLoop(
            "distillation", self, directory, resume=resume, team=batches.team()
        )

    @property
    def ms_per_step(self) -> float | None:
        """The median, without compilation; None where no step was timed."""
        timed = self._times[1:]
        return float(np.median(timed)) * 1e3 if timed else None

    def go(self) -> Run:
        """Distil to the end, from the beginning or from the last checkpoint."""
        with self._checkpoints:
            began = time.perf_counter()
            for steps in self.loop.parts():
                if steps:
                    self._times.append((time.perf_counter() - began) / steps)
                self._report()
                self._checkpoints.after_part(save=not steps)
                began = time.perf_counter()
            self.seconds = self._checkpoints.seconds
        return self

    def _report(self) -> None:
        track, steps = self.loop.track, self.loop.steps
        per_step = float(np.median(self._times[1:] or self._times or [0.0]))
        last = track.history[-1].get(self.settings.criterion, math.nan) if track.history else math.nan
        self.progress(
            "distil",
            track.step,
            steps,
            loss=self.loop.loss,
            validation=last,
            best=track.best,
            best_step=track.best_step,
            seconds=self._checkpoints.seconds,
            seconds_left=per_step * (steps - track.step),
        )

    # ---- checkpoints ---------------------------------------------------------------------------------------
    @property
    def position(self) -> str:
        """Where it stands, for the message of an interruption."""
        return f"step {self.loop.track.step} of {self.loop.steps}"

    def identity(self) -> dict[str, Any]:
        """Data and settings, which a checkpoint must agree on."""
        previous = {} if self._past is None else {"previous": fingerprint(self._past.matrix)}
        return {"data": fingerprint(self._train), **self.settings.to_dict(), **previous}

    def checkpoint(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The loop's track and arrays."""
        loop = self.loop
        track = {**vars(loop.track), "history": [finite(row) for row in loop.track.history]}
        return finite({"loss": loop.loss}) | {"track": track}, checkpoints.to_arrays(
            {"state": loop.state, "best": loop.best}
        )

    def restore(self, artifact: Artifact) -> None:
        """Go on from a checkpoint."""
        loop = self.loop
        trees: Any = checkpoints.from_arrays(artifact, {"state": loop.state, "best": loop.state.logits})
        if (trees["best"] < 0).any():
            raise artifact.unsound("a weight is negative")
        loss = artifact.manifest["state"]["loss"]
        loop.loss = math.nan if loss is None else artifact.number("state", "loss", least=-math.inf)
        loop.track, loop.best = _checked_track(artifact, loop.steps), trees["best"]
        loop.state = batches.everywhere(trees["state"])


def _checked_track(artifact: Artifact, steps: int) -> Track:
    """The track of a checkpoint, whose numbers are those of a run of at most so many steps."""
    track = Track(**artifact.manifest["state"]["track"])
    for name in ("step", "best_step"):
        if artifact.number("state", "track", name, whole=True) > steps:
            raise artifact.unsound(f"{name} is {getattr(track, name)}, after the last of {steps} steps")
    artifact.number("state", "track", "validated", whole=True, least=-1)
    artifact.number("state", "track", "best", least=-math.inf)
    artifact.number("state", "track", "best_reg")
    for row in (track.best_metrics, *track.history):
        for name, value in row.items():
            if value is not None:
                artifact.checked_number(name, value, least=-math.inf)
    if not isinstance(track.finished, bool):
        raise artifact.unsound(f"finished is {track.finished!r}")
    return track


def finite(row: dict[str, float]) -> dict[str, float | None]:
    """Figures as JSON can hold them: None for what is no number."""
    return {name: value if value is not None and np.isfinite(value) else None for name, value in row.items()}


def memory_needed(users: int, items: int, settings: DistillSettings) -> int:
    """Bytes that a distillation takes in main memory beside the log.

    Twelve arrays of the summary's size (logits, their mean, Adam's two, gradients, X̂, α, …), α for every λ of
    a validation, a step's users and the validation users as bytes, and what JAX compiles. Where targets come
    from a model of items: its products, factor and inverse, the inverse of a model of users, and the targets
    in half precision.

    Args:
        users: Users of the log.
        items: Its items.
        settings: Settings of the distillation.
    """
    batch = min(settings.batch or users, users)
    needed = 4 * settings.users * items * (12 + len(settings.reg_grid))
    needed += items * (3 * batch + min(users, 20_000)) + 240_000_000
    if settings.targets == "others":
        needed += 16 * min(items, MOST_ITEMS) ** 2 + 2 * batch * items
        needed += 4 * min(users, MOST_CENTRES) ** 2 if settings.others == "both" else 0
    return needed
