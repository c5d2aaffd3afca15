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
        Path | None,
        typer.Option(
            "--centres",
            metavar="SUMMARY",
            help="∞-AE with this summary's users as centres, α solved on all of DATA in one pass (Nyström).",
        ),
    ] = None,
    train_only: Annotated[
        bool, typer.Option("--train-only", help="Fit on the train part only, settings chosen on validation.")
    ] = False,
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
    """
    if centres is not None and model != "infinite-ae":
        raise typer.BadParameter(
            f"--centres is an option of infinite-ae, not of {model}; leave one of them out."
        )
    recommender = options.open_model(model, set_)
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
                recommender.fit(train, validation=validation, progress=progress)
            else:
                from infrec.distillation import Summary, finish

                recommender = finish(
                    Summary.load(centres).align_items(train.items),
                    train,
                    validation=validation,
                    seed=seed,
                    progress=progress,
                    **recommender.selected,
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
