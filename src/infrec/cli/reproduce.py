"""`infrec reproduce`: a table or a figure of the paper, measured again beside the published numbers."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infrec.cli import console, options
from infrec.errors import InfrecError
from infrec.progress import Progress
from infrec.report import numbers

if TYPE_CHECKING:
    from infrec.paper.experiment import Experiment
    from infrec.paper.runner import Outcome
    from infrec.report.document import Claim, Table

SECONDS_BETWEEN_LINES = 15.0  # where there is no terminal to draw on
CELLS = "cells"  # the stage that the runner tells of


WhatArgument = Annotated[
    str,
    typer.Argument(
        metavar="WHAT",
        help="table1, sample-efficiency, transfer-ease, transfer-mvae, noise-samplers, "
        "noise-infinite-ae, depth, cold, ablation, selection, statistics, augmentation, "
        "deanonymise-noise, deanonymise-reveal, leakage, continual, continual-periods, or all.",
        show_default=False,
    ),
]
DatasetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--dataset",
        metavar="D",
        help="A name or a file; repeatable. Default: the experiment's that are found; demo with --quick.",
    ),
]
QuickOption = Annotated[
    bool,
    typer.Option("--quick", help="A look in minutes: smaller grid, fewer steps, one seed; no result."),
]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="WORD",
        help="Only cells of this model, source, number of users or noise (such as 5%); repeatable.",
    ),
]
SeedsOption = Annotated[
    int | None,
    typer.Option(
        "--seeds",
        metavar="K",
        min=1,
        max=10,
        help="How many seeds for what is random. Default: 3; 1 for table1 and cold.",
    ),
]
SearchOption = Annotated[
    bool,
    typer.Option(
        "--search", help="Search the settings of trained models again, instead of the committed ones."
    ),
]
RecordsOption = Annotated[
    Path,
    typer.Option("--records", metavar="DIR", help="Where records and reports are kept, in DIR/WHAT."),
]
ProcessesOption = Annotated[
    int,
    typer.Option("--processes", metavar="N", min=1, help="How many cells run at a time, each in a process."),
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="local|ADDRESS",
        help="Run the cells on a Ray cluster: one started here, or that at ADDRESS (auto: RAY_ADDRESS).",
    ),
]
ReportOnlyOption = Annotated[
    bool,
    typer.Option("--report-only", help="Run nothing: rebuild the report from the records that are there."),
]


def reproduce(
    what: WhatArgument,
    dataset: DatasetOption = None,
    quick: QuickOption = False,
    only: OnlyOption = None,
    seeds: SeedsOption = None,
    search: SearchOption = False,
    records: RecordsOption = Path("results"),
    processes: ProcessesOption = 1,
    cluster: ClusterOption = None,
    report_only: ReportOnlyOption = False,
    json: options.Json = False,
) -> None:
    """A table or a figure of the paper, measured again, beside the published numbers.

    What was measured is kept: an interrupted run goes on where it was, a finished one only makes the report.

    [bold]Examples[/]

      infrec reproduce table1 --dataset magazine
      infrec reproduce sample-efficiency --dataset ml-1m --seeds 3 --json
      infrec reproduce noise-samplers --dataset ml-1m --only user-rns --only distill-cf
      infrec reproduce sample-efficiency --dataset ml-1m --cluster 10.0.0.1:6379
      infrec reproduce all --quick
      infrec reproduce all --report-only
    """
    from infrec import paper

    known = (*paper.NAMES, "all")
    if what not in known:
        raise typer.BadParameter(options.unknown("experiment", what, known), param_hint="WHAT")
    names = paper.NAMES if what == "all" else (what,)
    if report_only and not records.is_dir():
        raise typer.BadParameter(
            f"there is no directory {records}; expected the one that a run kept its records in.",
            param_hint="--records",
        )
    begun: list[tuple[Experiment, Outcome | None]] = []
    for name in names:
        experiment = paper.get(name)
        if report_only:
            begun.append((experiment, None))
            continue
        console.saved(records / name)
        begun.append(
            (
                experiment,
                _run(
                    experiment, dataset or [], quick, only or [], seeds, search, records, processes, cluster
                ),
            )
        )
    _finish(what, begun, records, quick, as_json=json)


def _run(
    experiment: Experiment,
    asked: Sequence[str],
    quick: bool,
    only: Sequence[str],
    seeds: int | None,
    search: bool,
    root: Path,
    processes: int,
    cluster: str | None,
) -> Outcome:
    from infrec.paper import runner

    plan = runner.plan(experiment, asked, root=root, quick=quick, seeds=seeds, search=search)
    cells = runner.only(experiment.cells(plan), only)
    if quick:
        console.note(f"{experiment.name}: a quick look at {', '.join(plan.datasets)}, not a result.")
    with _live(experiment.name) as progress:
        executor: runner.Executor = runner.Here(progress)
        if cluster is not None:
            from infrec.paper.ray_runner import Ray

            executor = Ray(cluster, processors=max(2, processes))
        elif processes > 1:
            executor = runner.Processes(processes)
        outcome = runner.run(cells, root / experiment.name, executor=executor, progress=progress)
    for cell, error in outcome.errors:
        console.note(f"{experiment.name}: {cell.words} failed: {error}")
    if cells and not outcome.records:
        raise InfrecError(
            f"none of the {len(cells)} cells of {experiment.name} could be measured; the first said: "
            f"{outcome.errors[0][1] if outcome.errors else 'nothing'}"
        )
    return outcome


def _finish(
    what: str, begun: Sequence[tuple[Experiment, Outcome | None]], root: Path, quick: bool, *, as_json: bool
) -> None:
    """The report, then what a person or a program wants to see."""
    from infrec.paper import site
    from infrec.paper.results import Results
    from infrec.report import terminal

    made = site.build(root, None if what == "all" else [what])
    rows: list[dict[str, Any]] = []
    claims: list[Claim] = []
    tables: list[Table] = []
    failed: list[dict[str, str]] = []
    for experiment, outcome in begun:
        everything = Results.at(root, experiment.name)
        own = everything if outcome is None else Results(outcome.records, everything.others)
        rows += [{"experiment": experiment.name, **row} for row in experiment.rows(own)]
        undecided = own.datasets() if quick else own.quick_datasets()
        found = experiment.findings(own).without_verdicts(undecided)
        claims += found.claims
        tables += found.tables[:4]
        failed += (
            [] if outcome is None else [{"cell": c.words, "error": error} for c, error in outcome.errors]
        )
    if as_json:
        console.emit(
            {
                "what": what,
                "quick": quick,
                "rows": rows,
                "claims": [vars(one) for one in claims],
                "failed": failed,
                "records": str(root if what == "all" else root / what),
                "report": str(made[0] if what == "all" else made[1]),
                "seconds": console.elapsed(),
            }
        )
        return
    if len(begun) == 1:
        for table in tables:
            console.out().print(terminal.table(table))
    for claim in claims:
        console.out().print(terminal.claim(claim), soft_wrap=True)
    page = made[0] if what == "all" else made[1]
    console.out().print(f"The report: [bold]{console.plain(page)}[/]", soft_wrap=True)
    if quick:
        console.note("This was a quick look: smaller grid, fewer steps, one seed. It is no result.")


@contextmanager
def _live(title: str) -> Iterator[Progress]:
    """Cells done, the last one, time left: a bar on a terminal, else a line now and then."""
    if sys.stderr.isatty():
        with console.bars() as progress:

            def draw(stage: str, done: float, total: float | None = None, **facts: object) -> None:
                if stage == CELLS:
                    left = numbers.seconds(float(str(facts.pop("seconds_left", 0.0))))
                    progress(title, done, total, left=left, **facts)
                else:  # what happens inside the cell at hand
                    progress(f"  {stage}", done, total)

            yield draw
        return
    last = time.monotonic()

    def line(stage: str, done: float, total: float | None = None, **facts: object) -> None:
        nonlocal last
        if stage == CELLS and time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            left = numbers.seconds(float(str(facts.get("seconds_left", 0.0))))
            console.note(f"{title}: {done:.0f} of {total:.0f} cells, {left} left ({facts.get('last')})")

    yield line
