"""`--help` of every command. typer's own has to import a reader of Markdown first, which takes longer than
all the rest."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from typer.core import TyperArgument, TyperCommand, TyperGroup

from infrec.cli import console

if TYPE_CHECKING:
    from rich.console import Console


class Command(TyperCommand):
    """A command with our help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _show(self, ctx)


class Group(TyperGroup):
    """Several commands with our help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _show(self, ctx)


def _show(command: Command | Group, ctx: Any) -> None:
    """Usage, what the command does, its arguments and options by panel, its commands, and its last words."""
    out = console.out()
    out.print(f"\n[bold]{console.plain(command.get_usage(ctx))}[/]\n", highlight=False)
    out.print(inspect.cleandoc(command.help or ""))
    panels: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for parameter in command.get_params(ctx):
        if (record := parameter.get_help_record(ctx)) is None:
            continue
        name, usual = record[0], "Options"
        if isinstance(parameter, TyperArgument):
            name, usual = parameter.metavar or name, "Arguments"
        panel = getattr(parameter, "rich_help_panel", None) or usual
        words = getattr(parameter, "help", None) or ""
        facts = record[1].removeprefix(words).strip()  # such as [default: 42], which is no markup
        line = f"{words} [dim]{console.plain(facts)}[/]" if facts else words
        panels.setdefault(panel, []).append((console.plain(name), line.strip()))
    for name, rows in panels.items():
        _panel(out, name, rows)
    if isinstance(command, Group):
        inner = (command.get_command(ctx, name) for name in command.list_commands(ctx))
        rows = [(one.name or "", _first_paragraph(one.help)) for one in inner if one and not one.hidden]
        _panel(out, "Commands", rows)
    out.print(f"\n{command.epilog or ''}".rstrip())


def _panel(out: Console, name: str, rows: list[tuple[str, str]]) -> None:
    """A heading, and a line for each name with its meaning; nothing where there are none."""
    from rich.table import Table

    if not rows:
        return
    lines = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    lines.add_column(style="cyan", max_width=34, overflow="fold")
    lines.add_column(overflow="fold")
    for row in rows:
        lines.add_row(*row)
    out.print(f"\n[bold]{name}[/]")
    out.print(lines)


def _first_paragraph(text: str | None) -> str:
    return " ".join(inspect.cleandoc(text or "").split("\n\n")[0].split())
