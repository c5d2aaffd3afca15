"""`infrec recommend`: for a known user, for a history never seen, or for everybody."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from infrec import drafts
from infrec.cli import console
from infrec.cli.options import Answer, option
from infrec.errors import DataError
from infrec.progress import Progress

if TYPE_CHECKING:
    import pyarrow as pa

    from infrec.data.partitioned import PartitionedLog
    from infrec.models import Recommender

BATCH = 1024  # users at a time for --all: bounded memory, few calls


ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="A directory that infrec fit wrote.")]
UserOption = Annotated[list[str] | None, option("--user ID", "A user the model was fitted on; repeatable.")]
HistoryOption = Annotated[
    list[str] | None, option("--history ID", "An item of somebody never seen; repeat for each item.")
]
AllOption = Annotated[bool, option("--all", "For every user of the model, into --out.")]
DataOption = Annotated[
    Path | None,
    option(
        "--data DIR",
        "The prepared dataset whose users are meant, for a model that was fitted from partitions.",
    ),
]
OutOption = Annotated[Path | None, option("--out -o FILE", "Parquet file to write.")]
KOption = Annotated[int, option("-k N", "How many items.", min=1)]
OnlyOption = Annotated[list[str] | None, option("--only ID", "Recommend among these items only; repeatable.")]
ExcludeOption = Annotated[list[str] | None, option("--exclude ID", "Never recommend this item; repeatable.")]
IncludeSeenOption = Annotated[bool, option("--include-seen", "Also items that the history holds already.")]
OnUnknownOption = Annotated[
    Literal["popular", "skip", "error"],
    option("--on-unknown", "What an unknown user gets: popular items, nothing, an error."),
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
    on_unknown: OnUnknownOption = "popular",
) -> Answer:
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
        problem = "is a directory" if out.is_dir() else "lies in a folder that does not exist"
        raise typer.BadParameter(f"{out} {problem}; expected a file to write.", param_hint="--out")
    from infrec import models

    fitted = models.load(model)
    dataset = None if data is None else _dataset(fitted, data)
    filters: dict[str, Any] = {
        "k": k,
        "exclude_seen": not include_seen,
        "only": only or None,
        "exclude": exclude or None,
        "on_unknown": on_unknown,
    }
    if out is not None:
        with console.bars() as progress:
            rows = write_all(_batches(fitted, dataset, filters, progress), out)
        console.saved(out)
        users = len(fitted.log.users if dataset is None else dataset.users)
        words = f"{rows:,} recommendations for {users:,} users in [bold]{console.plain(out)}[/]."
        return {"model": fitted.name, "k": k, "users": users, "rows": rows, "out": str(out)}, words
    unknown: list[str] = []
    if history:
        _, (unseen,) = fitted.log.histories([history])
        unknown = [str(each) for each in unseen]
        table = fitted.recommend(histories=[history], **filters).table
    elif user:
        at = (fitted.log if dataset is None else dataset).users.positions(user)
        unknown = [each for each, position in zip(user, at, strict=True) if position < 0]
        if dataset is None:
            table = fitted.recommend(user, **filters).table
        elif unknown and on_unknown == "error":
            raise DataError(f"{data} has no user {unknown[0]!r}; expected one of its {len(dataset.users):,}.")
        else:
            import pyarrow as pa

            table = _named(fitted.recommend(histories=dataset.rows(at), **filters).table, pa.array(user))
    document = {"model": fitted.name, "k": k, "unknown": unknown, "recommendations": table.to_pylist()}
    return document, partial(_show, table, named=bool(user))


def _dataset(fitted: Recommender, data: Path) -> PartitionedLog:
    from infrec.data.partitioned import PartitionedLog

    dataset = PartitionedLog.open(data)
    if dataset.items != fitted.log.items:
        raise DataError(
            f"{data} has {len(dataset.items):,} items and the model {fitted.log.n_items:,}, or others; "
            "expected the dataset that the model was fitted on, or one prepared over the same items."
        )
    return dataset


def _batches(
    fitted: Recommender, dataset: PartitionedLog | None, filters: dict[str, Any], progress: Progress
) -> Iterator[pa.Table]:
    """Recommendations for all users, a batch at a time; one partition of histories is in memory at a time."""
    ids = (fitted.log if dataset is None else dataset).users.ids
    done = 0
    for partition in [None] if dataset is None else dataset.batches():
        end = len(ids) if partition is None else done + partition.shape[0]
        begin = done
        while done < end:
            users = ids.slice(done, min(BATCH, end - done))
            if partition is None:
                yield fitted.recommend(users, **filters).table
            else:
                rows = partition[done - begin : done - begin + len(users)]
                yield _named(fitted.recommend(histories=rows, **filters).table, users)
            done += len(users)
            progress("recommending", done, len(ids))


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
    rows = table.to_pylist()
    several = named and len({row["user"] for row in rows}) > 1
    titled = "title" in table.column_names
    columns = [*(["user"] if several else []), "rank", "item", *(["title"] if titled else []), "score"]
    popular = [row for row in rows if row["source"] == "popular"]
    for row in rows:
        row["score"] = f"{row['score']:.4f}" + (" *" if row["source"] == "popular" else "")
    if rows:
        cells = [["" if row[name] is None else row[name] for name in columns] for row in rows]
        console.table(cells, columns, right=("rank", "score"))
    else:
        console.say("nothing left to recommend.")
    if popular:
        console.say("[dim]* popular items: nothing is known about this user.[/]")
