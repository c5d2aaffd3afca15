"""`infrec evaluate`: fit a model on the train part, choose settings on validation, measure on test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from infrec.cli import console, machine, options
from infrec.cli.options import Protocol
from infrec.cli.reading import Reading, reads_data
from infrec.progress import Progress, Stopwatch
from infrec.report import numbers

if TYPE_CHECKING:
    from infrec.data import Interactions
    from infrec.models import Recommender
    from infrec.splits import Split


@reads_data
def evaluate(
    data: options.Data,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            metavar="NAME",
            help="infinite-ae (the default), ease or poprec; several are compared.",
            rich_help_panel="Model",
        ),
    ] = None,
    set_: options.Settings = None,
    no_search: Annotated[
        bool,
        typer.Option(
            "--no-search", help="Use the shipped settings; choose nothing.", rich_help_panel="Model"
        ),
    ] = False,
    search: Annotated[
        float | None,
        typer.Option(
            "--search",
            metavar="SECONDS",
            min=0.0,
            help="Search settings for at most this long.",
            rich_help_panel="Model",
        ),
    ] = None,
    protocol: Annotated[
        Protocol,
        typer.Option("--protocol", help="How the published numbers were made, or the textbook's formulas."),
    ] = Protocol.paper_code,
    train_on: Annotated[
        str | None,
        typer.Option(
            "--train-on",
            metavar="PATH",
            help="Fit on this sample, summary or log over the same items instead of the train part.",
        ),
    ] = None,
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
    """
    names = [options.check_model(name) for name in dict.fromkeys(model or ["infinite-ae"])]
    if no_search and search is not None:
        raise typer.BadParameter("--no-search and --search exclude each other; give one.")
    models = [options.open_model(name, set_) for name in names]
    watch = Stopwatch()
    with console.bars() as progress:
        with watch("load"):
            log = reading.load(data, progress)
            split, train = _split(log, seed, train_on)
        load_seconds = watch.seconds["load"]
        documents = []
        for each in models:
            documents.append(
                {"dataset": data}
                | _measure(each, split, train, protocol, no_search, search, seed, load_seconds, progress)
            )
    if json:
        console.emit(documents[0] if len(documents) == 1 else {"dataset": data, "results": documents})
    else:
        show(documents, log, split.name)


def _split(log: Interactions, seed: int, train_on: str | None) -> tuple[Split, Interactions | None]:
    from infrec.splits import holdout

    split = holdout(log, seed=seed)
    return split, None if train_on is None else training_log(train_on, split)


def training_log(path: str, split: Split) -> Interactions:
    """What `--train-on` names, over the items of the split: a sample's or summary's directory, or any log."""
    from infrec import artifacts
    from infrec.data import registry

    if artifacts.is_artifact(path):
        from infrec.distillation import Summary

        summary = Summary.load(path)
        aligned = summary.align_items(split.train.items)
        return Summary.of(aligned, about=summary.about, kind=summary.kind)
    log = registry.load(path)
    if log.parts is not None:
        log = log.with_matrix(log.parts["train"])
    return log.align_items(split.train.items)


def _measure(
    model: Recommender,
    split: Split,
    train: Interactions | None,
    protocol: Protocol,
    no_search: bool,
    search: float | None,
    seed: int,
    load_seconds: float,
    progress: Progress,
) -> dict[str, Any]:
    """One model's document, as design.md's contract has it, and the candidates that were tried."""
    from infrec.evaluation import evaluate as measure

    watch = Stopwatch()
    with watch("fit"):
        fitted, candidates = fit_for(model, split, train, no_search, search, progress)
    with watch("evaluate"):
        result = measure(fitted, split, protocol=protocol.value, seed=seed, progress=progress)
    return {
        "model": model.name,
        "protocol": protocol.value,
        "selected": dict(fitted.selected),
        "metrics": dict(result.metrics),
        "intervals": {name: list(bounds) for name, bounds in result.intervals.items()},
        "seconds": {"load": load_seconds, **watch.seconds, "total": console.elapsed()},
        "peak_rss_mb": machine.peak_rss_mb(),
        "device": machine.device(),
        "candidates": candidates,
    }


def fit_for(
    model: Recommender,
    split: Split,
    train: Interactions | None,
    no_search: bool,
    search: float | None,
    progress: Progress,
) -> tuple[Recommender, list[dict[str, Any]]]:
    """The model fitted on the train part (or on `train`), settings chosen on validation, and those tried."""
    fit_on = split.train if train is None else train
    if not no_search and not split.val.n_interactions and model.variants() != [{}]:
        console.note(
            "nothing is held out for validation (every user has few interactions): shipped settings are used."
        )
        no_search = True
    if no_search:
        still_open = [name for name, value in model.selected.items() if value == "auto"]
        model = model.with_settings(**{name: model.fallback[name] for name in still_open})
        return model.fit(fit_on, progress=progress), []
    from infrec.search import choose

    # Other users than the split's: their own histories say nothing about whom validation asks for.
    context = None if train is None else split.train.matrix
    result = choose(model, (fit_on, split.val), context=context, seconds=search, progress=progress)
    return result.model, options.candidates(result.candidates)


def show(documents: list[dict[str, Any]], log: Interactions, split: str) -> None:
    """The numbers of one or several models as a table."""
    from rich.table import Table

    metrics = numbers.shown(documents[0]["metrics"], extra=("coverage@10", "novelty@10"))
    dataset, protocol = documents[0]["dataset"], documents[0]["protocol"]
    table = Table(
        title=f"{dataset}: {log.n_users:,} users, {log.n_items:,} items, {log.n_interactions:,} interactions",
        caption=f"test part, protocol {protocol}, split {split}; 95 % bootstrap intervals",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("", style="bold")
    for document in documents:
        table.add_column(numbers.label(document["model"]), justify="right")
    for metric in metrics:
        table.add_row(metric, *(measured(document, metric) for document in documents))
    table.add_section()
    table.add_row("settings", *(numbers.settings(document["selected"]) or "–" for document in documents))
    table.add_row("fit", *(numbers.seconds(document["seconds"]["fit"]) for document in documents))
    table.add_row("evaluate", *(numbers.seconds(document["seconds"]["evaluate"]) for document in documents))
    console.out().print(table)
    failed = [c for document in documents for c in document["candidates"] if c["error"]]
    for candidate in failed:
        console.note(f"skipped {numbers.settings(candidate['settings'])}: {candidate['error']}")


def measured(document: dict[str, Any], metric: str) -> str:
    """A value with its interval beside it."""
    bounds = document["intervals"].get(metric)
    beside = numbers.interval(metric, None if bounds is None else (bounds[0], bounds[1]))
    return numbers.number(metric, document["metrics"].get(metric)) + (f" [dim]{beside}[/]" if beside else "")
