"""A cell whose release is attacked: made without a tenth of the users, who are then the control."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from infrec.data import Interactions, Vocabulary
from infrec.experiments import summaries, work
from infrec.experiments.cells import DISTILLED, FULL, Cell
from infrec.progress import Progress, Stopwatch
from infrec.randomness import generator
from infrec.splits import Split, set_aside

ASIDE = 0.1


def run(
    cell: Cell, folder: Path, watch: Stopwatch, progress: Progress
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Figures about the release and what attacks found; quality of the models, asked by all users."""
    from infrec.data.summary import Summary
    from infrec.privacy import Released, audit

    with watch("load"):
        split = work.load(cell.dataset)
        inside, outside = set_aside(split, ASIDE, cell.seed)  # who is set aside is a matter of chance too
    with watch("data"):
        released, about = _release(cell, inside, folder, progress)
    measured = [
        line for fit in cell.fits for line in work._measure(cell, fit, split, split.train, released, progress)
    ]
    if isinstance(released, Summary):
        with watch("audit"):
            found = audit(
                Released.summary(released),
                inside.train,
                outside,
                control_from="users set aside",
                guarantee=released.about.get("guarantee"),
                seed=work.SPLIT_SEED,
                progress=progress,
            )
        kept = found.as_dict(ids=False)
        for each in (*kept["membership"], kept["popularity"]):
            each.pop("curve")  # long, and the audit's own page shows it
        about["leakage"] = kept
    return about, measured


def _release(
    cell: Cell, split: Split, folder: Path, progress: Progress
) -> tuple[Interactions, dict[str, Any]]:
    from infrec.data.summary import Summary
    from infrec.samplers import REG_GRID, sample

    train, about = split.train, {}
    if cell.data.source == DISTILLED:
        released: Interactions = summaries.summary(
            split,
            cell.data,
            dataset=f"{cell.dataset}, {ASIDE:g} set aside",
            seed=cell.seed,
            folder=folder,
            progress=progress,
        )
        about = summaries.facts(released)  # type: ignore[arg-type]
    elif cell.data.source == FULL:
        released = noisy_popularity(train, float(dict(cell.data.settings)["noise_multiplier"]), cell.seed)
    else:
        drawn = sample(train, strategy=cell.data.source, users=cell.data.users, seed=cell.seed)
        released = Summary.of(
            drawn, about={"reg_grid": REG_GRID, "strategy": cell.data.source}, kind="sample"
        )
    size = {"users": released.n_users, "items": released.n_items, "interactions": released.n_interactions}
    return released, {**size, "of_users": train.n_users, "of_interactions": train.n_interactions, **about}


def noisy_popularity(train: Interactions, multiplier: float, seed: int) -> Interactions:
    """Popularity alone, released under the same guarantee: the whole budget for the sum of x / |x|."""
    from infrec.distillation.dp_sums import unit

    rng = generator(seed, "noisy popularity")
    counts = np.asarray(unit(train.matrix).sum(axis=0)).ravel()
    counts = counts + multiplier * rng.standard_normal(train.n_items)
    row = sp.csr_array((counts - counts.min() + 1e-3)[None, :].astype(np.float32))
    return replace(train, matrix=row, users=Vocabulary.numbered(1), time=None, parts=None)
