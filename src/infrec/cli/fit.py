"""`infrec fit`: a model from all of the data, saved in a directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from infrec.cli import console, machine, options
from infrec.cli.reading import Reading, reads_data
from infrec.progress import Stopwatch
from infrec.report import numbers


@reads_data
def fit(
    data: options.Data,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="DIR", help="Where to save the model.", show_default=False),
    ],
    model: options.ModelName = "infinite-ae",
    set_: options.Settings = None,
    centres: Annotated[
        str | None,
        typer.Option(
            "--centres",
            metavar="N|SUMMARY",
            help="∞-AE with so many users, or this summary's, as centres, α solved on all of DATA in one "
            "pass (Nyström).",
        ),
    ] = None,
    train_only: Annotated[
        bool, typer.Option("--train-only", help="Fit on the train part only, settings chosen on validation.")
    ] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint",
            metavar="DIR",
            help="Keep where a training by epochs stands; the same command then goes on from there.",
        ),
    ] = None,
    reading: Reading = Reading(),
    seed: options.Seed = 42,
    json: options.Json = False,
) -> None:
    """Fit a model on all interactions and save it; settings are chosen on an inner holdout.

    [bold]Examples[/]

      infrec fit demo -o model
      infrec fit ratings.csv --positive "rating >= 4" -o model
      infrec fit ml-1m --model ease --set reg=1000 --train-only -o model
      infrec fit ml-1m --centres summary -o model
      infrec fit prepared --centres 2000 -o model
    """
    if centres is not None and model != "infinite-ae":
        raise typer.BadParameter(
            f"--centres is an option of infinite-ae, not of {model}; leave one of them out."
        )
    if centres is not None and centres.isdigit():
        set_ = [*(set_ or ()), "solver=nystrom", f"centres={centres}"]
        centres = None
    recommender = options.open_model(model, set_)
    if checkpoint is not None and "epochs" not in recommender.selected:
        raise typer.BadParameter(f"--checkpoint is for models trained by epochs; {model} is not one of them.")
    asked = dict(recommender.selected)
    _check_out(out)
    watch = Stopwatch()
    with console.bars() as progress:
        with watch("load"):
            log = reading.load(data, progress)
        with watch("fit"):
            train, validation = log, None
            if train_only:
                from infrec.splits import holdout

                split = holdout(log, seed=seed)
                train, validation = split.train, split.val
            if centres is None:
                place = {} if checkpoint is None else {"checkpoint": checkpoint}
                recommender.fit(train, validation=validation, progress=progress, **place)
            else:
                from infrec.distillation import Summary, finish

                fixed = {name: recommender.selected[name] for name in ("reg", "depth", "dtype")}
                recommender = finish(
                    Summary.load(centres).align_items(train.items),
                    train,
                    validation=validation,
                    seed=seed,
                    progress=progress,
                    **fixed,
                )
        with watch("save"):
            recommender.save(out)
            console.saved(out)
    fitted = recommender.log
    _, n_bytes = machine.folder_size(out)
    document = {
        "dataset": data,
        "model": model,
        "selected": dict(recommender.selected),
        "about": recommender.about,
        "candidates": options.candidates(recommender.candidates),
        "users": fitted.n_users,
        "items": fitted.n_items,
        "interactions": fitted.n_interactions,
        "out": str(out),
        "bytes": n_bytes,
        "seconds": {**watch.seconds, "total": console.elapsed()},
        "peak_rss_mb": machine.peak_rss_mb(),
        "device": machine.device(),
    }
    if (why := recommender.about.get("why")) and asked.get("solver") == "auto":
        console.note(f"{recommender.about['solver']}: {why}.")
    if json:
        console.emit(document)
        return
    chosen = numbers.settings(recommender.selected)
    console.out().print(
        f"[bold]{numbers.label(model)}[/] fitted on {fitted.n_users:,} users × {fitted.n_items:,} items, "
        f"{fitted.n_interactions:,} interactions, in {numbers.seconds(watch.seconds['fit'])}"
        + (f" ({chosen})" if chosen else "")
        + f".\nSaved in [bold]{out}[/] ({numbers.size(n_bytes)}).",
        soft_wrap=True,
    )
    example = fitted.users.ids[0].as_py() if fitted.n_users else "ID"
    console.out().print(
        f"Next: infrec recommend {out} --user {example}", style="dim", soft_wrap=True, markup=False
    )


def _check_out(out: Path) -> None:
    """Refuse before the work what could not be saved after it."""
    if out.is_dir() and any(out.iterdir()) and not (out / "manifest.json").is_file():
        raise typer.BadParameter(
            f"{out} is a directory that holds something else than a model; give a new name.",
            param_hint="--out",
        )
    if out.exists() and not out.is_dir():
        raise typer.BadParameter(
            f"{out} is a file; a model is a directory, give a new name.", param_hint="--out"
        )
