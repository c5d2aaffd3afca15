"""Measuring a cell: data in, models fitted, everything measured; one record out.

A release that is to be attacked is made without a tenth of the users, who are then the control.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from infrec import artifacts
from infrec.data import Interactions, Summary, Vocabulary, datasets
from infrec.errors import InfrecError
from infrec.metrics import co_occurrence_agreement, popularity_distance
from infrec.paper import continual_strategies, deanonymise
from infrec.paper.cells import DISTILLED, FULL, GENERATED, PERIODS, TARGETS, Cell, Data, Fit, fingerprint
from infrec.paper.noise import flip
from infrec.paper.records import LOOK, SPLIT_SEED, Record, figures, groups, plain, stamp
from infrec.paper.weighted import PEERS, Peer
from infrec.progress import Progress, Stopwatch, silent
from infrec.randomness import generator
from infrec.splits import Split, hide, holdout, set_aside

if TYPE_CHECKING:
    from infrec.evaluation import Evaluation
    from infrec.models import Recommender
    from infrec.search.criterion import Candidate

COLDNESS_BINS = 5
ASIDE = 0.1  # of the users: the control of attacks
FOLDER = "summaries"  # where distilled ones are kept


@lru_cache(maxsize=2)
def load(dataset: str) -> Split:
    """The split of a dataset, by name or path: its own where it brings one.

    One without a validation part (gowalla's) gets a tenth of each user's train part for it.
    """
    split = holdout(datasets.load(dataset), seed=SPLIT_SEED)
    if split.val.n_interactions:
        return split
    train, validation = hide(split.train, seed=SPLIT_SEED)
    return Split(train, validation, split.test, f"{split.name}, validation from train (seed {SPLIT_SEED})")


@lru_cache(maxsize=1)
def noisy(dataset: str, percent: float, seed: int) -> Interactions:
    """The train part with noise. Validation and test stay as they are."""
    return flip(load(dataset).train, percent, seed=seed)


def measure_cell(cell: Cell, folder: Path, progress: Progress = silent) -> Record:
    """Measure one cell. folder: where distilled summaries are kept."""
    began, watch = time.perf_counter(), Stopwatch()
    walked = cell.data.source == PERIODS
    about, measured = (continual_strategies.run if walked else _measured)(cell, folder, watch, progress)
    return plain(
        {
            "cell": cell.hash,
            "configuration": cell.configuration,
            "seed": cell.seed,
            "data": about,
            "measured": measured,
            "seconds": {**watch.seconds, "total": time.perf_counter() - began},
            **stamp(),
            "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            **({LOOK: True} if cell.quick_look else {}),
        }
    )


def _measured(
    cell: Cell, folder: Path, watch: Stopwatch, progress: Progress
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Figures about what the models are fitted on and what attacks find in it, and those of each model."""
    with watch("load"):
        split = inside = load(cell.dataset)
        if audited := "leakage" in cell.beyond:  # who is set aside is a matter of chance too
            inside, outside = set_aside(split, ASIDE, cell.seed)
        elif cell.data.noise:
            inside = replace(split, train=noisy(cell.dataset, cell.data.noise, cell.seed))
    with watch("data"):
        dataset = f"{cell.dataset}, {ASIDE:g} set aside" if audited else cell.dataset
        fit_on, about = _data(cell, inside, dataset, folder, progress)
    if cell.attack:
        with watch("attack"):
            return about, deanonymise.measured(cell, inside.train, fit_on, progress)
    measured = [line for fit in cell.fits for line in _measure(cell, fit, split, inside, fit_on, progress)]
    if audited and isinstance(fit_on, Summary):
        with watch("audit"):
            about["leakage"] = _audit(fit_on, inside.train, outside, progress)
    if "bytes" in cell.beyond:
        about["bytes"] = Summary.of(fit_on).bytes
    if "statistics" in cell.beyond:
        about |= statistics(cell.dataset)
    return about, measured


# ---- data ------------------------------------------------------------------------------------------------
def _data(
    cell: Cell, split: Split, dataset: str, folder: Path, progress: Progress
) -> tuple[Interactions, dict[str, Any]]:
    """The log that the models are fitted on, and the figures about it that belong in the record.

    dataset: what a kept summary is named after.
    """
    data, seed, train, settings = cell.data, cell.seed, split.train, dict(cell.data.settings)
    log: Interactions = train
    about: dict[str, Any] = {}
    if data.source == DISTILLED:
        log = summary = _distilled(split, data, dataset, seed, folder, progress)
        about = _facts(summary)
    elif data.source == FULL and settings:
        log = noisy_popularity(train, settings["noise_multiplier"], seed)
    elif data.source != FULL:
        from infrec.samplers import sample

        log = sample(train, strategy=data.source, users=data.users, seed=seed, progress=progress, **settings)
        if data.source == GENERATED:
            about = {"realism": _realism(log, train, cell)}
    of = {"of_users": train.n_users, "of_interactions": train.n_interactions}
    return log, {**_size(log), **of, **about}


def _size(log: Interactions) -> dict[str, int]:
    return {"users": log.n_users, "items": log.n_items, "interactions": log.n_interactions}


def _realism(generated_log: Interactions, train: Interactions, cell: Cell) -> dict[str, dict[str, float]]:
    """How much generated users look like the log's, beside untrained ones and as many real ones."""
    from infrec.models.trainer import Training
    from infrec.samplers import sample
    from infrec.samplers.ar_cf import ARCF

    untrained = Training(ARCF(seed=cell.seed, **dict(cell.data.settings)), train).model()
    sides = {
        "untrained": untrained.generate(generated_log.n_users),
        "trained": generated_log,
        "real": sample(train, users=generated_log.n_users, seed=cell.seed),
    }
    return {
        side: {
            "popularity": popularity_distance(of.matrix, train.matrix),
            "co_occurrence": co_occurrence_agreement(of.matrix, train.matrix),
        }
        for side, of in sides.items()
    }


def statistics(dataset: str) -> dict[str, Any]:
    """The dataset as it is loaded, before anything is held out, and what the split makes of it."""
    log, split = datasets.load(dataset), load(dataset)
    report = log.report
    return {
        **{f"loaded_{name}": size for name, size in _size(log).items()},
        "rows": report.rows if report else log.n_interactions,
        "repeated": sum(report.dropped.values()) if report else 0,
        "users": split.train.n_users,
        "train": split.train.n_interactions,
        "validation": split.val.n_interactions,
        "test": split.test.n_interactions,
        "users_without_validation": int((split.val.user_counts == 0).sum()),
        "split": split.name,
    }


# ---- models ----------------------------------------------------------------------------------------------
def _measure(
    cell: Cell, fit: Fit, split: Split, inside: Split, fit_on: Interactions, progress: Progress
) -> list[dict[str, Any]]:
    """The figures of one model; asked for, a second time with the noisy histories of `inside`."""
    from infrec.evaluation import evaluate

    watch = Stopwatch()
    head = {"model": fit.model, "settings": dict(fit.settings)}
    try:
        with watch("fit"):
            fitted, tried = _fitted(cell, fit, split, fit_on, progress)
        with watch("evaluate"):
            evaluation = evaluate(fitted, split, seed=SPLIT_SEED, progress=progress)
    except InfrecError as failure:
        # A setting that cannot be fitted is a result of a grid; alone, it is a cell that failed.
        if len(cell.fits) == 1:
            raise
        return [{**head, "error": str(failure)}]
    selected = fitted.selected
    clean = {**head, "selected": selected, "tried": tried, **figures(evaluation)}
    clean |= {"groups": groups(evaluation), "seconds": watch.seconds}
    if "coldness" in cell.beyond:
        clean["strata"] = _strata(evaluation)
    if not ("noisy histories" in cell.beyond and cell.data.noise):
        return [clean]
    again = evaluate(fitted, inside, seed=SPLIT_SEED)
    asked_noisily = {**head, "histories": "noisy", "selected": selected, **figures(again)}
    return [clean, {**asked_noisily, "groups": groups(again)}]


def _fitted(
    cell: Cell, fit: Fit, split: Split, fit_on: Interactions, progress: Progress
) -> tuple[Recommender | Peer, list[dict[str, Any]]]:
    """The model, its open settings chosen on validation, and what was tried."""
    from infrec import models
    from infrec.search import tune

    if fit.model in PEERS:
        peer, candidates = Peer.best(fit.model, fit_on, split, cell.seed)
        return peer, list(map(_trial, candidates))
    settings = dict(fit.settings)
    names = models.create(fit.model).selected
    if "seed" in names and "seed" not in settings:
        settings["seed"] = cell.seed
    model = models.create(fit.model, **settings)
    space = {name: list(values) for name, values in fit.space}
    # The validation users are asked with their own histories, which are not those of a sample or of noise.
    same = fit_on.users == split.train.users and not cell.data.noise
    context = None if same else split.train.matrix
    judged = (fit_on, split.val)
    result = tune(model, judged, space=space or None, context=context, seconds=fit.search, progress=progress)
    return result.model, list(map(_trial, result.candidates))


def _trial(one: Candidate) -> dict[str, Any]:
    return {"settings": dict(one.settings), "score": one.score, "error": one.error}


def _strata(evaluation: Evaluation) -> dict[str, list[dict[str, Any]]]:
    """HR@100 by coldness of users, and the share of held-out items that was found by coldness of items."""
    from infrec.evaluation import by_item_coldness, by_user_coldness

    def rows(of: Sequence[Any], metric: str) -> list[dict[str, Any]]:
        return [
            {name: getattr(one, name) for name in ("low", "high", "size")}
            | {"value": one.metrics[metric], "interval": one.intervals.get(metric)}
            for one in of
        ]

    return {
        "users": rows(by_user_coldness(evaluation, COLDNESS_BINS), "HR@100"),
        "items": rows(by_item_coldness(evaluation, COLDNESS_BINS), "found@100"),
    }


# ---- releases that are attacked --------------------------------------------------------------------------
def _audit(
    released: Summary, train: Interactions, outside: Interactions, progress: Progress
) -> dict[str, Any]:
    """The audit of a release, with those who were set aside as the control."""
    from infrec.privacy import Released, audit

    record = audit(
        Released.summary(released),
        train,
        outside,
        control_from="users set aside",
        guarantee=released.about.get("guarantee"),
        seed=SPLIT_SEED,
        progress=progress,
    ).as_dict(ids=False)
    for each in (*record["membership"], record["popularity"]):
        each.pop("curve")  # long, and the audit's own page shows it
    return record


def noisy_popularity(train: Interactions, multiplier: float, seed: int) -> Interactions:
    """Popularity alone, released under the same guarantee: the whole budget for the sum of x / |x|."""
    from infrec.distillation.dp_sums import unit

    rng = generator(seed, "noisy popularity")
    counts = np.asarray(unit(train.matrix).sum(axis=0)).ravel()
    counts = counts + multiplier * rng.standard_normal(train.n_items)
    row = sp.csr_array((counts - counts.min() + 1e-3)[None, :].astype(np.float32))
    return replace(train, matrix=row, users=Vocabulary.numbered(1), time=None, parts=None)


# ---- distilled summaries, made once and kept for every experiment that needs the same one ------------------


def _distilled(
    split: Split, data: Data, dataset: str, seed: int, folder: Path, progress: Progress
) -> Summary:
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


def _facts(summary: Summary) -> dict[str, Any]:
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
