"""All pages of a results directory, rebuilt from its records: one for each experiment, and the index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from infrec import drafts, paper
from infrec.errors import ArtifactError
from infrec.paper.experiment import BEYOND, Experiment
from infrec.paper.published import PAPER
from infrec.paper.records import FILE, Records
from infrec.paper.results import Results
from infrec.report import figures, html, markdown
from infrec.report.document import Block, Claims, Document, Findings, Fold, Items, Link, Links, Section, Text

PAGE, MARKDOWN = "index.html", "README.md"
PAPER_SAYS, WE_SAY = "What the paper says, and what we found", "What is claimed, and what we found"
QUICK = "Some of this is a quick look (--quick): fewer steps, a smaller grid, one seed. It is no result."


@dataclass(frozen=True)
class Facts:
    """Facts about the records behind a page."""

    records: int = 0
    damaged: int = 0
    quick: bool = False
    seeds: int = 0
    datasets: Sequence[str] = ()
    devices: Sequence[str] = ()
    versions: Mapping[str, str] | None = None
    finished: str = ""


def build(root: Path, names: Sequence[str] | None = None) -> list[Path]:
    """Write the pages of these experiments and the index; return them.

    Args:
        root: The directory that holds a folder of records for each experiment.
        names: The experiments; by default all that have records.
    """
    written, listed = [], []
    for name in paper.NAMES:
        there = (root / name / FILE).is_file()
        if not there and not (names and name in names):
            continue
        experiment = paper.get(name)
        findings, facts = read(root, experiment)
        listed.append((experiment, findings, facts))
        if names is None or name in names:
            written += _write(root / name, document(experiment, findings, facts))
    return [_write(root, index(listed))[0], *written]


def read(root: Path, experiment: Experiment) -> tuple[Findings, Facts]:
    """The findings of an experiment's records, and the facts about these records."""
    results = Results.at(root, experiment.name)
    kept = Records(root / experiment.name)
    kept.read()
    records = results.records
    facts = Facts(
        records=len(records),
        damaged=kept.damaged,
        quick=bool(results.quick_datasets()),
        seeds=len({record["seed"] for record in records}),
        datasets=results.datasets(),
        devices=sorted({record["device"] for record in records}),
        versions=records[-1]["versions"] if records else None,
        finished=max((record.get("finished", "") for record in records), default=""),
    )
    return experiment.findings(results).without_verdicts(results.quick_datasets()), facts


def _write(folder: Path, page: Document) -> list[Path]:
    """A document as HTML and as Markdown, and its figures as files."""
    svgs = figures.drawings(page)
    texts = {
        PAGE: html.render(page, svgs),
        MARKDOWN: markdown.render(page, svgs),
        **{f"{name}.svg": figures.standalone(svg) for name, svg in svgs.items()},
    }
    for name, text in texts.items():
        path = folder / name
        try:
            drafts.write_text(path, text)
        except OSError as failure:
            raise ArtifactError(f"cannot write {path}: {failure.strerror}; choose another place.") from None
    return [folder / name for name in texts]


# ---- an experiment's page ---------------------------------------------------------------------------------
def document(experiment: Experiment, findings: Findings, facts: Facts) -> Document:
    """The page of an experiment."""
    source = "Not in the paper." if experiment.source == BEYOND else f"The paper: {experiment.source}."
    claimed = WE_SAY if experiment.source == BEYOND else PAPER_SAYS
    parts: list[Section | Block] = [
        Text(experiment.about, "lead"),
        Text(f"{source} {_records(facts)}".strip(), "quiet"),
        *(Text(text, "notice") for text in _notices(facts)),
    ]
    if findings.claims:
        parts.append(Section(claimed, [Claims(findings.claims)]))
    # The appendix's versions with every metric are long: they are there to be unfolded.
    parts += [
        Fold("All metrics", figure) if figure.name.endswith("-all") else figure for figure in findings.figures
    ]
    if findings.tables and findings.figures:
        parts.append(Section("Tables", findings.tables))
    else:
        parts += findings.tables
    if findings.notes:
        parts.append(Section("How it was done, and where it differs", [Items(findings.notes, "notes")]))
    return Document(
        title=f"infrec: {experiment.title}",
        heading=experiment.title,
        parts=parts,
        footer=_footer(experiment, facts),
        up=("../index.html", "all experiments"),
        wide=True,
    )


def _notices(facts: Facts) -> list[str]:
    notices = []
    if not facts.records:
        notices.append("There are no records yet: nothing was measured.")
    if facts.quick:
        notices.append(QUICK)
    if facts.damaged:
        lines = "1 damaged line was" if facts.damaged == 1 else f"{facts.damaged} damaged lines were"
        notices.append(f"{lines} left out of the records; run the experiment again.")
    return notices


def _records(facts: Facts) -> str:
    if not facts.records:
        return ""
    seeds = f"up to {facts.seeds} seeds" if facts.seeds > 1 else "one seed"
    return f"{_counted(facts.records)} on {', '.join(facts.datasets)}, {seeds} for what is random."


def _counted(records: int) -> str:
    return f"{records:,} record{'s' * (records != 1)}" if records else "no records yet"


def _footer(experiment: Experiment, facts: Facts) -> str:
    parts = [
        f"Made by infrec from results/{experiment.name}/records.jsonl",
        f"again: infrec reproduce {experiment.name}",
        f"measured on {', '.join(facts.devices)}" if facts.devices else "",
        f"last {facts.finished}" if facts.finished else "",
        ", ".join(f"{key} {value}" for key, value in (facts.versions or {}).items()),
    ]
    return " · ".join(part for part in parts if part)


# ---- the index --------------------------------------------------------------------------------------------
def index(pages: Sequence[tuple[Experiment, Findings, Facts]]) -> Document:
    """The list of experiments with how their claims came out, and every claim in one table."""
    claims = [one for _, findings, _ in pages for one in findings.claims]
    tested = [one for one in claims if one.verdict != "cannot be tested here"]
    held = sum(one.verdict == "holds" for one in tested)
    lead = "Nothing has been measured yet."
    if tested:
        lead = (
            f"Of {len(tested)} claims that these records can test, {held} hold and {len(tested) - held} do "
            "not."
        )
    about = (
        f"{PAPER}. Every number is measured by infrec under the published protocol; the paper's stand beside "
        "them, and where ours differ, the page says so."
    )
    links = [
        Link(
            experiment.title,
            experiment.name,
            " · ".join(
                [experiment.source, experiment.name, _counted(facts.records), *(["quick"] * facts.quick)]
            ),
            findings.claims,
        )
        for experiment, findings, facts in pages
    ]
    return Document(
        title="infrec: the paper, measured again",
        heading="The paper's tables and figures, measured again",
        parts=[
            Text(lead, "lead"),
            Text(about, "quiet"),
            Links(links),
            *([Section("Every claim", [Claims(claims)])] if claims else []),
        ],
        wide=True,
    )
