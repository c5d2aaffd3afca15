"""`infrec demo`: the first minute. Three models compared, the data distilled, explanations, a report.

`infrec demo --serve`: the page on the embedded data, one command from a fresh clone.
"""

from __future__ import annotations

import json as json_
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from infrec.cli import console, options
from infrec.cli.options import option
from infrec.cli.reading import Reading
from infrec.cli.serve import need_extra
from infrec.progress import Progress
from infrec.report import numbers

if TYPE_CHECKING:
    from infrec.data import Interactions
    from infrec.evaluation.comparison import Comparison, Example, Reason
    from infrec.evaluation.fidelity import Card

MODELS = ("infinite-ae", "ease", "poprec")
ABOUT = "[bold]infrec demo[/]: invented films, and invented people who like some of them"
SYNTHETIC, STEPS = 50, 300  # users of the summary, and steps to make it: a few seconds

NEXT = (
    ("infrec demo --serve", "the page: click films, see recommendations and reasons"),
    ("infrec fit demo --out model", "fit and save"),
    ("infrec recommend model --user 1", "ask the saved model"),
    ("infrec evaluate demo --train-on infrec-demo/summary --model ease", "train on the summary"),
    ('infrec evaluate ratings.csv --positive "rating >= 4"', "the same numbers for your own file"),
    ("infrec evaluate demo --model infinite-ae --model ease --json", "for programs"),
)


def demo(
    out: Annotated[Path, option("--out -o DIR", "Where the report goes.")] = Path("infrec-demo"),
    serve: Annotated[
        bool, option("--serve", "Instead of a report, open the page that recommends as you click.")
    ] = False,
    port: Annotated[
        int, option("--port PORT", "Where --serve listens; 0 takes a free port.", min=0, max=65535)
    ] = 8000,
    seed: options.Seed = 42,
    json: options.Json = False,
) -> None:
    """The first minute: compare ∞-AE, EASE and PopRec, distil the data, explain recommendations, report.

    [bold]Examples[/]

      infrec demo
      infrec demo --serve
    """
    from infrec import drafts
    from infrec.evaluation.comparison import compare_models
    from infrec.report import html
    from infrec.report.comparison import document

    if serve:
        _serve(out, seed, port, json)
    if not json:
        console.say(f"{ABOUT}\n")
    with console.bars() as progress:
        log = Reading().load("demo", progress)
        record = compare_models(
            log, MODELS, dataset="demo", seed=seed, facts={"command": "infrec demo"}, progress=progress
        )
        record = replace(record, card=distilled(log, out / "summary", seed, progress))
    page = out / "report.html"
    text = json_.dumps(record.as_dict(), ensure_ascii=False, indent=1)
    drafts.write_text(out / "record.json", text)
    console.saved(out / "record.json")
    drafts.write_text(page, html.render(document(record)))
    console.saved(page)
    if json:
        console.emit({"report": str(page), **record.as_dict(), "seconds": {"total": console.elapsed()}})
    else:
        _show(record, page)


def distilled(log: Interactions, out: Path, seed: int, progress: Progress) -> Card:
    """A summary of the data, saved, and what it is worth beside all users and as many random ones."""
    from infrec.distillation import distill
    from infrec.evaluation import fidelity
    from infrec.report import card
    from infrec.splits import holdout

    split = holdout(log, seed=seed)
    summary = distill(split, users=SYNTHETIC, steps=STEPS, seed=seed, progress=progress)
    summary.save(out)
    console.saved(out)
    record = fidelity.card_of("demo", split, summary, seed=seed, progress=progress)
    card.write(record, out)
    return record


def _show(record: Comparison, path: Path) -> None:
    from infrec.report.comparison import headline, table
    from infrec.report.figures import available
    from infrec.report.html import NO_PLOTS
    from infrec.report.text import rich_table

    caption = (
        f"{record.users:,} users × {record.items:,} films, {record.interactions:,} interactions; "
        "on held-out interactions; 95 % bootstrap intervals; HR, NDCG, PSP and coverage in %"
    )
    console.out().print(rich_table(table(record.models, caption)))
    console.say(console.plain(headline(record)) + "\n")
    if record.card is not None:
        _show_summary(record.card, path.parent / "summary")
    if record.example is not None:
        _show_example(record.example)
    if not available():
        console.note(NO_PLOTS)
    console.say(f"\nThe report with plots: [bold]{console.plain(path.resolve())}[/]")
    console.say(f"[dim]Done in {numbers.seconds(console.elapsed())}. Next:[/]\n")
    for command, what in NEXT:
        console.say(f"  [cyan]{command:<68}[/][dim]{what}[/]")


def _show_summary(record: Card, folder: Path) -> None:
    from infrec.report.card import PAGE, fidelity_table, headline
    from infrec.report.text import rich_table

    full, small = record.full, record.summary
    console.say(
        f"[bold]Distilled[/]: {full.users:,} users with {full.interactions:,} interactions became "
        f"{small.users:,} synthetic users with {small.interactions:,}, in "
        f"{numbers.seconds(record.seconds['distilling'])}."
    )
    console.out().print(rich_table(fidelity_table(record)))
    console.say(console.plain(headline(record)))
    console.say(f"Its card: [bold]{console.plain((folder / PAGE).resolve())}[/]\n")


def _show_example(example: Example) -> None:
    from rich.padding import Padding

    def reasons(entries: Sequence[Reason]) -> str:
        return ", ".join(
            f"{console.plain(one.label)} ({numbers.signed(one.contribution, 3)})" for one in entries
        )

    out, plain = console.out(), console.plain
    liked, more = ", ".join(example.history[:6]), len(example.history) - 6
    out.print(
        f"User [bold]{plain(example.user)}[/] liked {plain(liked)}"
        + (f" and {more} more" if more > 0 else "")
    )
    out.print(f"{numbers.label(example.model)} recommends:\n")
    for rec in example.recommended:
        hit = "  [green]✓ held out: they did choose it[/]" if rec.held_out else ""
        out.print(f"  [bold]{rec.rank}. {plain(rec.label)}[/]  [dim]score {rec.score:.3f}[/]{hit}")
        rest = (
            f"the others {numbers.signed(rec.rest, 3)}, without a history {numbers.signed(rec.baseline, 3)}"
        )
        out.print(Padding(f"because you liked {reasons(rec.items)}; {rest}", (0, 0, 0, 5)))
        out.print(Padding(f"[dim]users like you: {reasons(rec.users)}[/]", (0, 0, 0, 5)))


def _serve(out: Path, seed: int, port: int, json: bool) -> None:
    """Fit on all users, distil a few synthetic ones, and become the server of both."""
    need_extra()
    from infrec.distillation import distill
    from infrec.models import InfiniteAE
    from infrec.serve import Settings, bind
    from infrec.splits import holdout

    full, small = out / "full", out / "distilled"
    bind(Settings(port=port)).close()  # a port that is taken is said now, not after the work
    if not json:
        console.say(f"{ABOUT}; fitting on all of them, and distilling them into {SYNTHETIC} synthetic people")
    with console.bars() as progress:
        log = Reading().load("demo", progress)
        InfiniteAE().fit(log, progress=progress).save(full)
        console.saved(full)
        split = holdout(log, seed=seed)
        distill(split, users=SYNTHETIC, steps=STEPS, seed=seed, progress=progress).save(small)
        console.saved(small)
    words = [f"full={full}", f"distilled={small}", "--port", str(port), "--quiet"]
    words += ["--json"] if json else ["--open"]
    sys.stdout.flush()
    # Another program in this process: distilling has started JAX, and the server must be without it.
    os.execv(sys.executable, [sys.executable, "-m", "infrec", "serve", *words])
