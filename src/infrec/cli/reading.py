"""The data options, written once: a command that `reads_data` has them all and receives one `Reading`."""

from __future__ import annotations

import functools
import inspect
import shlex
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from infrec.cli import console
from infrec.progress import Progress, silent

if TYPE_CHECKING:
    from infrec.data import Interactions, ReadReport

_DATA = "Data"


class Duplicates(StrEnum):
    first = "first"
    sum = "sum"


@dataclass(frozen=True)
class Reading:
    """How DATA is to be read."""

    user: Annotated[
        str | None,
        typer.Option("--user", metavar="COLUMN", help="Column of user ids.", rich_help_panel=_DATA),
    ] = None
    item: Annotated[
        str | None,
        typer.Option("--item", metavar="COLUMN", help="Column of item ids.", rich_help_panel=_DATA),
    ] = None
    rating: Annotated[
        str | None,
        typer.Option("--rating", metavar="COLUMN", help="Column of ratings.", rich_help_panel=_DATA),
    ] = None
    time: Annotated[
        str | None,
        typer.Option("--time", metavar="COLUMN", help="Column of times.", rich_help_panel=_DATA),
    ] = None
    positive: Annotated[
        str | None,
        typer.Option(
            "--positive",
            metavar="RULE",
            help='Which rows count as interactions, such as "rating >= 4". Default: all.',
            rich_help_panel=_DATA,
        ),
    ] = None
    duplicates: Annotated[
        Duplicates,
        typer.Option("--duplicates", help="Repeated pairs: keep the first, or sum.", rich_help_panel=_DATA),
    ] = Duplicates.first
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Refuse damaged rows instead of dropping and counting them.",
            rich_help_panel=_DATA,
        ),
    ] = False

    def load(self, data: str, progress: Progress = silent, *, by_row: bool = False) -> Interactions:
        """Read DATA as its options say, and tell what was counted and what was not.

        by_row: judge every row by itself alone, as ε and δ need.
        What `infrec distill` or `infrec sample` wrote is read as what it is, whatever the options.
        """
        from infrec import artifacts
        from infrec.data import registry

        if artifacts.kind_of(data) not in (None, "dataset"):
            from infrec.distillation import Summary

            return Summary.load(data)
        log = registry.load(data, progress=progress, by_row=by_row, **self.options)
        for line in what_was_read(log):
            console.note(line)
        return log

    @property
    def options(self) -> dict[str, Any]:
        """The options by the names that readers give them."""
        return {field.name: getattr(self, field.name) for field in fields(self)} | {
            "duplicates": self.duplicates.value
        }

    def again(self, data: str, seed: int) -> str:
        """DATA in the words of a next command that is to read and split it in the same way."""
        words = [data]
        for each in fields(self):
            if (value := getattr(self, each.name)) != each.default:
                words += [f"--{each.name}", *([] if value is True else [str(value)])]
        return shlex.join([*words, *([] if seed == 42 else ["--seed", str(seed)])])


def reads_data(command: Callable[..., None]) -> Callable[..., None]:
    """Put the data options where the command's parameter `reading` stands."""
    shared = [
        inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hint)
        for field, hint in zip(
            fields(Reading), get_type_hints(Reading, include_extras=True).values(), strict=True
        )
    ]
    parameters: list[inspect.Parameter] = []
    for own in inspect.signature(command, eval_str=True).parameters.values():
        keyword = own.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        parameters += shared if own.name == "reading" else [keyword]

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        command(reading=Reading(**{each.name: given.pop(each.name) for each in shared}), **given)

    del with_options.__wrapped__  # typer must see this signature, not the one behind it
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {each.name: each.annotation for each in parameters}
    return with_options


def what_was_read(log: Interactions) -> list[str]:
    """What the reader counted and dropped, in words."""
    return [] if log.report is None else report_lines(log.report)


def report_lines(report: ReadReport) -> list[str]:
    """A reader's report, in words."""
    lines = []
    dropped = {reason: count for reason, count in report.dropped.items() if count}
    if dropped:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items())
        lines.append(
            f"{report.source}: {report.kept:,} of {report.rows:,} rows count as interactions; not: {reasons}."
        )
    return lines + [str(text) for text in report.notes]
