"""`infrec reproduce`: a table or a figure of the paper, measured again beside the published numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infrec.cli import console, options
from infrec.cli.options import Answer, argument, option
from infrec.errors import InfrecError
from infrec.report import numbers

if TYPE_CHECKING:
    from infrec.paper.cells import Cell
    from infrec.paper.experiment import Experiment
    from infrec.paper.runner import Outcome
    from infrec.report.document import Claim, Table

CELLS = "cells"  # the stage that the runner tells of

WhatArgument = Annotated[
    str,
    argument(
        "WHAT",
        "table1, sample-efficiency, transfer-ease, transfer-mvae, noise-samplers, "
        "noise-infinite-ae, depth, cold, ablation, selection, statistics, augmentation, "
        "deanonymise-noise, deanonymise-reveal, leakage, continual, continual-periods, bytes, transfer, "
        "or all.",
    ),
]
DatasetOption = Annotated[
    list[str] | None,
    option(
        "--dataset D",
        "A name or a file; repeatable. Default: the experiment's that are found; demo with --quick.",
    ),
]
QuickOption = Annotated[
    bool, option("--quick", "A look in minutes: smaller grid, fewer steps, one seed; no result.")
]
OnlyOption = Annotated[
    list[str] | None,
    option(
        "--only WORD",
        "Only cells of this model, source, number of users or noise (such as 5%), or of all in full+ease; "
        "repeatable.",
    ),
]
SeedsOption = Annotated[
    int | None,
    option(
        "--seeds K", "How many seeds for what is random. Default: 3; 1 for table1 and cold.", min=1, max=10
    ),
]
SearchOption = Annotated[
    bool, option("--search", "Search the settings of trained models again, instead of the committed ones.")
]
RecordsOption = Annotated[Path, option("--records DIR", "Where records and reports are kept, in DIR/WHAT.")]
ProcessesOption = Annotated[
    int, option("--processes N", "How many cells run at a time, each in a process.", min=1)
]
ClusterOption = Annotated[
    str | None,
    option(
        "--cluster local|ADDRESS",
        "Run the cells on a Ray cluster: one started here, or that at ADDRESS (auto: RAY_ADDRESS).",
    ),
]
ReportOnlyOption = Annotated[
    bool, option("--report-only", "Run nothing: rebuild the report from the records that are there.")
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
) -> Answer:
    """Measure a table or a figure of the paper again, beside the published numbers.

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
    for experiment in map(paper.get, names):
        outcome = None
        if not report_only:
            from infrec.paper import runner

            console.saved(records / experiment.name)
            plan = runner.plan(
                experiment, dataset or [], root=records, quick=quick, seeds=seeds, search=search
            )
            cells = runner.only(experiment.cells(plan), only or [])
            if quick:
                console.note(f"{experiment.name}: a quick look at {', '.join(plan.datasets)}, not a result.")
            outcome = _run(cells, records / experiment.name, processes, cluster)
        begun.append((experiment, outcome))
    return _answer(what, begun, records, quick)


def _run(cells: list[Cell], place: Path, processes: int, cluster: str | None) -> Outcome:
    """The records of an experiment's cells; those that failed are told."""
    from infrec.paper import runner

    name = place.name
    with console.steps(name, _cell_words) as progress:
        executor: runner.Executor = runner.Here(progress)
        if cluster is not None:
            executor = runner.Ray(cluster, processors=max(2, processes))
        elif processes > 1:
            executor = runner.Processes(processes)
        outcome = runner.run(cells, place, executor=executor, progress=progress)
    for cell, error in outcome.errors:
        console.note(f"{name}: {cell.words} failed: {error}")
    if cells and not outcome.records:
        raise InfrecError(
            f"none of the {len(cells)} cells of {name} could be measured; the first said: "
            f"{outcome.errors[0][1] if outcome.errors else 'nothing'}"
        )
    return outcome


def _answer(what: str, begun: Sequence[tuple[Experiment, Outcome | None]], root: Path, quick: bool) -> Answer:
    """The report, then what a person or a program wants to see."""
    from infrec.paper import site
    from infrec.paper.records import SOURCE, Outdated, fingerprints
    from infrec.paper.results import Results
    from infrec.report.text import rich_claim, rich_table

    place = root if what == "all" else root / what
    pages = site.build(root, None if what == "all" else [what])
    page = pages[0 if what == "all" else 1]
    rows: list[dict[str, Any]] = []
    claims: list[Claim] = []
    tables: list[Table] = []
    failed: list[dict[str, str]] = []
    older: dict[str, dict[str, Any]] = {}
    now = fingerprints(SOURCE)
    for experiment, outcome in begun:
        everything = Results.at(root, experiment.name)
        own = everything if outcome is None else Results(outcome.records, everything.others)
        rows += [{"experiment": experiment.name, **row} for row in experiment.rows(own)]
        findings = experiment.findings(own, quick=quick)
        claims += findings.claims
        tables += findings.tables[:4]
        errors = [] if outcome is None else outcome.errors
        failed += [{"cell": cell.words, "error": error} for cell, error in errors]
        if words := str(age := Outdated.of(own.records, now)):
            older[experiment.name] = age._asdict()
            console.note(f"{experiment.name}: {words}.")
    document = {
        "what": what,
        "quick": quick,
        "rows": rows,
        "claims": [vars(one) for one in claims],
        "failed": failed,
        "older_than_the_code": older,
        "records": str(place),
        "report": str(page),
        "seconds": console.elapsed(),
    }

    def show() -> None:
        for table in tables if len(begun) == 1 else []:
            console.out().print(rich_table(table))
        for claim in claims:
            console.say(rich_claim(claim))
        console.say(f"The report: [bold]{console.plain(page)}[/]")
        if quick:
            console.note("This was a quick look: smaller grid, fewer steps, one seed. It is no result.")

    return document, show


def _cell_words(stage: str, count: str, facts: dict[str, Any]) -> str | None:
    """Cells done, time left and the last one; None for what happens inside the cell at hand."""
    if stage != CELLS:
        return None
    left = numbers.seconds(float(facts.get("seconds_left", 0.0)))
    return f"{count} cells, {left} left ({facts.get('last')})"
