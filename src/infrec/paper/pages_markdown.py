"""An experiment's findings as Markdown, for the documentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from infrec.paper.experiment import Experiment
from infrec.paper.pages import Facts, beside, counted, source, written
from infrec.paper.published import PAPER
from infrec.report.document import Claim, Findings, Table, Value

MARK = {
    "holds": "✓ holds",
    "does not hold": "✗ does not hold",
    "cannot be tested here": "? cannot be tested here",
}


def page(experiment: Experiment, found: Findings, facts: Facts, svgs: Mapping[str, str]) -> str:
    """Headline, claims, the figures as pictures beside the file, tables, notes."""
    seeds = f"up to {facts.seeds} seeds" if facts.seeds > 1 else "one seed"
    parts = [f"# {experiment.title}", f"{experiment.about} {source(experiment)}"]
    if not facts.records:
        parts.append("There are no records yet.")
    else:
        parts.append(
            f"{counted(facts.records)} on {', '.join(facts.datasets)}, {seeds} for what is random"
            + (f", measured on {', '.join(facts.devices)}." if facts.devices else ".")
        )
    if facts.quick:
        parts.append("**Some of this is a quick look (`--quick`): it is no result.**")
    parts += [claims(found.claims)] if found.claims else []
    for figure in found.figures:
        if figure.name in svgs:
            parts.append(f"![{figure.caption}]({figure.name}.svg)")
    parts += [table(each) for each in found.tables]
    parts += ["\n".join(f"- {note}" for note in found.notes)] if found.notes else []
    return "\n\n".join(parts) + "\n"


def index(pages: Sequence[tuple[Experiment, Findings, Facts]]) -> str:
    """All experiments, and every claim in one table."""
    rows = [["experiment", "in the paper", "records"]]
    rows += [
        [f"[{experiment.title}]({experiment.name}/README.md)", experiment.source, f"{facts.records:,}"]
        for experiment, _, facts in pages
    ]
    parts = ["# The paper's tables and figures, measured again", f"{PAPER}.", _grid(rows)]
    every = [one for _, found, _ in pages for one in found.claims]
    parts += ["## Every claim", claims(every)] if every else []
    return "\n\n".join(parts) + "\n"


def claims(of: Sequence[Claim]) -> str:
    rows = [["claim", "data", "here", "figures"]]
    rows += [[one.text, one.dataset, MARK[one.verdict], one.figures] for one in of]
    return _grid(rows)


def table(of: Table) -> str:
    rows = [list(of.head), *([_cell(cell) for cell in row] for row in of.rows)]
    return f"{of.caption}\n\n{_grid(rows)}"


def _cell(cell: str | Value) -> str:
    if isinstance(cell, str):
        return cell
    text = written(cell.metric, cell.value)
    text = f"**{text}**" if cell.best else text
    return f"{text} ({beside(cell)})" if cell.paper is not None else text


def _grid(rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])
