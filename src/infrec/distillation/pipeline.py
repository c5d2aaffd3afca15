"""`distill`: a log in, a few hundred synthetic users out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infrec.data import Interactions, Vocabulary
from infrec.data.summary import Summary
from infrec.distillation import private, size, update
from infrec.distillation.settings import INVENTED_MODE, DistillSettings, given_only
from infrec.errors import ConfigError
from infrec.progress import Progress, silent
from infrec.splits import Split
from infrec.splits.holdout import held_out
from infrec.splits.provenance import fingerprint

if TYPE_CHECKING:
    import pyarrow as pa

    from infrec.data.interactions import InteractionsLike
    from infrec.distillation.loop import OnValidate

logger = logging.getLogger(__name__)


def distill(
    data: Split | InteractionsLike,
    users: int | None = None,
    *,
    mode: str | None = None,
    per_user: float | None = None,
    total: int | None = None,
    percent: float | None = None,
    bytes: int | None = None,
    gamma: int | None = None,
    target: float | None = None,
    previous: Summary | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    noise_multiplier: float | None = None,
    catalogue: Vocabulary | None = None,
    catalogue_info: pa.Table | None = None,
    seed: int | None = None,
    settings: DistillSettings | None = None,
    on_validate: OnValidate | None = None,
    run_directory: str | PathLike[str] | None = None,
    resume: bool = False,
    progress: Progress = silent,
    **changes: Any,
) -> Summary:
    """Distil the train part of a split (or a log, of which a tenth is held out) into synthetic users.

    Args:
        data: The split; or the log as `Interactions`, a dataframe, an Arrow table or a matrix, users × items.
        users: How many synthetic users; by default 500, or fewer where the log is small.
        mode: `weighted` (the default), `discrete` (0/1), `soft` or `published`.
        per_user: Interactions of a synthetic user, on average.
        total: Interactions in all, instead.
        percent: Interactions in percent of the train part's, instead.
        bytes: Bytes that `interactions.parquet` may take, instead.
        gamma: `per_user` in the paper's words: draws of a row (published) or its mass (soft).
        target: Instead of `users`, the share of full-data quality (HR@100 on validation; with fewer than 500
            items, HR at a fifth of them) that the smallest summary reaches.
        previous: A summary to carry on: it and the data become a new one, within its size and its settings.
        epsilon: Distil with user-level differential privacy (`private.py`), of a log and not of a split.
        delta: δ of the same.
        noise_multiplier: The noise itself, instead of ε.
        catalogue: The public list of items, if there is one.
        catalogue_info: What is publicly known of them, such as titles.
        seed: Seed of everything random (42).
        settings: All settings; the defaults are those of the mode.
        on_validate: Judges a summary; by default ∞-AE on the validation items.
        run_directory: Where checkpoints are kept.
        resume: Whether to go on from a checkpoint in there, after any kind of end.
        progress: Called as the work goes on.
        changes: Single fields of `DistillSettings`, by name.
    """
    data = data if isinstance(data, Split) else Interactions.from_data(data)
    place = None if run_directory is None else Path(run_directory)
    given = {"users": users, "seed": seed, "mode": mode, **changes}
    budget: dict[str, Any] = {"per_user": per_user, "total": total, "percent": percent, "bytes": bytes}
    asked = {"users": users, **budget, "gamma": gamma, "target": target}
    promise: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "noise_multiplier": noise_multiplier}
    if any(value is not None for value in promise.values()):
        private.refuse(
            given | asked | {"previous": previous, "on_validate": on_validate, "settings": settings}
        )
        promise |= {"catalogue": catalogue, "catalogue_info": catalogue_info}
        return _with_promise(data, promise, settings, given | asked, place, resume=resume, progress=progress)
    made_from = fingerprint(data.train if isinstance(data, Split) else data)
    one = partial(_distilled, made_from=made_from, on_validate=on_validate, resume=resume, progress=progress)
    if previous is not None:
        if settings is not None:
            raise ConfigError("settings and previous are both given; expected single settings to change.")
        return _carried_on(previous, data, given | asked, one, place)
    base = _settings(settings, given, asked)
    train, val = _train_and_validation(data, base.seed)
    of_size = partial(_of_size, one, base, asked, train, val)
    if target is None:
        return of_size(users if settings is None else base.users, place)
    return size.smallest(
        lambda count: of_size(count, place and place / f"users-{count}"), target, train, val, progress
    )


def _of_size(
    one: Callable[..., Summary],
    base: DistillSettings,
    asked: dict[str, Any],
    train: Interactions,
    val: Interactions,
    users: int | None,
    place: Path | None,
) -> Summary:
    """A summary of the size that was asked for, or of so many users."""
    summary = one(train, val, size.sized(base, users, asked, train), place)
    summary = summary if asked["bytes"] is None else size.trimmed(summary, asked["bytes"])
    why = size.reason({**asked, "users": None if asked["users"] is None else users}, summary, train)
    return replace(summary, about={**summary.about, "size_reason": why})


def _carried_on(
    previous: Summary,
    data: Split | Interactions,
    given: dict[str, Any],
    one: Callable[..., Summary],
    place: Path | None,
) -> Summary:
    """A summary of another summary and of the log that came after it."""
    carried = update.settings(previous, given)
    train, val = _train_and_validation(update.with_items_of(data, previous), carried.seed)
    return one(train, val, carried, place, past=update.Past.of(previous, train.items))


def _with_promise(
    log: Split | Interactions,
    promise: dict[str, Any],
    settings: DistillSettings | None,
    given: dict[str, Any],
    place: Path | None,
    *,
    resume: bool,
    progress: Progress,
) -> Summary:
    """(ε, δ): users are invented from noisy sums over the log, then distilled as any log is."""
    seed = 42 if given["seed"] is None else given["seed"]
    source = private.private_log(log, **promise, seed=seed, directory=place, resume=resume, progress=progress)
    if settings is None:  # invented people may be learnt by heart
        given = {"mode": INVENTED_MODE, "targets": "own", **given_only(given)}
        given["steps"] = given.get("steps") or private.INVENTED_STEPS
    place = None if place is None else place / "distillation"
    summary = distill(
        source.invented, settings=settings, run_directory=place, resume=resume, progress=progress, **given
    )
    return replace(summary, about={**summary.about, **source.about})


def _distilled(
    train: Interactions,
    val: Interactions,
    settings: DistillSettings,
    place: Path | None,
    *,
    made_from: str,
    on_validate: OnValidate | None,
    resume: bool,
    progress: Progress,
    past: update.Past | None = None,
) -> Summary:
    """Start, loop, summary: one distillation with settings that the data completes."""
    import jax

    from infrec.distillation import start
    from infrec.distillation.run import Run, finite
    from infrec.distillation.validation import Validator
    from infrec.kernels import devices

    represented = train.n_users + (0 if past is None else past.represents)
    settings = settings.resolved(
        n_users=represented,
        n_items=train.n_items,
        interactions=train.n_interactions + (0 if past is None else past.matrix.nnz),
    )
    devices.device()  # on an accelerator, compiled steps are kept from one process to the next
    if on_validate is None:
        on_validate = Validator(
            train.matrix, val.matrix, criterion=settings.criterion, kernel=settings.kernel, seed=settings.seed
        )
    run = Run(
        train.matrix, settings, on_validate, past=past, directory=place, resume=resume, progress=progress
    ).go()
    track = run.loop.track
    # λ was chosen together with the summary, so it alone is the grid of models that are fitted on it.
    about: dict[str, Any] = {
        "mode": settings.mode,
        "start": settings.start,
        "start_meaning": start.MEANING[settings.start],
        "targets": settings.targets,
        "seed": settings.seed,
        "steps": track.step,
        "best_step": track.best_step,
        "reg": track.best_reg,
        "reg_grid": [track.best_reg],
        "criterion": settings.criterion,
        "validation": track.best_metrics,
        "seconds": round(run.seconds, 3),
        "ms_per_step": run.ms_per_step,
        "device": jax.devices()[0].device_kind,
        "source": {
            "users": train.n_users,
            "items": train.n_items,
            "interactions": train.n_interactions,
            "fingerprint": made_from,
        },
        "settings": settings.to_dict(),
        "history": [finite(row) for row in track.history],
    }
    if past is not None:
        about |= {"represents": represented, "periods": past.periods + 1, "first_start": past.start}
        about["source"]["earlier"] = list(past.fingerprints)
    summary = Summary.of_array(run.loop.best, train, about)
    logger.info(
        "distilled in %.2f s, %d steps, best at %d: %r", run.seconds, track.step, track.best_step, summary
    )
    return summary


def _settings(
    settings: DistillSettings | None, given: dict[str, Any], asked: Mapping[str, Any]
) -> DistillSettings:
    """Settings with what was given by name, before the data completes them."""
    gamma, target = asked["gamma"], asked["target"]
    if gamma is not None:
        given = {**given, "draws": gamma, "mass": float(gamma)}
    if target is not None and given["users"] is not None:
        raise ConfigError(
            "both users and target are given; expected one: target chooses the number of users."
        )
    if target is not None and not 0 < target <= 1:
        raise ConfigError(f"target is {target}; expected a share above 0 and at most 1, for example 0.95.")
    changes = given_only(given)
    return DistillSettings.of(**changes) if settings is None else replace(settings, **changes)


# ---- validation items ----------------------------------------------------------------------------------
def _train_and_validation(data: Split | Interactions, seed: int) -> tuple[Interactions, Interactions]:
    if isinstance(data, Split):
        return (data.train, data.val) if data.val.n_interactions else held_out(data.train, seed)
    if data.parts is not None:
        from infrec.splits import holdout

        return _train_and_validation(holdout(data, seed=seed), seed)
    return held_out(data, seed)
