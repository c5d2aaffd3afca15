"""`infrec distill`: a log becomes a few synthetic users, with a card that says how faithful they are."""

from __future__ import annotations

import shutil
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from infrec.cli import console, options
from infrec.cli.distilling import Source, distilled, distinct, ends_on_sigterm, run_beside, show
from infrec.cli.options import Reading, reads_data
from infrec.cli.sample import check_out
from infrec.errors import ConfigError

if TYPE_CHECKING:
    from infrec.data import Interactions
    from infrec.splits import Split

_SIZE, _HOW, _PEOPLE = "Size", "How", "Privacy"


class Mode(StrEnum):
    discrete = "discrete"
    soft = "soft"
    published = "published"


class Start(StrEnum):
    popularity = "popularity"
    users = "users"


class Targets(StrEnum):
    others = "others"
    own = "own"


class Loss(StrEnum):
    standardised = "standardised"
    multinomial = "multinomial"
    bce = "bce"


@reads_data
def distill(
    data: options.Data,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="DIR", help="Where to save the summary.", show_default=False),
    ],
    users: Annotated[
        int | None,
        typer.Option(
            "--users", metavar="N", help="How many synthetic users. Default: 500.", rich_help_panel=_SIZE
        ),
    ] = None,
    target: Annotated[
        float | None,
        typer.Option(
            "--target",
            metavar="SHARE",
            help="Instead of --users: the fewest that reach this share of full-data quality, such as 0.95.",
            rich_help_panel=_SIZE,
        ),
    ] = None,
    per_user: Annotated[
        float | None,
        typer.Option(
            "--per-user",
            metavar="N",
            help="Interactions per synthetic user, on average.",
            rich_help_panel=_SIZE,
        ),
    ] = None,
    total: Annotated[
        int | None, typer.Option("--total", metavar="N", help="Interactions in all.", rich_help_panel=_SIZE)
    ] = None,
    percent: Annotated[
        float | None,
        typer.Option(
            "--percent",
            metavar="P",
            help="Interactions in percent of the train part's.",
            rich_help_panel=_SIZE,
        ),
    ] = None,
    mode: Annotated[
        Mode | None,
        typer.Option(
            "--mode",
            help="0/1 interactions (the default); our best fractional ones; or the paper's code.",
            rich_help_panel=_HOW,
        ),
    ] = None,
    start: Annotated[
        Start | None,
        typer.Option(
            "--start",
            help="Begin with item popularity and noise, or with rows of real users (which leaks them).",
            rich_help_panel=_HOW,
        ),
    ] = None,
    targets: Annotated[
        Targets | None,
        typer.Option(
            "--targets",
            help="Learn what all others predict for a user (0/1's default), or the user's own items (leaks).",
            rich_help_panel=_HOW,
        ),
    ] = None,
    hidden: Annotated[
        float | None,
        typer.Option(
            "--hidden",
            metavar="SHARE",
            help="Share of a user's items to hide and predict.",
            rich_help_panel=_HOW,
        ),
    ] = None,
    gamma: Annotated[
        int | None,
        typer.Option(
            "--gamma",
            metavar="N",
            help="γ: draws per row (published), mass of a row (soft).",
            rich_help_panel=_HOW,
        ),
    ] = None,
    tau: Annotated[
        float | None, typer.Option("--tau", metavar="T", help="τ: temperature.", rich_help_panel=_HOW)
    ] = None,
    loss: Annotated[
        Loss | None,
        typer.Option(
            "--loss",
            help="On standardised scores (ours), as the paper's code has it, or its equation.",
            rich_help_panel=_HOW,
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option("--steps", metavar="N", help="At most so many steps.", rich_help_panel=_HOW)
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Any other setting, such as rate=0.02; repeatable.",
            rich_help_panel=_HOW,
        ),
    ] = None,
    previous: Annotated[
        Path | None,
        typer.Option(
            "--continue",
            metavar="SUMMARY",
            help="Carry this summary on: it and DATA, the new log, become one within its size.",
            rich_help_panel=_HOW,
        ),
    ] = None,
    set_aside: Annotated[
        float | None,
        typer.Option(
            "--set-aside",
            metavar="SHARE",
            help="Keep this share of the users out, such as 0.1: the control group of infrec audit.",
            rich_help_panel=_PEOPLE,
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            "--epsilon",
            metavar="E",
            help="Distil with user-level differential privacy of this ε; needs --delta.",
            rich_help_panel=_PEOPLE,
        ),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(
            "--delta",
            metavar="D",
            help="Its δ, below one over twice the number of users, such as 1e-6.",
            rich_help_panel=_PEOPLE,
        ),
    ] = None,
    noise_multiplier: Annotated[
        float | None,
        typer.Option(
            "--noise-multiplier",
            metavar="S",
            help="Instead of --epsilon: the noise itself, where dp-accounting is not installed.",
            rich_help_panel=_PEOPLE,
        ),
    ] = None,
    catalogue: Annotated[
        Path | None,
        typer.Option(
            "--catalogue",
            metavar="FILE",
            help="The public list of items; without it, items too are only named under (ε, δ).",
            rich_help_panel=_PEOPLE,
        ),
    ] = None,
    search: Annotated[
        bool, typer.Option("--search", help="Try the paper's grid and keep the best.", rich_help_panel=_HOW)
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was interrupted.")] = False,
    no_card: Annotated[
        bool, typer.Option("--no-card", help="Do not measure fidelity and write no card.")
    ] = False,
    distributed: Annotated[
        bool,
        typer.Option(
            "--distributed",
            help="Be one of several processes that distil together, each a part of every step's users.",
            rich_help_panel=options.PROCESSES,
        ),
    ] = False,
    coordinator: options.Coordinator = None,
    processes: options.Count = None,
    index: options.Index = None,
    reading: Reading = Reading(),
    seed: options.Seed = 42,
    json: options.Json = False,
) -> None:
    """Distil the train part of a log into a few synthetic users, on which models trained are nearly as good.

    DIR then holds a summary that [bold]infrec evaluate --train-on[/] and [bold]infrec export[/] read.

    [bold]Examples[/]

      infrec distill ml-1m --users 500 --out summary
      infrec distill ratings.csv --positive "rating >= 4" --target 0.95 --out summary
      infrec distill ml-1m --users 500 --mode soft --out soft --json
      infrec distill --continue summary november.csv --out summary-november
      infrec distill ml-1m --epsilon 8 --delta 1e-6 --set-aside 0.1 --out guarded
      srun infrec distill prepared --users 500 --set batch=4096 --distributed --out summary
    """
    options.refuse_without_distributed(distributed, coordinator, processes, index)
    if distributed and (search or target is not None):
        raise typer.BadParameter("--distributed makes one summary; leave out --search and --target.")
    if distributed and not (epsilon is None and delta is None and noise_multiplier is None):
        raise typer.BadParameter(
            "--distributed cannot keep a guarantee: each process would draw and spend its own noise; leave "
            "out --distributed, or --epsilon, --delta and --noise-multiplier."
        )
    if users is not None and target is not None:
        raise typer.BadParameter("--users and --target exclude each other; give one.")
    if previous is not None and search:
        raise typer.BadParameter("--continue keeps the settings of its summary; --search would change them.")
    check_out(out, "summary")
    place = run_beside(out)
    from infrec.cli import card, fidelity, protection
    from infrec.data import Summary
    from infrec.distillation import Config, update

    given: dict[str, object] = {"start": start and start.value, "targets": targets and targets.value}
    given |= {"hidden": hidden, "tau": tau, "steps": steps}
    settings = Config.parse(distinct(set_ or ()), "distill") | {
        name: value for name, value in given.items() if value is not None
    }
    if loss is not None:
        settings["loss"] = "binary" if loss is Loss.bce else loss.value
    if gamma is not None and gamma < 1:
        raise ConfigError(f"gamma is {gamma}; expected a whole number of at least 1.")
    size = {"users": users, "target": target, "per_user": per_user, "total": total, "percent": percent}
    run = {**size, "mode": mode and mode.value, "gamma": gamma, "seed": seed, **settings}
    # Said before the data is read, which may take a while.
    before = None if previous is None else Summary.load(previous)
    if before is not None:
        update.settings(before, run)
        run["previous"] = before
    else:
        run["mode"] = run["mode"] or Mode.discrete.value
        Config.of(run["mode"], **({} if users is None else {"users": users}), **settings)
    promise = protection.settings(epsilon, delta, noise_multiplier, catalogue, run, search)
    run |= promise
    home = card.folder(out, guaranteed=bool(promise))
    if promise and not no_card:
        card.check_beside(home)
    source = Source(data, reading, before, set_aside, seed)
    split, team, tried = None, {}, list[dict[str, object]]()
    with ends_on_sigterm():
        if distributed:
            from infrec.cli import distributed as multiprocess

            found = multiprocess.distill(
                source, run, out, place, resume, coordinator=coordinator, processes_=processes, index=index
            )
            if found is None:
                return
            team, summary = {"processes": found["processes"]}, Summary.load(out)
            for line in found["notes"] if no_card else ():  # else it is read again, and told then
                console.note(line)
        else:
            with console.bars() as progress:
                if promise:
                    log = source.read_log(progress)
                    people: Split | Interactions = source.users(log)
                    split = None if no_card else source.split(log)  # for the card alone
                else:
                    people = split = source.read(progress)
            summary, tried = distilled(people, run, place, search, resume)
            summary = protection.noted(summary, set_aside, seed)
            summary.save(out)
        console.saved(out)
        record, page = None, None
        if not no_card:
            with console.bars() as progress:
                split = source.read(progress) if split is None else split
                record = card.record(data, split, summary, seed=seed, progress=progress)
            page = card.write(record, home)
            console.saved(page)
        shutil.rmtree(place, ignore_errors=True)
    document = {
        "dataset": data,
        "users": summary.n_users,
        "interactions": summary.n_interactions,
        "discrete": summary.discrete,
        "mode": summary.about["mode"],
        "start": summary.about["start"],
        "steps": summary.about["steps"],
        "best_step": summary.about["best_step"],
        "seconds": summary.about["seconds"],
        "ms_per_step": summary.about["ms_per_step"],
        "bytes": summary.bytes,
        "fidelity": {} if record is None else fidelity.document(record.fidelity),
        "validation": summary.about["validation"],
        "reg": summary.reg,
        "seed": seed,
        **({"target": summary.about["target"]} if "target" in summary.about else {}),
        **({"tried": tried} if search else {}),
        **{name: summary.about[name] for name in ("set_aside", "guarantee") if name in summary.about},
        **team,
        **({"previous": str(previous), "represents": summary.about["represents"]} if before else {}),
        "out": str(out),
        "card": None if page is None else str(page),
    }
    if promise:
        console.note(protection.may_leave(out, page))
    if json:
        console.emit(document)
    else:
        show(summary, record, reading.again(data, seed), out, page)
