"""Distilled summaries, made once and kept, for every experiment that needs the same one."""

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
from infrec.data import Summary
from infrec.paper.cells import TARGETS, Data, fingerprint
from infrec.progress import Progress

if TYPE_CHECKING:
    from infrec.splits import Split

FOLDER = "summaries"


def distilled(split: Split, data: Data, dataset: str, seed: int, folder: Path, progress: Progress) -> Summary:
    """The summary of this train part with these settings: read where it is there, else distilled and kept.

    A distillation that was killed goes on from its checkpoint; a second process waits for the first.
    """
    from infrec.distillation import distill

    identity = {"dataset": dataset, "seed": seed, **vars(data), "settings": dict(data.settings)}
    place = folder / fingerprint(identity)
    with _alone(place.with_suffix(".lock")):
        if artifacts.is_artifact(place):
            return Summary.load(place)
        run = place.with_suffix(".run")
        options = {"mode": data.mode, "targets": TARGETS, **dict(data.settings)}.items()
        settings: dict[str, Any] = {
            name: list(value) if isinstance(value, tuple) else value for name, value in options
        }
        # With (ε, δ) the train part is the log: the promise is about its users. What items there are is
        # published with these datasets.
        guaranteed = "noise_multiplier" in settings
        public: dict[str, Any] = {"catalogue": split.train.items} if guaranteed else {}
        summary = distill(
            split.train if guaranteed else split,
            data.users,
            seed=seed,
            run_directory=run,
            resume=True,
            progress=progress,
            **public,
            **settings,
        )
        summary.save(place)
        shutil.rmtree(run, ignore_errors=True)
        return summary


def facts(summary: Summary) -> dict[str, Any]:
    """Facts about a summary for its record: how it was made and how sparse it is."""
    weights = summary.matrix.data
    about = {
        name: summary.about.get(name)
        for name in ("mode", "start", "steps", "best_step", "reg", "validation", "ms_per_step", "history")
    }
    return {
        **about,
        "distill_seconds": summary.about.get("seconds"),
        "distill_device": summary.about.get("device"),
        "discrete": summary.discrete,
        "bytes": summary.bytes,
        # Of a fractional summary nearly every entry is stored, so its weight says more than their number.
        "mass_per_user": float(weights.sum()) / summary.n_users,
        "above_half_per_user": float((weights > 0.5).sum()) / summary.n_users,
        "stored_share": summary.n_interactions / (summary.n_users * summary.n_items),
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
