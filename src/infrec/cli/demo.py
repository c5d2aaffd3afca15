"""`infrec demo`: the first minute. Three models compared, the data distilled, explanations, a report.

`infrec demo --serve`: the page on the embedded data, one command from a fresh clone.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infrec import machine
from infrec.cli import console, options
from infrec.cli.options import Reading
from infrec.cli.serve import need_extra
from infrec.progress import Progress, Stopwatch
from infrec.report import numbers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from infrec.data import Interactions
    from infrec.evaluation import Evaluation
    from infrec.evaluation.card_records import Card
    from infrec.models import InfiniteAE, Recommender
    from infrec.report.records import Comparison, Example, Lead, ModelRecord, Recommended
    from infrec.splits import Split

MODELS = ("infinite-ae", "ease", "poprec")
GROUPS = ("most popular", "popular", "middle", "rarer", "long tail")
REASONS = 3
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
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Where the report goes.")] = Path(
        "infrec-demo"
    ),
    serve: Annotated[
        bool, typer.Option("--serve", help="Instead of a report, open the page that recommends as you click.")
    ] = False,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Where --serve listens; 0 takes a free port.")
    ] = 8000,
    seed: options.Seed = 42,
    json: options.Json = False,
) -> None:
    """The first minute: compare ∞-AE, EASE and PopRec, distil the data, explain recommendations, report.

    [bold]Examples[/]

      infrec demo
      infrec demo --serve
    """
    if serve:
        _serve(out, seed, port, json, users=SYNTHETIC, steps=STEPS)
    if not json:
        console.out().print(
            "[bold]infrec demo[/]: invented films, and invented people who like some of them\n"
        )
    with console.bars() as progress:
        log = Reading().load("demo", progress)
        record = compare(log, seed, progress)
        record = replace(record, card=distilled(log, out / "summary", seed, progress))
    path = write(record, out)
    if json:
        console.emit({"report": str(path), **record.as_dict(), "seconds": {"total": console.elapsed()}})
    else:
        _show(record, path)


# ---- measuring -----------------------------------------------------------------------------------
def compare(log: Interactions, seed: int, progress: Progress) -> Comparison:
    """Fit and measure every model on one split; everything that the terminal and the report show."""
    from infrec import models
    from infrec.evaluation import evaluate
    from infrec.report.records import Comparison
    from infrec.splits import holdout

    split = holdout(log, seed=seed)
    counts = split.train.item_counts
    group_of = popularity_group(counts, len(GROUPS))
    records, evaluations, example = [], {}, None
    for name in MODELS:
        watch = Stopwatch()
        with watch("fit"):
            model = models.create(name).fit(split.train, validation=split.val, progress=progress)
        chosen = {name: model.selected[name] for name in model.search_space}
        with watch("evaluate"):
            evaluations[name] = evaluate(model, split, seed=seed, progress=progress)
        records.append(_record(name, chosen, evaluations[name], group_of, watch.seconds))
        if name == "infinite-ae":
            example = explained(model, split)
    sizes = [int((group_of == at).sum()) for at in range(len(GROUPS))]
    versions = machine.versions()
    return Comparison(
        dataset="demo",
        protocol="paper-code",
        split=split.name,
        users=split.train.n_users,
        items=split.train.n_items,
        interactions=log.n_interactions,
        models=tuple(records),
        leads=_leads(evaluations, seed),
        popularity_groups=tuple(zip(GROUPS, sizes, strict=True)),
        example=example,
        facts={
            "command": "infrec demo",
            "device": machine.device(),
            **{name: str(versions[name]) for name in ("infrec", "python", "jax", "numpy")},
        },
    )


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


def popularity_group(counts: NDArray[np.int64], groups: int) -> NDArray[np.int64]:
    """The group of each item, most popular first; each group holds about equally many interactions."""
    import numpy as np

    order = np.argsort(-counts, kind="stable")
    before = np.cumsum(counts[order]) - counts[order]
    out = np.empty(len(counts), np.int64)
    out[order] = np.minimum(before * groups // max(1, int(counts.sum())), groups - 1)
    return out


def _record(
    name: str,
    selected: dict[str, Any],
    evaluation: Evaluation,
    group_of: NDArray[np.int64],
    seconds: dict[str, float],
) -> ModelRecord:
    import numpy as np

    from infrec.evaluation import by_user_coldness
    from infrec.report.records import ModelRecord, Stratum

    shown = np.bincount(group_of, weights=evaluation.exposure[10], minlength=len(GROUPS))
    strata = tuple(
        Stratum(f"{s.label} items", s.size, {"HR@10": s.metrics["HR@10"]}, {"HR@10": s.intervals["HR@10"]})
        for s in by_user_coldness(evaluation)
    )
    return ModelRecord(
        name,
        dict(evaluation.metrics),
        dict(evaluation.intervals),
        selected=selected,
        seconds=seconds,
        strata=strata,
        popularity=tuple((shown / max(1.0, shown.sum())).tolist()),
    )


def _leads(evaluations: dict[str, Evaluation], seed: int, metric: str = "HR@10") -> tuple[Lead, ...]:
    """The best model against the second best, user by user."""
    from infrec.evaluation import compare as paired
    from infrec.report.records import Lead

    first, second = sorted(evaluations, key=lambda name: -evaluations[name].metrics[metric])[:2]
    difference = paired(evaluations[first], evaluations[second], seed=seed)[metric]
    return (Lead(first, second, metric, difference.value, difference.low, difference.high),)


# ---- explaining ----------------------------------------------------------------------------------
def explained(model: InfiniteAE, split: Split, size: int = 10, k: int = 5) -> Example:
    """Recommendations with reasons for the first user of whom about `size` items are known."""
    import numpy as np

    from infrec.report.records import Example

    context = split.test_context
    row = int(np.argmin(np.abs(np.diff(context.indptr) - size)))
    items = split.train.items
    history = items.take(context.indices[context.indptr[row] : context.indptr[row + 1]]).to_pylist()
    held_out = set(items.take(split.test.matrix[[row]].indices).to_pylist())
    recommended = model.recommend(histories=[history], k=k)
    names = titles(model)
    return Example(
        user=str(split.train.users.ids[row].as_py()),
        model="infinite-ae",
        history=tuple(names(item) for item in history),
        recommended=tuple(_explained(model, history, r, names, held_out) for r in recommended.to_pylist()),
    )


def _explained(
    model: InfiniteAE, history: list[object], row: dict[str, Any], names: Any, held_out: set[object]
) -> Recommended:
    from infrec.report.records import Reason, Recommended

    explanation = model.explain(history, row["item"])
    own, others = (
        table.sort_by([("contribution", "descending")]).slice(0, REASONS).to_pylist()
        for table in (explanation.items, explanation.users)
    )
    return Recommended(
        rank=row["rank"],
        label=names(row["item"]),
        score=explanation.score,
        items=tuple(Reason(names(reason["item"]), reason["contribution"]) for reason in own),
        users=tuple(Reason(str(reason["user"]), reason["contribution"]) for reason in others),
        rest=explanation.score - explanation.baseline - sum(reason["contribution"] for reason in own),
        baseline=explanation.baseline,
        held_out=row["item"] in held_out,
    )


def titles(model: Recommender) -> Any:
    """item id → its title where there is one, else the id."""
    log = model.log
    if log.titles is None:
        return str
    known = dict(zip(log.items.ids.to_pylist(), log.titles.to_pylist(), strict=True))
    return lambda item: str(known.get(item) or item)


# ---- showing -------------------------------------------------------------------------------------
def write(record: Comparison, out: Path) -> Path:
    """The report and the record it was made from; each appears only when it is whole."""
    import json

    from infrec.report.comparison import render

    out.mkdir(parents=True, exist_ok=True)
    for name, text in (
        ("record.json", json.dumps(record.as_dict(), ensure_ascii=False, indent=1)),
        ("report.html", render(record)),
    ):
        half = out / f".{name}.part"
        half.write_text(text, encoding="utf-8")
        half.replace(out / name)
        console.saved(out / name)
    return out / "report.html"


def _show(record: Comparison, path: Path) -> None:
    from rich.table import Table

    from infrec.report.comparison import NO_PLOTS, headline
    from infrec.report.figures import available

    out = console.out()
    table = Table(
        title=f"{record.users:,} users × {record.items:,} films, {record.interactions:,} interactions",
        caption="on held-out interactions; 95 % bootstrap intervals; HR, NDCG, PSP and coverage in %",
        title_justify="left",
        caption_justify="left",
    )
    metrics = [
        m
        for m in ("HR@10", "HR@100", "NDCG@10", "PSP@10", "AUC", "coverage@10")
        if m in record.models[0].metrics
    ]
    table.add_column("model", style="bold")
    for metric in metrics:
        table.add_column(metric, justify="right")
    table.add_column("settings")
    table.add_column("fit", justify="right")
    for model in record.models:
        cells = []
        for metric in metrics:
            bounds = numbers.interval(metric, model.intervals.get(metric))
            cells.append(
                numbers.number(metric, model.metrics.get(metric)) + (f"\n[dim]{bounds}[/]" if bounds else "")
            )
        fit = numbers.seconds(model.seconds["fit"])
        table.add_row(numbers.label(model.name), *cells, numbers.settings(model.selected) or "–", fit)
    out.print(table)
    out.print(headline(record) + "\n", soft_wrap=True, markup=False)
    if record.card is not None:
        _show_summary(record.card, path.parent / "summary")
    if record.example is not None:
        _show_example(record.example)
    if not available():
        console.note(NO_PLOTS)
    out.print(f"\nThe report with plots: [bold]{console.plain(path.resolve())}[/]", soft_wrap=True)
    out.print(f"Done in {numbers.seconds(console.elapsed())}. Next:\n", style="dim")
    for command, what in NEXT:
        out.print(f"  [cyan]{command:<68}[/][dim]{what}[/]", soft_wrap=True)


def _show_summary(record: Card, folder: Path) -> None:
    from infrec.cli import card
    from infrec.report.card import PAGE, headline

    out = console.out()
    full, small = record.full, record.summary
    out.print(
        f"[bold]Distilled[/]: {full.users:,} users with {full.interactions:,} interactions became "
        f"{small.users:,} synthetic users with {small.interactions:,}, in "
        f"{numbers.seconds(record.seconds['distilling'])}.",
        soft_wrap=True,
    )
    out.print(card.table(record))
    out.print(headline(record), soft_wrap=True, markup=False)
    out.print(f"Its card: [bold]{console.plain((folder / PAGE).resolve())}[/]\n", soft_wrap=True)


def _show_example(example: Example) -> None:
    from rich.markup import escape
    from rich.padding import Padding

    out = console.out()
    liked = ", ".join(example.history[:6])
    more = len(example.history) - 6
    out.print(
        f"User [bold]{escape(example.user)}[/] liked {escape(liked)}"
        + (f" and {more} more" if more > 0 else "")
    )
    out.print(f"{numbers.label(example.model)} recommends:\n")
    for rec in example.recommended:
        hit = "  [green]✓ held out: they did choose it[/]" if rec.held_out else ""
        out.print(f"  [bold]{rec.rank}. {escape(rec.label)}[/]  [dim]score {rec.score:.3f}[/]{hit}")
        own = ", ".join(f"{escape(r.label)} ({numbers.signed(r.contribution)})" for r in rec.items)
        others = ", ".join(f"{escape(r.label)} ({numbers.signed(r.contribution)})" for r in rec.users)
        rest = f"the others {numbers.signed(rec.rest)}, without a history {numbers.signed(rec.baseline)}"
        out.print(Padding(f"because you liked {own}; {rest}", (0, 0, 0, 5)))
        out.print(Padding(f"[dim]users like you: {others}[/]", (0, 0, 0, 5)))


def _serve(out: Path, seed: int, port: int, json: bool, *, users: int, steps: int) -> None:
    """Fit on all users, distil a few synthetic ones, and become the server of both."""
    need_extra()
    from infrec.distillation import distill
    from infrec.models import InfiniteAE
    from infrec.serve import Settings, bind
    from infrec.splits import holdout

    bind(Settings(port=port)).close()  # a port that is taken is said now, not after the work
    if not json:
        console.out().print(
            "[bold]infrec demo[/]: invented films, and invented people who like some of them; "
            f"fitting on all of them, and distilling them into {users} synthetic people"
        )
    with console.bars() as progress:
        log = Reading().load("demo", progress)
        InfiniteAE().fit(log, progress=progress).save(out / "full")
        console.saved(out / "full")
        distill(holdout(log, seed=seed), users=users, steps=steps, seed=seed, progress=progress).save(
            out / "distilled"
        )
        console.saved(out / "distilled")
    words = [f"full={out / 'full'}", f"distilled={out / 'distilled'}", "--port", str(port), "--quiet"]
    words += ["--json"] if json else ["--open"]
    sys.stdout.flush()
    # Another program in this process: distilling has started JAX, and the server must be without it.
    os.execv(sys.executable, [sys.executable, "-m", "infrec.cli", "serve", *words])
