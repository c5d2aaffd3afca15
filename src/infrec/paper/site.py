"""All pages of a results directory, rebuilt from its records alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from infrec import paper
from infrec.data.export import atomically
from infrec.errors import ArtifactError
from infrec.paper import figures as drawings
from infrec.paper import pages, pages_markdown
from infrec.paper.experiment import Experiment
from infrec.paper.records import FILE, Records
from infrec.paper.results import Results
from infrec.report import figures
from infrec.report.document import Findings

PAGE, MARKDOWN = "index.html", "README.md"


def build(root: Path, names: Sequence[str] | None = None) -> list[Path]:
    """Write the pages of these experiments (by default all that have records) and the index; return them."""
    written, listed = [], []
    for name in paper.NAMES:
        there = (root / name / FILE).is_file()
        if not there and not (names and name in names):
            continue
        experiment = paper.get(name)
        found, facts = read(root, experiment)
        listed.append((experiment, found, facts))
        if names is None or name in names:
            written += _write(root / name, experiment, found, facts)
    write(root / PAGE, pages.index(listed))
    write(root / MARKDOWN, pages_markdown.index(listed))
    return [root / PAGE, *written]


def read(root: Path, experiment: Experiment) -> tuple[Findings, pages.Facts]:
    """The findings of an experiment's records, and the facts about these records."""
    results = Results.at(root, experiment.name)
    records = Records(root / experiment.name)
    records.read()
    found = results.records
    facts = pages.Facts(
        records=len(found),
        damaged=records.damaged,
        quick=bool(results.quick_datasets()),
        seeds=len({record["seed"] for record in found}),
        datasets=results.datasets(),
        devices=sorted({record["device"] for record in found}),
        versions=found[-1]["versions"] if found else None,
        finished=max((record.get("finished", "") for record in found), default=""),
    )
    return experiment.findings(results).without_verdicts(results.quick_datasets()), facts


def _write(folder: Path, experiment: Experiment, found: Findings, facts: pages.Facts) -> list[Path]:
    svgs = {figure.name: drawings.draw(figure) for figure in found.figures} if figures.available() else {}
    write(folder / PAGE, pages.page(experiment, found, facts, svgs))
    write(folder / MARKDOWN, pages_markdown.page(experiment, found, facts, svgs))
    for name, svg in svgs.items():
        write(folder / f"{name}.svg", drawings.standalone(svg))
    return [folder / PAGE, folder / MARKDOWN, *(folder / f"{name}.svg" for name in svgs)]


def write(path: Path, text: str) -> None:
    """A whole file or none."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomically(path) as file:
            file.write(text.encode())
    except OSError as failure:
        raise ArtifactError(f"cannot write {path}: {failure.strerror}; choose another place.") from None
