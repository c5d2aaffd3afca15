"""`infrec fit --distributed`: one of the processes that fit a model, each from its own partitions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import typer

from infrec.cli import console, guard, machine
from infrec.errors import InfrecError
from infrec.kernels import processes
from infrec.kernels.sharded import Team, lost
from infrec.progress import Progress, Stopwatch, silent


def fit(
    data: str,
    out: Path,
    settings: Mapping[str, Any],
    centres: str | None,
    *,
    coordinator: str | None,
    processes_: int | None,
    index: int | None,
) -> dict[str, Any] | None:
    """What the first process tells of the fit; None on the others, whose part is done with it."""
    from infrec.data.prepared import is_prepared

    if not is_prepared(data):
        raise typer.BadParameter(
            f"{data} is not a prepared dataset, of which each process could read its part; make one with "
            f"`infrec datasets prepare {data} --out prepared`.",
            param_hint="DATA",
        )
    here = processes.place(os.environ, coordinator=coordinator, processes=processes_, index=index)
    arguments = {"data": data, "out": out, "settings": dict(settings), "centres": centres, "here": here}
    with console.bars(enabled=here.index == 0) as progress:
        return guard.watched(work, arguments, progress=progress, ended=lost)


def work(
    data: str,
    out: Path,
    settings: dict[str, Any],
    centres: str | None,
    here: processes.Place,
    progress: Progress = silent,
) -> dict[str, Any] | None:
    """Meet the others, fit, and on the first process save."""
    watch = Stopwatch()
    with watch("meet"):
        team = processes.join(here)
    from infrec.data.prepared import Prepared
    from infrec.models import InfiniteAE

    with watch("load"):
        dataset = Prepared.open(data)
        if centres is not None:
            from infrec.distillation import Summary

            settings["centres"] = Summary.load(centres).align_items(dataset.items)
    before = machine.rss_mb()
    with watch("fit"):
        model = InfiniteAE(**settings).fit_prepared(dataset, team=team, progress=progress)
    with watch("save"):
        read = model.about["read"]
        model.about["processes"] = everybody(
            team, read | {"start_rss_mb": before, "peak_rss_mb": machine.peak_rss_mb()}
        )
        if here.index == 0:
            model.about |= {"launcher": here.launcher}
            model.save(out)
        with suppress(*([InfrecError] if here.index == 0 else [])):  # the model is there, whoever else is not
            team.total(np.zeros(1))  # nobody leaves before
            processes.leave(here)
    if here.index:
        return None
    return {
        "selected": dict(model.selected),
        "about": model.about,
        "candidates": [
            {"settings": dict(c.settings), "score": c.score, "error": c.error} for c in model.candidates
        ],
        "users": len(dataset.users),
        "items": len(dataset.items),
        "interactions": int(dataset.manifest["interactions"]),
        "seconds": watch.seconds,
        "peak_rss_mb": machine.peak_rss_mb(),
        "device": machine.device(),
    }


def everybody(team: Team, own: Mapping[str, float]) -> list[dict[str, float]]:
    """The figures of every process, in their order, on every process."""
    table = team.joined(np.array([float(value) for value in own.values()]))
    rows = table.reshape(team.count, len(own))
    return [
        {"index": index}
        | {name: value if name.endswith("_mb") else int(value) for name, value in zip(own, row, strict=True)}
        for index, row in enumerate(rows.tolist())
    ]
