"""Distilled summaries, made once and kept: every experiment that needs the same one finds it here."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from infrec import artifacts
from infrec.experiments.cells import TARGETS, Data, fingerprint
from infrec.progress import Progress, silent
from infrec.splits import Split

if TYPE_CHECKING:
    from infrec.data.summary import Summary

FOLDER = "summaries"


def summary(
    split: Split, data: Data, *, dataset: str, seed: int, folder: Path, progress: Progress = silent
) -> Summary:
    """The summary of this train part with these settings: read where it is there, else distilled and kept.

    A distillation that was killed goes on from its checkpoint; a second process waits for the first.
    """
    from infrec.data.summary import Summary
    from infrec.distillation import distill

    asked = {"dataset": dataset, "seed": seed, **vars(data), "settings": dict(data.settings)}
    place = folder / fingerprint(asked)
    with _alone(place.with_suffix(".lock")):
        if artifacts.is_artifact(place):
            return Summary.load(place)
        run = place.with_suffix(".run")
        settings: dict[str, Any] = {"targets": TARGETS, **dict(data.settings)}
        settings = {
            name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()
        }
        # With (ε, δ) the train part is the log: the promise is about its users. What items there are is
        # published with these datasets.
        guaranteed = "noise_multiplier" in settings
        public: dict[str, Any] = {"catalogue": split.train.items} if guaranteed else {}
        made = distill(
            split.train if guaranteed else split,
            data.users,
            seed=seed,
            run_directory=run,
            resume=True,
            progress=progress,
            **public,
            **settings,
        )
        made.save(place)
        shutil.rmtree(run, ignore_errors=True)
        return made


def facts(made: Summary) -> dict[str, Any]:
    """What is worth recording of a summary: how it was made and how sparse it is."""
    weights = made.matrix.data
    about = {
        name: made.about.get(name)
        for name in ("mode", "start", "steps", "best_step", "reg", "validation", "ms_per_step", "history")
    }
    return {
        **about,
        "distill_seconds": made.about.get("seconds"),
        "distill_device": made.about.get("device"),
        "discrete": made.discrete,
        "bytes": made.bytes,
        # Of a fractional summary nearly every entry is stored, so its weight says more than their number.
        "mass_per_user": float(weights.sum()) / made.n_users,
        "above_half_per_user": float((weights > 0.5).sum()) / made.n_users,
        "stored_share": made.n_interactions / (made.n_users * made.n_items),
        "fractional_share": float(np.mean((weights > 0) & (weights < 1))) if len(weights) else 0.0,
    }


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    lock.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
