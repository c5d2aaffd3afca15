"""`infrec recommend`: for a known user, for a history never seen, or for everybody."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from infrec.cli import console
from infrec.cli.options import LISTS, Answer, balances_lists, option
from infrec.errors import DataError
from infrec.models.balance import Balance
from infrec.progress import Progress

if TYPE_CHECKING:
    import pyarrow as pa

    from infrec.data import Interactions
    from infrec.data.partitioned import PartitionedLog
    from infrec.models import Recommender

BATCH = 1024  # users at a time for --all: bounded memory, few calls


ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="A directory that infrec fit wrote.")]
UserOption = Annotated[list[str] | None, option("--user ID", "A user the model was fitted on; repeatable.")]
HistoryOption = Annotated[
    list[str] | None,
    option(
        "--history ID|TITLE",
        "Items of somebody never seen: ids, with commas between them, or a title; repeatable.",
    ),
]
AllOption = Annotated[bool, option("--all", "For every user of the model, into --out.")]
DataOption = Annotated[
    Path | None,
    option(
        "--data DIR",
        "The prepared dataset whose users are meant, for a model that was fitted from partitions.",
    ),
]
OutOption = Annotated[Path | None, option("--out -o FILE", "File to write: .csv, .jsonl or .parquet.")]
KOption = Annotated[int, option("-k N", "How many items.", min=1)]
OnlyOption = Annotated[list[str] | None, option("--only ID", "Recommend among these items only; repeatable.")]
ExcludeOption = Annotated[list[str] | None, option("--exclude ID", "Never recommend this item; repeatable.")]
IncludeSeenOption = Annotated[bool, option("--include-seen", "Also items that the history holds already.")]
MaxPerOption = Annotated[
    list[str] | None,
    option(
        "--max-per COLUMN=N",
        "At most N items with the same value of a column of the items table, such as genre=3; repeatable.",
        LISTS,
    ),
]
OnUnknownOption = Annotated[
    Literal["popular", "skip", "error"],
    option("--on-unknown", "What an unknown user gets: popular items, nothing, an error."),
]


@balances_lists
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
    balance: Balance = Balance(),
    max_per: MaxPerOption = None,
    on_unknown: OnUnknownOption = "popular",
) -> Answer:
    """Recommend items: for a known user, for a history never seen, or for everybody.

    Ids are compared as text: 007 and 7 are two users.

    [bold]Examples[/]

      infrec recommend model --user 17
      infrec recommend model --history 50,181 -k 5
      infrec recommend model --history "Jurassic Park" --history 181
      infrec recommend model --user 17 --diversity 0.3 --max-per genre=3
      infrec recommend model --all --out recs.csv
      infrec recommend model --all --data prepared --out recs.parquet
    """
    if sum([bool(user), bool(history), all_]) != 1:
        raise typer.BadParameter("give exactly one of --user, --history or --all.")
    if all_ != (out is not None):
        raise typer.BadParameter("--all and --out FILE go together.")
    if data is not None and history:
        raise typer.BadParameter("--data is where --user and --all find histories; --history is one itself.")
    if out is not None:
        from infrec.data.table_files import WRITERS, write_tables

        console.check_file(out, "--out", WRITERS)
    caps = _caps(max_per or ())
    from infrec import models

    fitted = models.load(model)
    dataset = None if data is None else _dataset(fitted, data)
    if dataset is None and not history and fitted.about.get("users") == "left out":
        raise DataError(
            f"{model} keeps no user ids (it was fitted with --without-users); ask it with --history."
        )
    filters: dict[str, Any] = {
        "k": k,
        "exclude_seen": not include_seen,
        "only": only or None,
        "exclude": exclude or None,
        "on_unknown": on_unknown,
        "diversity": balance.diversity,
        "popularity": balance.popularity,
        "max_per": caps,
    }
    if out is not None:
        with console.bars() as progress:
            rows = write_tables(_batches(fitted, dataset, filters, progress), out)
        console.saved(out)
        users = len(fitted.log.users if dataset is None else dataset.users)
        words = f"{rows:,} recommendations for {users:,} users in [bold]{console.plain(out)}[/]."
        return {"model": fitted.name, "k": k, "users": users, "rows": rows, "out": str(out)}, words
    return _for_history(fitted, history, filters) if history else _for_users(fitted, dataset, user, filters)


def _caps(pairs: Sequence[str]) -> dict[str, int]:
    """Columns and how many items of a list may have one value of them, from `column=number`."""
    caps = {}
    for pair in pairs:
        column, _, number = pair.rpartition("=")
        if not column.strip() or not number.strip().isdecimal():
            raise typer.BadParameter(
                f"{pair!r} is not of the form COLUMN=N, such as genre=3.", param_hint="--max-per"
            )
        caps[column.strip()] = int(number)
    return caps


def _for_users(
    fitted: Recommender, dataset: PartitionedLog | None, users: list[str] | None, filters: dict[str, Any]
) -> Answer:
    """The answer for known users, of the model or of the dataset that it was fitted from."""
    at = (fitted.log if dataset is None else dataset).users.positions(users or ())
    unknown = [each for each, position in zip(users or (), at, strict=True) if position < 0]
    if dataset is None:
        table = fitted.recommend(users, **filters).table
    elif unknown and filters["on_unknown"] == "error":
        raise DataError(
            f"the dataset has no user {unknown[0]!r}; expected one of its {len(dataset.users):,}."
        )
    else:
        import pyarrow as pa

        table = _named(fitted.recommend(histories=dataset.rows(at), **filters).table, pa.array(users))
    document = {"model": fitted.name, "k": filters["k"], "unknown": unknown}
    document["recommendations"] = table.to_pylist()
    return document, partial(_show, table, named=True)


def _for_history(fitted: Recommender, words: list[str], filters: dict[str, Any]) -> Answer:
    """The answer for somebody never seen, which begins with what of the history is not known."""
    import numpy as np

    found = _meant(fitted.log, words)
    untold = ", ".join(map(repr, found.unknown))
    which = "id" if fitted.log.titles is None else "id or title"
    if found.unknown and filters["on_unknown"] == "error":
        raise DataError(f"the model knows no item by the {which} {untold}; check the spelling.")
    items = fitted.log.items.take(np.array(found.columns, np.int64)).to_pylist()
    table = fitted.recommend(histories=[items], **filters).table
    document = {"model": fitted.name, "k": filters["k"], "history": items, "unknown": found.unknown}
    document["recommendations"] = table.to_pylist()

    def show() -> None:
        if found.unknown:
            rest = "what follows is for the others" if items else "nothing is known of this person"
            console.say(f"[bold]The model knows no item by the {which} {console.plain(untold)}[/]: {rest}.")
        if found.columns and fitted.log.titles is not None:
            console.say(f"[dim]For {console.plain(', '.join(found.names(fitted.log)))}:[/]")
        _show(table, named=False)

    return document, show, int(not items)


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


# ---- the items that --history names: ids, several with commas between them, or titles by their text -----
_YEAR = re.compile(r"\s*\(\d{4}\)\s*$")
_NAMED = 8  # items that an error names


@dataclass
class _Meant:
    """The columns of the items that were found, and the words that stand for none."""

    columns: list[int] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def names(self, log: Interactions) -> list[str]:
        """Each item's id, with its title where it has one."""
        return [_name(log, column) for column in self.columns]


def _meant(log: Interactions, words: Sequence[str]) -> _Meant:
    """The items of a history as it was typed.

    A text is an id, else a whole title, else several with commas between them, else a part of a title.
    """
    found = _Meant()
    for text in words:
        parts = [part.strip() for part in text.split(",")]
        column = _by_id(log, text)
        if column is None and (len(parts) == 1 or not all(_by_id(log, part) is not None for part in parts)):
            column = _by_title(log, text)
        if column is not None:
            found.columns.append(column)
            continue
        for part in parts if len(parts) > 1 else ():
            one = _by_id(log, part)
            one = _by_title(log, part) if one is None else one
            found.columns += [] if one is None else [one]
            found.unknown += [part] if one is None else []
        found.unknown += [text] if len(parts) == 1 else []
    return found


def _by_id(log: Interactions, text: str) -> int | None:
    (at,) = log.items.positions([text])
    return int(at) if at >= 0 else None


def _by_title(log: Interactions, text: str) -> int | None:
    """The item whose title a text is, by its words in any order, or is a part of; several are refused.

    A number alone is no part of a title: it is an id that was mistyped.
    """
    titles = log.titles
    if titles is None or not (wanted := _words(text)):
        return None
    import pyarrow.compute as pc

    lower = pc.utf8_lower(titles.combine_chunks())
    holds = reduce(pc.and_, (pc.match_substring(lower, word) for word in wanted))
    candidates = {at: lower[at].as_py() for at in pc.indices_nonzero(holds).to_pylist()}
    kinds = [
        [at for at, title in candidates.items() if title == text.lower().strip()],
        [at for at, title in candidates.items() if sorted(_words(title)) == sorted(wanted)],
    ]
    if not text.strip().isdigit():
        words = {at: set(re.findall(r"\w+", title)) for at, title in candidates.items()}
        kinds += [
            [at for at, have in words.items() if have.issuperset(wanted)],
            [
                at
                for at, have in words.items()
                if all(any(one.startswith(word) for one in have) for word in wanted)
            ],
        ]
    best = next((kind for kind in kinds if kind), [])
    if len(best) > 1:
        named = ", ".join(_name(log, at) for at in best[:_NAMED])
        more = f" and {len(best) - _NAMED:,} more" if len(best) > _NAMED else ""
        raise DataError(f"{text!r} may be {len(best):,} items: {named}{more}; give the id of one of them.")
    return best[0] if best else None


def _words(text: str) -> list[str]:
    """The words of a title in small letters, without the year behind it."""
    return re.findall(r"\w+", _YEAR.sub("", text.lower()))


def _name(log: Interactions, column: int) -> str:
    """An item's id, and its title where it has one."""
    title = None if log.titles is None else log.titles[column].as_py()
    return f"{log.items.ids[column]}" + (f" {title}" if title else "")
