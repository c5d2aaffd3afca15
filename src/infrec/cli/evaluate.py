"""`infrec evaluate`: fit a model on the train part, choose settings on validation, measure on test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from infrec import drafts, machine
from infrec.cli import console, options
from infrec.cli.options import MODEL, Answer, option
from infrec.cli.reading import Reading, check_source, reading_of, reads_dislikes
from infrec.cli.trial import Protocol, Search, Trial
from infrec.data.strength import StrengthOptions
from infrec.errors import DataError
from infrec.models.balance import Balance
from infrec.progress import Progress, Stopwatch
from infrec.report import numbers

if TYPE_CHECKING:
    from infrec.data import Interactions, Summary
    from infrec.evaluation.comparison import Trade
    from infrec.models import Recommender
    from infrec.splits import Split

SplitName = Literal["random", "leave-last-out", "by-time"]

SCORES = 4_000_000_000  # of one model, measured in a minute or two
COLD_WAYS = {"content": "content alone", "popularity": "popularity, foretold", "random": "random"}

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
    Protocol,
    option(
        "--protocol",
        "How the published numbers were made, the textbook's formulas, or Recall@20 and NDCG@20 as graph "
        "recommenders report them.",
    ),
]
TrainOnOption = Annotated[
    str | None,
    option(
        "--train-on PATH", "Fit on this sample, summary or log over the same items instead of the train part."
    ),
]
SplitOption = Annotated[
    SplitName | None,
    option(
        "--split",
        "How to cut the data: 80 / 10 / 10 % of each user's interactions at random, each user's last two "
        "interactions, or the log's last 20 % by time. Without it, the data's own split, or random.",
    ),
]
SampleUsersOption = Annotated[
    int | None,
    option(
        "--sample-users N",
        "Measure on N users drawn at random (seeded); intervals say how sure that is. By default on all, "
        "or on as many as four billion scores allow.",
        min=1,
    ),
]
ReportOption = Annotated[
    Path | None,
    option(
        "--report FILE",
        "Write a page about --diversity and --popularity: accuracy against coverage, with a figure.",
        options.LISTS,
    ),
]
ColdItemsOption = Annotated[
    float | None,
    option(
        "--cold-items SHARE",
        "Instead: hold out this share of the items whole, such as 0.1, and place them by their features.",
    ),
]


@reads_dislikes
@options.balances_lists
@options.weighs
def evaluate(
    data: options.Data,
    model: ModelOption = None,
    set_: options.Settings = None,
    no_search: NoSearchOption = False,
    search: SearchOption = None,
    save_selection: SaveSelectionOption = None,
    protocol: ProtocolOption = "paper-code",
    split_by: SplitOption = None,
    train_on: TrainOnOption = None,
    sample_users: SampleUsersOption = None,
    balance: Balance = Balance(),
    report: ReportOption = None,
    cold_items: ColdItemsOption = None,
    features: options.FeaturesOption = None,
    strength: StrengthOptions = StrengthOptions(),
    reading: Reading = Reading(),
    seed: options.Seed = 42,
) -> Answer:
    """Fit models on the train part, choose settings on validation, measure on test.

    A column [bold]split[/] in the data is used unless --split is given; otherwise 80 / 10 / 10 % of each
    user's interactions are drawn.

    [bold]Examples[/]

      infrec evaluate demo
      infrec evaluate ratings.csv --split leave-last-out
      infrec evaluate ml-1m --model infinite-ae --json
      infrec evaluate ratings.csv --positive "rating >= 4" -m infinite-ae -m ease -m poprec
      infrec evaluate ml-1m --model ease --set reg=1000
      infrec evaluate ml-1m --model mf --search 60
      infrec evaluate ratings.csv --positive "rating >= 4" --negative "rating <= 2"
      infrec evaluate ml-1m --diversity 0.3 --report lists.html
      infrec evaluate ml-1m --cold-items 0.1
    """
    _check_report(report, balance)
    if features and cold_items is None:
        raise typer.BadParameter("--features place cold items; give --cold-items SHARE too.")
    if no_search and search is not None:
        raise typer.BadParameter("--no-search and --search exclude each other; give one.")
    if save_selection is not None and search is None:
        raise typer.BadParameter("--save-selection keeps what a search found; give --search SECONDS too.")
    _check_train_on(train_on, split_by, strength)
    models = [options.open_model(name, set_, seed) for name in dict.fromkeys(model or ["infinite-ae"])]
    fixed = [pair.partition("=")[0].strip() for pair in set_ or ()]
    if cold_items is not None:
        apart = (no_search, search, train_on, sample_users, split_by, None if balance.neutral else balance)
        if any(apart) or strength != StrengthOptions() or protocol != "paper-code":
            raise typer.BadParameter(
                "--cold-items goes with --model, --set, --features and how the data is read alone."
            )
        with console.bars() as progress:
            log = reading.load(data, progress)
            return _cold_items(data, log, models, cold_items, features or None, seed, progress)
    watch = Stopwatch()
    with console.bars() as progress:
        with watch("load"):
            cut = partial(_cut, how=split_by, seed=seed, data=data)
            log, split, train = _parts(data, train_on, reading, cut, seed, progress)
            fading = options.fading(log, strength)
        sample_users = sample_users or _affordable(split)
        by = Search(no_search, search, fixed)
        how = (by, protocol, sample_users, balance, strength, fading, reading, seed)
        trial = Trial(data, split, train, train_on, *how, watch.seconds)
        documents = []
        for document in trial.each(models, progress):
            documents.append(document)
            if save_selection is not None and "error" not in document:
                from infrec.search import committed

                console.saved(committed.save_search(document, save_selection, set_ or (), seed))
    if report is not None:
        _write_report(report, documents, data, _caption(log, trial))
    failed = any("error" in document for document in documents)
    document = documents[0] if len(documents) == 1 else {"dataset": data, "results": documents}
    return document, partial(show, documents, log, trial), int(failed)


def _affordable(split: Split) -> int | None:
    """How many users are measured where all of them, with a large catalogue, would take very long."""
    users, items = split.train.n_users, split.train.n_items
    if users * items <= SCORES:
        return None
    sample = max(1, SCORES // items)
    console.note(
        f"measured on {sample:,} of {users:,} users, drawn at random: with {items:,} items, all would take "
        f"very long; --sample-users {users} measures all"
    )
    return sample


def _check_report(report: Path | None, balance: Balance) -> None:
    if report is None:
        return
    console.check_file(report, "--report")
    if balance.neutral:
        raise typer.BadParameter(
            "--report shows what a wish for lists costs; give --diversity or --popularity."
        )


def _check_train_on(train_on: str | None, split_by: SplitName | None, strength: StrengthOptions) -> None:
    if train_on is None:
        return
    if split_by not in (None, "random"):
        raise typer.BadParameter(
            f"--train-on and --split {split_by} exclude each other: what a summary or a sample was made from "
            "may hold what is measured; leave one out."
        )
    if strength.weight_as is not None:
        raise typer.BadParameter("--weight-as is for a model of DATA's own train part; leave out --train-on.")


def _parts(
    data: str,
    train_on: str | None,
    reading: Reading,
    cut: Callable[[Interactions], tuple[Interactions, Split]],
    seed: int,
    progress: Progress,
) -> tuple[Interactions, Split, Interactions | None]:
    """The log, its parts, and what is fitted on instead of the train part."""
    from infrec import artifacts
    from infrec.data import Summary

    if train_on is None:
        return *cut(reading.load(data, progress)), None
    if artifacts.kind_of(train_on) in (None, "dataset"):
        log, split = cut(reading.load(data, progress))
        other = reading.load(train_on)
        other = other if other.parts is None else other.with_matrix(other.parts["train"])
        return log, split, other.align_items(split.train.items)
    summary = Summary.load(train_on)
    log, split = cut(reading_of(train_on, summary.about, reading, data).load(data, progress))
    check_source(train_on, summary.about, summary.items, log, data)
    return log, *_over_both(train_on, summary, split, seed)


def _cut(log: Interactions, *, how: SplitName | None, seed: int, data: str) -> tuple[Interactions, Split]:
    """The log and its parts, cut as --split says; None: its own ones, else at random."""
    from infrec import splits

    if how in (None, "random"):
        return log, splits.holdout(log if how is None else log.with_matrix(log.matrix), seed=seed)
    if log.time is None:
        raise DataError(
            f"--split {how} needs times and {data} has none; name their column with --time COLUMN, or use "
            "--split random."
        )
    return log, splits.leave_last_out(log) if how == "leave-last-out" else splits.by_time(log)


def _over_both(path: str | None, summary: Summary, split: Split, seed: int) -> tuple[Split, Interactions]:
    """The split and a summary over the same items; says where the summary holds some of what is measured.

    A summary that was continued knows items of earlier periods, and one with (ε, δ) those of a catalogue: the
    split is brought over the items of both.
    """
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


def show(documents: list[dict[str, Any]], log: Interactions, trial: Trial) -> None:
    """The numbers of one or several models as a table; below it, why one could not run."""
    from infrec.evaluation.comparison import ModelRecord
    from infrec.report.comparison import table, trade_headline, trade_table
    from infrec.report.text import rich_table

    columns = ("metrics", "intervals", "selected", "seconds")
    records = [
        ModelRecord(document["model"], *(document.get(column, {}) for column in columns))
        for document in documents
    ]
    if any(record.metrics for record in records):
        console.out().print(rich_table(table(records, _caption(log, trial))))
    for document in documents:
        if "error" in document:
            name, why = numbers.label(document["model"]), console.plain(document["error"]["message"])
            console.say(f"[bold red]{name} could not run:[/] {why}")
        elif "search" in document and document["candidates"]:
            search = document["search"]
            spent = numbers.seconds(search["spent"])
            console.note(f"{document['model']}: {search['tried']} of {search['of']} candidates in {spent}")
    for one in _trades(documents):
        console.say(f"\n{trade_headline(one)}")
        console.out().print(rich_table(trade_table(one)))
    every = (one for document in documents for one in document.get("candidates", ()))
    for candidate in (one for one in every if one["error"]):
        console.note(f"skipped {numbers.settings(candidate['settings'])}: {candidate['error']}")


def _caption(log: Interactions, trial: Trial) -> str:
    """The words above a table: the data, who could be judged, and what the models were fitted on."""
    judged = "all of them" if trial.judged == log.n_users else f"{trial.judged:,} of them"
    population, sample, measured = trial.split.train.n_users, trial.sample_users, ""
    if sample is not None and sample < population:
        measured = f" of a random sample of {sample:,} of {population:,} users"
    fitted = "" if trial.train_on is None else f"; fitted on {trial.train_on}, {trial.fit_on.n_users:,} users"
    return (
        f"{trial.data}: {log.n_users:,} users ({judged} can be judged), {log.n_items:,} items, "
        f"{log.n_interactions:,} interactions; test part{measured}, protocol {trial.protocol}, split "
        f"{trial.split.name}{fitted}; 95 % intervals"
    )


# ---- lists that are not all alike, and items held out whole ------------------------------------------------
def _trades(documents: list[dict[str, Any]]) -> list[Trade]:
    """The trades in the documents of models; one that could not run has none."""
    from infrec.evaluation.comparison import Step, Trade

    return [
        Trade(**{**each["trade"], "steps": tuple(Step(**step) for step in each["trade"]["steps"])})
        for each in documents
        if "trade" in each
    ]


def _write_report(path: Path, documents: list[dict[str, Any]], data: str, about: str) -> None:
    """The page of all models, where any could run.

    Args:
        path: The file.
        documents: What is known of each model.
        data: The name of the data.
        about: The data, the split and the protocol in a sentence.
    """
    from infrec.report import html
    from infrec.report.comparison import trade_document

    if found := _trades(documents):
        facts = {"device": machine.device(), "infrec": str(machine.versions()["infrec"])}
        drafts.write_text(path, html.render(trade_document(found, data, about, facts)))
        console.saved(path)


def _cold_items(
    data: str,
    log: Interactions,
    models: Sequence[Recommender],
    share: float,
    columns: Sequence[str] | None,
    seed: int,
    progress: Progress,
) -> Answer:
    """The document of each model, and a table for each."""
    from infrec.evaluation.coldness import evaluate_cold_items

    documents = []
    for model in models:
        found = evaluate_cold_items(model, log, share, columns=columns, seed=seed, progress=progress)
        record = asdict(found)
        documents.append({"dataset": data, "model": record.pop("model"), "cold_items": record})
    document = documents[0] if len(documents) == 1 else {"dataset": data, "results": documents}
    return document, partial(_show_cold_items, documents)


def _show_cold_items(documents: Sequence[dict[str, Any]]) -> None:
    """How each model places the items held out, beside content alone, popularity and chance."""
    from infrec.report.document import Table, Value
    from infrec.report.text import rich_table

    for document in documents:
        record, model = document["cold_items"], document["model"]
        ways = record["metrics"]
        head = ("", *(numbers.label(model) if way == model else COLD_WAYS[way] for way in ways))
        rows = [(metric, *(Value(metric, ways[way][metric]) for way in ways)) for metric in ways[model]]
        caption = (
            f"{document['dataset']}: {record['items']:,} items held out whole, lists of these alone for "
            f"{record['users']:,} users who have some; placed by {', '.join(record['features'])} "
            f"({numbers.settings(record['selected'])})"
        )
        console.out().print(rich_table(Table(caption, head, rows)))
