"""`infrec evaluate`: fit a model on the train part, choose settings on validation, measure on test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infrec import machine
from infrec.cli import console, options
from infrec.cli.options import Protocol, Reading, reads_data
from infrec.progress import Progress, Stopwatch
from infrec.report import numbers

if TYPE_CHECKING:
    from infrec.data import Interactions
    from infrec.models import Recommender
    from infrec.search import Tuned
    from infrec.splits import Split


@dataclass(frozen=True)
class Choosing:
    """How settings are chosen: not at all, or among `space` (the model's own unless told) in `seconds`."""

    none: bool = False
    seconds: float | None = None
    space: Mapping[str, Sequence[Any]] | None = None
    seed: int = 42


ModelOption = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME",
        help=f"One of {options.MODELS}; several are compared; infinite-ae by default.",
        rich_help_panel="Model",
    ),
]
NoSearchOption = Annotated[
    bool,
    typer.Option("--no-search", help="Use the shipped settings; choose nothing.", rich_help_panel="Model"),
]
SearchOption = Annotated[
    float | None,
    typer.Option(
        "--search",
        metavar="SECONDS",
        min=0.0,
        help="Search settings for at most this long; poor candidates of models trained by epochs are "
        "dropped early.",
        rich_help_panel="Model",
    ),
]
SaveSelectionOption = Annotated[
    Path | None,
    typer.Option(
        "--save-selection",
        metavar="DIR",
        help="Write what --search found, and its record, to DIR/DATA.MODEL.json.",
        rich_help_panel="Model",
    ),
]
ProtocolOption = Annotated[
    Protocol,
    typer.Option("--protocol", help="How the published numbers were made, or the textbook's formulas."),
]
TrainOnOption = Annotated[
    str | None,
    typer.Option(
        "--train-on",
        metavar="PATH",
        help="Fit on this sample, summary or log over the same items instead of the train part.",
    ),
]
SampleUsersOption = Annotated[
    int | None,
    typer.Option(
        "--sample-users",
        metavar="N",
        min=1,
        help="Measure on N users drawn at random (seeded), not all; intervals say how sure that is.",
    ),
]


@reads_data
def evaluate(
    data: options.Data,
    model: ModelOption = None,
    set_: options.Settings = None,
    no_search: NoSearchOption = False,
    search: SearchOption = None,
    save_selection: SaveSelectionOption = None,
    protocol: ProtocolOption = Protocol.paper_code,
    train_on: TrainOnOption = None,
    sample_users: SampleUsersOption = None,
    reading: Reading = Reading(),
    seed: options.Seed = 42,
    json: options.Json = False,
) -> None:
    """Honest numbers: fit on train, choose settings on validation, measure on test.

    A column [bold]split[/] in the data wins; otherwise 80 / 10 / 10 % of each user's interactions are drawn.

    [bold]Examples[/]

      infrec evaluate demo
      infrec evaluate ml-1m --model infinite-ae --json
      infrec evaluate ratings.csv --positive "rating >= 4" -m infinite-ae -m ease -m poprec
      infrec evaluate ml-1m --model ease --set reg=1000
      infrec evaluate ml-1m --model mf --search 60
    """
    names = [options.check_model(name) for name in dict.fromkeys(model or ["infinite-ae"])]
    if no_search and search is not None:
        raise typer.BadParameter("--no-search and --search exclude each other; give one.")
    if save_selection is not None and search is None:
        raise typer.BadParameter("--save-selection keeps what a search found; give --search SECONDS too.")
    models = [options.open_model(name, set_, seed) for name in names]
    watch = Stopwatch()
    with console.bars() as progress:
        with watch("load"):
            log = reading.load(data, progress)
            split, train = _split(log, seed, train_on, reading)
        load_seconds = watch.seconds["load"]
        documents = []
        for each in models:
            fixed = [pair.partition("=")[0].strip() for pair in set_ or ()]
            space = None if search is None else _search_space(each, fixed)
            choosing = Choosing(no_search, search, space, seed)
            document = {"dataset": data} | _measure(
                each, split, train, protocol, choosing, sample_users, load_seconds, progress
            )
            documents.append(document)
            if save_selection is not None:
                from infrec.search import committed

                console.saved(committed.save_search(document, save_selection, set_ or (), seed))
    if json:
        console.emit(documents[0] if len(documents) == 1 else {"dataset": data, "results": documents})
    else:
        show(documents, log, split.name)


def _search_space(model: Recommender, fixed: Sequence[str]) -> dict[str, Sequence[Any]] | None:
    """The search space of a model trained by epochs, without the settings that `--set` fixes; else None."""
    if model.strategy != "halving":
        return None  # its open settings are "auto"
    return {name: values for name, values in model.search_space.items() if name not in fixed}


def _split(
    log: Interactions, seed: int, train_on: str | None, reading: Reading
) -> tuple[Split, Interactions | None]:
    from infrec.splits import holdout

    split = holdout(log, seed=seed)
    return (split, None) if train_on is None else _training_log(train_on, split, reading, seed)


def _training_log(path: str, split: Split, reading: Reading, seed: int) -> tuple[Split, Interactions]:
    """The log that `--train-on` names, over the items of the split: a sample, a summary, or any log,
    read with the same options as the data.

    A summary that was continued knows items of earlier periods, and one with (ε, δ) those of a catalogue: the
    split is brought over the items of both.
    """
    from infrec import artifacts

    if artifacts.kind_of(path) not in (None, "dataset"):
        from infrec.data import Summary

        summary = Summary.load(path)
        made = summary.about.get("seed", seed)
        if "guarantee" in summary.about and split.name != "own":
            console.note(
                f"{path} was made with ε and δ from all interactions of its log: if that is this data, what "
                "is measured here went into the noisy sums."
            )
        elif made != seed and split.name != "own":
            console.note(
                f"{path} was made with seed {made}, and the data is split with seed {seed} here: if it was "
                f"made from this data, it holds some of what is measured, so give --seed {made}."
            )
        if summary.about.get("periods", 1) > 1 or "guarantee" in summary.about:
            from infrec.distillation import update

            split = update.with_items_of(split, summary)
        return split, summary.align_items(split.train.items)
    log = reading.load(path)
    if log.parts is not None:
        log = log.with_matrix(log.parts["train"])
    return split, log.align_items(split.train.items)


def _measure(
    model: Recommender,
    split: Split,
    train: Interactions | None,
    protocol: Protocol,
    choosing: Choosing,
    sample_users: int | None,
    load_seconds: float,
    progress: Progress,
) -> dict[str, Any]:
    """One model's document, as design.md's contract has it, and the candidates that were tried."""
    from infrec.evaluation import evaluate as measure

    watch = Stopwatch()
    with watch("fit"):
        found = fit_for(model, split, train, choosing, progress)
    with watch("evaluate"):
        result = measure(
            found.model,
            split,
            protocol=protocol.value,
            seed=choosing.seed,
            sample_users=sample_users,
            progress=progress,
        )
    document = {
        "model": model.name,
        "protocol": protocol.value,
        "selected": dict(found.selected),
        "about": dict(found.model.about),
        "users": {"measured": result.n_users, "of": result.population},
        "metrics": dict(result.metrics),
        "intervals": {name: list(bounds) for name, bounds in result.intervals.items()},
        "seconds": {"load": load_seconds, **watch.seconds, "total": console.elapsed()},
        "peak_rss_mb": machine.peak_rss_mb(),
        "device": machine.device(),
        "candidates": options.candidates(found.candidates),
    }
    if choosing.seconds is not None:
        tried = sum(one.score is not None or bool(one.dropped) for one in found.candidates)
        document["search"] = {
            "seconds": choosing.seconds,
            "spent": found.seconds,
            "seed": choosing.seed,
            "tried": tried,
            "of": found.size,
            "criterion": found.criterion,
        }
    return document


def fit_for(
    model: Recommender,
    split: Split,
    train: Interactions | None,
    choosing: Choosing,
    progress: Progress,
) -> Tuned[Recommender]:
    """The model fitted on the train part (or on `train`), settings chosen on validation, and those tried."""
    from infrec.search import tune

    fit_on = split.train if train is None else train
    # Other users than the split's: their own histories say nothing about whom validation asks for.
    context = None if train is None else split.train.matrix
    no_search = choosing.none
    if not no_search and not split.val.n_interactions and model.auto_settings:
        console.note(
            "nothing is held out for validation (every user has few interactions): shipped settings are used."
        )
        no_search = True
    if no_search:
        model = model.with_settings(**{name: model.fallback[name] for name in model.auto_settings})
    return tune(
        model,
        (fit_on, None if no_search and not split.val.n_interactions else split.val),
        space=choosing.space,
        context=context,
        seconds=choosing.seconds,
        seed=choosing.seed,
        progress=progress,
    )


def show(documents: list[dict[str, Any]], log: Interactions, split: str) -> None:
    """The numbers of one or several models as a table."""
    from infrec.evaluation.comparison import ModelRecord
    from infrec.report import terminal
    from infrec.report.comparison import table

    records = [
        ModelRecord(
            document["model"],
            document["metrics"],
            {name: (low, high) for name, (low, high) in document["intervals"].items()},
            document["selected"],
            document["seconds"],
        )
        for document in documents
    ]
    first = documents[0]
    caption = (
        f"{first['dataset']}: {log.n_users:,} users, {log.n_items:,} items, {log.n_interactions:,} "
        f"interactions; test part{_sampled(first)}, protocol {first['protocol']}, split {split}; 95 % "
        "intervals"
    )
    console.out().print(terminal.table(table(records, caption)))
    for document in documents:
        if "search" in document and document["candidates"]:
            search = document["search"]
            spent = numbers.seconds(search["spent"])
            console.note(f"{document['model']}: {search['tried']} of {search['of']} candidates in {spent}")
    failed = [c for document in documents for c in document["candidates"] if c["error"]]
    for candidate in failed:
        console.note(f"skipped {numbers.settings(candidate['settings'])}: {candidate['error']}")


def _sampled(document: dict[str, Any]) -> str:
    """Said where not everybody was measured."""
    users = document.get("users")
    if users is None or users["measured"] == users["of"]:
        return ""
    return f" of a random sample of {users['measured']:,} of {users['of']:,} users"
