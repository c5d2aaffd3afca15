"""The options of a command that may be one of several processes, written once."""

from __future__ import annotations

from typing import Annotated

import typer

PANEL = "Many processes"

Coordinator = Annotated[
    str | None,
    typer.Option(
        "--coordinator",
        metavar="HOST:PORT",
        help="Where the processes meet: on the machine of process 0. Slurm and Open MPI tell it.",
        rich_help_panel=PANEL,
    ),
]
Count = Annotated[
    int | None,
    typer.Option("--processes", metavar="N", min=1, help="How many there are.", rich_help_panel=PANEL),
]
Index = Annotated[
    int | None,
    typer.Option("--index", metavar="I", min=0, help="Which one this is, from 0.", rich_help_panel=PANEL),
]


def refuse_without(distributed: bool, *given: object) -> None:
    """Refuse what says where this process stands where it is the only one."""
    if not distributed and any(value is not None for value in given):
        raise typer.BadParameter("--coordinator, --processes and --index go with --distributed.")
