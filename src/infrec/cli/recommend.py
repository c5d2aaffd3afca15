"""`infrec recommend`: for a known user, for a history never seen, or for everybody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infrec import drafts
from infrec.cli import console, options
from infrec.errors import DataError
from infrec.progress import Progress

if TYPE_CHECKING:
    import pyarrow as pa

    from infrec.data.partitioned import PartitionedLog
    from infrec.models import Recommender

BATCH = 1024  # users at a time for --all: bounded memory, few calls


ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="A directory that infrec fit wrote.")]
UserOption = Annotated[
    list[str] | None,
    typer.Option("--user", metavar="ID", help="A user the model was fitted on; repeatable."),
]
HistoryOption = Annotated[
    list[str] | None,
    typer.Option("--history", metavar="ID", help="An item of somebody never seen; repeat for each item."),
]
AllOption = Annotated[bool, typer.Option("--all", help="For every user of the model, into --out.")]
DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="The prepared dataset whose users are meant, for a model that was fitted from partitions.",
    ),
]
OutOption = Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="Parquet file to write.")]
KOption = Annotated[int, typer.Option("-k", min=1, metavar="N", help="How many items.")]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="ID", help="Recommend among these items only; repeatable."),
]
ExcludeOption = Annotated[
    list[str] | None,
    typer.Option("--exclude", metavar="ID", help="Never recommend this item; repeatable."),
]
IncludeSeenOption = Annotated[
    bool, typer.Option("--include-seen", help="Also items that the history holds already.")
]
OnUnknownOption = Annotated[
    options.OnUnknown,
    typer.Option("--on-unknown", help="What an unknown user gets: popular items, nothing, an error."),
]


def recommend(
    model: ModelArgument,
    user: UserOption = None,
    history: HistoryOption = None,
    all_: AllOption = False,
    data: DataOption = None,
    out: OutOption = None,
    k: KOption = 10,
    only: OnlyOption = None,
    exclude: ExcludeOption = None,
    include_seen: IncludeSeenOption = False,
    on_unknown: OnUnknownOption = options.OnUnknown.popular,
    json: options.Json = False,
) -> None:
    """Recommend items: for a known user, for a history never seen, or for everybody.

    Ids are compared as text: 007 and 7 are two users.

    [bold]Examples[/]

      infrec recommend model --user 17
      infrec recommend model --history 50 --history 181 -k 5
      infrec recommend model --all --out recs.parquet
      infrec recommend model --all --data prepared --out recs.parquet
    """
    if sum([bool(user), bool(history), all_]) != 1:
        raise typer.BadParameter("give exactly one of --user, --history or --all.")
    if all_ != (out is not None):
        raise typer.BadParameter("--all and --out FILE go together.")
    if data is not None and history:
        raise typer.BadParameter("--data is where --user and --all find histories; --history is one itself.")
    if out is not None and (out.is_dir() or not out.absolute().parent.is_dir()):
        found = "is a directory" if out.is_dir() else "lies in a folder that does not exist"
        raise typer.BadParameter(f"{out} {found}; expected a file to write.", param_hint="--out")
    from infrec import models

    fitted = models.load(model)
    dataset = None if data is None else _dataset(fitted, data)
    filters: dict[str, Any] = {
        "k": k,
        "exclude_seen": not include_seen,
        "only": only or None,
        "exclude": exclude or None,
        "on_unknown": on_unknown.value,
    }
    if out is not None:
        _everybody(fitted, dataset, out, filters, json)
        return
    unknown: list[str] = []
    if user:
        at = (fitted.log if dataset is None else dataset).users.positions(user)
        unknown = [each for each, position in zip(user, at, strict=True) if position < 0]
        if unknown and dataset is not None and on_unknown is options.OnUnknown.error:
            raise DataError(f"{data} has no user {unknown[0]!r}; expected one of its {len(dataset.users):,}.")
        if dataset is None:
            table = fitted.recommend(user, **filters)
        else:
            import pyarrow as pa

            rows = dataset.rows(at)
            table = fitted.recommend(histories=rows, **filters)
            table = _named(table, pa.array(user))
    else:
        assert history is not None
        _, (unseen,) = fitted.log.histories([history])
        unknown = [str(each) for each in unseen]
        table = fitted.recommend(histories=[history], **filters)
    if json:
        rows = table.to_pylist()
        console.emit({"model": fitted.name, "k": k, "unknown": unknown, "recommendations": rows})
    else:
        _show(table, named=bool(user))


def _dataset(fitted: Recommender, data: Path) -> PartitionedLog:
    from infrec.data.partitioned import PartitionedLog

    dataset = PartitionedLog.open(data)
    if dataset.items != fitted.log.items:
        raise DataError(
            f"{data} has {len(dataset.items):,} items and the model {fitted.log.n_items:,}, or others; "
            "expected the dataset that the model was fitted on, or one prepared over the same items."
        )
    return dataset


def _everybody(
    fitted: Recommender, dataset: PartitionedLog | None, out: Path, filters: dict[str, Any], json: bool
) -> None:
    """All users in batches into one Parquet file, which appears only when it is complete."""
    with console.bars() as progress:
        if dataset is None:
            tables, users = _batches(fitted, filters, progress), fitted.log.n_users
        else:
            tables, users = _of_partitions(fitted, dataset, filters, progress), len(dataset.users)
        rows = write_all(tables, out)
    console.saved(out)
    if json:
        console.emit({"model": fitted.name, "k": filters["k"], "users": users, "rows": rows, "out": str(out)})
    else:
        console.out().print(
            f"{rows:,} recommendations for {users:,} users in [bold]{console.plain(out)}[/].", soft_wrap=True
        )


def _batches(fitted: Recommender, filters: dict[str, Any], progress: Progress) -> Iterator[pa.Table]:
    ids = fitted.log.users.ids
    for start in range(0, len(ids), BATCH):
        yield fitted.recommend(ids.slice(start, BATCH), **filters)
        progress("recommending", min(start + BATCH, len(ids)), len(ids))


def _of_partitions(
    fitted: Recommender, dataset: PartitionedLog, filters: dict[str, Any], progress: Progress
) -> Iterator[pa.Table]:
    """One partition of histories in memory at a time."""
    done = 0
    for batch in dataset.batches():
        for start in range(0, batch.shape[0], BATCH):
            some = batch[start : start + BATCH]
            table = fitted.recommend(histories=some, **filters)
            yield _named(table, dataset.users.ids.slice(done, some.shape[0]))
            done += some.shape[0]
            progress("recommending", done, len(dataset.users))


def _named(table: pa.Table, users: pa.Array) -> pa.Table:
    """The users' ids instead of the numbers of their histories."""
    return table.set_column(0, "user", users.take(table.column("user")))


def write_all(tables: Iterator[pa.Table], out: Path) -> int:
    """Write tables one after the other; the file is renamed into place when it is whole. Returns the rows."""
    import pyarrow.parquet as pq

    rows, writer = 0, None
    with drafts.writing(out) as file:
        for table in tables:
            writer = writer or pq.ParquetWriter(file, table.schema, compression="zstd")
            writer.write_table(table)
            rows += table.num_rows
        if writer is not None:
            writer.close()
    return rows


def _show(table: pa.Table, *, named: bool) -> None:
    from rich.table import Table

    shown = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    titled = "title" in table.column_names
    several = named and len(set(table.column("user").to_pylist())) > 1
    columns = [*(["user"] if several else []), "rank", "item", *(["title"] if titled else []), "score"]
    for column in columns:
        shown.add_column(column, justify="right" if column in ("rank", "score") else "left", overflow="fold")
    popular = False
    for row in table.to_pylist():
        popular |= row["source"] == "popular"
        cells = {**row, "score": f"{row['score']:.4f}" + (" *" if row["source"] == "popular" else "")}
        shown.add_row(*("" if cells[column] is None else console.plain(cells[column]) for column in columns))
    console.out().print(shown if table.num_rows else "nothing left to recommend.")
    if popular:
        console.out().print("* popular items: nothing is known about this user.", style="dim")
