"""`distill`: a log in, a few hundred synthetic users out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infrec.data import Interactions, Vocabulary
from infrec.data.summary import Summary
from infrec.distillation import update
from infrec.distillation.settings import DistillSettings, given_only
from infrec.errors import ConfigError, DataError
from infrec.progress import Progress, silent
from infrec.splits import Split
from infrec.splits.holdout import held_out

if TYPE_CHECKING:
    from infrec.distillation.loop import OnValidate

FEWEST = 25  # users that a search for the smallest summary begins with


def distill(
    data: Split | Interactions,
    users: int | None = None,
    *,
    mode: str | None = None,
    per_user: float | None = None,
    total: int | None = None,
    percent: float | None = None,
    gamma: int | None = None,
    target: float | None = None,
    previous: Summary | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    noise_multiplier: float | None = None,
    catalogue: Vocabulary | None = None,
    seed: int | None = None,
    config: DistillSettings | None = None,
    on_validate: OnValidate | None = None,
    run_directory: str | PathLike[str] | None = None,
    resume: bool = False,
    progress: Progress = silent,
    **settings: Any,
) -> Summary:
    """Distil the train part of a split (or a log, of which a tenth is held out) into synthetic users.

    users: how many (500). per_user, total, percent: how many interactions, as a mean per synthetic user, in
    all, or in percent of the train part. gamma: per_user in the paper's words: the number of draws
    (published) or the mass of a row (soft).
    target: instead of `users`, the share of full-data quality (HR@100 on validation; with fewer than 500
    items, HR at a fifth of them) that the smallest summary reaches.
    previous: a summary to continue: it and the data become a new one, within its size and with its settings.
    epsilon, delta: distil with user-level differential privacy (`private.py`), of a log and not of a
    split; noise_multiplier: its noise instead of ε; catalogue: the public list of items, if there is one.
    config, settings: `DistillSettings`, or single settings of it by name; the defaults are those of the mode.
    on_validate: judges a summary; by default ∞-AE on the validation items.
    run_directory: keeps checkpoints there, to be resumed with `resume=True` after any kind of end.
    """
    if not (epsilon is None and delta is None and noise_multiplier is None):
        from infrec.distillation import private

        sizes = {"per_user": per_user, "total": total, "percent": percent, "gamma": gamma, "target": target}
        others = {"mode": mode, "config": config, "previous": previous, "on_validate": on_validate}
        return private.distill(
            data, epsilon=epsilon, delta=delta, noise_multiplier=noise_multiplier,
            catalogue=catalogue, users=users, seed=seed,
            run_directory=None if run_directory is None else Path(run_directory), resume=resume,
            progress=progress, **sizes, **others, **settings,
        )  # fmt: skip
    asked = {"users": users, "seed": seed, "mode": mode, **settings}
    if previous is not None:
        sizes = {"per_user": per_user, "total": total, "percent": percent, "gamma": gamma, "target": target}
        if config is not None:
            raise ConfigError("config and previous are both given; expected single settings to change.")
        carried = update.settings(previous, asked | sizes)
        if isinstance(data, Split):
            data = update.split_over(data, update.joined(previous, data.train), previous)
        else:
            data = update.over(data, update.joined(previous, data), previous)
        train, val = _train_and_validation(data, carried.seed)
        past = update.Past.of(previous, train.items)
        complete = carried.resolved(
            n_users=past.represents + train.n_users,
            n_items=train.n_items,
            interactions=past.matrix.nnz + train.n_interactions,
        )
        place = None if run_directory is None else Path(run_directory)
        return _distilled(train, val, complete, on_validate, place, resume, progress, past)
    if gamma is not None:
        asked |= {"draws": gamma, "mass": float(gamma)}
        if (mode or (config.mode if config else "discrete")) == "discrete" and not (total or percent):
            per_user = per_user or float(gamma)
    if target is not None:
        if users is not None:
            raise ConfigError(
                "both users and target are given; expected one: target chooses the number of users."
            )
        if not 0 < target <= 1:
            raise ConfigError(
                f"target is {target}; expected a share above 0 and at most 1, for example 0.95."
            )
    chosen = given_only(asked)
    base = (
        replace(config, **chosen)
        if config is not None
        else DistillSettings.of(**{"mode": "discrete", **chosen})
    )
    train, val = _train_and_validation(data, base.seed)

    def one(count: int) -> Summary:
        size = _per_user(per_user, total, percent, count, train.n_interactions)
        complete = replace(base, users=count, per_user=base.per_user if size is None else size).resolved(
            n_users=train.n_users, n_items=train.n_items, interactions=train.n_interactions
        )
        place = None if run_directory is None else Path(run_directory)
        if place is not None and target is not None:
            place = place / f"users-{count}"
        return _distilled(train, val, complete, on_validate, place, resume, progress)

    if target is None:
        return one(base.users)
    return _smallest(
        one, _judge(train, val), target, _full_quality(train, val, progress), train.n_users, progress
    )


def _distilled(
    train: Interactions,
    val: Interactions,
    config: DistillSettings,
    on_validate: OnValidate | None,
    place: Path | None,
    resume: bool,
    progress: Progress,
    past: update.Past | None = None,
) -> Summary:
    import jax

    from infrec.distillation import start
    from infrec.distillation.run import Run, finite
    from infrec.distillation.validation import Validator
    from infrec.kernels import devices

    devices.device()  # on an accelerator, compiled steps are kept from one process to the next
    if on_validate is None:
        on_validate = Validator(
            train.matrix, val.matrix, criterion=config.criterion, kernel=config.kernel, seed=config.seed
        )
    run = Run(
        train.matrix, config, on_validate, past=past, directory=place, resume=resume, progress=progress
    ).go()
    track = run.loop.track
    # λ was chosen together with the summary, so it alone is the grid of models that are fitted on it.
    about = {
        "mode": config.mode,
        "start": config.start,
        "start_meaning": start.MEANING[config.start],
        "targets": config.targets,
        "seed": config.seed,
        "steps": track.step,
        "best_step": track.best_step,
        "reg": track.best_reg,
        "reg_grid": [track.best_reg],
        "criterion": config.criterion,
        "validation": track.best_metrics,
        "seconds": round(run.seconds, 3),
        "ms_per_step": run.ms_per_step,
        "device": jax.devices()[0].device_kind,
        "source": {
            "users": train.n_users,
            "items": train.n_items,
            "interactions": train.n_interactions,
        },
        "settings": config.to_dict(),
        "history": [finite(row) for row in track.history],
    }
    if past is not None:
        about |= {
            "represents": past.represents + train.n_users,
            "periods": past.periods + 1,
            "first_start": past.start,
        }
    return Summary.of_array(run.loop.best, train, about)


# ---- size ----------------------------------------------------------------------------------------------
def _per_user(
    per_user: float | None, total: int | None, percent: float | None, users: int, interactions: int
) -> float | None:
    given = [value for value in (per_user, total, percent) if value is not None]
    if len(given) > 1:
        raise ConfigError("per_user, total and percent all set the size; expected at most one of them.")
    if given and not given[0] > 0:
        raise ConfigError(f"the size of the summary is {given[0]}; expected a number above 0.")
    if total is not None:
        per_user = total / users
    if percent is not None:
        per_user = percent / 100 * interactions / users
    if per_user is not None and per_user < 1:
        raise ConfigError(
            f"{per_user * users:.0f} interactions for {users} synthetic users were asked for; expected "
            "at least one for each: use fewer users or a larger size."
        )
    return per_user


def _smallest(
    one: Callable[[int], Summary],
    judge: Callable[[Summary], float],
    target: float,
    full: float,
    largest: int,
    progress: Progress,
) -> Summary:
    """Doubling until the target is reached, then bisection to within an eighth."""
    quality: dict[int, float] = {}
    found: dict[int, Summary] = {}

    def reaches(count: int) -> bool:
        found[count] = one(count)
        quality[count] = judge(found[count]) / full
        progress("target", len(quality), None, users=count, share=quality[count], target=target)
        return quality[count] >= target

    low, high = 0, min(FEWEST, largest)
    while not reaches(high) and high < largest:
        low, high = high, min(2 * high, largest)
    while quality[high] >= target and high - low > max(1, high // 8):
        middle = (low + high) // 2
        if reaches(middle):
            high = middle
        else:
            low = middle
    best = high if quality[high] >= target else max(quality, key=lambda count: quality[count])
    note = {
        "asked": target,
        "reached": quality[best] >= target,
        "full_data": full,
        "tried": {str(count): round(share, 4) for count, share in quality.items()},
    }
    return replace(found[best], about={**found[best].about, "target": note})


def _full_quality(train: Interactions, val: Interactions, progress: Progress) -> float:
    """HR@100 on validation, in percent, of the exact ∞-AE on all users."""
    from infrec.models import InfiniteAE

    model = InfiniteAE().fit(train, validation=val, progress=progress)
    best = max((each.score for each in model.candidates if each.score is not None), default=0.0)
    if not best > 0:
        raise DataError(
            "∞-AE on all users finds no validation item, so a target has no meaning; give users instead."
        )
    return best


def _judge(train: Interactions, val: Interactions) -> Callable[[Summary], float]:
    """A function from a summary to the HR@100 on validation, in percent, of ∞-AE fitted on that summary.

    Users and list length are those of `_full_quality`: with fewer than 500 items the lists are shorter.
    """
    from infrec.models import InfiniteAE
    from infrec.search.criterion import Criterion

    criterion = Criterion(val.matrix, train.matrix)

    def of(summary: Summary) -> float:
        model = InfiniteAE(reg=summary.about["reg"], depth=summary.about["settings"]["depth"]).fit(summary)
        return criterion(model)

    return of


# ---- validation items ----------------------------------------------------------------------------------
def _train_and_validation(data: Split | Interactions, seed: int) -> tuple[Interactions, Interactions]:
    if isinstance(data, Split):
        return (data.train, data.val) if data.val.n_interactions else held_out(data.train, seed)
    if data.parts is not None:
        from infrec.splits import holdout

        return _train_and_validation(holdout(data, seed=seed), seed)
    return held_out(data, seed)
