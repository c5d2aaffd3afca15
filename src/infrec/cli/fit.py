"""`infrec fit`: a model from all of the data, saved in a directory."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infrec import machine
from infrec.cli import console, options, outputs
from infrec.cli.options import Reading, reads_data
from infrec.progress import Stopwatch
from infrec.report import numbers

if TYPE_CHECKING:
    from infrec.models import Recommender

OutOption = Annotated[
    Path,
    typer.Option("--out", "-o", metavar="DIR", help="Where to save the model.", show_default=False),
]
CentresOption = Annotated[
    str | None,
    typer.Option(
        "--centres",
        metavar="N|SUMMARY",
        help="∞-AE with so many users, or this summary's, as centres, α solved on all of DATA in one "
        "pass (Nyström).",
    ),
]
TrainOnlyOption = Annotated[
    bool, typer.Option("--train-only", help="Fit on the train part only, settings chosen on validation.")
]
CheckpointOption = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        metavar="DIR",
        help="Keep where a training by epochs stands; the same command then goes on from there.",
    ),
]


@reads_data
@options.works_together("run as one of several processes that fit ∞-AE on a prepared dataset")
def fit(
    data: options.Data,
    out: OutOption,
    model: options.ModelName = "infinite-ae",
    set_: options.Settings = None,
    centres: CentresOption = None,
    train_only: TrainOnlyOption = False,
    checkpoint: CheckpointOption = None,
    processes: options.Processes = options.Processes(),
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
      srun infrec fit prepared --distributed --centres 2000 -o model
    """
    processes.check()
    if centres is not None and model != "infinite-ae":
        raise typer.BadParameter(
            f"--centres is an option of infinite-ae, not of {model}; leave one of them out."
        )
    if centres is not None and centres.isdigit():
        set_ = [*(set_ or ()), "solver=nystrom", f"centres={centres}"]
        centres = None
    recommender = options.open_model(model, set_, seed)
    if processes.distributed:
        if model != "infinite-ae" or train_only or checkpoint is not None or reading != Reading():
            raise typer.BadParameter(
                "--distributed fits infinite-ae on all of a prepared dataset; leave out --model, "
                "--train-only, --checkpoint and the options of reading, which belong to "
                "`infrec datasets prepare`."
            )
        _fit_distributed(data, out, recommender, centres, processes, json)
        return
    if checkpoint is not None and "epochs" not in recommender.selected:
        raise typer.BadParameter(f"--checkpoint is for models trained by epochs; {model} is not one of them.")
    asked = dict(recommender.selected)
    outputs.check(out, "model")
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
                place: dict[str, Any] = {} if checkpoint is None else {"checkpoint": checkpoint}
                recommender.fit(train, validation=validation, progress=progress, **place)
            else:
                from infrec.data import Summary
                from infrec.models import InfiniteAE

                fixed = {name: recommender.selected[name] for name in ("reg", "depth", "dtype")}
                finished = InfiniteAE(centres=Summary.load(centres).align_items(train.items), **fixed)
                finished.fit(train, validation=validation, progress=progress)
                recommender = finished.with_only_centres()
        with watch("save"):
            recommender.save(out)
            console.saved(out)
    _finish(data, recommender, out, watch, json, solver_open=asked.get("solver") == "auto")


def _fit_distributed(
    data: str,
    out: Path,
    model: Recommender,
    centres: str | None,
    processes: options.Processes,
    json: bool,
) -> None:
    """This process's part of a fit; the first of the processes saves the model and prints."""
    from infrec.cli import distributed

    outputs.check(out, "model")
    document = distributed.fit(data, out, dataclasses.asdict(model.settings), centres, processes)
    if document is not None:
        console.saved(out)
        _tell({"dataset": data, "model": model.name, **document}, out, json)


def _finish(
    data: str, model: Recommender, out: Path, watch: Stopwatch, json: bool, *, solver_open: bool
) -> None:
    """Print what was fitted, and a command to ask it."""
    fitted = model.log
    document = {
        "dataset": data,
        "model": model.name,
        "selected": dict(model.selected),
        "about": model.about,
        "candidates": options.candidates(model.candidates),
        "users": fitted.n_users,
        "items": fitted.n_items,
        "interactions": fitted.n_interactions,
        "seconds": watch.seconds,
        "peak_rss_mb": machine.peak_rss_mb(),
        "device": machine.device(),
    }
    if (why := model.about.get("why")) and solver_open:
        console.note(f"{model.about['solver']}: {why}.")
    if fitted.synthetic_users:  # its users are nobody whom one could ask about
        example = ["--history", str(fitted.items.ids[int(fitted.item_counts.argmax())])]
    else:
        example = ["--user", str(fitted.users.ids[0]) if fitted.n_users else "ID"]
    _tell(document, out, json, shlex.join(["infrec", "recommend", str(out), *example]))


def _tell(document: dict[str, Any], out: Path, json: bool, then: str | None = None) -> None:
    """Print the fit as JSON, or as a few lines for a person."""
    _, n_bytes = machine.folder_size(out)
    seconds = {**document["seconds"], "total": console.elapsed()}
    if json:
        console.emit({**document, "out": str(out), "bytes": n_bytes, "seconds": seconds})
        return
    chosen = numbers.settings(document["selected"])
    console.out().print(
        f"[bold]{numbers.label(document['model'])}[/] fitted on {document['users']:,} users × "
        f"{document['items']:,} items, {document['interactions']:,} interactions, in "
        f"{numbers.seconds(seconds['fit'])}"
        + (f" ({chosen})" if chosen else "")
        + f".\nSaved in [bold]{console.plain(out)}[/] ({numbers.size(n_bytes)}).",
        soft_wrap=True,
    )
    for one in document["about"].get("processes", ()):
        console.out().print(
            f"process {one['index']}: read {one['rows']:,} of {one['of_rows']:,} interactions "
            f"({one['partitions']} of {one['of_partitions']} partitions), {one['peak_rss_mb']:,.0f} MB",
            style="dim",
            soft_wrap=True,
        )
    if then is not None:
        console.out().print(f"Next: {then}", style="dim", soft_wrap=True, markup=False)
