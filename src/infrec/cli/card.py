"""The card of a summary: measured here, formatted by `report`, written into the summary's directory.

Of a summary with (ε, δ) it is written beside it: it has exact figures of the real log, which are not covered.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from infrec import machine
from infrec.artifacts import CARD
from infrec.cli import fidelity
from infrec.progress import Progress, Stopwatch
from infrec.report import numbers
from infrec.report.card_records import Card, Which

if TYPE_CHECKING:
    from infrec.data import Interactions, Summary
    from infrec.splits import Split

PAGE, RECORD = CARD
# Settings that the card does not repeat: they have a place of their own there.
ELSEWHERE = ("mode", "start", "seed", "users", "steps")
SEEN = "; with ε and δ all interactions went into the noisy sums, the test part's too"


def folder(release: Path, *, guaranteed: bool) -> Path:
    """Where the card of a release lies: in its directory or, with (ε, δ), beside it."""
    return release.with_name(f"{release.name}-card") if guaranteed else release


def check_beside(place: Path) -> None:
    """Refuse before the work a directory beside the release that holds anything but an older card."""
    strange = [each.name for each in place.iterdir() if each.name not in CARD] if place.is_dir() else []
    if strange or (place.exists() and not place.is_dir()):
        holds = f" holds {strange[0]!r}" if strange else " is a file"
        raise typer.BadParameter(
            f"{place}, where the card goes,{holds}; move it away, give another name, or use --no-card.",
            param_hint="--out",
        )


def record(dataset: str, split: Split, summary: Summary, *, seed: int, progress: Progress) -> Card:
    """Measure the summary against its source and against random users."""
    from infrec.distillation import dp_accounting as promise

    about = summary.about
    if summary.items != split.train.items:  # with (ε, δ) it has the items that may be named
        from infrec.distillation import update

        split = update.split_over(split, update.joined(summary, split.train), summary)
        summary = summary.align_items(split.train.items)
    train = split.train
    watch = Stopwatch()
    with watch("measuring fidelity"):
        random = fidelity.random_users(split, summary.n_users, seed)
        fitted_on: dict[Which, Interactions | None] = {
            "full": None,
            "summary": summary,
            "finished": summary,
            "random": random,
        }
        found = fidelity.measure(split, fitted_on, seed=seed, progress=progress)
    versions = machine.versions()
    logs: dict[Which, Interactions] = {"full": train, "summary": summary, "random": random}
    return Card(
        dataset=dataset,
        items=train.n_items,
        mode=about["mode"],
        start=about["start"],
        discrete=summary.discrete,
        seed=about["seed"],
        steps=about["steps"],
        best_step=about["best_step"],
        full=fidelity.size(train),
        summary=fidelity.size(summary),
        random=fidelity.size(random),
        settings={
            name: value
            for name, value in about["settings"].items()
            if name not in ELSEWHERE and value is not None and value is not False
        },
        seconds={"distilling": about["seconds"], **watch.seconds},
        fidelity=found,
        popularity=tuple(fidelity.popularity(each, which) for which, each in logs.items()),
        activity=tuple(fidelity.activity(each, which) for which, each in logs.items()),
        likeness=fidelity.likeness(summary, train),
        picture=fidelity.picture(summary, train),
        facts={
            "split": split.name + SEEN if "guarantee" in about and split.name != "own" else split.name,
            "protocol": "paper-code",
            "device": str(about.get("device", machine.device())),
            **{name: str(versions[name]) for name in ("infrec", "python", "jax", "numpy")},
        },
        guarantee=promise.with_epsilon(about.get("guarantee")),
    )


def write(card: Card, folder: Path) -> Path:
    """`card.html` and `card.json` into a directory, which is made; each appears when it is whole."""
    from infrec.data.export import atomically
    from infrec.report.card import render

    folder.mkdir(parents=True, exist_ok=True)
    with atomically(folder / RECORD) as file:
        file.write(json.dumps(card.as_dict(), ensure_ascii=False, allow_nan=False).encode())
    with atomically(folder / PAGE) as file:
        file.write(render(card).encode())
    return folder / PAGE


def add_audit(folder: Path, audit: dict[str, Any]) -> Path:
    """Put what an audit found into the card that lies in a directory."""
    from dataclasses import replace

    before = Card.from_dict(json.loads((folder / RECORD).read_bytes()))
    return write(replace(before, audit=audit), folder)


def table(card: Card) -> Any:
    """Full data against summary against random users, for each model."""
    from rich.table import Table

    from infrec.report.card_figures import METRICS, names

    shown = Table(caption="measured on the original's test part (share of the full data's)", box=None)
    shown.caption_justify = "left"
    shown.add_column("fitted on", style="bold")
    for metric in METRICS:
        shown.add_column(metric, justify="right")
    called = names(card)
    previous = None
    for each in card.fidelity:
        if previous not in (None, each.model):
            shown.add_row()
        previous = each.model
        cells = [
            numbers.number(metric, each.metrics[metric])
            + (
                ""
                if each.data == "full" or metric not in each.share
                else f" [dim]({100 * each.share[metric]:.0f} %)[/]"
            )
            for metric in METRICS
        ]
        style = "green" if each.data == "summary" else None
        shown.add_row(f"{numbers.label(each.model)}, {called[each.data]}", *cells, style=style)
    return shown
