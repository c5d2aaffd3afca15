"""All commands under one roof; the one place where an error becomes a sentence and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Annotated

import typer

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
from infrec.cli.help import Command, Group
from infrec.cli.interrupts import INTERRUPTED
from infrec.cli.options import answers, option
from infrec.cli.spelling import in_words_of_the_command_line, next_command
from infrec.errors import ConfigError, InfrecError

DONE, FAILED, USAGE = 0, 1, 2
# typer carries its own copy of click in some versions and uses the real one in others: ask typer, not click.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]
ClickError: type[Exception] = typer.BadParameter.__mro__[2]

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
    rich_markup_mode=None,  # see `help`
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
app.add_typer(datasets.app, name="datasets")


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
