"""All commands under one roof; the one place where an error becomes a sentence and an exit code."""

from __future__ import annotations

import inspect
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

from infrec import __version__
from infrec.cli import (
    audit,
    console,
    datasets,
    demo,
    distill,
    doctor,
    evaluate,
    export,
    fit,
    init,
    interrupts,
    recommend,
    reproduce,
    sample,
    serve,
)
from infrec.cli.interrupts import INTERRUPTED
from infrec.cli.options import answers, option
from infrec.cli.reading import in_words_of_the_command_line, next_command
from infrec.errors import ConfigError, InfrecError

if TYPE_CHECKING:
    from rich.console import Console

DONE, FAILED, USAGE = 0, 1, 2
# typer carries its own copy of click in some versions and uses the real one in others: ask typer, not click.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]
ClickError: type[Exception] = typer.BadParameter.__mro__[2]


# ---- help: typer's own has to import a reader of Markdown first, which takes longer than all the rest ------
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


# ---- the commands ------------------------------------------------------------------------------------------
app = typer.Typer(
    name="infrec",
    cls=Group,
    help="""∞-AE: recommendations in closed form, from a log of who interacted with what.

    Start with [bold]infrec demo[/], then try your own file:

      infrec evaluate ratings.csv --positive "rating >= 4"
      infrec fit ratings.csv -o model
      infrec recommend model --user 17
    """,
    epilog="Exit codes: 0 done, 1 an error explained in one sentence, 2 wrong usage, 130 interrupted.",
    rich_markup_mode=None,  # help is ours
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _version(flag: bool) -> None:
    if flag:
        console.out().print(f"infrec {__version__}", highlight=False)
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[
        bool, option("--version", "Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass


app.command(cls=Command)(demo.demo)
for command in (
    *(init.init, fit.fit, recommend.recommend, evaluate.evaluate, distill.distill, sample.sample),
    *(audit.audit, export.export, reproduce.reproduce),
):
    app.command(cls=Command)(answers(command))
app.command(cls=Command)(serve.serve)
app.command(cls=Command)(answers(doctor.doctor))
data_app = typer.Typer(
    cls=Group,
    help="List, inspect, download, prepare and generate datasets.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
for name, command in datasets.COMMANDS.items():
    data_app.command(name, cls=Command)(answers(command))
app.add_typer(data_app, name="datasets")


def run(argv: Sequence[str]) -> int:
    """Run one command line; returns its exit code. A traceback is shown only when INFREC_DEBUG is set."""
    console.begin(argv)
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_, **__: console.warn(str(message))
        try:
            interrupts.begin()
            # A command returns nothing; `typer.Exit` (--help, --version, or Ctrl-C) comes back as a number.
            code = app(args=list(argv), prog_name="infrec", standalone_mode=False)
            if code == INTERRUPTED:
                raise KeyboardInterrupt
            sys.stdout.flush()
            return code if isinstance(code, int) else DONE
        except BrokenPipeError:  # `infrec … | head`: the reader has what it wanted
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return DONE
        except (Exception, KeyboardInterrupt) as error:
            return _fail(error, argv)


def _fail(error: BaseException, argv: Sequence[str]) -> int:
    """Print the error as a sentence, or as JSON; its exit code."""
    as_json = "--json" in argv
    interrupted = interrupts.end()
    code, message = _explained(error, as_json)
    if isinstance(error, InfrecError):
        advice = next_command(argv, message)
        message = in_words_of_the_command_line(message) + (f" Try: {advice}" if advice else "")
    kind = "UsageError" if isinstance(error, UsageError) else type(error).__name__
    if code != INTERRUPTED and os.environ.get("INFREC_DEBUG"):
        traceback.print_exception(error, file=sys.stderr)
    if interrupted or code == INTERRUPTED:  # whatever became of it on its way here
        code, kind, message = INTERRUPTED, "Interrupted", console.interruption()
    if as_json:
        console.emit({"error": {"type": kind, "message": message}})
    else:
        console.err().print(f"[bold red]error: [/]{console.plain(message)}")
    return code


def _explained(error: BaseException, as_json: bool) -> tuple[int, str]:
    """The exit code of an error and its sentence."""
    match error:
        case KeyboardInterrupt() | typer.Abort():
            return INTERRUPTED, ""
        case UsageError():
            return USAGE, _usage(error, as_json)
        case ConfigError():
            return USAGE, str(error)
        case InfrecError() | ClickError():
            return FAILED, str(error)
        case OSError():
            return FAILED, f"{error}."
        case MemoryError():
            return FAILED, (
                "memory ran out; close other programs, use a machine with more, or a smaller part of the "
                "data. `infrec doctor` shows what is there."
            )
    what = " ".join(str(error).split()) or "no message"
    return FAILED, (
        f"this should not have happened ({type(error).__name__}: {what}); INFREC_DEBUG=1 shows where."
    )


def _usage(error: Exception, as_json: bool) -> str:
    """A usage error's own words, and where the right ones are."""
    text = " ".join(str(getattr(error, "format_message", lambda: error)()).split())
    text = text.replace(": Value error, ", ": ")  # of newer versions of typer
    context = getattr(error, "ctx", None)
    if not text:  # `infrec datasets` alone: newer versions of typer show the help through an error
        text = "a command is missing."
    if context is None or as_json:
        return text
    return f"{text} Try: {context.command_path} --help"
