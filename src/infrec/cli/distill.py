"""`infrec distill`: a log becomes a few synthetic users, with a card that says how faithful they are."""

from __future__ import annotations

import shutil
import signal
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infrec.cli import console, options
from infrec.cli.options import Answer, Processes, Shown, option
from infrec.cli.reading import Reading, Source, reading_of, reads_data
from infrec.distillation.settings import INVENTED_MODE, DistillSettings, Promise, SummarySize, search_grid
from infrec.errors import DataError
from infrec.report import numbers
from infrec.settings import Settings, setting

if TYPE_CHECKING:
    from infrec.data import Interactions, Summary
    from infrec.evaluation.fidelity import Card
    from infrec.splits import Split

_SIZE, _HOW, _PEOPLE = "Size", "How", "Privacy"
_OWN_OPTIONS = ("users", "mode", "seed")
_OF_A_RUN = (".", "lock", "checkpoint", "variant-", "users-", "sums", "distillation")


@dataclass(frozen=True)
class MethodOptions(Settings):
    """How a summary is made, beside the settings of `DistillSettings`."""

    gamma: int | None = setting(None, "γ: draws per row (published), mass of a row (soft)", least=1)
    search: bool = setting(False, "try the paper's grid and keep the best")


@reads_data
@options.works_together("run as one worker of a distributed distillation, with a part of every step's users")
@options.with_settings(
    "privacy",
    Promise,
    panel=_PEOPLE,
    set_aside=Shown("SHARE"),
    epsilon=Shown("E"),
    delta=Shown("D"),
    noise_multiplier=Shown("S"),
    catalogue=Shown("FILE"),
)
@options.with_settings("method", MethodOptions, panel=_HOW, gamma=Shown("N"), search=Shown())
@options.with_settings(
    "size",
    SummarySize,
    panel=_SIZE,
    target=Shown("SHARE"),
    total=Shown("N"),
    percent=Shown("P"),
    bytes=Shown("N"),
)
@options.with_settings(
    "given",
    DistillSettings,
    given_only=True,
    panel=_HOW,
    users=Shown("N", _SIZE, help="number of synthetic users (default 500, or half of the log's)"),
    per_user=Shown("N", _SIZE, help="interactions per synthetic user, on average"),
    mode=Shown(
        help="few interactions with weights (the default); 0/1; weights of all items; the paper's code"
    ),
    start=Shown(help="begin with item popularity and noise, or with rows of real users (which leaks them)"),
    loss=Shown(help="standardised scores or their correlation with the targets (ours), or as published"),
    targets=Shown(help="learn what all others predict for a user, or the user's own items (leaks)"),
    hidden=Shown("SHARE", help="share of a user's items to hide and predict"),
    tau=Shown("T", help="τ: temperature"),
    steps=Shown("N", help="maximum steps (default 200; 150 below 100 interactions a user, and of `soft`)"),
)
def distill(
    data: options.Data,
    out: Annotated[Path, option("--out -o DIR", "Where to save the summary.")],
    given: dict[str, Any] = {},  # noqa: B006 (replaced by options)
    size: SummarySize = SummarySize(),
    method: MethodOptions = MethodOptions(),
    set_: Annotated[
        list[str] | None, option("--set KEY=VALUE", "Any other setting, such as rate=0.02; repeatable.", _HOW)
    ] = None,
    previous: Annotated[
        Path | None,
        option(
            "--continue SUMMARY",
            "Carry this summary on: it and DATA, the new log, become one within its size.",
            _HOW,
        ),
    ] = None,
    privacy: Promise = Promise(),
    resume: Annotated[bool, option("--resume", "Resume an interrupted run.")] = False,
    no_card: Annotated[bool, option("--no-card", "Do not measure fidelity and write no card.")] = False,
    processes: Processes = Processes(),
    reading: Reading = Reading(),
    seed: options.Seed = 42,
) -> Answer | None:
    """Compress the training data into a few synthetic users, on which models become nearly as good as on all.

    DIR then holds a summary that [bold]infrec evaluate --train-on[/] and [bold]infrec export[/] read.

    [bold]Examples[/]

      infrec distill ml-1m --users 500 --out summary
      infrec distill ratings.csv --positive "rating >= 4" --target 0.95 --out summary
      infrec distill ml-1m --users 500 --mode soft --out soft --json
      infrec distill --continue summary november.csv --out summary-november
      infrec distill ml-1m --epsilon 8 --delta 1e-6 --set-aside 0.1 --out guarded
      srun infrec distill prepared --users 500 --set batch=4096 --distributed --out summary
    """
    from infrec.checkpoints import on_signals

    _check_usage(given, size, method, privacy, processes, previous)
    console.check_out(out, "summary")
    place = _run_directory(out)
    run, before = _run_settings(given, size, method, privacy, set_, previous, seed)
    if before is not None:
        reading = reading_of(previous, before.about, reading, data)
    source = Source(data, reading, before, privacy.set_aside, seed)
    work = _Work(data, out, place, source, run, resume, with_card=not no_card)
    if work.promised and work.with_card:
        _check_card(work.home)
    with on_signals(signal.default_int_handler, signal.SIGTERM):  # SIGTERM ends it as Ctrl-C does
        summary = work.together(processes) if processes.distributed else work.alone(method.search)
        if summary is None:  # another process of the team saves it
            return None
        work.write_card(summary)
        shutil.rmtree(place, ignore_errors=True)
    if work.promised:
        stays = f"; {work.home} has exact figures of the real users and stays with you" if work.page else ""
        console.note(f"{out} may be passed on: all of it is covered by ε and δ{stays}.")
    document = _document(work, summary, previous, method.search)
    return document, partial(_show, summary, work, reading.again(data, seed))


def _check_usage(
    given: dict[str, Any],
    size: SummarySize,
    method: MethodOptions,
    privacy: Promise,
    processes: Processes,
    previous: Path | None,
) -> None:
    """Refuse options that exclude each other."""
    processes.check()
    if processes.distributed and (method.search or size.target is not None):
        raise typer.BadParameter("--distributed makes one summary; leave out --search and --target.")
    if processes.distributed and privacy.promised:
        raise typer.BadParameter(
            "--distributed cannot keep a guarantee: each process would draw and spend its own noise; leave "
            "out --distributed, or --epsilon, --delta and --noise-multiplier."
        )
    if "users" in given and size.target is not None:
        raise typer.BadParameter("--users and --target exclude each other; give one.")
    if previous is not None and method.search:
        raise typer.BadParameter("--continue keeps the settings of its summary; --search would change them.")


def _run_directory(out: Path) -> Path:
    """Where the run keeps its checkpoints; removed in the end, so a folder with anything else is refused."""
    place = out.with_name(f"{out.name}.run")
    names = [one.name for one in place.iterdir()] if place.is_dir() else []
    if strange := [name for name in names if not name.startswith(_OF_A_RUN)]:
        raise typer.BadParameter(
            f"{place}, where the run keeps its checkpoints, holds {strange[0]!r}, which no run wrote; move "
            "it away, or give another name.",
            param_hint="--out",
        )
    return place


def _check_card(place: Path) -> None:
    """Refuse a directory beside the release that holds anything but an older card."""
    from infrec.artifacts import CARD

    strange = [one.name for one in place.iterdir() if one.name not in CARD] if place.is_dir() else []
    if strange or (place.exists() and not place.is_dir()):
        holds = f" holds {strange[0]!r}" if strange else " is a file"
        raise typer.BadParameter(
            f"{place}, where the card goes,{holds}; move it away, give another name, or use --no-card.",
            param_hint="--out",
        )


def _run_settings(
    given: dict[str, Any],
    size: SummarySize,
    method: MethodOptions,
    privacy: Promise,
    pairs: list[str] | None,
    previous: Path | None,
    seed: int,
) -> tuple[dict[str, Any], Summary | None]:
    """The keywords of `distill`, and the summary to carry on. Refuses what is wrong before data is read."""
    from infrec.data import Summary
    from infrec.distillation import update

    for name in (pair.partition("=")[0].strip() for pair in pairs or ()):
        if name in _OWN_OPTIONS:
            raise typer.BadParameter(f"{name} has an option of its own; use --{name}.", param_hint="--set")
    settings = DistillSettings.parse(pairs or (), "distill") | given
    if settings.get("start") == "summary":
        raise typer.BadParameter("a summary to start from is given by --continue.", param_hint="--start")
    sizes = {name: settings.pop(name, None) for name in ("users", "per_user")} | size.to_dict()
    run = {**sizes, "mode": None, "gamma": method.gamma, "seed": seed, **settings}
    before = None if previous is None else Summary.load(previous)
    if before is not None:
        update.settings(before, run)
        run["previous"] = before
    else:
        run["mode"] = run["mode"] or (INVENTED_MODE if privacy.promised else DistillSettings.mode)
        users = {} if sizes["users"] is None else {"users": sizes["users"]}
        DistillSettings.of(**{"mode": run["mode"], **users, **settings})
    if privacy.promised:
        run |= _promise(privacy, run | {"search": method.search})
    elif privacy.catalogue is not None:
        raise DataError("--catalogue says which items are public; expected --epsilon and --delta beside it.")
    return run, before


def _promise(privacy: Promise, run: dict[str, Any]) -> dict[str, Any]:
    """Keywords of `distill` for (ε, δ), after refusing what would void them."""
    from infrec.data.read import read_catalogue
    from infrec.distillation import private

    private.refuse(run)
    public = privacy.catalogue is not None
    private.noise_for(privacy.epsilon, privacy.delta, privacy.noise_multiplier, public_items=public)
    items, info = (None, None) if privacy.catalogue is None else read_catalogue(Path(privacy.catalogue))
    return {
        "epsilon": privacy.epsilon,
        "delta": privacy.delta,
        "noise_multiplier": privacy.noise_multiplier,
        "catalogue": items,
        "catalogue_info": info,
    }


@dataclass(eq=False)
class _Work:
    """A distillation on its way: what it reads, where it writes, what it has made so far."""

    data: str
    out: Path
    place: Path
    source: Source
    run: dict[str, Any]
    resume: bool
    with_card: bool
    split: Split | None = None
    tried: list[dict[str, Any]] | None = None
    team: list[dict[str, Any]] | None = None
    card: Card | None = None
    page: Path | None = None

    @property
    def promised(self) -> bool:
        """Whether it keeps (ε, δ)."""
        return "delta" in self.run

    @property
    def home(self) -> Path:
        """Where the card goes."""
        from infrec.report.card import folder_of

        return folder_of(self.out, guaranteed=self.promised)

    def alone(self, search: bool) -> Summary:
        """The summary, made by this process and saved."""
        people: Split | Interactions
        with console.bars() as progress:
            if self.promised:
                log = self.source.read_log(progress)
                people = self.source.members(log)
                self.split = self.source.split(log) if self.with_card else None
            else:
                people = self.split = self.source.read(progress)
        if search and self.split is not None:
            summary = self.best(self.split)
        else:
            summary = self.distilled(people, "distil", {})
        summary = self.source.noted(summary)
        summary.save(self.out)
        console.saved(self.out)
        return summary

    def distilled(
        self, data: Split | Interactions, title: str, changes: dict[str, Any], folder: Path | None = None
    ) -> Summary:
        """One distillation with a live view; interrupted, it says where its checkpoint is."""
        from infrec.distillation import Interrupted
        from infrec.distillation import distill as run

        try:
            with console.live_distillation(title) as progress:
                return run(
                    data,
                    **(self.run | changes),
                    run_directory=folder or self.place,
                    resume=self.resume,
                    progress=progress,
                )
        except Interrupted as stopped:
            console.kept_checkpoint(self.place, str(stopped))
            raise

    def best(self, split: Split) -> Summary:
        """The best summary of the paper's grid, by validation."""
        train = split.train
        mean = train.n_interactions / train.n_users
        variants = search_grid(self.run, mean_interactions=mean, n_items=train.n_items)
        self.tried = []
        for at, changes in enumerate(variants):
            title = f"distil ({at + 1} of {len(variants)}: {numbers.settings(changes)})"
            summary = self.distilled(split, title, changes, self.place / f"variant-{at}")
            score = summary.about["validation"].get(summary.about["criterion"], 0.0)
            if all(score > one["score"] for one in self.tried):
                best = summary
            self.tried.append({"settings": changes, "score": score})
        return best

    def together(self, processes: Processes) -> Summary | None:
        """The summary that several processes made; None on all but the first."""
        from infrec.cli import distributed
        from infrec.data import Summary

        document = distributed.distill(self.source, self.run, self.out, self.place, self.resume, processes)
        if document is None:
            return None
        self.team = document["processes"]
        for line in () if self.with_card else document["notes"]:  # the card reads it again, and tells then
            console.note(line)
        console.saved(self.out)
        return Summary.load(self.out)

    def write_card(self, summary: Summary) -> None:
        """Measure the summary against its source, and write the card, where one is wanted."""
        if not self.with_card:
            return
        from infrec.evaluation import fidelity
        from infrec.report.card import write

        with console.bars() as progress:
            split = self.source.read(progress) if self.split is None else self.split
            self.card = fidelity.card_of(self.data, split, summary, seed=self.source.seed, progress=progress)
        self.page = write(self.card, self.home)
        console.saved(self.page)


def _document(work: _Work, summary: Summary, previous: Path | None, search: bool) -> dict[str, Any]:
    """The JSON document of design.md's contract."""
    about = summary.about
    facts = ("mode", "start", "steps", "best_step", "seconds", "ms_per_step")
    return {
        "dataset": work.data,
        "users": summary.n_users,
        "interactions": summary.n_interactions,
        "discrete": summary.discrete,
        **{name: about[name] for name in facts},
        "bytes": summary.bytes,
        "fidelity": {} if work.card is None else work.card.by_model(),
        "validation": about["validation"],
        "reg": summary.reg,
        "seed": work.source.seed,
        **({"target": about["target"]} if "target" in about else {}),
        **({"tried": work.tried} if search else {}),
        **{name: about[name] for name in ("set_aside", "guarantee") if name in about},
        **({} if work.team is None else {"processes": work.team}),
        **({} if previous is None else {"previous": str(previous), "represents": about["represents"]}),
        "out": str(work.out),
        "card": None if work.page is None else str(work.page),
    }


def _show(summary: Summary, work: _Work, data: str) -> None:
    """Print the summary for a person; `data` is the command line's words for reading it again."""
    from infrec.report.card import fidelity_table
    from infrec.report.text import rich_table

    about = summary.about
    kind = "interactions" if summary.discrete else "weighted interactions"
    best = f", the best of them {about['best_step']:,}" if about["validation"] else ""
    console.say(
        f"[bold]{summary.n_users:,}[/] synthetic users with [bold]{summary.n_interactions:,}[/] {kind} in "
        f"{numbers.seconds(about['seconds'])} ({about['steps']:,} steps{best}), "
        f"{numbers.size(summary.bytes)} in [bold]{console.plain(work.out)}[/]."
    )
    target = about.get("target")
    if target and not target["reached"]:
        console.note(
            f"no summary reached {100 * target['asked']:g} % of full-data quality; this is the best one."
        )
    if work.card is not None:
        console.out().print(rich_table(fidelity_table(work.card)))
        console.say(f"Card: [bold]{console.plain(work.page)}[/]")
    console.say(console.then(f"infrec evaluate {data} --train-on {work.out}"))
