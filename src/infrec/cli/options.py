"""Options that several commands share, written once, and the model that they lead to.

A command that `answers` has --json, --quiet and --verbose, and returns what is then printed.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from infrec import machine, models
from infrec.cli import console
from infrec.data.strength import NONE, RAW, StrengthOptions
from infrec.models.balance import Balance
from infrec.progress import Progress
from infrec.settings import Kind, setting
from infrec.settings import Settings as SettingsType

if TYPE_CHECKING:
    from infrec.data import Interactions
    from infrec.data.strength import Fading, Strength
    from infrec.models import Candidate, Recommender
    from infrec.splits import Split

DATA = "Data"
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
    "A file (CSV, TSV, .dat, JSON Lines, Parquet; also gzipped), a directory of Parquet, CSV or JSON "
    "Lines, an address such as https://…, or a name from [bold]infrec datasets list[/].",
)
Data = Annotated[str, _DATA_ARGUMENT]
DataOrNothing = Annotated[str | None, _DATA_ARGUMENT]
Seed = Annotated[int, option("--seed N", "Seed of all randomness.", DATA, min=0)]
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


balances_lists = with_settings("balance", Balance, diversity=Shown("D"), popularity=Shown("P"), panel=LISTS)
weighs = with_settings(
    "strength", StrengthOptions, panel=DATA, weight_as=Shown("FUNCTION"), half_life=Shown("AGE")
)


FeaturesOption = Annotated[
    list[str] | None,
    option(
        "--features COLUMN",
        "A column of the table about items that places cold or new items; repeatable. By default all that "
        "say what kind of item it is.",
    ),
]


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


# ---- weights and dislikes ----------------------------------------------------------------------------------
def fading(log: Interactions, given: StrengthOptions) -> Fading | None:
    """How the weights of a log fade by age; None: they do not.

    Args:
        log: A log with times.
        given: The options.
    """
    from infrec.data.strength import Fading

    return None if given.half_life is None else Fading.of(log, given.half_life)


def choose_strength(
    model: Recommender,
    data: Interactions | Split,
    given: StrengthOptions,
    column: str | int | None,
    progress: Progress,
) -> tuple[Strength, dict[str, Any]]:
    """The function of logs that makes their weights count, and what a manifest keeps of it.

    Args:
        model: The model that is to be fitted.
        data: A log, or a split of one.
        given: The options.
        column: The column of weights: where one is named, they are made even unless options say.
        progress: Called while it works.
    """
    from infrec.data import Interactions
    from infrec.data.strength import Strength
    from infrec.search.tune import choose_strength

    log = data if isinstance(data, Interactions) else data.train
    if given.weight_as is not None:
        function = Strength.of(given.weight_as, log)
        return function, function.about
    if column is None or not log.weighted:
        return Strength(RAW), {}
    choice = choose_strength(model, data, progress)
    scores = ", ".join(f"{how} {score:.2f}" for how, score in choice.scores.items())
    why = f"validation NDCG@100 in %: {scores}" if scores else "nothing could be held out to choose by"
    how = choice.strength.how
    counted = (
        f"weights count as {how}" if how != NONE else "every interaction counts alike, whatever its weight"
    )
    console.note(f"{counted} ({why}); --weight-as decides, {RAW} takes them as they are.")
    return choice.strength, {**choice.strength.about, "scores": dict(choice.scores)}


def note_dislikes(model: Recommender) -> None:
    """Say which weight of dislikes was chosen, and by what.

    Args:
        model: The fitted model.
    """
    tried = model.about.get("dislikes")
    if not tried or "dislikes" not in model.selected:
        return
    weight = model.selected["dislikes"]
    without, chosen = (next(one for one in tried if one["weight"] == at) for at in (0.0, weight))
    likes, dislikes = (f"{name} {without[name]:.2f}, {chosen[name]:.2f}" for name in ("likes", "dislikes"))
    why = f"validation NDCG@100 in %, without and with: {likes}; {dislikes}"
    if not weight:
        why = "with any other, hidden likes stand lower on validation, or hidden dislikes no lower"
    console.note(f"dislikes count with the weight {weight:g} ({why}); --set dislikes=W decides.")
