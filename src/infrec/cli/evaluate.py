"""`infrec evaluate`: fit a model on the train part, choose settings on validation, measure on test."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from infrec import machine
from infrec.cli import console, options
from infrec.cli.options import MODEL, Answer, Reading, option, reads_data
from infrec.progress import Progress, Stopwatch
from infrec.report import numbers

if TYPE_CHECKING:
    from infrec.data import Interactions
    from infrec.evaluation import Evaluation
    from infrec.models import Recommender
    from infrec.search import Tuned
    from infrec.splits import Split

Protocol = Literal["paper-code", "textbook"]

ModelOption = Annotated[
    list[str] | None,
    option(
        "--model -m NAME",
        f"One of {options.MODELS}; several are compared; infinite-ae by default.",
        MODEL,
        callback=options.small_letters,
    ),
]
NoSearchOption = Annotated[bool, option("--no-search", "Use the shipped settings; choose nothing.", MODEL)]
SearchOption = Annotated[
    float | None,
    option(
        "--search SECONDS",
        "Search settings for at most this long; poor candidates of models trained by epochs are "
        "dropped early.",
        MODEL,
        min=0.0,
    ),
]
SaveSelectionOption = Annotated[
    Path | None,
    option(
        "--save-selection DIR", "Write what --search found, and its record, to DIR/DATA.MODEL.json.", MODEL
    ),
]
ProtocolOption = Annotated[
    Protocol, option("--protocol", "How the published numbers were made, or the textbook's formulas.")
]
TrainOnOption = Annotated[
    str | None,
    option(
        "--train-on PATH", "Fit on this sample, summary or log over the same items instead of the train part."
    ),
]
SampleUsersOption = Annotated[
    int | None,
    option(
        "--sample-users N",
        "Measure on N users drawn at random (seeded), not all; intervals say how sure that is.",
        min=1,
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
    protocol: ProtocolOption = "paper-code",
    train_on: TrainOnOption = None,
    sample_users: SampleUsersOption = None,
    reading: Reading = Reading(),
    seed: options.Seed = 42,
) -> Answer:
    """Honest numbers: fit on train, choose settings on validation, measure on test.

    A column [bold]split[/] in the data wins; otherwise 80 / 10 / 10 % of each user's interactions are drawn.

    [bold]Examples[/]

      infrec evaluate demo
      infrec evaluate ml-1m --model infinite-ae --json
      infrec evaluate ratings.csv --positive "rating >= 4" -m infinite-ae -m ease -m poprec
      infrec evaluate ml-1m --model ease --set reg=1000
      infrec evaluate ml-1m --model mf --search 60
    """
    if no_search and search is not None:
        raise typer.BadParameter("--no-search and --search exclude each other; give one.")
    if save_selection is not None and search is None:
        raise typer.BadParameter("--save-selection keeps what a search found; give --search SECONDS too.")
    models = [options.open_model(name, set_, seed) for name in dict.fromkeys(model or ["infinite-ae"])]
    fixed = [pair.partition("=")[0].strip() for pair in set_ or ()]
    watch, documents = Stopwatch(), []
    with console.bars() as progress:
        with watch("load"):
            from infrec.evaluation import evaluate as measure
            from infrec.splits import holdout

            log = reading.load(data, progress)
            split, train = holdout(log, seed=seed), None
            if train_on is not None:
                split, train = _training_log(train_on, split, reading, seed)
        for each in models:
            stages = Stopwatch(dict(watch.seconds))
            with stages("fit"):
                tuning = fit_for(each, split, train, no_search, search, fixed, seed, progress)
            with stages("evaluate"):
                result = measure(
                    tuning.model,
                    split,
                    protocol=protocol,
                    seed=seed,
                    sample_users=sample_users,
                    progress=progress,
                )
            document = {"dataset": data, **_document(tuning, result, stages, search, seed)}
            documents.append(document)
            if save_selection is not None:
                from infrec.search import committed

                console.saved(committed.save_search(document, save_selection, set_ or (), seed))
    document = documents[0] if len(documents) == 1 else {"dataset": data, "results": documents}
    return document, partial(show, documents, log, split.name)


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
        summary_seed = summary.about.get("seed", seed)
        if "guarantee" in summary.about and split.name != "own":
            console.note(
                f"{path} was made with ε and δ from all interactions of its log: if that is this data, what "
                "is measured here went into the noisy sums."
            )
        elif summary_seed != seed and split.name != "own":
            console.note(
                f"{path} was made with seed {summary_seed}, and the data is split with seed {seed} here: "
                "if it was made from this data, it holds some of what is measured, so give "
                f"--seed {summary_seed}."
            )
        if summary.about.get("periods", 1) > 1 or "guarantee" in summary.about:
            from infrec.distillation import update

            split = update.with_items_of(split, summary)
        return split, summary.align_items(split.train.items)
    log = reading.load(path)
    if log.parts is not None:
        log = log.with_matrix(log.parts["train"])
    return split, log.align_items(split.train.items)


def fit_for(
    model: Recommender,
    split: Split,
    train: Interactions | None,
    no_search: bool,
    seconds: float | None,
    fixed: Sequence[str],
    seed: int,
    progress: Progress,
) -> Tuned[Recommender]:
    """The model fitted on the train part (or on `train`), settings chosen on validation, and those tried."""
    from infrec.search import tune

    fit_on = split.train if train is None else train
    # Other users than the split's: their own histories say nothing about whom validation asks for.
    context = None if train is None else split.train.matrix
    validation: Interactions | None = split.val
    if not no_search and not split.val.n_interactions and model.auto_settings:
        console.note(
            "nothing is held out for validation (every user has few interactions): shipped settings are used."
        )
        no_search = True
    if no_search:
        model = model.with_settings(**{name: model.fallback[name] for name in model.auto_settings})
        validation = split.val if split.val.n_interactions else None
    space = None
    if seconds is not None and model.strategy == "halving":  # the open settings of others are "auto"
        space = {name: values for name, values in model.search_space.items() if name not in fixed}
    data = (fit_on, validation)
    return tune(model, data, space=space, context=context, seconds=seconds, seed=seed, progress=progress)


def _document(
    tuning: Tuned[Recommender], result: Evaluation, watch: Stopwatch, search: float | None, seed: int
) -> dict[str, Any]:
    """One model's document, as design.md's contract has it, and the candidates that were tried."""
    document: dict[str, Any] = {
        "model": tuning.model.name,
        "protocol": result.protocol,
        "selected": dict(tuning.selected),
        "about": dict(tuning.model.about),
        "users": {"measured": result.n_users, "of": result.population},
        "metrics": dict(result.metrics),
        "intervals": {name: list(bounds) for name, bounds in result.intervals.items()},
        "seconds": {**watch.seconds, "total": console.elapsed()},
        "peak_rss_mb": machine.peak_rss_mb(),
        "device": machine.device(),
        "candidates": options.candidates(tuning.candidates),
    }
    if search is not None:
        document["search"] = {
            "seconds": search,
            "spent": tuning.seconds,
            "seed": seed,
            "tried": sum(one.score is not None or bool(one.dropped) for one in tuning.candidates),
            "of": tuning.size,
            "criterion": tuning.criterion,
        }
    return document


def show(documents: list[dict[str, Any]], log: Interactions, split: str) -> None:
    """The numbers of one or several models as a table."""
    from infrec.evaluation.comparison import ModelRecord
    from infrec.report import terminal
    from infrec.report.comparison import table

    columns = ("model", "metrics", "intervals", "selected", "seconds")
    records = [ModelRecord(*(document[column] for column in columns)) for document in documents]
    first = documents[0]
    users, sampled = first["users"], ""
    if users["measured"] != users["of"]:
        sampled = f" of a random sample of {users['measured']:,} of {users['of']:,} users"
    caption = (
        f"{first['dataset']}: {log.n_users:,} users, {log.n_items:,} items, {log.n_interactions:,} "
        f"interactions; test part{sampled}, protocol {first['protocol']}, split {split}; 95 % intervals"
    )
    console.out().print(terminal.table(table(records, caption)))
    for document in documents:
        if "search" in document and document["candidates"]:
            search = document["search"]
            spent = numbers.seconds(search["spent"])
            console.note(f"{document['model']}: {search['tried']} of {search['of']} candidates in {spent}")
    for candidate in (one for document in documents for one in document["candidates"] if one["error"]):
        console.note(f"skipped {numbers.settings(candidate['settings'])}: {candidate['error']}")
