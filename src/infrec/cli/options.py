"""Options that several commands share, written once, and what they lead to: a log, a model.

A command that `reads_data` has all the data options and receives one `Reading`. A command that `answers` has
--json, --quiet and --verbose, and returns what is then printed.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from infrec import machine, models
from infrec.cli import config, console
from infrec.cli.spelling import as_options, in_words_of_the_command_line
from infrec.data.columns import ReadOptions
from infrec.data.weights import StrengthOptions
from infrec.errors import ConfigError
from infrec.models.balance import Balance
from infrec.progress import Progress, silent
from infrec.settings import Kind, setting
from infrec.settings import Settings as SettingsType

if TYPE_CHECKING:
    from infrec.data import Interactions, ReadReport, Summary
    from infrec.models import Candidate, Recommender
    from infrec.splits import Split

_DATA = "Data"
MODEL = "Model"  # panels of help texts
LISTS = "Lists that are not all alike"
MODELS = ", ".join(models.NAMES)
Command = Callable[..., Any]
Words = str | Callable[[], None]
# A JSON document and words; and the exit code, where it is not 0.
Answer = tuple[Mapping[str, Any], Words] | tuple[Mapping[str, Any], Words, int]


def option(usage: str, help: str, panel: str | None = None, **more: Any) -> Any:
    """An option of a command as it is used: `--out -o DIR` is two flags and what stands for the value."""
    flags = [word for word in usage.split() if word.startswith("-")]
    metavar = " ".join(word for word in usage.split() if not word.startswith("-")) or None
    return typer.Option(*flags, metavar=metavar, help=help, rich_help_panel=panel, **more)


def argument(metavar: str, help: str) -> Any:
    """An argument of a command."""
    return typer.Argument(metavar=metavar, help=help, show_default=False)


_DATA_ARGUMENT = argument(
    "DATA",
    "A file (CSV, TSV, .dat, JSON Lines, Parquet; also gzipped), a directory of Parquet or CSV, an address "
    "such as https://…, or a name from [bold]infrec datasets list[/].",
)
Data = Annotated[str, _DATA_ARGUMENT]
DataOrNothing = Annotated[str | None, _DATA_ARGUMENT]
Seed = Annotated[int, option("--seed N", "Seed of all randomness.", _DATA, min=0)]
Json = Annotated[
    bool, option("--json", "Print exactly one JSON document; everything else goes to standard error.")
]
Quiet = Annotated[bool, option("--quiet -q", "Say nothing but the result, warnings and errors.")]
Verbose = Annotated[
    bool, option("--verbose -v", "Also say what is done, step by step, and how long it took.")
]
Settings = Annotated[
    list[str] | None,
    option("--set KEY=VALUE", "Fix a setting of the model, such as reg=5; repeatable.", MODEL),
]


def small_letters(names: Any) -> Any:
    """One name or several as they are kept: models are found whatever their capitals."""
    return names.lower() if isinstance(names, str) else names and [name.lower() for name in names]


ModelName = Annotated[str, option("--model -m NAME", f"One of {MODELS}.", MODEL, callback=small_letters)]


def unknown(what: str, name: str, known: Sequence[str]) -> str:
    """There is no such thing, but there is this one."""
    near = difflib.get_close_matches(name.lower(), known, n=2, cutoff=0.5)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"there is no {what} {name!r}.{hint} There is: {', '.join(known)}."


def open_model(name: str, pairs: Sequence[str] | None, seed: int) -> Recommender:
    """The unfitted model with what `--set` fixes, and with the command's seed where it has one."""
    if name not in models.NAMES:
        raise typer.BadParameter(unknown("model", name, models.NAMES), param_hint="--model")
    default = models.create(name)
    seeded = {"seed": seed} if hasattr(default.settings, "seed") else {}
    return models.create(name, **(seeded | default.settings_type.parse(pairs or (), name)))


def candidates(tried: Iterable[Candidate]) -> list[dict[str, Any]]:
    """The settings that were tried, as JSON has them."""
    return [
        {"settings": dict(one.settings), "score": one.score, "error": one.error}
        | ({"rungs": list(one.rungs), "dropped": one.dropped, "seconds": one.seconds} if one.rungs else {})
        for one in tried
    ]


def fit_document(
    model: Recommender, users: int, items: int, interactions: int, seconds: Mapping[str, float]
) -> dict[str, Any]:
    """A fitted model as JSON has it, the size of the log that it was fitted on, and what that took."""
    return {
        "selected": dict(model.selected),
        "about": model.about,
        "candidates": candidates(model.candidates),
        "users": users,
        "items": items,
        "interactions": interactions,
        "seconds": seconds,
        "peak_rss_mb": machine.peak_rss_mb(),
        "device": machine.device(),
    }


# ---- options from settings ---------------------------------------------------------------------------------
@dataclass(frozen=True)
class Shown:
    """How a setting appears as an option: what stands for its value, its panel, another help text."""

    metavar: str = ""
    panel: str | None = None
    help: str | None = None


def with_settings(
    parameter: str,
    settings: type[SettingsType],
    *,
    panel: str | None = None,
    given_only: bool = False,
    **shown: Shown,
) -> Callable[[Command], Command]:
    """A decorator: where a command has `parameter`, it gets one option for each setting that is shown.

    The command receives an object of `settings`, made (and so checked) from what was given; or a dictionary
    of what was given, where defaults are still to be chosen.

    Args:
        parameter: The name of the command's parameter that is replaced.
        settings: The class whose settings are offered.
        panel: The panel of the help text, where `Shown` names none.
        given_only: Hand over a dictionary without the options that were not given.
        **shown: The settings that are offered, and how.
    """
    options = [_option(settings, name, how, panel, given_only) for name, how in shown.items()]

    def decorate(command: Command) -> Command:
        parameters: list[inspect.Parameter] = []
        for own in inspect.signature(command, eval_str=True).parameters.values():
            parameters += options if own.name == parameter else [own]

        def with_options(**given: Any) -> Any:
            values = {each.name: given.pop(each.name) for each in options}
            choices = {name: value for name, value in values.items() if value is not None}
            return command(**given, **{parameter: choices if given_only else settings(**values)})

        return _with_parameters(command, with_options, parameters)

    return decorate


def answers(command: Callable[..., Answer | None]) -> Command:
    """A decorator: a command that returns its result, as a document and in words, prints one of them.

    It gets the options --json, which asks for the document, --quiet and --verbose. Words are rich text, or a
    function that prints.
    """
    parameters = inspect.signature(command, eval_str=True).parameters.values()
    flags = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
        for name, kind in (("json", Json), ("quiet", Quiet), ("verbose", Verbose))
    ]

    def answering(*, json: bool, quiet: bool, verbose: bool, **given: Any) -> None:
        console.set_volume(quiet=quiet, verbose=verbose)
        if (answer := command(**given)) is None:
            return
        document, words, *code = answer
        if json:
            console.emit(document)
        elif isinstance(words, str):
            console.say(words)
        else:
            words()
        if code:
            raise typer.Exit(*code)

    return _with_parameters(command, answering, [*parameters, *flags])


def _with_parameters(command: Command, around: Command, parameters: Iterable[inspect.Parameter]) -> Command:
    """The function `around` a command; typer sees it with the command's name, help and these parameters."""
    keywords = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
    functools.update_wrapper(around, command)
    del around.__wrapped__  # type: ignore[attr-defined]  # typer must see this signature, not that behind it
    around.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    around.__annotations__ = {one.name: one.annotation for one in keywords}
    return around


def _option(
    settings: type[SettingsType], name: str, how: Shown, panel: str | None, given_only: bool
) -> inspect.Parameter:
    """One setting as a parameter that typer understands; None where it is not given, if `given_only`."""
    field = settings.__dataclass_fields__[name]
    text = how.help or field.metadata["help"]
    text = f"{text[0].upper() if text[0].isascii() else text[0]}{text[1:]}."
    shown = option(f"--{name.replace('_', '-')} {how.metavar}", text, how.panel or panel)
    kind, default = _option_type(settings.kinds()[name]), field.default
    if given_only:
        kind, default = kind | None, None
    annotation: Any = Annotated[kind, shown]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _option_type(kind: Kind) -> Any:
    """The type of an option's value; settings check its range."""
    if kind.flag:
        return bool
    value: Any = str if kind.text else kind.number
    if kind.words and kind.number is None and not kind.text:
        value = Literal[kind.words]
    value = list[value] if kind.sequence else value
    return value | None if kind.none else value


@dataclass(frozen=True)
class Reading(ReadOptions):
    """How DATA is to be read, as a command's options say."""

    items: str | None = setting(None, "a table about items with their titles, joined on the item")
    config: str | None = setting(None, "file that holds these options (default: infrec.toml beside DATA)")

    def given(self) -> dict[str, Any]:
        """The options that differ from their defaults."""
        own = {each.name: (getattr(self, each.name), each.default) for each in fields(self)}
        return {name: value for name, (value, default) in own.items() if value != default}

    def for_data(self, data: str) -> Reading:
        """These options, and for those that are not given what infrec.toml says about the data."""
        written = config.options_of(data, self.config)
        try:
            Reading.check_names(written, config.NAME)
            Reading(**written)
        except ConfigError as error:
            raise ConfigError(
                f"{str(error).rstrip('.')} (in {self.config or config.beside(data)})."
            ) from None
        given = {name: value for name, value in self.given().items() if name != "config"}
        return Reading(**{**written, **given})

    def load(
        self, data: str, progress: Progress = silent, *, by_row: bool = False, noted: bool = True
    ) -> Interactions:
        """Read DATA as its options say, and tell what was counted and what was not.

        noted: tell it.
        by_row: judge every row by itself alone, as ε and δ need.
        What `infrec distill` or `infrec sample` wrote is read as what it is, whatever the options.
        """
        from infrec import artifacts
        from infrec.data import datasets

        if artifacts.kind_of(data) not in (None, "dataset"):
            from infrec.data import Summary

            return Summary.load(data)
        chosen = self.for_data(data)
        options = {**chosen.given(), "by_row": by_row or chosen.by_row}
        log = datasets.load(data, progress=progress, **options)
        written = {name: value for name, value in chosen.given().items() if name not in self.given()}
        if noted and written:
            console.note(
                f"{Path(data).name} is read as {Path(self.config or config.NAME).name} says: "
                f"{shlex.join(as_options(written))}"
            )
        for line in report_lines(log.report) if noted else ():
            console.note(line)
        return log

    def again(self, data: str, seed: int) -> str:
        """DATA in the words of a next command that is to read and split it in the same way."""
        words = [data, *as_options(self.given())]
        return shlex.join([*words, *([] if seed == 42 else ["--seed", str(seed)])])


_READING: dict[str, Any] = {
    "user": Shown("COLUMN"),
    "item": Shown("COLUMN"),
    "rating": Shown("COLUMN"),
    "time": Shown("COLUMN"),
    "weight": Shown("COLUMN"),
    "positive": Shown("RULE"),
    "duplicates": Shown(),
    "min_user": Shown("N"),
    "min_item": Shown("N"),
    "items": Shown("FILE"),
    "items_id": Shown("COLUMN"),
    "items_title": Shown("COLUMN"),
    "encoding": Shown("NAME"),
    "delimiter": Shown("TEXT"),
    "no_header": Shown(),
    "strict": Shown(),
    "config": Shown("FILE"),
}
_DISLIKES: dict[str, Any] = {"negative": Shown("RULE")}
_NEW_ITEMS: dict[str, Any] = {"new_items": Shown()}

reads_data = with_settings("reading", Reading, panel=_DATA, **_READING)
reads_dislikes = with_settings("reading", Reading, panel=_DATA, **_READING, **_DISLIKES)
reads_all = with_settings("reading", Reading, panel=_DATA, **_READING, **_DISLIKES, **_NEW_ITEMS)


balances_lists = with_settings("balance", Balance, diversity=Shown("D"), popularity=Shown("P"), panel=LISTS)
weighs = with_settings(
    "strength", StrengthOptions, panel=_DATA, weight_as=Shown("FUNCTION"), half_life=Shown("AGE")
)


FeaturesOption = Annotated[
    list[str] | None,
    option(
        "--features COLUMN",
        "A column of the table about items that places cold or new items; repeatable. By default all that "
        "say what kind of item it is.",
    ),
]


@dataclass(frozen=True, eq=False)
class Source:
    """The source of a distillation and how to read it: here, or in the process that does the work."""

    data: str
    reading: Reading
    previous: Summary | None
    set_aside: float | None
    seed: int

    def read(self, progress: Progress) -> Split:
        """Train, validation and test part, the same whoever reads them."""
        return self.split(self.reading.load(self.data, progress))

    def read_log(self, progress: Progress) -> Interactions:
        """The log for a distillation with (ε, δ): whether a row counts depends on that row alone."""
        return self.reading.load(self.data, progress, by_row=True)

    def members(self, log: Interactions) -> Interactions:
        """The log without those set aside, which depends on each user's id alone."""
        import numpy as np

        from infrec.splits import is_set_aside

        if self.set_aside is None:
            return log
        return log.select_users(np.flatnonzero(~is_set_aside(log.users, self.set_aside, self.seed)))

    def split(self, log: Interactions) -> Split:
        """The log's parts without those set aside, over the items of the previous summary too."""
        from infrec.distillation import update
        from infrec.splits import holdout, set_aside

        if self.previous is not None:
            log = update.with_items_of(log, self.previous)
        split = holdout(log, seed=self.seed)
        return split if self.set_aside is None else set_aside(split, self.set_aside, self.seed)[0]

    def noted(self, summary: Summary) -> Summary:
        """The summary, its manifest with how the log was read, and how those set aside are found again."""
        about = {**summary.about, "reading": kept_options(self.reading)}
        if self.set_aside is not None:
            about["set_aside"] = {"share": self.set_aside, "seed": self.seed}
        return replace(summary, about=about)


def kept_options(reading: Reading) -> dict[str, Any]:
    """The options of reading that a manifest keeps: those that were given, and no path."""
    every = {one.name: getattr(reading, one.name) for one in fields(ReadOptions)}
    return {one.name: every[one.name] for one in fields(ReadOptions) if every[one.name] != one.default}


def report_lines(report: ReadReport | None) -> list[str]:
    """Rows that the reader counted and dropped, in words."""
    if report is None:
        return []
    dropped = ", ".join(f"{count:,} {reason}" for reason, count in report.dropped.items() if count)
    counted = (
        f"{report.source}: {report.kept:,} of {report.rows:,} rows count as interactions; not: {dropped}."
    )
    notes = [in_words_of_the_command_line(text) for text in report.notes]
    return ([counted] if dropped else []) + notes


# ---- several processes -------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Processes(SettingsType):
    """Where this process stands among those that work together."""

    distributed: bool = setting(False, "run as one of several processes")
    coordinator: str | None = setting(
        None, "address where the processes meet, on the machine of process 0; Slurm and Open MPI provide it"
    )
    processes: int | None = setting(None, "number of processes", least=1)
    index: int | None = setting(None, "index of this process, from 0", least=0)

    def given(self) -> dict[str, Any]:
        """Where they meet, how many they are and which one this is, as far as it is said."""
        return {"coordinator": self.coordinator, "processes": self.processes, "index": self.index}

    def check(self) -> None:
        """Refuse what says where this process stands where it is the only one."""
        if not self.distributed and any(value is not None for value in self.given().values()):
            raise typer.BadParameter("--coordinator, --processes and --index go with --distributed.")


def works_together(help: str) -> Callable[[Command], Command]:
    """The options of several processes, where a command has the parameter `processes`."""
    return with_settings(
        "processes",
        Processes,
        panel="Many processes",
        distributed=Shown(help=help),
        coordinator=Shown("HOST:PORT"),
        processes=Shown("N"),
        index=Shown("I"),
    )
