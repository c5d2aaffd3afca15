"""`infrec fit`: a model from all of the data, saved in a directory."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infrec import machine
from infrec.cli import console, options
from infrec.cli.options import MODEL, Answer, option
from infrec.cli.reading import Reading, check_source, reading_of, reads_all
from infrec.data.strength import StrengthOptions
from infrec.progress import Progress, Stopwatch
from infrec.report import numbers

if TYPE_CHECKING:
    from infrec.data import Interactions, Summary
    from infrec.models import Recommender

CentresOption = Annotated[
    str | None,
    option(
        "--centres N|SUMMARY",
        "∞-AE with so many users, or this summary's, as centres, α solved on all of DATA in one "
        "pass (Nyström).",
    ),
]
TrainOnlyOption = Annotated[
    bool, option("--train-only", "Fit on the train part only, settings chosen on validation.")
]
CheckpointOption = Annotated[
    Path | None,
    option(
        "--checkpoint DIR",
        "Keep checkpoints of a training by epochs here; the same command resumes from them.",
    ),
]
UpdateOption = Annotated[
    Path | None,
    option("--update MODEL", "Take DATA into this saved model instead, its settings kept.", MODEL),
]
ForgetOption = Annotated[
    list[str] | None, option("--forget USER", "With --update: forget this user; repeatable.", MODEL)
]
ChooseAgainOption = Annotated[
    bool, option("--choose-again", "With --update: choose the settings again.", MODEL)
]
WithoutUsersOption = Annotated[
    bool,
    option(
        "--without-users",
        "Keep no user ids in the model and, of ∞-AE with few centres, no histories but theirs.",
    ),
]


@reads_all
@options.weighs
@options.works_together("run as one worker of a distributed fit of ∞-AE on a prepared dataset")
def fit(
    out: Annotated[Path, option("--out -o DIR", "Where to save the model.")],
    data: options.DataOrNothing = None,
    model: options.ModelName = "infinite-ae",
    set_: options.Settings = None,
    centres: CentresOption = None,
    train_only: TrainOnlyOption = False,
    without_users: WithoutUsersOption = False,
    checkpoint: CheckpointOption = None,
    features: options.FeaturesOption = None,
    update: UpdateOption = None,
    forget: ForgetOption = None,
    choose_again: ChooseAgainOption = False,
    processes: options.Processes = options.Processes(),
    strength: StrengthOptions = StrengthOptions(),
    reading: Reading = Reading(),
    seed: options.Seed = 42,
) -> Answer | None:
    """Fit a model on all interactions and save it; settings are chosen on an inner holdout.

    [bold]Examples[/]

      infrec fit demo -o model
      infrec fit ratings.csv --positive "rating >= 4" -o model
      infrec fit ratings.csv --positive "rating >= 4" --negative "rating <= 2" -o model
      infrec fit ml-1m --model ease --set reg=1000 --train-only -o model
      infrec fit ml-1m --centres summary -o model
      infrec fit --update model november.csv -o model-2
      infrec fit --update model --forget 17 -o model-2
      infrec fit ratings.csv --items movies.csv --new-items -o model
      infrec fit plays.csv --weight plays --half-life 90d -o model
      infrec fit prepared --centres 2000 -o model
      srun infrec fit prepared --distributed --centres 2000 -o model
    """
    processes.check()
    if update is not None:
        scratch: dict[str, Any] = {"--set": set_, "--centres": centres, "--train-only": train_only}
        scratch |= {"--distributed": processes.distributed, "--model": model != "infinite-ae"}
        scratch |= {"--weight-as": strength.weight_as, "--half-life": strength.half_life}
        scratch |= {"--checkpoint": checkpoint, "--without-users": without_users, "--features": features}
        return _updated(update, data, forget or [], choose_again, out, reading, scratch)
    if data is None:
        raise typer.BadParameter("DATA is missing; give a file or the name of a dataset.")
    if forget or choose_again:
        raise typer.BadParameter("--forget and --choose-again go with --update MODEL.")
    if features and not reading.new_items:
        raise typer.BadParameter("--features place new items; give --new-items too.")
    centres, few = _centres(centres, model)
    recommender = options.open_model(model, [*(set_ or ()), *few], seed)
    if processes.distributed:
        as_read = reading == Reading() and strength == StrengthOptions()
        alone = train_only or without_users or checkpoint is not None or not as_read
        return _together(data, out, recommender, centres, processes, alone=alone)
    if checkpoint is not None and "epochs" not in recommender.selected:
        raise typer.BadParameter(f"--checkpoint is for models trained by epochs; {model} is not one of them.")
    solver_open = recommender.selected.get("solver") == "auto"
    console.check_out(out, "model")
    watch = Stopwatch()
    with console.bars() as progress:
        with watch("load"):
            log, summary, reading = _loaded(data, centres, reading, without_users, progress)
        with watch("fit"):
            fading = options.fading(log, strength)
            function, weights = options.choose_strength(recommender, log, strength, reading.weight, progress)
            log = function(log) if fading is None else fading(function(log))
            fitted = _fitted(recommender, log, summary, train_only, checkpoint, seed, progress)
            facts = {"half_life": strength.half_life, "weights": weights}
            fitted = fitted.with_facts(**{name: fact for name, fact in facts.items() if fact})
            if reading.new_items:
                fitted = _with_new_items(fitted, features, seed, progress)
            sizes = (fitted.log.n_users, fitted.log.n_items, fitted.log.n_interactions)
            fitted = fitted.without_users() if without_users else fitted
        with watch("save"):
            fitted.save(out)
            console.saved(out)
    options.note_dislikes(fitted)
    if solver_open and (why := fitted.about.get("why")):
        console.note(f"{fitted.about['solver']}: {why}.")
    document = {"dataset": data, "model": model, **options.fit_document(fitted, *sizes, watch.seconds)}
    return _answer(document, out, fitted.log, named=not without_users)


def _centres(given: str | None, model: str) -> tuple[str | None, list[str]]:
    """The summary that --centres names; and settings, where it is a number instead."""
    if given is not None and model != "infinite-ae":
        raise typer.BadParameter(
            f"--centres is an option of infinite-ae, not of {model}; leave one of them out."
        )
    if given is not None and given.isdigit():
        return None, ["solver=nystrom", f"centres={given}"]
    return given, []


def _updated(
    path: Path,
    data: str | None,
    forget: list[str],
    choose_again: bool,
    out: Path,
    reading: Reading,
    scratch: dict[str, Any],
) -> Answer:
    """A saved model with more data, or without some users, saved in `out`."""
    from infrec import models

    if wrong := [name for name, value in scratch.items() if value]:
        raise typer.BadParameter(
            f"{wrong[0]} belongs to a fit from scratch, and --update keeps model and settings as they are; "
            "leave one of them out."
        )
    if data is None and not forget:
        raise typer.BadParameter("--update has nothing to do; give DATA to take in, or --forget USER.")
    console.check_out(out, "model")
    watch = Stopwatch()
    with console.bars() as progress:
        with watch("load"):
            model = models.load(path)
            model.check_update()
            new = None if data is None else reading.load(data, progress)
        before = model.log.n_interactions
        with watch("fit"):
            if new is not None:
                model.update(new, duplicates=reading.duplicates, choose_again=choose_again, progress=progress)
                added = model.log.n_interactions - before
                console.note(f"{added:,} of {new.n_interactions:,} interactions are new to the model.")
            if forget:
                model.forget(forget, progress=progress)
                gone = len(set(forget))
                console.note(f"{gone:,} {'users are' if gone > 1 else 'user is'} forgotten.")
        with watch("save"):
            model.save(out)
            console.saved(out)
    log = model.log
    facts = options.fit_document(model, log.n_users, log.n_items, log.n_interactions, watch.seconds)
    return _answer({"dataset": data, "model": model.name, "updated": str(path), **facts}, out, log)


def _together(
    data: str,
    out: Path,
    model: Recommender,
    centres: str | None,
    processes: options.Processes,
    *,
    alone: bool,
) -> Answer | None:
    """The part of this process in a fit by several; an answer from the first one.

    alone: whether there are options that one process alone can follow.
    """
    if alone or model.name != "infinite-ae":
        raise typer.BadParameter(
            "--distributed fits infinite-ae on all of a prepared dataset; leave out --model, "
            "--train-only, --without-users, --checkpoint and the options of reading, which belong to "
            "`infrec datasets prepare`."
        )
    from infrec.cli import distributed

    console.check_out(out, "model")
    facts = distributed.fit(data, out, dataclasses.asdict(model.settings), centres, processes)
    if facts is None:
        return None
    console.saved(out)
    return _answer({"dataset": data, "model": model.name, **facts}, out)


def _loaded(
    data: str,
    centres: str | None,
    reading: Reading,
    without_users: bool,
    progress: Progress,
) -> tuple[Interactions, Summary | None, Reading]:
    """The log, the summary whose users are the centres, and the options with which its log was read."""
    from infrec.data import Summary
    from infrec.data.change import without_user_ids

    summary = None if centres is None else Summary.load(centres)
    if summary is not None:
        reading = reading_of(centres, summary.about, reading, data)
    log = reading.load(data, progress)
    if summary is not None:
        check_source(centres, summary.about, summary.items, log, data)
    return without_user_ids(log) if without_users else log, summary, reading


def _fitted(
    model: Recommender,
    log: Interactions,
    centres: Summary | None,
    train_only: bool,
    checkpoint: Path | None,
    seed: int,
    progress: Progress,
) -> Recommender:
    """The model fitted on the log or its train part; ∞-AE with a summary's users where they are `centres`."""
    train, validation = log, None
    if train_only:
        from infrec.splits import holdout

        split = holdout(log, seed=seed)
        train, validation = split.train, split.val
    if centres is None:
        place: dict[str, Any] = {} if checkpoint is None else {"checkpoint": checkpoint}
        return model.fit(train, validation=validation, progress=progress, **place)
    from infrec.models import InfiniteAE

    fixed = {name: model.selected[name] for name in ("reg", "depth", "dtype")}
    finished = InfiniteAE(centres=centres.align_items(train.items), **fixed)
    return finished.fit(train, validation=validation, progress=progress).with_only_centres()


def _answer(
    document: dict[str, Any], out: Path, log: Interactions | None = None, *, named: bool = True
) -> Answer:
    """The fit, and a few lines for a person, with the command to ask it where its log is known.

    named: whether the log has the users' ids.
    """
    _, n_bytes = machine.folder_size(out)
    seconds = {**document["seconds"], "total": console.elapsed()}
    document |= {"out": str(out), "bytes": n_bytes, "seconds": seconds}
    chosen = numbers.settings(document["selected"])
    words = (
        f"[bold]{numbers.label(document['model'])}[/] fitted on {document['users']:,} users × "
        f"{document['items']:,} items, {document['interactions']:,} interactions, in "
        f"{numbers.seconds(seconds['fit'])}"
        + (f" ({chosen})" if chosen else "")
        + f".\nSaved in [bold]{console.plain(out)}[/] ({numbers.size(n_bytes)})."
    )
    for one in document["about"].get("processes", ()):
        words += (
            f"\n[dim]process {one['index']}: read {one['rows']:,} of {one['of_rows']:,} interactions "
            f"({one['partitions']} of {one['of_partitions']} partitions), {one['peak_rss_mb']:,.0f} MB[/]"
        )
    if log is not None:
        if named and not log.synthetic_users:
            words += "\nIt holds the histories it was fitted on, with user ids; --without-users keeps no ids."
        if log.synthetic_users or not named:  # there is nobody whom one could ask about
            example = ["--history", str(log.items.ids[int(log.item_counts.argmax())])]
        else:
            example = ["--user", str(log.users.ids[0]) if log.n_users else "ID"]
        words += "\n" + console.then(shlex.join(["infrec", "recommend", str(out), *example]))
    return document, words


def _with_new_items(
    model: Recommender, columns: Sequence[str] | None, seed: int, progress: Progress
) -> Recommender:
    """A fitted model with a place for the items of its log that nobody has, and a word about them.

    Args:
        model: The model.
        columns: The columns of the table about items that place them; None: all that say something.
        seed: Of the items that are held out whole to choose how far likeness reaches.
        progress: Called while it works.
    """
    import numpy as np

    from infrec.evaluation.coldness import choose_features
    from infrec.models.new_items import Features
    from infrec.splits.holdout import with_items

    log, known = model.log, np.flatnonzero(model.log.item_counts)
    if len(known) == log.n_items:
        console.note("somebody has each item of the table about items; there are no new ones.")
        return model
    features = Features(log.item_info, columns)
    unfitted = model.with_settings()
    settings = choose_features(
        unfitted, with_items(log, known), features, known, seed=seed, progress=progress
    )
    placed = model.with_new_items(columns, settings)
    facts = placed.about["new_items"]
    console.note(
        f"{facts['items']:,} items that nobody has are placed by {', '.join(facts['columns'])} "
        f"({numbers.settings(settings.to_dict())}, chosen on others held out whole)."
    )
    return placed
