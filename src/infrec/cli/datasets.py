"""`infrec datasets`: which data there is, what is in it, where to get it, and how to make some."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infrec.cli import console, options
from infrec.cli.options import Answer, argument, option
from infrec.cli.reading import Reading, reads_data, report_lines
from infrec.report import numbers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from infrec.data import Interactions


def list_() -> Answer:
    """Registered datasets, and which of them are on this machine.

    [bold]Example[/]

      infrec datasets list
    """
    entries = describe()
    rows = [(entry["name"], entry["description"], entry["found"] or "–") for entry in entries]
    return {"datasets": entries}, partial(console.table, rows, ("name", "what", "here"))


@reads_data
def stats(data: options.Data, reading: Reading = Reading()) -> Answer:
    """The data in figures: users, items, interactions, how they are spread, and what was dropped.

    [bold]Examples[/]

      infrec datasets stats ml-1m
      infrec datasets stats ratings.csv --positive "rating >= 4"
    """
    with console.bars() as progress:
        log = reading.load(data, progress)
    document = {"dataset": data, **summary(log)}
    return document, partial(_show_stats, document)


def download(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name from [bold]infrec datasets list[/].")],
) -> Answer:
    """Fetch a dataset from its publisher into the cache: resumable, checked, atomic.

    [bold]Example[/]

      infrec datasets download ml-100k
    """
    from infrec.data import datasets

    if name not in datasets.entries:
        raise typer.BadParameter(options.unknown("dataset", name, list(datasets.entries)), param_hint="NAME")
    with console.bars() as progress:
        path = datasets.download(name, progress)
    console.saved(path)
    n_bytes = path.stat().st_size
    words = f"{name} is in [bold]{console.plain(path)}[/] ({numbers.size(n_bytes)})."
    return {"dataset": name, "path": str(path), "bytes": n_bytes}, words


def generate(
    out: Annotated[Path, option("--out -o FILE", "File to write: .csv, .jsonl or .parquet.")],
    users: Annotated[int, option("--users N", "How many users.", min=1)] = 1000,
    items: Annotated[int, option("--items N", "How many items.", min=2)] = 500,
    interactions: Annotated[int, option("--interactions N", "How many interactions.", min=1)] = 40000,
    seed: options.Seed = 42,
) -> Answer:
    """Make a realistic log: long-tailed popularity and activity, tastes that a good model finds.

    The same seed makes the same log; memory stays bounded, however many interactions.

    [bold]Example[/]

      infrec datasets generate --users 5000 --items 2000 --interactions 200000 --out log.parquet
    """
    from infrec.data.synthetic import write_log
    from infrec.data.table_files import WRITERS

    console.check_file(out, "--out", WRITERS)
    with console.bars() as progress:
        path = write_log(
            out, users=users, items=items, interactions=interactions, seed=seed, progress=progress
        )
    console.saved(path)
    n_bytes = path.stat().st_size
    sizes = {"users": users, "items": items, "interactions": interactions, "seed": seed}
    document = {**sizes, "out": str(path), "bytes": n_bytes, "seconds": console.elapsed()}
    return document, (
        f"{interactions:,} interactions of {users:,} users with {items:,} items in "
        f"[bold]{console.plain(path)}[/] ({numbers.size(n_bytes)}), their titles beside it."
    )


@reads_data
def prepare(
    source: Annotated[
        str, argument("SOURCE", "A file, a directory of Parquet or CSV, or a registered name, of any size.")
    ],
    out: Annotated[Path, option("--out -o DIR", "Where the dataset goes.")],
    reading: Reading = Reading(),
) -> Answer:
    """Turn a log of any size into a dataset partitioned by user, in bounded memory.

    DIR is then DATA for every command. It appears when it is complete; until then an older one stays.

    [bold]Examples[/]

      infrec datasets prepare ratings.csv --positive "rating >= 4" --out prepared
      infrec datasets prepare logs/ --user who --item what --out prepared
    """
    from infrec import machine
    from infrec.data import partition_writer as preparing
    from infrec.data.datasets import find_sources
    from infrec.data.partitioned import PartitionedLog
    from infrec.data.read import items_source

    reading = reading.for_data(source)
    with console.bars() as progress:
        rows, about_items = find_sources(source, reading, progress)
        about_items = items_source(reading.items) or about_items
        needed = preparing.memory_needed(text=rows.from_text)
        machine.require_memory(needed, "preparing a dataset", "close other programs")
        preparing.prepare(rows, out, reading, about_items, progress=progress)
    console.saved(out)
    dataset = PartitionedLog.open(out)
    facts = {name: dataset.manifest[name] for name in ("users", "items", "interactions", "rows", "dropped")}
    n_bytes = sum(file["bytes"] for file in dataset.manifest["files"].values())
    document = {
        "source": source,
        **facts,
        "notes": list(dataset.manifest["notes"]),
        "partitions": len(dataset.partitions),
        "out": str(out),
        "bytes": n_bytes,
        "seconds": console.elapsed(),
        "peak_rss_mb": machine.peak_rss_mb(),
    }

    def show() -> None:
        for line in report_lines(dataset.report):
            console.note(line)
        console.say(
            f"{facts['interactions']:,} interactions of {facts['users']:,} users with {facts['items']:,} "
            f"items in [bold]{console.plain(out)}[/] ({len(dataset.partitions)} partitions, "
            f"{numbers.size(n_bytes)})."
        )

    return document, show


def describe() -> list[dict[str, Any]]:
    """Every registered dataset: its name, what it is, and where it lies on this machine, if it does."""
    from infrec.data import datasets

    out = []
    for name, entry in datasets.entries.items():
        path = "built in" if entry.generated else datasets.locate(name)
        out.append({"name": name, "description": entry.about, "found": None if path is None else str(path)})
    return out


def summary(log: Interactions) -> dict[str, Any]:
    """The figures of `stats`."""
    cells = log.n_users * log.n_items
    return {
        "users": log.n_users,
        "items": log.n_items,
        "interactions": log.n_interactions,
        "density": log.n_interactions / cells if cells else 0.0,
        "per_user": _spread(log.user_counts),
        "per_item": _spread(log.item_counts),
        "weighted": log.weighted,
        "times": log.time is not None,
        "titles": log.titles is not None,
        "split": None if log.parts is None else {name: int(part.nnz) for name, part in log.parts.items()},
        "read": None
        if log.report is None
        else {
            "rows": log.report.rows,
            "kept": log.report.kept,
            "dropped": dict(log.report.dropped),
            "notes": list(log.report.notes),
        },
    }


def _spread(counts: NDArray[np.int64]) -> dict[str, float]:
    if not len(counts):
        return {"min": 0, "median": 0, "mean": 0, "max": 0}
    middle = sorted(counts.tolist())[len(counts) // 2]
    return {
        "min": int(counts.min()),
        "median": middle,
        "mean": float(counts.mean()),
        "max": int(counts.max()),
    }


def _show_stats(document: dict[str, Any]) -> None:
    rows = {"dataset": document["dataset"]}
    rows |= {key: f"{document[key]:,}" for key in ("users", "items", "interactions")}
    rows["density"] = f"{100 * document['density']:.3g} %"
    for key in ("per_user", "per_item"):
        spread = document[key]
        least, most, middle = (f"{spread[name]:,}" for name in ("min", "max", "median"))
        rows[key.replace("_", " ")] = f"{least} to {most}, median {middle}, mean {spread['mean']:.1f}"
    if document["split"]:
        rows["own split"] = ", ".join(f"{name} {count:,}" for name, count in document["split"].items())
    has = {"titles": "titles", "times": "times", "weighted": "weights"}
    rows["also has"] = ", ".join(word for key, word in has.items() if document[key]) or "–"
    if document["read"]:
        read = document["read"]
        dropped = ", ".join(f"{count:,} {reason}" for reason, count in read["dropped"].items() if count)
        rows["rows"] = f"{read['rows']:,}, of which {read['kept']:,} count" + f"; not: {dropped}" * bool(
            dropped
        )
    console.table(rows.items())


COMMANDS: dict[str, Callable[..., Answer]] = {
    "list": list_,
    "stats": stats,
    "download": download,
    "generate": generate,
    "prepare": prepare,
}
