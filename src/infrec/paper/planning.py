"""From what a person asked for to a grid of cells: which datasets, which seeds, which part of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from infrec.data import datasets
from infrec.errors import ConfigError, DataError
from infrec.paper import measure
from infrec.paper.cells import Cell
from infrec.paper.experiment import SEEDS, Experiment, Plan
from infrec.search import committed

QUICK_DATASET = "demo"
SEARCH_SECONDS = 120.0  # for each trained model, where `search` asks for a new search


def chosen_datasets(experiment: Experiment, asked: Sequence[str], *, quick: bool) -> tuple[str, ...]:
    """The datasets asked for; else `demo` for a quick look, or those of the experiment on this machine."""
    if asked:
        return tuple(dict.fromkeys(asked))
    if quick:
        return (QUICK_DATASET,)
    found = tuple(name for name in experiment.datasets if datasets.locate(name) is not None)
    if not found:
        raise DataError(
            f"none of the datasets of {experiment.name} ({', '.join(experiment.datasets)}) lies on this "
            "machine; point INFREC_DATA at a folder that holds them, or name one with --dataset (demo "
            "needs no file)."
        )
    return found


def plan(
    experiment: Experiment,
    asked: Sequence[str] = (),
    *,
    root: Path,
    quick: bool = False,
    seeds: int | None = None,
    search: bool = False,
) -> Plan:
    """Everything that the grid depends on. root: where records lie, and selections before the committed."""
    count = seeds if seeds is not None else 1 if quick else experiment.seeds
    if not 1 <= count <= len(SEEDS):
        raise ConfigError(f"{count} seeds were asked for; expected 1 to {len(SEEDS)}.")
    names = chosen_datasets(experiment, asked, quick=quick)

    def settings_of(dataset: str, model: str) -> dict[str, object]:
        found = committed.read(dataset, model, root / "selected") or committed.read(dataset, model)
        return {} if found is None else {key: value for key, value in found.settings.items() if key != "seed"}

    return Plan(
        datasets=names,
        seeds=SEEDS[:count],
        users={name: measure.sizes(name)["users"] for name in names},
        quick=quick,
        search=SEARCH_SECONDS if search else None,
        selected=settings_of,
    )


def only(cells: Sequence[Cell], words: Sequence[str]) -> list[Cell]:
    """The cells that have one of these tags: models, sources, numbers of users, noise (`5%`), labels."""
    if not words:
        return list(cells)
    known = sorted({tag for cell in cells for tag in cell.tags})
    unknown = [word for word in words if word not in known]
    if unknown:
        raise ConfigError(f"nothing in this grid is called {unknown[0]!r}; there is: {', '.join(known)}.")
    return [cell for cell in cells if cell.tags & set(words)]
